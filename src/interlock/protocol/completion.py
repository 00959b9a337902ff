"""`completion.report`: how a run ended, recorded as its result and applied to its task.

    done ──> review, or review ──> done where nobody has to review; through its verify where the task has one
    blocked ──> blocked          needs_review, partial ──> review

Recording and applying are two things (decision 16): a message does both at once, a file that an agent dropped is
recorded when it is found and applied when the agent's session has ended. Repeating either changes nothing more.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from interlock.model.names import HUMAN
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.protocol.authority import Refused, existing, member_named, not_stale, sender
from interlock.protocol.envelope import Envelope
from interlock.protocol.message import Handled, Incoming, may_go, words, write_log
from interlock.protocol.payloads import CompletionReport
from interlock.sessions import Act
from interlock.tasks import finish, review
from interlock.tasks.transition import move, reopen_run

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


def handle_completion(act: Act, incoming: Incoming) -> Handled:
    """Take in a report.

    Raises:
        Refused: `task_not_found`, `unauthorized_agent`, `stale_run`, `task_already_claimed`.
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
    return Handled(task, apply(act, task, run, fields, name, incoming.verifier))


def _verdict(act: Act, envelope: Envelope, task: Task, payload: CompletionReport) -> Handled:
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
        raise Refused("changes_required", "say in notes or blockers what has to change", "payload.notes")
    else:
        finish.reject(act, task, said, author_lives=review.author_lives(act, task))
    return Handled(task, True)


def record(act: Act, run: Run, fields: dict[str, Any], *, source: str, applied: str | None, **more: Any) -> None:
    """Store `fields` (as in `run_result.json`) as the result of the run; `more` are other fields of its row."""
    act.rows.runs.update(run, result=fields, applied=applied, **more)
    act.event(
        "run.reported", run.task_id, run=run.id, outcome=fields["outcome"], agent=fields.get("agentId"), source=source,
        applied=applied is not None,
    )  # fmt: skip


def digest(fields: dict[str, Any]) -> str:
    """What tells one result from another."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def apply(act: Act, task: Task, run: Run | None, fields: dict[str, Any], author: str, verifier: str | None) -> bool:
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


def stop(act: Act, task: Task, reason: str, output: str | None, *, cause: str | None = None) -> None:
    """Take the task to blocked, or, where its type must not be, to await a response; whoever holds it goes on holding
    it, in the run it had. `cause`: see `transition.move`."""
    if task.state == "review":
        reopen_run(act, task)
    move(act, task, "blocked", reason=reason, output=output, cause=cause)
    act.event("task.blocked", task.id, reason=output or reason)
