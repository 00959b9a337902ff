"""The history of a team."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.model.event import Event
from interlock.storage.sqlite.table import as_json, from_json

Stamp = tuple[int, str, str, str]
"""What tells an event from every other: its `seq`, type, time and actor."""


class SqliteEvents:
    """See `ledger.EventRows`. The next rowid is the next `seq`: one writer, and nothing is ever deleted."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.last: Stamp | None = None  # What this transaction wrote last.

    def append(self, type: str, actor: str, task_id: str | None, at: str, payload: Mapping[str, Any]) -> int:
        cursor = self.connection.execute(
            "INSERT INTO events (type, at, actor, task_id, payload) VALUES (?, ?, ?, ?, ?)",
            (type, at, actor, task_id, as_json(payload)),
        )
        seq = int(cursor.lastrowid or 0)
        self.last = (seq, type, at, actor)
        return seq

    def since(self, seq: int, limit: int | None = None) -> list[Event]:
        found = self.connection.execute(
            "SELECT seq, type, at, actor, task_id, payload FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, -1 if limit is None else limit),
        )
        return [_event(row) for row in found]

    def of_task(self, task_id: str, limit: int | None = None) -> list[Event]:
        found = self.connection.execute(
            "SELECT seq, type, at, actor, task_id, payload FROM events WHERE task_id = ? ORDER BY seq DESC LIMIT ?",
            (task_id, -1 if limit is None else limit),
        ).fetchall()
        return [_event(row) for row in reversed(found)]

    def latest(self, before: int | None, limit: int, types: Sequence[str] = ()) -> list[Event]:
        where, values = ["seq < ?"], [2**62 if before is None else before]  # type: list[str], list[Any]
        if types:
            where.append(f"type IN ({', '.join('?' * len(types))})")
            values += types
        found = self.connection.execute(
            f"SELECT seq, type, at, actor, task_id, payload FROM events WHERE {' AND '.join(where)} "
            "ORDER BY seq DESC LIMIT ?",
            (*values, limit),
        )
        return [_event(row) for row in found]

    def head(self) -> int:
        return self.newest()[0]

    def newest(self) -> tuple[int, str]:
        found = self.connection.execute("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        return found or (0, "")

    def raw_since(self, seq: int, limit: int | None = None) -> list[tuple[int, str, str | None, str, str]]:
        return self.connection.execute(
            "SELECT seq, type, task_id, payload, at FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, -1 if limit is None else limit),
        ).fetchall()


def _event(row: tuple[Any, ...]) -> Event:
    from interlock.model.event import Event

    seq, type, at, actor, task_id, payload = row
    return Event(seq, type, at, actor, task_id, from_json(payload))
