"""Questions to people, and shutdown requests."""

from __future__ import annotations

from typing import Any

from interlock.model.json import Json
from interlock.model.question import Question
from interlock.storage.sqlite.table import FLAG, JSON, Table


class SqliteQuestions(Table[Question]):
    """See `ledger.QuestionRows`."""

    name = "questions"
    columns = (
        "id", "task_id", "kind", "text", "options", "default", "context", "asked_at", "asked_by", "held", "state",
        "answer", "answered_by", "answered_at", "key", "reversible", "session", "run", "data", "answered_face",
        "answered_session", "reminded_at",
    )  # fmt: skip
    coders = {"options": JSON, "data": JSON, "held": FLAG, "reversible": FLAG}  # noqa: RUF012
    _make = Question

    def insert(self, question: Question) -> None:
        self._add(question)

    def update(self, question: Question, **changes: Any) -> None:
        self._change(question, changes)

    def get(self, question_id: str) -> Question | None:
        return self._first("id=?", question_id)

    def open(self, task_id: str | None = None) -> list[Question]:
        if task_id is None:
            return self._select("state='open' ORDER BY asked_at, rowid")
        return self._select("state='open' AND task_id=? ORDER BY asked_at, rowid", task_id)

    def of_task(self, task_id: str) -> list[Question]:
        return self._select("task_id=? ORDER BY asked_at, rowid", task_id)

    def by_key(self, task_id: str, key: str) -> Question | None:
        return self._first("task_id=? AND key=?", task_id, key)


class SqliteRequests(Table[Json]):
    """See `ledger.RequestRows`."""

    name = "requests"
    columns = ("id", "subject", "asked_by", "asked", "answers", "reason", "state", "at", "expires_at")
    coders = {"asked": JSON, "answers": JSON}  # noqa: RUF012

    def _make(self, *values: Any) -> Json:
        return dict(zip(self.columns, values, strict=True))

    def insert(self, request: Json) -> None:
        values = [self.encoded(column, request[column]) for column in self.columns]
        self.connection.execute(f"INSERT INTO requests ({self._list}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def get(self, request_id: str) -> Json | None:
        return self._first("id=?", request_id)

    def open(self) -> list[Json]:
        return self._select("state='open' ORDER BY at, rowid")

    def update(self, request_id: str, **changes: Any) -> None:
        self._write((request_id,), changes)
