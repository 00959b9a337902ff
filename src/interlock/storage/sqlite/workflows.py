"""The states of workflow runs, and the queue of pending ones."""

from __future__ import annotations

from typing import Any

from interlock.model.task import PRIORITIES
from interlock.model.workflow import QueueEntry, WorkflowRow
from interlock.storage.sqlite.table import Table, assign, from_json

_ROW = "id, task_id, skill, state, outcome, version, document, created_at, updated_at"
_ENTRY = "n, task_id, skill, priority, queued_by, queued_at, data"


class SqliteWorkflows(Table):
    """See `ledger_workflow.WorkflowRows`."""

    name = "workflows"
    columns = tuple(_ROW.split(", "))
    json_columns = frozenset({"document"})

    def insert(self, row: WorkflowRow) -> bool:
        values = [self.encoded(column, getattr(row, column)) for column in self.columns]
        found = self.connection.execute(
            f"INSERT INTO workflows ({_ROW}) VALUES (?{', ?' * (len(values) - 1)}) ON CONFLICT (id) DO NOTHING", values
        )
        return found.rowcount > 0

    def replace(self, row: WorkflowRow, version: int) -> bool:
        names = self.columns[1:]
        found = self.connection.execute(
            f"UPDATE workflows SET {', '.join(f'{name}=?' for name in names)} WHERE id=? AND version=?",
            (*(self.encoded(name, getattr(row, name)) for name in names), row.id, version),
        )
        return found.rowcount > 0

    def get(self, workflow_id: str) -> WorkflowRow | None:
        row = self.connection.execute(f"SELECT {_ROW} FROM workflows WHERE id=?", (workflow_id,)).fetchone()
        return None if row is None else _row(row)

    def select(
        self,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> list[WorkflowRow]:
        where, values = ["1"], list[object]()
        for column, value in (("skill", skill), ("task_id", task_id)):
            if value is not None:
                where.append(f"{column}=?")
                values.append(value)
        if open_only:
            where.append("outcome IS NULL")
        found = self.connection.execute(
            f"SELECT {_ROW} FROM workflows WHERE {' AND '.join(where)} ORDER BY n DESC LIMIT ?",
            (*values, -1 if limit is None else limit),
        )
        return [_row(row) for row in found]

    def session(self, id: str) -> dict[str, Any]:
        row = self.connection.execute("SELECT document FROM workflow_sessions WHERE id=?", (id,)).fetchone()
        return {} if row is None else dict(from_json(row[0]))

    def keep_session(self, id: str, document: dict[str, Any], at: str) -> None:
        self.connection.execute(
            "INSERT INTO workflow_sessions (id, document, updated_at) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET document=excluded.document, updated_at=excluded.updated_at",
            (id, self.encoded("document", document), at),
        )


class SqliteQueue(Table):
    """See `ledger_workflow.QueueRows`. The row holds the rank of a priority: the most urgent is 0."""

    name = "workflow_queue"
    key = "task_id"
    columns = tuple(_ENTRY.split(", "))
    json_columns = frozenset({"data"})

    def encoded(self, column: str, value: Any) -> Any:
        """`value` as the column holds it."""
        return PRIORITIES.index(value) if column == "priority" else super().encoded(column, value)

    def insert(self, entry: QueueEntry) -> None:
        names = self.columns[1:]
        found = self.connection.execute(
            f"INSERT INTO workflow_queue ({', '.join(names)}) VALUES (?{', ?' * (len(names) - 1)})",
            [self.encoded(name, getattr(entry, name)) for name in names],
        )
        entry.n = int(found.lastrowid or 0)

    def get(self, task_id: str) -> QueueEntry | None:
        return self._one("WHERE task_id=?", (task_id,))

    def entries(self) -> list[QueueEntry]:
        return [_entry(row) for row in self._select("ORDER BY priority, n", ())]

    def oldest(self) -> QueueEntry | None:
        return self._one("ORDER BY n LIMIT 1", ())

    def count(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM workflow_queue").fetchone()[0])

    def update(self, entry: QueueEntry, **changes: Any) -> None:
        self.write(entry.task_id, changes)
        assign(entry, changes)

    def remove(self, task_id: str) -> bool:
        return self.connection.execute("DELETE FROM workflow_queue WHERE task_id=?", (task_id,)).rowcount > 0

    def active(self) -> int:
        found = self.connection.execute(
            "SELECT count(*) FROM tasks WHERE type = 'WORKFLOW' AND state IN ('ready', 'in-progress') "
            "AND id NOT IN (SELECT task_id FROM workflow_queue)"
        )
        return int(found.fetchone()[0])

    def _one(self, clause: str, values: tuple[object, ...]) -> QueueEntry | None:
        found = self._select(clause, values)
        return _entry(found[0]) if found else None

    def _select(self, clause: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT {_ENTRY} FROM workflow_queue {clause}", values).fetchall()


def _row(row: tuple[Any, ...]) -> WorkflowRow:
    found = WorkflowRow(*row)
    found.document = from_json(row[6])
    return found


def _entry(row: tuple[Any, ...]) -> QueueEntry:
    found = QueueEntry(*row)
    found.priority = PRIORITIES[row[3]]
    found.data = from_json(row[6])
    return found
