"""The tasks of a team by state."""

from __future__ import annotations

from typing import Any

from interlock.errors import InvalidRequest
from interlock.mirror.task_view import complete
from interlock.model.task import FINAL, STATES, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.storage.ledger import Rows

SHOWN = tuple(state for state in STATES if state != "deleted")
NEWEST = 2**62
"""More than any task's `n`."""


def board(rows: Rows, limit: int) -> dict[str, Any]:
    """`{"counts": {state: number}, "tasks": {state: [Task]}}`, at most `limit` tasks of each state."""
    counts = rows.tasks.counts()
    tasks = {state: in_state(rows, state, 0, limit) if counts.get(state) else [] for state in SHOWN}
    tasks["ready"] = rows.tasks.ready(limit)
    complete(rows, [task for some in tasks.values() for task in some])
    return {"counts": {state: counts.get(state, 0) for state in SHOWN}, "tasks": tasks}


def in_state(rows: Rows, state: str, after: int, limit: int) -> list[Task]:
    """The tasks of one state after the one with that `n`: the newest first where they are finished.

    Raises:
        InvalidRequest: there is no such state.
    """
    if state not in SHOWN:
        raise InvalidRequest(f"{state!r} is no state to list. Use one of: {', '.join(SHOWN)}.", field="state")
    if state in FINAL:
        return rows.tasks.select(states=[state], before=after or NEWEST, limit=limit)
    return rows.tasks.select(states=[state], after=after, limit=limit)
