"""What each type of message does to the ledger: a report, a status update, a handoff and its answer.

`completion.report` says how a run ended; it is recorded as the run's result and applied to its task:

    done ──> review, or review ──> done where nobody has to review; through its verify where the task has one
    blocked ──> blocked          needs_review, partial ──> review

Recording and applying are two things (decision 16): a message does both at once, a file that an agent dropped is
recorded when it is found and applied when the agent's session has ended. Repeating either changes nothing more.

`status.update` is a line in the Work Log, and, where it names a status, a step forward (decision 19).

`handoff.request` hands a part of a task to another agent. It is written down beside the child (the mirror shows it as
`inputs/handoff.json` and `handoff.md`), marks the child as one level deep, and reserves it, if nobody holds it, for the
agent it is meant for. A child cannot be handed on: depth is one. A reservation is not ownership; an agent that does not
take the child frees it again, blocked with its reason.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from interlock.core import questions
from interlock.core.mailbox import notify
from interlock.core.tasks import finish, review
from interlock.core.tasks.claim import claim
from interlock.core.tasks.transition import move, reopen_run
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InterlockError
from interlock.model.names import HUMAN
from interlock.model.run import Handoff, Run
from interlock.model.task import FINAL, HELD, Task
from interlock.protocol.authority import EnvelopeRefused, existing, member_named, not_stale, same_task, sender
from interlock.protocol.envelope import CompletionReport, Envelope, HandoffAck, HandoffRequest, StatusUpdate
from interlock.protocol.message import HandlerResult, IncomingMessage, may_go, words, write_log

REASON_CHARS = 500
CONTENTS_KEPT = 50
"""How many contents are remembered of each kind."""
MOVED = "moved"
"""The kind, in `Run.seen`, of results that have moved the run's task."""


def review_required(task: Task) -> bool:
    """Whether somebody reviews the task after `done`: its `review`, else AOF's `metadata.reviewRequired`, else yes."""
    if task.review is not None:
        return task.review != "none"
    return task.review_required is not False


def resolve_completion_transitions(task: Task, outcome: str) -> list[str]:
    """The states that a report of `outcome` takes the task through; none where it is there already (AOF-59.10 to 15).

    Whether the state machine allows them from where the task is, is asked when they are gone.
    """
    if outcome == "blocked":
        path = ["blocked"]
    elif outcome == "done" and not review_required(task):
        path = ["review", "done"]
    else:
        path = ["review"]
    return path[path.index(task.state) + 1 :] if task.state in path else path


def handle_completion(act: UnitOfWork, incoming: IncomingMessage) -> HandlerResult:
    """Take in a report.

    Raises:
        MessageRefused: `task_not_found`, `unauthorized_agent`, `stale_run`, `task_already_claimed`.
    """
    envelope = incoming.envelope
    payload: CompletionReport = envelope.payload
    task = existing(act, envelope.task_id)
    reviewer = task.review if task.state == "review" and not task.under_way else None
    if reviewer is not None and member_named(act, envelope.from_agent) == reviewer != task.owner:
        return _verdict(act, envelope, task, payload)
    name = sender(act, envelope, task.owner)
    not_stale(act, envelope, task, name)
    if incoming.missing is not None:
        act.event(
            "protocol.message.warning", task.id, reason=incoming.missing, type=envelope.type, path=payload.summary_ref
        )
    fields = {
        "taskId": task.id, "runId": task.run_id, "agentId": envelope.from_agent, "completedAt": envelope.sent_at,
        **payload.as_json(),
    }  # fmt: skip
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and task.owner is None and run.member != name:
        run = None  # Whoever speaks was never at it.
    if run is not None:
        record(act, run, fields, source="message", applied=digest(fields))
    return HandlerResult(task, apply(act, task, run, fields, name, incoming.verifier))


def _verdict(act: UnitOfWork, envelope: Envelope, task: Task, payload: CompletionReport) -> HandlerResult:
    """What the member says that reviews the task: `done` approves, `blocked` leaves it to a human, all else asks the
    author for changes."""
    name = sender(act, envelope, task.review)
    not_stale(act, envelope, task, name)
    said = words(payload.blockers, payload.notes)
    if payload.outcome == "done":
        finish.approve(act, task, payload.notes)
    elif payload.outcome == "blocked":
        review.abstain(act, task, said or "no reason given")
    elif said is None:
        raise EnvelopeRefused("changes_required", "say in notes or blockers what has to change", "payload.notes")
    else:
        finish.reject(act, task, said, author_lives=review.author_lives(act, task))
    return HandlerResult(task, True)


def record(act: UnitOfWork, run: Run, fields: dict[str, Any], *, source: str, applied: str | None, **more: Any) -> None:
    """Store `fields` (as in `run_result.json`) as the result of the run; `more` are other fields of its row."""
    act.rows.runs.update(run, result=fields, applied=applied, **more)
    act.event(
        "run.reported", run.task_id, run=run.id, outcome=fields["outcome"], agent=fields.get("agentId"), source=source,
        applied=applied is not None,
    )  # fmt: skip


def digest(fields: dict[str, Any]) -> str:
    """What tells one result from another."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def apply(
    act: UnitOfWork, task: Task, run: Run | None, fields: dict[str, Any], author: str, verifier: str | None
) -> bool:
    """Take the task where the result in `fields` leads; false where it is there, or cannot go there, or where the very
    same result has taken it there before: a report that is repeated, or comes twice, moves its task once."""
    outcome: str = fields["outcome"]
    blockers, notes = fields.get("blockers") or [], fields.get("notes")
    act.event("task.completed", task.id, outcome=outcome, run=task.run_id, summary=notes or fields.get("summaryRef"))
    write_log(act, task, author, outcome=outcome if notes or blockers else None, notes=notes, blockers=blockers)
    path = resolve_completion_transitions(task, outcome)
    # Nobody's task cannot be reviewed: there is no author to give it back to.
    homeless = task.owner is None and path[:1] != ["blocked"]
    mark = digest(fields)
    moved = [] if run is None else run.seen.get(MOVED, [])
    if task.under_way or homeless or not path or not may_go(task.state, path) or mark in moved:
        return False
    if run is not None:
        act.rows.runs.update(run, seen={**run.seen, MOVED: [*moved[1 - CONTENTS_KEPT :], mark]})
    said = words(blockers, notes)
    reason = f"reported {outcome}: {said}" if said else f"reported {outcome}"
    changes: dict[str, Any] = {} if notes is None else {"output": notes}
    if outcome == "done":
        if task.review is None:
            # From now on it has a value, so that whatever follows (a verify, a rejection) knows it too.
            act.rows.tasks.update(task, review=HUMAN if review_required(task) else "none")
        finish.finished(act, task, verifier, changes)
    elif outcome == "blocked":
        stop(act, task, reason[:REASON_CHARS], said)
    else:
        finish.to_review(act, task, outcome, reason[:REASON_CHARS], changes)
    return True


def stop(act: UnitOfWork, task: Task, reason: str, output: str | None, *, cause: str | None = None) -> None:
    """Take the task to blocked, or, where its type must not be, to await a response; whoever holds it goes on holding
    it, in the run it had. `cause`: see `transition.move`."""
    if task.state == "review":
        reopen_run(act, task)
    move(act, task, "blocked", reason=reason, output=output, cause=cause)
    act.event("task.blocked", task.id, reason=output or reason)


FROM = {
    "in-progress": ("ready", "backlog", "awaiting-response", "blocked"),
    "blocked": ("ready", "backlog", "in-progress", "review"),
    "review": ("in-progress", "awaiting-response", "blocked"),
}
"""The statuses that may be named, and the states from which they are a step forward."""


def handle_status(act: UnitOfWork, incoming: IncomingMessage) -> HandlerResult:
    """Take in an update. In the state that it names already, it is only logged.

    Raises:
        MessageRefused: `task_not_found`, `taskId_mismatch`, `unauthorized_agent`, `stale_run`, `task_already_claimed`,
            `invalid_transition`, or why a task that nobody holds could not be claimed.
    """
    envelope = incoming.envelope
    payload: StatusUpdate = envelope.payload
    task = existing(act, envelope.task_id)
    same_task(envelope, payload.task_id)
    name = sender(act, envelope, task.owner)
    not_stale(act, envelope, task, name)
    moves = payload.status is not None and payload.status != task.state
    if moves:
        _check_step(act, task, str(payload.status), name)
        status = str(payload.status)
        said = words(payload.blockers, payload.notes, payload.progress)
        reason = f"reported {status}: {said}"[:REASON_CHARS] if said else f"reported {status}"
        if status == "blocked":
            stop(act, task, reason, said)
        elif status == "review":
            finish.to_review(act, task, "needs_review", reason, {})
        elif task.state in HELD:
            # The agent found its own way out.
            questions.withdraw(act, task, reason)
            reopen_run(act, task)
            move(act, task, "in-progress", reason=reason)
        else:
            try:
                claim(act, task)
            except InterlockError as error:
                raise EnvelopeRefused(error.code, error.message, "taskId") from None
    logged = write_log(act, task, name, progress=payload.progress, notes=payload.notes, blockers=payload.blockers)
    return HandlerResult(task, moves or logged)


def _check_step(act: UnitOfWork, task: Task, status: str, name: str) -> None:
    if status not in FROM:
        raise EnvelopeRefused(
            "invalid_transition",
            f"a status update may say in-progress, blocked or review, not {status[:64]!r}; a completion.report ends "
            "the work",
            "payload.status",
        )
    unowned = task.owner is None and status != "blocked"
    claims = status == "in-progress" and task.state in ("ready", "backlog") and name == act.name
    if task.state not in FROM[status] or task.under_way or (unowned and not claims):
        raise EnvelopeRefused(
            "invalid_transition",
            f"{task.id} is {task.state}; that it is {status} is no step forward from there",
            "payload.status",
        )


DEPTH = 1
"""How often a task may be handed on."""


def handle_request(act: UnitOfWork, incoming: IncomingMessage) -> HandlerResult:
    """Take in a request.

    Raises:
        MessageRefused: `task_not_found`, `taskId_mismatch`, `parent_not_found`, `nested_delegation`,
            `unauthorized_agent`, `invalid_transition` where the child is finished.
    """
    envelope = incoming.envelope
    payload: HandoffRequest = envelope.payload
    child = existing(act, envelope.task_id, delegation=True)
    same_task(envelope, payload.task_id)
    parent = _parent(act, payload.parent_task_id)
    depth = (parent.delegation_depth or 0) + 1
    if depth > DEPTH or parent.id == child.id:
        raise EnvelopeRefused(
            "nested_delegation",
            f"{parent.id} was handed over itself, so no part of it can be handed on; create a task instead"
            if parent.id != child.id
            else f"{child.id} cannot be handed over by itself",
            "payload.parentTaskId",
            delegation=True,
        )
    name = sender(act, envelope, parent.owner, may_lead=True)
    before = act.rows.handoffs.get(child.id)
    if child.state in FINAL and before is None:
        raise EnvelopeRefused(
            "invalid_transition", f"{child.id} is {child.state} and cannot be handed over", "taskId", delegation=True
        )
    to = HUMAN if payload.to_agent == HUMAN else member_named(act, payload.to_agent)
    fields = payload.as_json()
    same = (
        before is not None
        and before.state != "rejected"
        and (before.payload, before.parent_id) == (fields, parent.id)
    )  # fmt: skip
    if child.state not in FINAL:
        if not same:
            act.rows.handoffs.put(Handoff(child.id, parent.id, name, to, fields, "requested", None, act.at, None))
        act.rows.tasks.update(child, delegation_depth=depth, parent_id=child.parent_id or parent.id, updated_at=act.at)
        act.topics.add("tasks")
        _reserve(act, child, to, known=to == HUMAN or act.rows.team.address(to) is not None, tell=not same)
    act.event(
        "delegation.requested", child.id, parent_task_id=parent.id, from_agent=name, to_agent=to, depth=depth
    )  # fmt: skip
    return HandlerResult(child, not same)


def handle_accepted(act: UnitOfWork, incoming: IncomingMessage) -> HandlerResult:
    """Take in that a handoff was accepted: nothing moves, the child's agent goes on.

    Raises:
        MessageRefused: `task_not_found`, `taskId_mismatch`, `unauthorized_agent`.
    """
    child, handoff, name = _acknowledged(act, incoming)
    fresh = handoff is not None and _answer(act, handoff, "accepted", None)
    act.event("delegation.accepted", child.id, from_agent=name, parent_task_id=handoff.parent_id if handoff else None)
    if handoff is not None and fresh:
        notify(act, handoff.from_agent, f"{name} took {child.id}: {child.subject}", summary="handoff accepted")
    return HandlerResult(child, fresh)


def handle_rejected(act: UnitOfWork, incoming: IncomingMessage) -> HandlerResult:
    """Take in that a handoff was not accepted: the child is blocked, with the reason, and no longer reserved.

    Raises:
        MessageRefused: `task_not_found`, `taskId_mismatch`, `unauthorized_agent`.
    """
    child, handoff, name = _acknowledged(act, incoming)
    payload: HandoffAck = incoming.envelope.payload
    said = payload.reason or "no reason given"
    fresh = handoff is not None and _answer(act, handoff, "rejected", payload.reason)
    if child.assignee == name and child.owner != name:
        act.rows.tasks.update(child, assignee=None, updated_at=act.at)
        act.event("task.assigned", child.id, assignee=None)
    moves = child.state != "blocked" and not child.under_way and may_go(child.state, ["blocked"])
    if moves:
        stop(act, child, f"handoff rejected: {said}"[:REASON_CHARS], f"{name} rejected the handoff: {said}")
    act.event(
        "delegation.rejected", child.id, reason=said, from_agent=name,
        parent_task_id=handoff.parent_id if handoff else None,
    )  # fmt: skip
    if handoff is not None and fresh:
        notify(act, handoff.from_agent, f"{name} did not take {child.id}: {said}", summary="handoff rejected")
    return HandlerResult(child, moves or fresh)


def _parent(act: UnitOfWork, task_id: str) -> Task:
    parent = act.rows.tasks.get(task_id)
    if parent is None or parent.state == "deleted":
        # Only the delegation came to nothing: the message itself is about a task that exists (decision 17).
        raise EnvelopeRefused(
            "parent_not_found", f"no task {task_id} to hand a part of", "payload.parentTaskId", rejected=False,
            delegation=True,
        )  # fmt: skip
    return parent


def _reserve(act: UnitOfWork, child: Task, to: str, *, known: bool, tell: bool) -> None:
    """Reserve a child that nobody holds; nobody can be waited for who is not here."""
    if not known:
        act.event("protocol.message.warning", child.id, reason="unknown_agent", type="handoff.request", agent=to)
        if child.owner is None and child.assignee is not None:  # It is handed to somebody else now.
            act.rows.tasks.update(child, assignee=None, reserved=None)
            act.event("task.assigned", child.id, assignee=None)
        return
    if child.owner is None and child.assignee != to:
        act.rows.tasks.update(child, assignee=to, reserved=None)
        act.event("task.assigned", child.id, assignee=to)
    if tell:
        notify(act, to, f"{child.id} was handed to you: {child.subject}", type="task_assignment", summary=child.subject)


def _acknowledged(act: UnitOfWork, incoming: IncomingMessage) -> tuple[Task, Handoff | None, str]:
    envelope = incoming.envelope
    payload: HandoffAck = envelope.payload
    child = existing(act, envelope.task_id)
    same_task(envelope, payload.task_id)
    handoff = act.rows.handoffs.get(child.id)
    return child, handoff, sender(act, envelope, child.owner, handoff.to_agent if handoff else None)


def _answer(act: UnitOfWork, handoff: Handoff, state: str, reason: str | None) -> bool:
    """Write the answer down; false where it is the one we had."""
    if (handoff.state, handoff.reason) == (state, reason):
        return False
    handoff.state, handoff.reason, handoff.answered_at = state, reason, act.at
    act.rows.handoffs.put(handoff)
    return True
