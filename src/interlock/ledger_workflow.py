"""PORT, the part of `ledger` that is about workflows: the states of their runs, and the queue of pending ones."""

from __future__ import annotations

from typing import Any, Protocol

from interlock.model.workflow import QueueEntry, WorkflowRow


class WorkflowRows(Protocol):
    """The states of workflow runs, each one versioned row."""

    def insert(self, row: WorkflowRow) -> bool:
        """Store a new run; false, and nothing written, where there is one of that id."""

    def replace(self, row: WorkflowRow, version: int) -> bool:
        """Write `row` in the place of `version`; false, and nothing written, where the row has another version."""

    def get(self, workflow_id: str) -> WorkflowRow | None:
        """That run."""

    def select(
        self,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> list[WorkflowRow]:
        """Runs, the newest first; `open_only`: those without an outcome."""

    def session(self, id: str) -> dict[str, Any]:
        """What the workflows of that session share; empty where nothing was kept."""

    def keep_session(self, id: str, document: dict[str, Any], at: str) -> None:
        """Keep it, in the place of what was there."""


class QueueRows(Protocol):
    """Workflows that wait for their turn, each a task that nobody may pull while it stands here."""

    def insert(self, entry: QueueEntry) -> None:
        """Store an entry behind all others and set its `n`, which is never given twice while entries stand."""

    def get(self, task_id: str) -> QueueEntry | None:
        """The entry of that task."""

    def entries(self) -> list[QueueEntry]:
        """All, in their order: more urgent first, then first come."""

    def oldest(self) -> QueueEntry | None:
        """The one that was queued first, whatever its priority."""

    def count(self) -> int:
        """How many there are."""

    def update(self, entry: QueueEntry, **changes: Any) -> None:
        """Write these fields, in the row and in `entry`."""

    def remove(self, task_id: str) -> bool:
        """Drop the entry of a task; false where there was none."""

    def active(self) -> int:
        """How many tasks of type WORKFLOW have had their turn and are at work, or ready for a worker: neither queued,
        nor waiting for a human or another task, nor ended."""
