"""Questions to people, and shutdown requests."""

from __future__ import annotations

import sqlite3
from typing import Any

from interlock.model.question import Question
from interlock.storage.sqlite.table import Table, assign, from_json

_QUESTION = (
    'id, task_id, kind, text, options, "default", context, asked_at, asked_by, held, state, '
    "answer, answered_by, answered_at, key, reversible, session, run, data, answered_face, answered_session, "
    "reminded_at"
)
_REQUEST = "id, subject, asked_by, asked, answers, reason, state, at, expires_at"


class SqliteQuestions(Table):
    """See `ledger.QuestionRows`."""

    name = "questions"
    columns = tuple(_QUESTION.replace('"', "").split(", "))
    json_columns = frozenset({"options", "data"})

    def insert(self, question: Question) -> None:
        values = [self.encoded(column, getattr(question, column)) for column in self.columns]
        self.connection.execute(f"INSERT INTO questions ({_QUESTION}) VALUES (?{', ?' * (len(values) - 1)})", values)

    def update(self, question: Question, **changes: Any) -> None:
        self.write(question.id, changes)
        assign(question, changes)

    def get(self, question_id: str) -> Question | None:
        row = self.connection.execute(f"SELECT {_QUESTION} FROM questions WHERE id=?", (question_id,)).fetchone()
        return None if row is None else _question(row)

    def open(self, task_id: str | None = None) -> list[Question]:
        where, values = "state='open'", ()
        if task_id is not None:
            where, values = where + " AND task_id=?", (task_id,)  # type: ignore[assignment]
        found = self.connection.execute(
            f"SELECT {_QUESTION} FROM questions WHERE {where} ORDER BY asked_at, rowid", values
        )
        return [_question(row) for row in found]

    def of_task(self, task_id: str) -> list[Question]:
        found = self.connection.execute(
            f"SELECT {_QUESTION} FROM questions WHERE task_id=? ORDER BY asked_at, rowid", (task_id,)
        )
        return [_question(row) for row in found]

    def by_key(self, task_id: str, key: str) -> Question | None:
        row = self.connection.execute(
            f"SELECT {_QUESTION} FROM questions WHERE task_id=? AND key=?", (task_id, key)
        ).fetchone()
        return None if row is None else _question(row)


class SqliteRequests(Table):
    """See `ledger.RequestRows`."""

    name = "requests"
    columns = tuple(_REQUEST.split(", "))
    json_columns = frozenset({"asked", "answers"})

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)

    def insert(self, request: dict[str, Any]) -> None:
        values = [self.encoded(column, request[column]) for column in self.columns]
        self.connection.execute(f"INSERT INTO requests ({_REQUEST}) VALUES (?{', ?' * (len(values) - 1)})", values)

    def get(self, request_id: str) -> dict[str, Any] | None:
        row = self.connection.execute(f"SELECT {_REQUEST} FROM requests WHERE id=?", (request_id,)).fetchone()
        return None if row is None else self._request(row)

    def open(self) -> list[dict[str, Any]]:
        found = self.connection.execute(f"SELECT {_REQUEST} FROM requests WHERE state='open' ORDER BY at, rowid")
        return [self._request(row) for row in found]

    def update(self, request_id: str, **changes: Any) -> None:
        self.write(request_id, changes)

    def _request(self, row: tuple[Any, ...]) -> dict[str, Any]:
        request = dict(zip(self.columns, row, strict=True))
        request["asked"] = from_json(request["asked"])
        request["answers"] = from_json(request["answers"])
        return request


def _question(row: tuple[Any, ...]) -> Question:
    question = Question(*row)
    question.options = from_json(row[4])
    question.held = bool(row[9])
    question.reversible = bool(row[15])
    question.data = from_json(row[18])
    return question
