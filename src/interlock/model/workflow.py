"""What the ledger keeps of workflows: the row of a run's state, an entry of the queue; how people read of its steps."""

from __future__ import annotations

import re
from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.model.task import PRIORITIES

GATE = "gate-"
"""Begins the ids of steps that are the engine's own: validations and examinations."""
_OWN = re.compile(rf"\b(?:step[ _])?({GATE}[a-z]+(?:_[a-z]+)+)")

NOT_THE_RUNS = "not written by this run, as far as it tells"
"""Why a rollback asks before it restores a file that somebody else has written."""


@dataclass(slots=True, frozen=True)
class WorkflowEntry:
    """One thing that a run has collected: a decision, a checkpoint, a round of a review, a step. `kind` is where it
    belongs in the run's document, `key` its name or number there, `n` its place among its kind, `document` its JSON."""

    kind: str
    key: str
    n: int
    document: str


@dataclass(slots=True)
class WorkflowRow:
    """One run of a workflow. `document` and `entries` are its whole state; the other fields repeat what is looked for.

    `version` counts the writes: a write names the version it replaces, and one that names an older one is refused.
    """

    id: str
    task_id: str | None
    skill: str
    state: str
    outcome: str | None
    version: int
    document: Json
    created_at: str
    updated_at: str
    entries: list[WorkflowEntry] = field(default_factory=list)


@dataclass(slots=True)
class QueueEntry:
    """A queued workflow: a task nobody may pull yet. `n` grows in queue order; `priority` is that of a task.
    Times are ISO 8601 UTC."""

    n: int
    task_id: str
    skill: str
    priority: str
    queued_by: str
    queued_at: str
    data: Json = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """Sorts by priority, then first come, first served."""
        return PRIORITIES.index(self.priority), self.n

    def as_dict(self, position: int | None = None) -> Json:
        """The shape every face shows; `position` counts from 1."""
        shown = fields_of(self, ("task_id", "skill", "priority", "queued_by", "queued_at", "data"))
        return {"position": position, **shown}


def is_gate(id: object) -> bool:
    """Whether a step is an examination or validation of the engine's own, whose id tells people nothing."""
    return str(id).startswith(GATE)


def evidence_of(record: Json) -> str:
    """What the result of a step rests on, for people; "" where nothing was looked at yet."""
    said = {"seen": "", "held": " (as it was: {})", "stated": " (the agent says: {})", "missing": " (missing: {})"}
    found = []
    for one in record.get("proofs") or ():
        words = "no evidence required by the step" if one["kind"] == "none" else str(one["kind"]).replace("_", " ")
        subject = f" {one['subject']}" if one["subject"] else ""
        found.append(f"{words}{subject}{said.get(one['found'], '').format(one['reason'])}")
    return "; ".join(found)


def place_of(step: object, name: str | None = None) -> str:
    """How a step is called where people and agents read of it: `step 3`; one of the engine's own, whose id tells them
    nothing, by its name."""
    if not is_gate(step):
        return f"step {step}"
    return name or re.sub(r"[_-]+", " ", str(step).removeprefix(GATE)).capitalize()


def spoken(text: object) -> str:
    """A text of the engine for people: what only it numbers is called by its name, as `place_of` does."""
    return _OWN.sub(lambda found: place_of(found[1]), str(text))


def in_force(found: Json) -> list[str]:
    """What was said about care and counts now, and whether the next menu waits: a line for each."""
    named = [(name, one) for name, one in (found.get("in_force") or {}).items() if one["method"] != "project"]
    lines = [f"  {name.replace('_', ' ')} {one['value']}, by {one['text']!r} ({one['method']})" for name, one in named]
    if found.get("rate_limited"):
        until = f"until {found['next_available_at']}" if found["rate_limit_reason"] == "interval" else "for your word"
        lines.append(f"  menus are held back {until}")
    return lines
