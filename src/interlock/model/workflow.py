"""What the ledger keeps of workflows: the row of a run's state, and an entry of the queue of pending ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.model.json import Json, fields_of
from interlock.model.task import PRIORITIES


@dataclass(slots=True)
class WorkflowRow:
    """One run of a workflow. `document` is its whole state; the other fields repeat what is looked for.

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
