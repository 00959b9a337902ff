"""Questions to people, and shutdown requests."""

from __future__ import annotations

from typing import Any

from interlock.model.question import Question, StopRequest
from interlock.storage.sql.table import FLAG, JSON, Table


class SqlQuestions(Table[Question]):
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


class SqlRequests(Table[StopRequest]):
    """See `ledger.RequestRows`."""

    name = "requests"
    columns = ("id", "subject", "asked_by", "asked", "answers", "reason", "state", "at", "expires_at")
    coders = {"asked": JSON, "answers": JSON}  # noqa: RUF012
    _make = StopRequest

    def insert(self, request: StopRequest) -> None:
        self._add(request)

    def update(self, request: StopRequest, **changes: Any) -> None:
        self._change(request, changes)

    def get(self, request_id: str) -> StopRequest | None:
        return self._first("id=?", request_id)

    def open(self) -> list[StopRequest]:
        return self._select("state='open' ORDER BY at, rowid")
