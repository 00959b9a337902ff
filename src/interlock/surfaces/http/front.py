"""The front door's words for a task (contract, Task states, third column)."""

from __future__ import annotations

from typing import Any

from interlock.model.task import FRONT_DOOR, Task


def shown(task: Task) -> dict[str, Any]:
    """A task as the front door shows it."""
    return {
        **task.as_dict(),
        "status": FRONT_DOOR[task.state],
        "task_id": task.id,
        "task_group_id": task.group_id,
        "session_id": task.group_id,
        "task_type": task.type,
        "show_reply_ui": task.question is not None,
    }
