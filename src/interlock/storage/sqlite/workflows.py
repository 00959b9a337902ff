"""The states of workflow runs, and the queue of pending ones."""

from __future__ import annotations

from typing import Any

from interlock.model.json import Json
from interlock.model.task import PRIORITIES
from interlock.model.workflow import QueueEntry, WorkflowRow
from interlock.storage.sqlite.table import JSON, Table, as_json, from_json


class SqliteWorkflows(Table[WorkflowRow]):
    """See `ledger.WorkflowRows`."""

    name = "workflows"
    columns = ("id", "task_id", "skill", "state", "outcome", "version", "document", "created_at", "updated_at")
    coders = {"document": JSON}  # noqa: RUF012
    _make = WorkflowRow

    def insert(self, row: WorkflowRow) -> bool:
        return self._add(row, clause="ON CONFLICT (id) DO NOTHING").rowcount > 0

    def replace(self, row: WorkflowRow, version: int) -> bool:
        names = self.columns[1:]
        found = self.connection.execute(
            f"UPDATE workflows SET {', '.join(f'{name}=?' for name in names)} WHERE id=? AND version=?",
            (*(self.encoded(name, getattr(row, name)) for name in names), row.id, version),
        )
        return found.rowcount > 0

    def get(self, workflow_id: str) -> WorkflowRow | None:
        return self._first("id=?", workflow_id)

    def select(
        self,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> list[WorkflowRow]:
        where, values = ["outcome IS NULL" if open_only else "true"], list[object]()
        for column, value in (("skill", skill), ("task_id", task_id)):
            if value is not None:
                where.append(f"{column}=?")
                values.append(value)
        limited = -1 if limit is None else limit
        return self._select(f"{' AND '.join(where)} ORDER BY n DESC LIMIT ?", *values, limited)

    def session(self, id: str) -> Json:
        row = self._row("SELECT document FROM workflow_sessions WHERE id=?", id)
        return {} if row is None else from_json(row[0])

    def keep_session(self, id: str, document: Json, at: str) -> None:
        self.connection.execute(
            "INSERT INTO workflow_sessions (id, document, updated_at) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET document=excluded.document, updated_at=excluded.updated_at",
            (id, as_json(document), at),
        )


class SqliteQueue(Table[QueueEntry]):
    """See `ledger.QueueRows`."""

    name = "workflow_queue"
    keys = ("task_id",)
    columns = ("n", "task_id", "skill", "priority", "queued_by", "queued_at", "data")
    coders = {"priority": (PRIORITIES.index, PRIORITIES.__getitem__), "data": JSON}  # noqa: RUF012
    _make = QueueEntry

    def insert(self, entry: QueueEntry) -> None:
        entry.n = int(self._add(entry, columns=self.columns[1:]).lastrowid or 0)

    def get(self, task_id: str) -> QueueEntry | None:
        return self._first("task_id=?", task_id)

    def entries(self) -> list[QueueEntry]:
        return self._select("true ORDER BY priority, n")

    def oldest(self) -> QueueEntry | None:
        return self._first("true ORDER BY n LIMIT 1")

    def count(self) -> int:
        return int(self._row("SELECT count(*) FROM workflow_queue")[0])

    def update(self, entry: QueueEntry, **changes: Any) -> None:
        self._change(entry, changes)

    def remove(self, task_id: str) -> bool:
        return self.connection.execute("DELETE FROM workflow_queue WHERE task_id=?", (task_id,)).rowcount > 0

    def active(self) -> int:
        found = self._row(
            "SELECT count(*) FROM tasks WHERE type = 'WORKFLOW' AND state IN ('ready', 'in-progress') "
            "AND id NOT IN (SELECT task_id FROM workflow_queue)"
        )
        return int(found[0])
