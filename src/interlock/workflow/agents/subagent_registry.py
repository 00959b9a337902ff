"""PORT within `workflow`: what the subagents of a run are given by it, and where they are written down (FR23c).

The run itself keeps it (`control/run_registry.py`); without one, nothing is known and nothing is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from interlock.workflow.agents.assignment import Assignment
from interlock.workflow.package.packages import Persona

WORKING, INTERRUPTED = "working", "interrupted"
"""At work; and stopped because the run was, so that it can be taken up again with it."""


@dataclass
class SubagentRecord:
    """One subagent as the run knows it. `n` is its number in the run, 0 while it has none; `status` is `working` until
    it is that of its report. `input` is the hash of what it was asked: only the same question is taken up again by the
    session that was asked it. `model_signal` is `Model.signal` where its model was chosen by class, null where the
    program uses its own. Times are ISO 8601 UTC."""

    label: str
    kind: str
    role: str
    model: str | None = None
    agent_id: str | None = None
    status: str = WORKING
    started: str | None = None
    ended: str | None = None
    attempts: int = 0
    input: str = ""
    n: int = 0
    model_signal: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class RoutingTerms:
    """What work is routed and models are chosen by, as it is now."""

    tier: int | None = None
    max_model: str | None = None
    module: str = ""
    installed: Sequence[Persona] = ()


class SubagentRegistry(Protocol):
    """See the module."""

    def terms(self) -> RoutingTerms:
        """The terms that hold now."""

    def left_open(self, input: str, label: str) -> SubagentRecord | None:
        """The record of an earlier process for the very same work that never ended, given out once."""

    def assigned(self, record: SubagentRecord, why: str, warning: str | None) -> None:
        """A subagent was chosen for a piece of work, for these reasons; `warning` where nobody is specialised in it."""

    def note(self, record: SubagentRecord) -> None:
        """It is another one than before; written with whatever is written next."""

    async def keep(self, record: SubagentRecord) -> None:
        """Note it, and write it down at once."""


class NoRegistry:
    """Where no run keeps one."""

    def terms(self) -> RoutingTerms:
        """None that are special."""
        return RoutingTerms()

    def left_open(self, input: str, label: str) -> SubagentRecord | None:
        """Nothing is known of earlier."""
        return None

    def assigned(self, record: SubagentRecord, why: str, warning: str | None) -> None:
        """Not noted."""

    def note(self, record: SubagentRecord) -> None:
        """Not noted."""

    async def keep(self, record: SubagentRecord) -> None:
        """Not kept."""


def input_of(assignment: Assignment) -> str:
    """What an assignment asks, as a short hash."""
    asked = "\0".join((assignment.label, assignment.kind, assignment.prompt))
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]
