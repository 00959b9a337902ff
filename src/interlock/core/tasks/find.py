"""Finding a task by what people type."""

from __future__ import annotations

import re

from interlock.errors import AmbiguousId, InvalidRequest, TaskNotFound
from interlock.model.task import Task
from interlock.storage.ledger import Rows

ID = re.compile(r"TASK-\d{4}-\d{2}-\d{2}-\d{3,}")
DIGITS = 3
"""How many digits the number at the end of an id has at least."""


def find(rows: Rows, reference: str) -> Task:
    """The task with that id, that plan key, or whose id alone ends in that suffix (`003`, for which `3` will do).

    Raises:
        TaskNotFound: there is none.
        AmbiguousId: the suffix fits several; `candidates` lists them.
    """
    if not isinstance(reference, str) or not reference or len(reference) > 100:
        raise InvalidRequest("Name a task by its id, such as TASK-2026-01-31-001, or its last digits.", field="task_id")
    if ID.fullmatch(reference):
        task = rows.tasks.get(reference)
    else:
        task = rows.tasks.by_plan_key(reference) or _by_suffix(rows, reference)
    if task is None:
        raise TaskNotFound(f"No task {reference!r}. `interlock task list` shows them.", task_id=reference)
    return task


def _by_suffix(rows: Rows, suffix: str) -> Task | None:
    if not re.fullmatch(r"[0-9-]{1,20}", suffix):
        return None
    found = rows.tasks.ids_ending(suffix.zfill(DIGITS) if suffix.isdigit() else suffix, 10)
    if len(found) > 1:
        raise AmbiguousId(
            f"{suffix!r} fits {len(found)} tasks; type more of the id: {', '.join(found)}.", candidates=found
        )
    return rows.tasks.get(found[0]) if found else None
