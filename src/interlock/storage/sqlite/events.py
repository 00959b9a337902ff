"""The history of a team."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from interlock import model
from interlock.storage.sqlite import delivery
from interlock.storage.sqlite.table import Aggregate, as_json, from_json

Stamp = tuple[int, str, str, str]
"""What tells an event from every other: its `seq`, type, time and actor."""

_EVENT = "SELECT seq, type, at, actor, task_id, payload FROM events WHERE"


class SqliteEvents(Aggregate):
    """See `ledger.EventRows`. The next rowid is the next `seq`: one writer, and nothing is ever deleted."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.last: Stamp | None = None
        """What this transaction wrote last, by which it is recognised after a commit that failed."""

    def append(self, type: str, actor: str, task_id: str | None, at: str, payload: Mapping[str, Any]) -> int:
        cursor = self.connection.execute(delivery.EVENT, (type, at, actor, task_id, as_json(payload)))
        seq = int(cursor.lastrowid or 0)
        self.last = (seq, type, at, actor)
        return seq

    def since(self, seq: int, limit: int | None = None) -> list[model.event.Event]:
        return self._events("seq > ? ORDER BY seq LIMIT ?", seq, -1 if limit is None else limit)

    def of_task(self, task_id: str, limit: int | None = None) -> list[model.event.Event]:
        newest_first = self._events("task_id = ? ORDER BY seq DESC LIMIT ?", task_id, -1 if limit is None else limit)
        return newest_first[::-1]

    def latest(self, before: int | None, limit: int, types: Sequence[str] = ()) -> list[model.event.Event]:
        which = f"AND type IN ({', '.join('?' * len(types))})" if types else ""
        below = 2**62 if before is None else before
        return self._events(f"seq < ? {which} ORDER BY seq DESC LIMIT ?", below, *types, limit)

    def head(self) -> int:
        return self.newest()[0]

    def newest(self) -> tuple[int, str]:
        return self._row(delivery.NEWEST) or (0, "")

    def raw_since(self, seq: int, limit: int | None = None) -> list[tuple[int, str, str | None, str, str]]:
        return self._rows(
            "SELECT seq, type, task_id, payload, at FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            seq,
            -1 if limit is None else limit,
        )

    def _events(self, clause: str, *values: object) -> list[model.event.Event]:
        return [
            model.event.Event(*(*row[:-1], from_json(row[-1]))) for row in self._rows(f"{_EVENT} {clause}", *values)
        ]
