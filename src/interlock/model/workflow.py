"""What the ledger keeps of workflows: the row of a run's state, and an entry of the queue of pending ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
    document: dict[str, Any]
    created_at: str
    updated_at: str


@dataclass(slots=True)
class QueueEntry:
    """A workflow that waits for its turn: a task nobody may pull yet. `n` grows in the order of queueing; `priority` is
    one of the words of a task. Times are ISO 8601 UTC."""

    n: int
    task_id: str
    skill: str
    priority: str
    queued_by: str
    queued_at: str
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """More urgent ones first, and within one priority whoever came first."""
        return PRIORITIES.index(self.priority), self.n

    def as_dict(self, position: int | None = None) -> dict[str, Any]:
        """The shape every face shows; `position` counts from 1."""
        return {
            "position": position,
            "task_id": self.task_id,
            "skill": self.skill,
            "priority": self.priority,
            "queued_by": self.queued_by,
            "queued_at": self.queued_at,
            "data": dict(self.data),
        }
