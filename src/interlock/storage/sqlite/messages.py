"""Mail and the stages of its delivery. `members.unread` changes with the stages, in the same transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from interlock.model.message import Message
from interlock.storage.sqlite.table import as_json, from_json, marks

_COLUMNS = (
    "n, id, sender, recipient, type, content, summary, timestamp, stage, attempt, session, request_id, approve, "
    "reason, metadata, urgent"
)
_WAITING = "stage IN ('stored', 'offered')"


class SqliteMessages:
    """See `ledger.MessageRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def insert(self, message: Message, client_id: str | None) -> int:
        cursor = self.connection.execute(
            "INSERT INTO messages (id, sender, recipient, type, content, summary, timestamp, stage, request_id, "
            "approve, reason, metadata, urgent, client_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                message.id,
                message.sender,
                message.recipient,
                message.type,
                message.content,
                message.summary,
                message.timestamp,
                message.stage,
                message.request_id,
                message.approve,
                message.reason,
                as_json(message.metadata) if message.metadata else None,
                message.urgent,
                client_id,
            ),
        )
        self._count_unread(message.recipient, 1)
        message.n = int(cursor.lastrowid or 0)
        return message.n

    def by_client_id(self, sender: str, client_id: str) -> list[Message]:
        return self._select("sender=? AND client_id=? ORDER BY n", (sender, client_id))

    def offerable(self, recipient: str, limit: int, urgent_only: bool) -> list[tuple[Message, str, str]]:
        found = self.connection.execute(
            f"SELECT {_COLUMNS}, process, offered_at FROM messages "
            f"WHERE recipient=? AND {_WAITING} AND urgent>=? ORDER BY n LIMIT ?",
            (recipient, int(urgent_only), limit),
        )
        return [(_message(row[:-2]), row[-2] or "", row[-1] or "") for row in found]

    def offer(self, recipient: str, numbers: Sequence[int], session: str, process: str, at: str) -> None:
        self.connection.execute(
            f"UPDATE messages SET stage='offered', attempt=attempt+1, session=?, process=?, offered_at=? "
            f"WHERE n IN ({marks(len(numbers))})",
            (session, process, at, *numbers),
        )

    def deliver(self, recipient: str, numbers: Sequence[int], session: str, at: str) -> list[str]:
        done = self.connection.execute(
            f"UPDATE messages SET stage='delivered', delivered_at=? "
            f"WHERE n IN ({marks(len(numbers))}) AND stage='offered' AND session=? RETURNING id",
            (at, *numbers, session),
        ).fetchall()
        self._count_unread(recipient, -len(done))
        return [row[0] for row in done]

    def acknowledge(self, recipient: str, session: str, at: str) -> list[str]:
        # Asked at each turn and nearly always for nothing: a look costs a tenth of an update that returns.
        where = "recipient=? AND session=? AND stage='delivered'"
        done = self.connection.execute(f"SELECT id FROM messages WHERE {where}", (recipient, session)).fetchall()
        if done:
            self.connection.execute(
                f"UPDATE messages SET stage='acknowledged', acknowledged_at=? WHERE {where}", (at, recipient, session)
            )
        return [row[0] for row in done]

    def acknowledge_ids(self, recipient: str, ids: Sequence[str], at: str) -> list[str]:
        # Offered: its reader may be quicker than whoever notes that the answer was written. Stored: given back since.
        which = f"id IN ({marks(len(ids))}) AND recipient=? AND attempt > 0"
        unread = self.connection.execute(f"SELECT id FROM messages WHERE {which} AND {_WAITING}", (*ids, recipient))
        self._count_unread(recipient, -len(unread.fetchall()))
        done = self.connection.execute(
            f"UPDATE messages SET stage='acknowledged', acknowledged_at=? "
            f"WHERE {which} AND stage<>'acknowledged' RETURNING id",
            (at, *ids, recipient),
        ).fetchall()
        return [row[0] for row in done]

    def seen(self, recipient: str, ids: Sequence[str]) -> list[str]:
        where = f"id IN ({marks(len(ids))}) AND recipient=? AND stage='acknowledged' ORDER BY n"
        return [row[0] for row in self.connection.execute(f"SELECT id FROM messages WHERE {where}", (*ids, recipient))]

    def unacknowledged(self, recipient: str, limit: int, after: int = 0) -> list[Message]:
        # Each half by its own index.
        delivered = f"recipient=? AND stage='delivered' AND n>? ORDER BY n LIMIT {limit:d}"
        found = self._select(delivered, (recipient, after)) + self.undelivered(recipient, after)
        return sorted(found, key=lambda message: message.n)[:limit]

    def requeue(
        self, recipient: str, *, except_session: str | None, numbers: Sequence[int] | None, session: str | None = None
    ) -> list[str]:
        where = "recipient=? AND stage IN ('offered', 'delivered')"
        values: list[Any] = [recipient]
        if except_session is not None:
            where += " AND session<>?"
            values.append(except_session)
        if session is not None:
            where += " AND session=?"
            values.append(session)
        if numbers is not None:
            where += f" AND n IN ({marks(len(numbers))})"
            values.extend(numbers)
        # Two statements, one index each: what was delivered becomes unread again, what was offered still is.
        back = self.connection.execute(
            f"UPDATE messages SET stage='stored' WHERE {where} AND stage='delivered' RETURNING id", values
        ).fetchall()
        self._count_unread(recipient, len(back))
        back += self.connection.execute(
            f"UPDATE messages SET stage='stored' WHERE {where} AND {_WAITING} AND stage='offered' RETURNING id", values
        ).fetchall()
        return [row[0] for row in back]

    def undelivered(self, recipient: str, after: int = 0) -> list[Message]:
        return self._select(f"recipient=? AND {_WAITING} AND n>? ORDER BY n", (recipient, after))

    def numbered(self, numbers: Sequence[int]) -> list[Message]:
        return self._select(f"n IN ({marks(len(numbers))}) ORDER BY n", tuple(numbers))

    def history(
        self, *, member: str | None, limit: int, before: int | None, request_id: str | None = None
    ) -> list[Message]:
        where: list[str] = ["1"]
        values: list[Any] = []
        if member is not None:
            where.append("(recipient=? OR sender=?)")
            values += [member, member]
        if before is not None:
            where.append("n<?")
            values.append(before)
        if request_id is not None:
            where.append("request_id=?")
            values.append(request_id)
        found = self._select(f"{' AND '.join(where)} ORDER BY n DESC LIMIT {limit:d}", tuple(values))
        return found[::-1]

    def unread_of(self, recipient: str) -> int:
        row = self.connection.execute("SELECT unread FROM members WHERE name=?", (recipient,)).fetchone()
        return int(row[0]) if row else 0

    def _count_unread(self, recipient: str, change: int) -> None:
        if change:
            self.connection.execute("UPDATE members SET unread = unread + ? WHERE name=?", (change, recipient))

    def _select(self, where: str, values: tuple[Any, ...]) -> list[Message]:
        return [
            _message(row) for row in self.connection.execute(f"SELECT {_COLUMNS} FROM messages WHERE {where}", values)
        ]


def _message(row: tuple[Any, ...]) -> Message:
    message = Message(*row)
    message.approve = None if row[12] is None else bool(row[12])
    message.metadata = None if row[14] is None else from_json(row[14])
    message.urgent = bool(row[15])
    return message
