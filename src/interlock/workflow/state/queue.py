"""The queue of pending workflows (BMAD-3.4, FR29, NFR4, decision 37).

More urgent ones first, and within one priority whoever came first. It holds `workflow_queue_limit` entries (100); one
more removes the oldest, whatever its priority: its task is cancelled with reason `queue_overflow`, a warning is logged
and whoever queued it is told. Entries are rows, so they survive a restart, and each verb is one transaction.

Who starts next is decided in `tasks.turns`, wherever a workflow's task changes its state.
"""

from __future__ import annotations

from dataclasses import field

from interlock.core.mailbox import send
from interlock.core.tasks.change import cancel
from interlock.core.tasks.find import find
from interlock.core.tasks.transition import QUEUEABLE, WORKFLOW, end_run, illegal, move, start_queued_workflows
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import Forbidden, InvalidRequest, QueueEntryNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.names import SYSTEM, check_text
from interlock.model.task import FINAL, PRIORITIES, Task
from interlock.model.workflow import QueueEntry
from interlock.storage.ledger import Rows

OVERFLOW = "queue_overflow"
SKILL_LIMIT = 500


@dataclass(slots=True)
class Placed:
    """Where a workflow stands after it was queued: `position` counts from 1; 0 where its turn came at once.
    `warnings` say what had to leave for it."""

    entry: QueueEntry
    position: int
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> Json:
        """The shape every face shows."""
        return {**self.entry.as_dict(self.position), "warnings": list(self.warnings)}


def add(act: UnitOfWork, task: Task, *, skill: str, priority: str | None = None, data: Json | None = None) -> Placed:
    """Queue a workflow's task; repeated, it changes nothing. Its turn may come at once.

    Args:
        priority: critical, high, normal or low; the task's own by default.
        data: what whoever starts it wants to know.

    Raises:
        InvalidRequest: the task is no workflow's, or there is no such priority.
        InvalidTransition: somebody works on it already, or it has ended.
    """
    if task.type != WORKFLOW:
        raise InvalidRequest(f"{task.id} is no workflow's task; only those are queued.", field="task_id")
    known = act.rows.queue.get(task.id)
    if known is not None:
        return Placed(known, position(act.rows, task.id))
    if task.state not in QUEUEABLE:
        raise illegal(task, "cannot be queued")
    skill = check_text(skill, "skill", limit=SKILL_LIMIT, required=True)
    entry = QueueEntry(0, task.id, skill, _checked(priority or task.priority), act.name, act.at, data or {})
    limit = act.settings.get("workflow_queue_limit")
    warnings = []
    while act.rows.queue.count() >= limit:
        oldest = act.rows.queue.oldest()
        if oldest is None:
            break
        warnings.append(_overflow(act, oldest, limit))
    if entry.priority != task.priority:
        act.rows.tasks.update(task, priority=entry.priority, updated_at=act.at)
    act.rows.queue.insert(entry)
    act.event("workflow.queued", task.id, skill=skill, priority=entry.priority, queued_by=act.name)
    act.topics.add("tasks")
    started = any(one.task_id == task.id for one in start_queued_workflows(act))
    return Placed(entry, 0 if started else position(act.rows, task.id), warnings)


def shown(rows: Rows) -> list[Json]:
    """What waits, in the order in which it will start, as every face shows it."""
    return [entry.as_dict(position) for position, entry in enumerate(rows.queue.entries(), 1)]


def remove(act: UnitOfWork, reference: str) -> Task:
    """Take a workflow out of the queue; its task is cancelled, the other entries stand as they stood.

    Raises:
        QueueEntryNotFound: it does not wait in the queue.
        Forbidden: only its maker, the lead or a human may.
    """
    task, _ = _queued(act.rows, reference)
    cancel(act, task, reason="removed from the queue")
    return task


def reprioritise(act: UnitOfWork, reference: str, priority: str) -> QueueEntry:
    """Give an entry, and its task, another priority; among those of the same one it stands by when it was queued.

    Raises:
        QueueEntryNotFound: it does not wait in the queue.
        InvalidRequest: there is no such priority.
        Forbidden: only who queued it, the lead or a human may.
    """
    task, entry = _queued(act.rows, reference)
    if not act.leads and act.name not in (entry.queued_by, task.created_by):
        raise Forbidden(f"Only who queued it, the lead or a human may reprioritise {task.id}.", task_id=task.id)
    if _checked(priority) != entry.priority:
        act.event("workflow.reprioritised", task.id, priority=priority, before=entry.priority)
        act.rows.queue.update(entry, priority=priority)
        act.rows.tasks.update(task, priority=priority, updated_at=act.at)
        act.topics.add("tasks")
    return entry


def clear(act: UnitOfWork) -> list[str]:
    """Take everything out of the queue; the ids of the tasks, which are cancelled.

    Raises:
        Forbidden: only the lead or a human may.
    """
    if not act.leads:
        raise Forbidden("Only the lead or a human may clear the queue.")
    found = [entry.task_id for entry in act.rows.queue.entries()]
    for task_id in found:
        task = act.rows.tasks.get(task_id)
        if task is not None and task.state not in FINAL:
            # Out of the queue first: a place that comes free must not start the next of those that go.
            act.rows.queue.remove(task_id)
            act.event("workflow.dequeued", task_id, reason="cancelled")
    for task_id in found:
        task = act.rows.tasks.get(task_id)
        if task is not None and task.state not in FINAL:
            cancel(act, task, reason="the queue was cleared")
    return found


def _overflow(act: UnitOfWork, entry: QueueEntry, limit: int) -> str:
    text = (
        f"The queue of workflows was full ({limit}), so its oldest entry was removed: {entry.task_id} ({entry.skill}), "
        f"queued by {entry.queued_by} at {entry.queued_at}. Its task was cancelled; queue it again if it still matters."
    )
    act.rows.queue.remove(entry.task_id)
    act.event(
        "workflow.queue_overflow", entry.task_id, skill=entry.skill, queued_by=entry.queued_by,
        queued_at=entry.queued_at, limit=limit,
    )  # fmt: skip
    task = act.rows.tasks.get(entry.task_id)
    if task is not None and task.state not in FINAL:
        # Not `cancel`: whoever queues one more need not be allowed to cancel another's task.
        end_run(act, task, "cancelled", OVERFLOW)
        move(act, task, "cancelled", reason=OVERFLOW, soft=False)
        act.event("task.cancelled", task.id, reason=OVERFLOW)
    if act.rows.team.address(entry.queued_by) is not None:
        # Also to the actor: what is lost here was asked for by an earlier act.
        send(act, entry.queued_by, text, summary=f"{entry.task_id} fell out of the queue", notice=True, sender=SYSTEM)
    return text


def _queued(rows: Rows, reference: str) -> tuple[Task, QueueEntry]:
    task = find(rows, reference)
    entry = rows.queue.get(task.id)
    if entry is None:
        raise QueueEntryNotFound(
            f"{task.id} does not wait in the queue of workflows. `interlock workflow queue list` shows what does.",
            task_id=task.id,
        )
    return task, entry


def position(rows: Rows, task_id: str) -> int:
    """The place of a task in the queue, from 1; 0 where it does not wait."""
    return next((place for place, entry in enumerate(rows.queue.entries(), 1) if entry.task_id == task_id), 0)


def _checked(priority: str) -> str:
    if priority not in PRIORITIES:
        raise InvalidRequest(f"priority must be one of: {', '.join(PRIORITIES)}.", field="priority")
    return priority
