"""The one function every change of state goes through, and what follows from a change.

It checks the move against `model.task.MOVES`, writes the row, logs exactly one `task.transitioned` per hop, counts open
tasks, withdraws questions that lost their point, unblocks dependents of a task that is done, and warns dependents of
one that will never be.

It is also where the guard stands (`model.guard`): a task that comes to wait for a person does so with exactly one
question, which its `output` ends with, and one whose type must not be blocked awaits a response instead.

Of the workflows of a team `workflow_parallel` run at once, the others wait in a queue: a queued task stays `ready`, but
no worker pulls it. Whenever a task of type WORKFLOW changes its state, the queue is served in the same transaction: no
crash can leave a queue that nobody serves, and no poll is needed. A workflow that waits for a person has given up its
turn, and takes a free one when it is answered.
"""

from __future__ import annotations

from typing import Any

from interlock import model
from interlock.core import questions
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InvalidTransition
from interlock.model.guard import explicit, one_question, options_of, stand_in
from interlock.model.task import BROKEN, FINAL, HELD, MOVES, WAITING, Task

WORKFLOW = "WORKFLOW"
QUEUEABLE = ("ready", "backlog")

VERBS = {
    "backlog": "Finish its blockers first (`task show` lists them), or claim it with --force.",
    "ready": "Claim it first: `interlock task claim {id}`.",
    "in-progress": "`task complete`, `task release` and `task block` work on it now.",
    "awaiting-response": "It waits for an answer: `interlock question list`.",
    "blocked": "`interlock task unblock {id}` sets it going again.",
    "review": "`task approve` and `task reject` work on it now.",
    "deadletter": "`interlock task retry {id}` retries it.",
    "done": "It is done; create a new task for what is left.",
    "cancelled": "It was cancelled; create a new task.",
    "deleted": "It was deleted; create a new task.",
}


def move(
    act: UnitOfWork,
    task: Task,
    *path: str,
    reason: str | None = None,
    cause: str | None = None,
    question: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Take `task` along `path`, one hop after the other, and write `changes` with it.

    Where it leads to `blocked` or `awaiting-response`, `question` is what is asked (the arguments of `questions.put`
    but for the first two); without one it is read from `changes["output"]`, or stands in for it as `cause` (`timeout`,
    `interactive`) says.

    Raises:
        InvalidTransition: a hop is not in the table; nothing was written.
    """
    if path[-1] == "blocked" and not may_be_blocked(act, task.type):
        path = (*path[:-1], "awaiting-response") if task.state != "awaiting-response" else path
    states = [task.state, *path]
    for origin, target in zip(states, states[1:], strict=False):
        if target not in MOVES[origin]:
            raise illegal(task, f"cannot go from {origin} to {target}")
    start, end = states[0], states[-1]
    if end in ("ready", "backlog"):
        changes.setdefault("owner", None)
        changes.setdefault("session", None)
        changes.setdefault("soft", False)
    if task.merging is not None and start == "review" != end and "merging" not in changes:
        _refuse_while_landing(task, end)
        changes["merging"] = None  # Whoever merges it finds that it is no longer asked to.
    asking = None
    if end in WAITING and not (start in WAITING and question is None):  # there, what was asked stands
        asking = _guarded(act, task, changes, cause, question)
    act.rows.tasks.update(task, state=end, updated_at=act.at, **changes)
    for origin, target in zip(states, states[1:], strict=False):
        # `from` is a keyword, so the payload cannot be given by name.
        act.event("task.transitioned", task.id, **{"from": origin, "to": target, "reason": reason})
    act.topics.add("tasks")
    if task.group_id is not None:
        act.rows.groups.moved(task.group_id, start, end, act.at)
    if end == "in-progress" and start in HELD:
        _renew_lease(act, task)
    if end in FINAL and start not in FINAL:
        act.rows.team.count_open(-1)
    waited = start in WAITING and end in ("in-progress", "review")
    # `waited`: an agent found its own way out.
    if (start in HELD and (end not in HELD or start == "review" or waited)) or start == "deadletter":
        questions.withdraw(act, task, f"the task went to {end}")
    if asking is not None:
        questions.put(act, task, **asking)
    if end == "done" and task.linked:
        _unblock_dependents(act, task)
    elif end in BROKEN and task.linked:
        _warn_dependents(act, task)
    if task.type == WORKFLOW:
        workflow_moved(act, task)


def _refuse_while_landing(task: Task, end: str) -> None:
    if task.merging is not None and task.merging.get("landing"):
        raise InvalidTransition(
            f"{task.id} is being put on the integration branch at this moment, so it cannot go to {end}. Try again "
            "when that has ended; if nobody is at it, `interlock run` finishes it.",
            task_id=task.id, state=task.state, status=task.status,
        )  # fmt: skip


def illegal(task: Task, problem: str) -> InvalidTransition:
    """The error for a verb that the task's state does not allow; its message names what would work."""
    hint = VERBS[task.state].format(id=task.id)
    return InvalidTransition(f"{task.id} {problem}. {hint}", task_id=task.id, state=task.state, status=task.status)


def waiting_state(task: Task) -> str:
    """Where a task goes that nobody holds: `ready`, or `backlog` while a blocker is open."""
    return "backlog" if task.open_blockers else "ready"


def settle_queue(act: UnitOfWork, task: Task, reason: str) -> None:
    """Move a waiting task between backlog and ready after its blockers changed."""
    if task.state in ("backlog", "ready") and task.state != waiting_state(task):
        move(act, task, waiting_state(task), reason=reason)


def end_run(act: UnitOfWork, task: Task, outcome: str, reason: str | None = None) -> None:
    """Close the task's current run, if it is open."""
    if task.run:
        act.rows.runs.end(task.id, task.run, act.at, outcome, reason)


def reopen_run(act: UnitOfWork, task: Task) -> None:
    """The task's current run, which had ended, goes on."""
    if task.run:
        act.rows.runs.reopen(task.id, task.run)


def lease(act: UnitOfWork, heartbeats: bool) -> str | None:
    """Until when a run may be silent from now on; null where nobody expects to hear of it."""
    ttl = act.settings.get("heartbeat_ttl" if heartbeats else "claim_ttl")
    return act.later(ttl) if ttl else None


def _renew_lease(act: UnitOfWork, task: Task) -> None:
    """The task comes back to its run: while it waited for somebody else, nobody could expect to hear of the run."""
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and run.ended_at is None and run.expires_at is not None:
        act.rows.runs.update(run, expires_at=lease(act, run.runner is not None or run.heartbeat_at is not None))


def may_be_blocked(act: UnitOfWork, type: str | None) -> bool:
    """Whether a task of that type may be blocked; others await a response instead (INV-2)."""
    return (type or "none") in str(act.settings.get("may_be_blocked")).replace(",", " ").split()


def ask_anew(act: UnitOfWork, task: Task, text: str) -> None:
    """The task that waits for a person waits for another reason now: the question about the old one is withdrawn."""
    changes: dict[str, Any] = {"output": text}
    asking = _guarded(act, task, changes, None, None)
    questions.withdraw(act, task, "it waits for another reason now")
    act.rows.tasks.update(task, updated_at=act.at, **changes)
    questions.put(act, task, **asking)
    act.topics.add("tasks")


def _guarded(
    act: UnitOfWork, task: Task, changes: dict[str, Any], cause: str | None, question: dict[str, Any] | None
) -> dict[str, Any]:
    """What is asked, with `changes` set to the output and context that go with it (INV-1, INV-6)."""
    if question is None:
        asked = one_question(changes.get("output"), type=task.type, cause=cause)
        read = stand_in(asked, task.owner, str(act.settings.get("language")))
        text, options = read or (asked.question, options_of(asked.question))
        question = {"kind": "clarification", "text": text, "options": options}
    else:
        asked = explicit(question["text"])
        question = {**question, "text": asked.question}
    changes["output"] = asked.output
    changes["context"] = asked.context
    said = "\n\n".join(part for part in (question.get("context"), asked.context) if part)
    return {**question, "context": said or None}


def _unblock_dependents(act: UnitOfWork, task: Task) -> None:
    for dependent in act.rows.graph.open_dependents(task.id):
        left = max(0, dependent.open_blockers - 1)
        act.event("dependency.met", dependent.id, on=task.id)
        if left == 0 and dependent.state == "backlog":
            move(act, dependent, "ready", reason=f"{task.id} is done", open_blockers=left)
        else:
            act.rows.tasks.update(dependent, open_blockers=left, updated_at=act.at)


def _warn_dependents(act: UnitOfWork, task: Task) -> None:
    for dependent in act.rows.graph.open_dependents(task.id):
        act.event(
            "task.warning",
            dependent.id,
            reason=f"blocked by {task.id}, which {BROKEN[task.state]}: retry or replace it, or remove the dependency",
            task=task.id,
        )


STANDS = (*QUEUEABLE, "awaiting-response", "blocked")
"""States in which an entry keeps its place: what is asked or blocked before it began comes back to it."""


def workflow_moved(act: UnitOfWork, task: Task) -> None:
    """A workflow's task has changed its state: it may have left the queue, and the turn of another come."""
    if task.state not in STANDS and act.rows.queue.remove(task.id):
        # Somebody claimed it by its id, or cancelled it: the others stand as they stood.
        act.event("workflow.dequeued", task.id, reason="started" if task.state == "in-progress" else task.state)
    start_queued_workflows(act)


def start_queued_workflows(act: UnitOfWork, parallel: int | None = None) -> list[model.workflow.QueueEntry]:
    """Give the free turns to those who are next; `parallel` are there in all, by default as the settings say. Entries
    whose task waits for another task are passed over."""
    started: list[model.workflow.QueueEntry] = []
    if not act.rows.queue.count():
        return started
    free = (parallel or act.settings.get("workflow_parallel")) - act.rows.queue.active()
    for entry in act.rows.queue.entries() if free > 0 else ():
        task = act.rows.tasks.get(entry.task_id)
        if task is None or task.state != "ready":
            continue
        act.rows.queue.remove(entry.task_id)
        act.event("workflow.dequeued", entry.task_id, reason="started")
        act.topics.add("tasks")
        started.append(entry)
        if len(started) == free:
            break
    return started
