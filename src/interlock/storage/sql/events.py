"""The history of a team, and what a ledger keeps of it for a time only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock import model
from interlock.storage.history import RawEvent
from interlock.storage.sql.table import Aggregate, SqlConnection, Table, as_json, from_json, marks, parts

Stamp = tuple[int, str, str, str]
"""What tells an event from every other: its `seq`, type, time and actor."""

COLUMNS = 6
AT_ONCE = 100
"""How many events one statement writes at most."""
OLD_AT_ONCE = 100
"""How many old changes the writing of a new one removes at most."""
_NEW_EVENT = f"({marks(COLUMNS)})"
_EVENT = "SELECT seq, type, at, actor, task_id, payload FROM events WHERE"


_SETTLED = (
    "SELECT id FROM tasks WHERE state IN ('done', 'cancelled', 'deleted') AND verifying IS NULL AND merging IS NULL "
    "AND coalesce(completed_at, updated_at) < ?1"
)
_OLD_EVENT = (
    "at < ?1 AND type NOT IN ('task.created', 'task.transitioned') AND "
    f"(task_id IN ({_SETTLED}) OR task_id IS NULL AND (type LIKE 'message.%' OR type LIKE 'session.%'))"
)
_OLD_SESSION = (
    "coalesce(ended_at, gone_at, CASE WHEN process IS NULL THEN began_at END) < ?1 AND program IS NULL "
    "AND NOT EXISTS (SELECT 1 FROM members WHERE name = sessions.member AND session = sessions.id) "
    "AND NOT EXISTS (SELECT 1 FROM runs WHERE member = sessions.member AND session = sessions.id AND ended_at IS NULL) "
    "AND NOT EXISTS (SELECT 1 FROM messages WHERE recipient = sessions.member AND stage IN ('offered', 'delivered') "
    "AND session = sessions.id)"
)
_OLD_MESSAGE = "acknowledged_at < ?1 AND stage = 'acknowledged' AND request_id IS NULL"


class SqlEvents(Aggregate):
    """See `history.EventRows`. The next rowid is the next `seq`: one writer, and the newest is never deleted."""

    def __init__(self, connection: SqlConnection) -> None:
        super().__init__(connection)
        self._new: list[Any] = []
        self.begin(0)

    def begin(self, head: int) -> None:
        """A transaction begins after the event `head`."""
        self.last: Stamp | None = None
        """What this transaction wrote last, by which it is recognised after a commit that failed."""
        self.written: list[RawEvent] = []
        self._head = head
        self._new.clear()

    def append(self, type: str, actor: str, task_id: str | None, at: str, payload: Mapping[str, Any]) -> int:
        self._head += 1
        self.last = (self._head, type, at, actor)
        text = as_json(payload)
        self.written.append((self._head, type, task_id, text, at))
        self._new += (*self.last, task_id, text)
        if len(self._new) >= AT_ONCE * COLUMNS:
            self.flush()
        return self._head

    def flush(self) -> None:
        """Write what was appended; all of a verb's events at once."""
        if self._new:
            values, self._new = self._new, []
            rows = ", ".join([_NEW_EVENT] * (len(values) // COLUMNS))
            self.connection.execute(
                f"INSERT INTO events (seq, type, at, actor, task_id, payload) VALUES {rows}", values
            )

    def since(self, seq: int, limit: int | None = None) -> list[model.event.Event]:
        return self._events("seq > ? ORDER BY seq LIMIT ?", seq, 2**62 if limit is None else limit)

    def of_task(self, task_id: str, limit: int | None = None) -> list[model.event.Event]:
        newest_first = self._events("task_id = ? ORDER BY seq DESC LIMIT ?", task_id, 2**62 if limit is None else limit)
        return newest_first[::-1]

    def of_tasks(self, task_ids: Sequence[str], types: Sequence[str]) -> dict[str, list[model.event.Event]]:
        found: dict[str, list[model.event.Event]] = {}
        for some in parts(task_ids):
            among = f"task_id IN ({marks(len(some))}) AND type IN ({marks(len(types))}) ORDER BY seq"
            for event in self._events(among, *some, *types):
                found.setdefault(str(event.task_id), []).append(event)
        return found

    def latest(self, before: int | None, most: int, types: Sequence[str] = (), by: str = "") -> list[model.event.Event]:
        which = f"AND type IN ({', '.join('?' * len(types))})" if types else ""
        who = "AND actor = ?" if by else ""
        below = 2**62 if before is None else before
        return self._events(
            f"seq < ? {which} {who} ORDER BY seq DESC LIMIT ?", below, *types, *([by] if by else []), most
        )

    def raw_since(self, seq: int, limit: int | None = None) -> list[RawEvent]:
        self.flush()
        return self._rows(
            "SELECT seq, type, task_id, payload, at FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            seq,
            2**62 if limit is None else limit,
        )

    def _events(self, clause: str, *values: object) -> list[model.event.Event]:
        self.flush()
        return [
            model.event.Event(*(*row[:-1], from_json(row[-1]))) for row in self._rows(f"{_EVENT} {clause}", *values)
        ]


class SqlUpkeep(Table["model.event.KeyedChange"]):
    """See `history.UpkeepRows`."""

    name = "changes"
    columns = ("id", "digest", "at", "first", "last", "status", "answer")

    def _make(self, *values: Any) -> model.event.KeyedChange:
        return model.event.KeyedChange(*values)

    def change(self, id: str) -> model.event.KeyedChange | None:
        return self._first("id=?", id)

    def keep_change(self, change: model.event.KeyedChange, until: str) -> None:
        old = "SELECT id FROM changes WHERE at < ? ORDER BY at LIMIT ?"
        self.connection.execute(f"DELETE FROM changes WHERE id IN ({old})", (until, OLD_AT_ONCE))
        self._add(change)

    def keep_answer(self, id: str, status: int, answer: str) -> None:
        self._write((id,), {"status": status, "answer": answer})

    def pruned(self) -> int:
        found = self._row("SELECT payload FROM events WHERE type = 'ledger.pruned' ORDER BY seq DESC LIMIT 1")
        return 0 if found is None else int(from_json(found[0])["through"])

    def last_before(self, at: str) -> int:
        found = self._row("SELECT seq FROM events WHERE at < ? ORDER BY seq DESC LIMIT 1", at)
        return 0 if found is None else int(found[0])

    def prune_events(self, before: str, after: int, through: int, limit: int) -> tuple[int, int]:
        return self._pruned("events", "seq", _OLD_EVENT, before, (after, through, limit))

    def prune_messages(self, before: str, after: int, limit: int) -> tuple[int, int]:
        return self._pruned("messages", "n", _OLD_MESSAGE, before, (after, 2**62, limit))

    def prune_sessions(self, before: str, limit: int) -> int:
        some = f"SELECT member, id FROM sessions WHERE {_OLD_SESSION} LIMIT ?2"
        return len(self._rows(f"DELETE FROM sessions WHERE (member, id) IN ({some}) RETURNING id", before, limit))

    def settled(self, before: str, after: int, limit: int) -> list[tuple[int, str]]:
        where = f"n > ?2 AND id IN ({_SETTLED}) ORDER BY n LIMIT ?3"
        return self._rows(f"SELECT n, id FROM tasks WHERE {where}", before, after, limit)

    def _pruned(self, table: str, key: str, old: str, before: str, part: tuple[int, int, int]) -> tuple[int, int]:
        looked = f"SELECT {key} FROM {table} WHERE {key} > ? AND {key} <= ? ORDER BY {key} LIMIT ?"
        (end,) = self._row(f"SELECT coalesce(max({key}), 0) FROM ({looked}) AS part", *part)
        delete = f"DELETE FROM {table} WHERE {key} > ?2 AND {key} <= ?3 AND {old} RETURNING {key}"
        return end, len(self._rows(delete, before, part[0], end))
