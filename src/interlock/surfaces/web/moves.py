"""Which buttons a task has: every way on from its state that is a person's to choose.

A move is one verb of the client. `MOVES` of the model is the law: a verb is offered only where one of the states it
leads to may follow. What belongs to agents and the scheduler alone (asking, failing, being taken back) is no button.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.model.names import HUMAN
from interlock.model.task import FINAL, MOVES, Task


@dataclass(frozen=True, slots=True)
class Move:
    """One button. `asks` is what it needs first: nothing, `reason` or `member`; `main` ones are seen at once."""

    verb: str
    label: str
    leads: frozenset[str]
    asks: str = ""
    main: bool = False
    grave: bool = False


def _move(verb: str, label: str, leads: str, *, asks: str = "", main: bool = False, grave: bool = False) -> Move:
    return Move(verb, label, frozenset(leads.split()), asks, main, grave)


TABLE: dict[str, tuple[Move, ...]] = {
    "backlog": (
        _move("claim_anyway", "Start before its blockers are done", "in-progress"),
        _move("block", "Block", "blocked", asks="reason"),
    ),
    "ready": (
        _move("claim", "Take it yourself", "in-progress"),
        _move("block", "Block", "blocked", asks="reason"),
    ),
    "in-progress": (
        _move("complete", "Mark as done", "review done"),
        _move("release", "Give it back", "ready backlog"),
        _move("block", "Block", "blocked", asks="reason"),
    ),
    "awaiting-response": (_move("release", "Give it back", "ready backlog"),),
    "blocked": (
        _move("unblock", "Unblock", "ready backlog in-progress", main=True),
        _move("release", "Give it back", "ready backlog"),
    ),
    "review": (
        _move("approve", "Approve", "done", main=True),
        _move("reject", "Ask for changes", "in-progress ready", asks="reason"),
    ),
    "deadletter": (_move("retry", "Try again", "ready backlog", main=True),),
}
EVERYWHERE = (
    _move("cancel", "Cancel", "cancelled", grave=True),
    _move("delete", "Delete", "deleted", grave=True),
)
ASSIGN = _move("assign", "Assign", "", asks="member")


def moves(task: Task, me: str = HUMAN) -> list[Move]:
    """The task's buttons, the likeliest first."""
    if task.state in FINAL:
        return []
    found = [*TABLE.get(task.state, ()), *EVERYWHERE]
    legal = [move for move in found if move.leads & MOVES[task.state] and _possible(move, task, me)]
    return [*legal, ASSIGN]


def _possible(move: Move, task: Task, me: str) -> bool:
    if move.verb in ("claim", "claim_anyway"):
        return task.reserved_for in (None, me)
    if move.verb in ("approve", "reject"):
        return task.verifying is None and task.owner != me
    if move.verb == "release":
        return task.owner is not None
    return True


def perform(team: Team, task: str, verb: str, form: Mapping[str, str]) -> None:
    """Do what a button says.

    Raises:
        InvalidRequest: there is no such button. What the verb raises.
    """
    act = _VERBS.get(verb)
    if act is None:
        raise InvalidRequest(f"There is no button {verb!r}.", field="verb")
    act(team, task, form)


def _reason(form: Mapping[str, str]) -> str:
    return form.get("reason", "").strip()


_VERBS: dict[str, Callable[[Team, str, Mapping[str, str]], Any]] = {
    "claim": lambda team, task, form: team.claim(task),
    "claim_anyway": lambda team, task, form: team.claim(task, force=True),
    "complete": lambda team, task, form: team.complete(task, summary=_reason(form) or None),
    "release": lambda team, task, form: team.release(task, reason=_reason(form) or None),
    "block": lambda team, task, form: team.block(task, reason=_reason(form)),
    "unblock": lambda team, task, form: team.unblock(task),
    "approve": lambda team, task, form: team.approve(task, summary=_reason(form) or None),
    "reject": lambda team, task, form: team.reject(task, reason=_reason(form)),
    "retry": lambda team, task, form: team.retry(task),
    "cancel": lambda team, task, form: team.cancel(
        task, reason=_reason(form) or None, cascade=form.get("cascade") == "yes"
    ),
    "delete": lambda team, task, form: team.delete(task),
    "undepend": lambda team, task, form: team.depend(task, on=form.get("on", ""), remove=True),
    "assign": lambda team, task, form: team.assign(task, to=form.get("member", "").strip() or None),
}
