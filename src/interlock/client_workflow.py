"""PORT, the part of `client` that is about workflows: the queue of those that wait for their turn."""

from __future__ import annotations

from typing import Any, Protocol

from interlock.model.task import Task


class WorkflowQueue(Protocol):
    """Workflows that wait for their turn. An entry is `{position, task_id, skill, priority, queued_by, queued_at,
    data}`; `position` counts from 1."""

    def workflow_queue(self) -> list[dict[str, Any]]:
        """What waits, in the order in which it will start."""

    def queue_workflow(self, what: str, *, priority: str | None = None, by: str | None = None) -> dict[str, Any]:
        """Queue a workflow: its task, or an invocation such as `/bmad:bmm:workflows:dev-story`, for which a task is
        made. The entry, with `warnings`; its position is 0 where its turn came at once. A full queue loses its oldest.
        """

    def unqueue_workflow(self, task: str, *, by: str | None = None) -> Task:
        """Take a workflow out of the queue; its task is cancelled."""

    def reprioritise_workflow(self, task: str, priority: str, *, by: str | None = None) -> dict[str, Any]:
        """Give an entry another priority: critical, high, normal or low."""

    def clear_workflow_queue(self, *, by: str | None = None) -> list[str]:
        """Cancel everything that waits; the ids of the tasks. For the lead and people only."""
