"""What a run knows of its subagents, and what it tells the dispatcher."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.agents.assignment import Assignment
from interlock.workflow.package.personas import Persona

WORKING, INTERRUPTED = "working", "interrupted"
"""At work; and stopped because the run was, so that it can be taken up again with it."""


@dataclass
class SubagentRecord:
    """One subagent as the run knows it. `n` is its number in the run, 0 while it has none; `status` is `working` until
    it is that of its report. `input` is the hash of what it was asked: only the same question is taken up again by the
    session that was asked it. `model_signal` is `Model.signal` where its model was chosen by class, None where the
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

    def as_dict(self) -> Json:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RoutingTerms:
    """What work is routed and models are chosen by, as it is now."""

    tier: int | None = None
    max_model: str | None = None
    module: str = ""
    installed: Sequence[Persona] = ()


class SubagentRegistry:
    """A registry that knows nothing and keeps nothing: for subagents without a run."""

    def terms(self) -> RoutingTerms:
        """The terms that hold now."""
        return RoutingTerms()

    def left_open(self, input: str, label: str) -> SubagentRecord | None:
        """The record of an earlier process for the very same work that never ended, given out once."""
        return None

    def assigned(self, record: SubagentRecord, why: str, warning: str | None) -> None:
        """A subagent was chosen for a piece of work, for these reasons; `warning` where nobody is specialised in it."""

    def note(self, record: SubagentRecord) -> None:
        """It is another one than before; written with whatever is written next."""

    async def keep(self, record: SubagentRecord) -> None:
        """Note it, and write it down at once."""


def input_of(assignment: Assignment) -> str:
    """What an assignment asks, as a short hash."""
    asked = "\0".join((assignment.label, assignment.kind, assignment.prompt))
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]
