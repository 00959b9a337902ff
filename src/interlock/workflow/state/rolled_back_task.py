"""What becomes of a run's task when the run goes back to a checkpoint: it is to be taken up again from there."""

from __future__ import annotations

from interlock.core.tasks.create import create
from interlock.core.tasks.transition import end_run, move, waiting_state
from interlock.core.unit_of_work import UnitOfWork
from interlock.model.task import FINAL
from interlock.workflow.errors import RollbackRefused
from interlock.workflow.state import queue
from interlock.workflow.state.document import (
    TERMINAL,
    WorkflowState,
)

WAITS = ("awaiting-response", "blocked")


def settle(act: UnitOfWork, before: WorkflowState, after: WorkflowState) -> None:
    """Make the task fit the state: what it asked is withdrawn, one that failed gets another chance, and for one that
    has ended there is a new one; when that is undone, the new one is cancelled.

    Raises:
        RollbackRefused: somebody works on it just now.
        TaskLimit: a new task is needed, and there are too many.
    """
    task = act.rows.tasks.get(before.task_id) if before.task_id else None
    if task is None:
        return
    if task.state == "in-progress":
        raise RollbackRefused(
            f"{before.workflow_id} is being worked on by {task.owner}: its files are changing. Wait until it asks, or "
            f"stop it (`interlock stop --member {task.owner} --now`), and repeat.",
            task_id=task.id,
            owner=task.owner,
        )
    if after.state == TERMINAL:
        if task.state not in FINAL and after.task_id != task.id:
            end_run(act, task, "cancelled", "the rollback was undone")
            move(act, task, "cancelled", reason="the rollback was undone", soft=False)
            act.event("task.cancelled", task.id, reason="the rollback was undone")
    elif task.state in WAITS or task.state == "deadletter":
        end_run(act, task, task.state, "rolled back")  # A session may have been held open for the answer.
        move(act, task, waiting_state(task), reason="rolled back", failures=0, rounds=0, not_before=None)
        after.task_id = task.id
    elif task.state in FINAL:
        made = create(
            act, task.subject, body=task.body, type=task.type, priority=task.priority, assignee=task.assignee,
            review=task.review, group_id=task.group_id, project_id=task.project_id, metadata=task.metadata,
        )  # fmt: skip
        act.rows.tasks.update(made, workflow=task.workflow, retries=task.retries)
        queue.add(act, made, skill=after.skill, data={"workflow_id": after.workflow_id})
        after.task_id = made.id
    else:
        after.task_id = task.id
