"""Which buttons a task has: every way on from its state that is a person's to choose.

Each is one verb of the client. `MOVES` of the model is the law: a verb is offered only where one of the states it leads
to may follow. What belongs to agents and the scheduler alone (asking, failing, being taken back) has no button.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.names import HUMAN
from interlock.model.task import FINAL, MOVES, Task


@dataclass(frozen=True, slots=True)
class TaskAction:
    """One button.

    Attributes:
        to: the states it may lead to, separated by blanks.
        asks: what it needs first: nothing, `reason` or `member`.
        main: seen at once, not only in the menu.
        grave: cannot be taken back.
    """

    verb: str
    label: str
    to: str
    asks: str = ""
    main: bool = False
    grave: bool = False

    @property
    def leads(self) -> frozenset[str]:
        return frozenset(self.to.split())


BLOCK = TaskAction("block", "Block", "blocked", asks="reason")
RELEASE = TaskAction("release", "Return to queue", "ready backlog")
ASSIGN = TaskAction("assign", "Assign", "", asks="member")
EVERYWHERE = (
    TaskAction("cancel", "Cancel", "cancelled", grave=True),
    TaskAction("delete", "Delete", "deleted", grave=True),
)
BULK = {
    "retry": "Retry",
    "unblock": "Unblock",
    "release": "Give back",
    "assign": "Assign",
    "prioritise": "Set priority",
    "cancel": "Cancel",
    "delete": "Delete",
}
"""What can be done to all tasks that a filter finds. Not approving: nobody would have looked at each."""
TABLE: dict[str, tuple[TaskAction, ...]] = {
    "backlog": (TaskAction("claim_anyway", "Start before its blockers are done", "in-progress"), BLOCK),
    "ready": (TaskAction("claim", "Take it yourself", "in-progress"), BLOCK),
    "in-progress": (TaskAction("complete", "Mark as done", "review done"), RELEASE, BLOCK),
    "awaiting-response": (RELEASE,),
    "blocked": (TaskAction("unblock", "Unblock", "ready backlog in-progress", main=True), RELEASE),
    "review": (
        TaskAction("approve", "Approve", "done", main=True),
        TaskAction("reject", "Ask for changes", "in-progress ready", asks="reason"),
    ),
    "deadletter": (TaskAction("retry", "Retry", "ready backlog", main=True),),
}


def actions_for(task: Task, me: str = HUMAN) -> list[TaskAction]:
    """Return the task's buttons, the likeliest first."""
    if task.state in FINAL:
        return []
    found = (*TABLE.get(task.state, ()), *EVERYWHERE)
    legal = [one for one in found if one.leads & MOVES[task.state] and _possible(one, task, me)]
    return [*legal, ASSIGN]


def _possible(action: TaskAction, task: Task, me: str) -> bool:
    if action.verb in ("claim", "claim_anyway"):
        return task.reserved_for in (None, me)
    if action.verb in ("approve", "reject"):
        return task.verifying is None and task.owner != me
    if action.verb == "release":
        return task.owner is not None
    return True


def takes(task: Task, verb: str, me: str) -> bool:
    """Return whether that can be done to a task among others."""
    return task.state not in FINAL and (verb == "prioritise" or any(one.verb == verb for one in actions_for(task, me)))


def perform(team: Team, task: str, verb: str, form: Mapping[str, str]) -> None:
    """Do what a button says.

    Raises:
        InvalidRequest: there is no such button. What the verb raises.
    """
    if verb not in VERBS:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")
    VERBS[verb](team, task, form.get("reason", "").strip(), form)


VERBS: dict[str, Callable[[Team, str, str, Mapping[str, str]], Any]] = {
    "claim": lambda team, task, reason, form: team.claim(task),
    "claim_anyway": lambda team, task, reason, form: team.claim(task, force=True),
    "complete": lambda team, task, reason, form: team.complete(task, summary=reason or None),
    "release": lambda team, task, reason, form: team.release(task, reason=reason or None),
    "block": lambda team, task, reason, form: team.block(task, reason=reason),
    "unblock": lambda team, task, reason, form: team.unblock(task),
    "approve": lambda team, task, reason, form: team.approve(task, summary=reason or None),
    "reject": lambda team, task, reason, form: team.reject(task, reason=reason),
    "retry": lambda team, task, reason, form: team.retry(task),
    "retry_alike": lambda team, task, reason, form: team.retry_alike(task),
    "cancel": lambda team, task, reason, form: team.cancel(
        task, reason=reason or None, cascade=form.get("cascade") == "yes"
    ),
    "delete": lambda team, task, reason, form: team.delete(task),
    "undepend": lambda team, task, reason, form: team.depend(task, on=form.get("on", ""), remove=True),
    "assign": lambda team, task, reason, form: team.assign(task, to=form.get("member", "").strip() or None),
    "prioritise": lambda team, task, reason, form: team.update(task, priority=form.get("level", "")),
}
