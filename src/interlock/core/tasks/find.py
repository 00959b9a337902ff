"""Finding a task by what people type."""

from __future__ import annotations

import re

from interlock.errors import AmbiguousId, InvalidRequest, TaskNotFound
from interlock.model.task import Task
from interlock.storage.ledger import Rows

ID = re.compile(r"TASK-(\d{4}-\d{2}-\d{2})-\d{3,}")
SUFFIX = re.compile(r"[0-9-]{1,20}")
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
        suffix = reference.zfill(DIGITS) if reference.isdigit() else reference
        found = rows.tasks.named(reference, suffix if SUFFIX.fullmatch(reference) else None, 10)
        task = next((one for one in found if one.plan_key == reference), found[0] if found else None)
        if task is not None and task.plan_key != reference and len(found) > 1:
            raise AmbiguousId(
                f"{reference!r} fits {len(found)} tasks; type more of the id: {', '.join(one.id for one in found)}.",
                candidates=[one.id for one in found],
            )
    if task is None:
        raise TaskNotFound(f"No task {reference!r}. `interlock task list` shows them.", task_id=reference)
    return task
