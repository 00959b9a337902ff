"""What a handler is given, what it gives back, and what every handler writes alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from interlock.model.task import MOVES, Task
from interlock.protocol.envelope import Envelope, Fault
from interlock.sessions import Act


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message on its way through a handler.

    `verifier` names the process that runs the task's verify, should the message lead to one; `missing` is why the
    summary that the message points to cannot be read, null where it can.
    """

    envelope: Envelope
    verifier: str | None = None
    missing: str | None = None


@dataclass(slots=True)
class Handled:
    """What came of it: the task as it is now, and whether anything but the record of the message changed."""

    task: Task
    applied: bool


@dataclass(slots=True)
class Answer:
    """What a door answers. `verifying` is the task whose verify the door has to run now."""

    accepted: bool
    type: str | None = None
    task_id: str | None = None
    reason: str | None = None
    errors: list[Fault] = field(default_factory=list)
    applied: bool | None = None
    state: str | None = None
    warnings: list[str] = field(default_factory=list)
    verifying: Task | None = None

    def as_dict(self) -> dict[str, Any]:
        """The contract's shape; what does not apply is left out."""
        found: dict[str, Any] = {"accepted": self.accepted, "type": self.type, "task_id": self.task_id}
        for name in ("reason", "applied", "state"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        if self.errors:
            found["errors"] = [error.as_dict() for error in self.errors]
        if self.warnings:
            found["warnings"] = list(self.warnings)
        return found


def write_log(act: Act, task: Task, author: str, **parts: str | list[str] | None) -> bool:
    """Append `Progress: … | Notes: … | Blockers: a, b` to the task's Work Log; false where nothing is said."""
    said = []
    for name, value in parts.items():
        text = ", ".join(value) if isinstance(value, list) else value
        if text:
            said.append(f"{name.capitalize()}: {text}")
    if not said:
        return False
    text = " | ".join(said)
    act.rows.tasks.add_log(task.id, act.at, author, text)
    act.rows.tasks.update(task, updated_at=act.at)
    act.event("task.logged", task.id, text=text)
    act.topics.add("tasks")
    return True


def words(blockers: list[str] | None, *others: str | None) -> str | None:
    """The reason in a message: its blockers, else the first of the other texts there is."""
    if blockers:
        return "; ".join(blockers)
    return next((text for text in others if text), None)


def may_go(state: str, path: list[str]) -> bool:
    """Whether the state machine allows that path."""
    for target in path:
        if target not in MOVES[state]:
            return False
        state = target
    return True
