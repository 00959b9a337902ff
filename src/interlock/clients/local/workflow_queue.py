"""The queue of workflows of a local team."""

from __future__ import annotations

from interlock.clients.local.base import LocalBase, warned, whole
from interlock.core.tasks.find import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlock.model.task import Task

INVOCATION = "/"


class LocalWorkflowQueue(LocalBase):
    """See `client_workflow.WorkflowQueue`."""

    def workflow_queue(self) -> list[dict[str, Any]]:
        from interlock.workflow.state import queue

        with self._workspace.look() as rows:
            return queue.shown(rows)

    def queue_workflow(self, what: str, *, priority: str | None = None, by: str | None = None) -> dict[str, Any]:
        from interlock.core.tasks.create import create
        from interlock.workflow.state import queue

        with self._act(by) as act:
            if isinstance(what, str) and what.strip().startswith(INVOCATION):
                text = what.strip()
                task = create(act, text[:200], body=text, type="WORKFLOW", priority=priority or "normal")
                placed = queue.add(act, task, skill=text.split()[0])
            else:
                task = find(act.rows, what)
                placed = queue.add(act, task, skill=(task.body or task.subject).split()[0], priority=priority)
        placed.warnings += act.warnings
        return placed.as_dict()

    def unqueue_workflow(self, task: str, *, by: str | None = None) -> Task:
        from interlock.workflow.state import queue

        with self._act(by) as act:
            found = whole(act, queue.remove(act, task))
        return warned(act, found)

    def reprioritise_workflow(self, task: str, priority: str, *, by: str | None = None) -> dict[str, Any]:
        from interlock.workflow.state import queue

        with self._act(by) as act:
            entry = queue.reprioritise(act, task, priority)
            return entry.as_dict(queue.position(act.rows, entry.task_id))

    def clear_workflow_queue(self, *, by: str | None = None) -> list[str]:
        from interlock.workflow.state import queue

        with self._act(by) as act:
            return queue.clear(act)
