"""The states of workflow runs, and the queue of pending ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock import model
from interlock.model.json import Json
from interlock.model.task import PRIORITIES
from interlock.storage.sql.table import JSON, Table, as_json, from_json


class SqlWorkflows(Table["model.workflow.WorkflowRow"]):
    """See `ledger.WorkflowRows`."""

    name = "workflows"
    columns = ("id", "task_id", "skill", "state", "outcome", "version", "document", "created_at", "updated_at")
    coders = {"document": JSON}  # noqa: RUF012

    def _make(self, *values: Any) -> model.workflow.WorkflowRow:
        return model.workflow.WorkflowRow(*values)

    def insert(self, row: model.workflow.WorkflowRow) -> bool:
        return self._add(row, clause="ON CONFLICT (id) DO NOTHING RETURNING id").fetchone() is not None

    def replace(self, row: model.workflow.WorkflowRow, version: int) -> bool:
        names = self.columns[1:]
        found = self.connection.execute(
            f"UPDATE workflows SET {'=?, '.join(names)}=? WHERE id=? AND version=? RETURNING id",
            (*self.encoded(names, [getattr(row, name) for name in names]), row.id, version),
        )
        return found.fetchone() is not None

    def change_entries(
        self, workflow_id: str, written: Iterable[model.workflow.WorkflowEntry], removed: Iterable[tuple[str, str]]
    ) -> None:
        self.connection.executemany(
            "DELETE FROM workflow_entries WHERE workflow_id=? AND kind=? AND key=?",
            [(workflow_id, kind, key) for kind, key in removed],
        )
        self.connection.executemany(
            "INSERT INTO workflow_entries (workflow_id, kind, key, n, document) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (workflow_id, kind, key) DO UPDATE SET n=excluded.n, document=excluded.document",
            [(workflow_id, one.kind, one.key, one.n, one.document) for one in written],
        )

    def get(self, workflow_id: str) -> model.workflow.WorkflowRow | None:
        found = self._first("id=?", workflow_id)
        return found if found is None else self._whole(found)

    def select(
        self,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> list[model.workflow.WorkflowRow]:
        where, values = ["outcome IS NULL" if open_only else "true"], list[object]()
        for column, value in (("skill", skill), ("task_id", task_id)):
            if value is not None:
                where.append(f"{column}=?")
                values.append(value)
        limited = 2**62 if limit is None else limit
        found = self._select(f"{' AND '.join(where)} ORDER BY n DESC LIMIT ?", *values, limited)
        return [self._whole(row) for row in found]

    def _whole(self, row: model.workflow.WorkflowRow) -> model.workflow.WorkflowRow:
        asked = "SELECT kind, key, n, document FROM workflow_entries WHERE workflow_id=? ORDER BY kind, n"
        row.entries = [model.workflow.WorkflowEntry(*one) for one in self._rows(asked, row.id)]
        return row

    def session(self, id: str) -> Json:
        row = self._row("SELECT document FROM workflow_sessions WHERE id=?", id)
        return {} if row is None else from_json(row[0])

    def keep_session(self, id: str, document: Json, at: str) -> None:
        self.connection.execute(
            "INSERT INTO workflow_sessions (id, document, updated_at) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET document=excluded.document, updated_at=excluded.updated_at",
            (id, as_json(document), at),
        )


class SqlQueue(Table["model.workflow.QueueEntry"]):
    """See `ledger.QueueRows`."""

    name = "workflow_queue"
    keys = ("task_id",)
    columns = ("n", "task_id", "skill", "priority", "queued_by", "queued_at", "data")
    coders = {"priority": (PRIORITIES.index, PRIORITIES.__getitem__), "data": JSON}  # noqa: RUF012

    def _make(self, *values: Any) -> model.workflow.QueueEntry:
        return model.workflow.QueueEntry(*values)

    def insert(self, entry: model.workflow.QueueEntry) -> None:
        entry.n = int(self._add(entry, columns=self.columns[1:], clause="RETURNING n").fetchone()[0])

    def get(self, task_id: str) -> model.workflow.QueueEntry | None:
        return self._first("task_id=?", task_id)

    def entries(self) -> list[model.workflow.QueueEntry]:
        return self._select("true ORDER BY priority, n")

    def oldest(self) -> model.workflow.QueueEntry | None:
        return self._first("true ORDER BY n LIMIT 1")

    def count(self) -> int:
        return int(self._row("SELECT count(*) FROM workflow_queue")[0])

    def update(self, entry: model.workflow.QueueEntry, **changes: Any) -> None:
        self._change(entry, changes)

    def remove(self, task_id: str) -> bool:
        return bool(self._rows("DELETE FROM workflow_queue WHERE task_id=? RETURNING task_id", task_id))

    def active(self) -> int:
        found = self._row(
            "SELECT count(*) FROM tasks WHERE type = 'WORKFLOW' AND state IN ('ready', 'in-progress') "
            "AND id NOT IN (SELECT task_id FROM workflow_queue)"
        )
        return int(found[0])
