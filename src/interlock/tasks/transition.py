"""The one function every change of state goes through, and what follows from a change.

It checks the move against `model.task.MOVES`, writes the row, logs exactly one `task.transitioned` per hop, counts open
tasks, withdraws questions that lost their point, unblocks dependents of a task that is done, and warns dependents of
one that will never be.
"""

from __future__ import annotations

from typing import Any

from interlock.errors import InvalidTransition
from interlock.model.task import BROKEN, FINAL, HELD, MOVES, Task
from interlock.sessions import Act
from interlock.tasks import turns

VERBS = {
    "backlog": "Finish its blockers first (`task show` lists them), or claim it with --force.",
    "ready": "Claim it first: `interlock task claim {id}`.",
    "in-progress": "`task complete`, `task release` and `task block` work on it now.",
    "awaiting-response": "It waits for an answer: `interlock question list`.",
    "blocked": "`interlock task unblock {id}` sets it going again.",
    "review": "`task approve` and `task reject` work on it now.",
    "deadletter": "`interlock task retry {id}` gives it another chance.",
    "done": "It is done; create a new task for what is left.",
    "cancelled": "It was cancelled; create a new task.",
    "deleted": "It was deleted; create a new task.",
}


def move(act: Act, task: Task, *path: str, reason: str | None = None, **changes: Any) -> None:
    """Take `task` along `path`, one hop after the other, and write `changes` with it.

    Raises:
        InvalidTransition: a hop is not in the table; nothing was written.
    """
    states = [task.state, *path]
    for origin, target in zip(states, states[1:], strict=False):
        if target not in MOVES[origin]:
            raise illegal(task, f"cannot go from {origin} to {target}")
    start, end = states[0], states[-1]
    if end in ("ready", "backlog"):
        changes.setdefault("owner", None)
        changes.setdefault("session", None)
        changes.setdefault("soft", False)
    act.rows.tasks.update(task, state=end, updated_at=act.at, **changes)
    for origin, target in zip(states, states[1:], strict=False):
        # `from` is a keyword, so the payload cannot be given by name.
        act.event("task.transitioned", task.id, **{"from": origin, "to": target, "reason": reason})
    act.topics.add("tasks")
    if end == "in-progress" and start in HELD:
        _renew_lease(act, task)
    if end in FINAL and start not in FINAL:
        act.rows.team.count_open(-1)
    waited = start in ("awaiting-response", "blocked") and end in ("in-progress", "review")
    # `waited`: an agent found its own way out.
    if start in HELD and (end not in HELD or start == "review" or waited):
        withdraw_questions(act, task, f"the task went to {end}")
    if end == "done":
        _unblock_dependents(act, task)
    elif end in BROKEN:
        _warn_dependents(act, task)
    if task.type == turns.WORKFLOW:
        turns.moved(act, task)


def illegal(task: Task, problem: str) -> InvalidTransition:
    """The error for a verb that the task's state does not allow; its message names what would work."""
    hint = VERBS[task.state].format(id=task.id)
    return InvalidTransition(f"{task.id} {problem}. {hint}", task_id=task.id, state=task.state, status=task.status)


def waiting_state(task: Task) -> str:
    """Where a task goes that nobody holds: `ready`, or `backlog` while a blocker is open."""
    return "backlog" if task.open_blockers else "ready"


def settle_queue(act: Act, task: Task, reason: str) -> None:
    """Move a waiting task between backlog and ready after its blockers changed."""
    if task.state in ("backlog", "ready") and task.state != waiting_state(task):
        move(act, task, waiting_state(task), reason=reason)


def end_run(act: Act, task: Task, outcome: str, reason: str | None = None) -> None:
    """Close the task's current run, if it is open."""
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and run.ended_at is None:
        act.rows.runs.update(run, ended_at=act.at, outcome=outcome, reason=reason)


def reopen_run(act: Act, task: Task) -> None:
    """The task's current run, which had ended, goes on."""
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and run.ended_at is not None:
        act.rows.runs.update(run, ended_at=None, outcome=None, reason=None)


def lease(act: Act, heartbeats: bool) -> str | None:
    """Until when a run may be silent from now on; null where nobody expects to hear of it."""
    ttl = act.settings.get("heartbeat_ttl" if heartbeats else "claim_ttl")
    return act.later(ttl) if ttl else None


def _renew_lease(act: Act, task: Task) -> None:
    """The task comes back to its run: while it waited for somebody else, nobody could expect to hear of the run."""
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and run.ended_at is None and run.expires_at is not None:
        act.rows.runs.update(run, expires_at=lease(act, run.runner is not None or run.heartbeat_at is not None))


def withdraw_questions(act: Act, task: Task, reason: str) -> None:
    """Close what was asked about the task and is no longer worth an answer."""
    for question in act.rows.questions.open(task.id):
        act.rows.questions.update(question, state="withdrawn", answered_at=act.at, answered_by=act.name)
        act.event("question.withdrawn", task.id, id=question.id, reason=reason)
        act.topics.add("questions")


def _unblock_dependents(act: Act, task: Task) -> None:
    for dependent in act.rows.graph.open_dependents(task.id):
        left = max(0, dependent.open_blockers - 1)
        act.rows.tasks.update(dependent, open_blockers=left, updated_at=act.at)
        act.event("dependency.met", dependent.id, on=task.id)
        if left == 0:
            settle_queue(act, dependent, f"{task.id} is done")


def _warn_dependents(act: Act, task: Task) -> None:
    for dependent in act.rows.graph.open_dependents(task.id):
        act.event(
            "task.warning",
            dependent.id,
            reason=f"its blocker {task.id} is {task.state} and unblocks nobody by itself: remove the edge, retry or "
            "replace it",
            task=task.id,
        )
