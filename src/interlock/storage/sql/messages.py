"""Mail and the stages of its delivery. `members.unread` changes with the stages, in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.model.message import Message
from interlock.storage.sql import delivery
from interlock.storage.sql.table import FLAG, JSON, Table, as_json, marks

_WAITING = "stage IN ('stored', 'offered')"


class SqlMessages(Table[Message]):
    """See `ledger.MessageRows`."""

    name = "messages"
    keys = ("n",)
    columns = (
        "n", "id", "sender", "recipient", "type", "content", "summary", "timestamp", "stage", "attempt", "session",
        "request_id", "approve", "reason", "metadata", "urgent",
    )  # fmt: skip
    coders = {"approve": FLAG, "metadata": JSON, "urgent": FLAG}  # noqa: RUF012
    _make = Message

    def insert(self, message: Message, client_id: str | None) -> int:
        later = {"n", "attempt", "session"} if message.metadata else {"n", "attempt", "session", "metadata"}
        names = [name for name in self.columns if name not in later]
        values = self.encoded(names, [getattr(message, name) for name in names])
        cursor = self.connection.execute(
            f"INSERT INTO messages ({', '.join(names)}, client_id) VALUES ({marks(len(names) + 1)}) RETURNING n",
            (*values, client_id),
        )
        self._count_unread(message.recipient, 1)
        message.n = int(cursor.fetchone()[0])
        return message.n

    def by_client_id(self, sender: str, client_id: str) -> list[Message]:
        return self._select("sender=? AND client_id=? ORDER BY n", sender, client_id)

    def offerable(self, recipient: str, limit: int, urgent_only: bool) -> list[tuple[Message, str, str]]:
        found = self._rows(
            f"SELECT {self._list}, process, offered_at FROM messages "
            f"WHERE recipient=? AND {_WAITING} AND urgent>=? ORDER BY n LIMIT ?",
            recipient,
            int(urgent_only),
            limit,
        )
        return [(self.decoded(row[:-2]), row[-2] or "", row[-1] or "") for row in found]

    def offer(self, recipient: str, numbers: Sequence[int], session: str, process: str, at: str) -> None:
        self.connection.execute(delivery.OFFER, (session, process, at, as_json(numbers)))

    def deliver(self, recipient: str, numbers: Sequence[int], session: str, at: str) -> list[str]:
        done = self._firsts(delivery.DELIVER, at, as_json(numbers), session)
        self._count_unread(recipient, -len(done))
        return done

    def acknowledge(self, recipient: str, session: str, at: str) -> list[str]:
        done = self._firsts(delivery.UNACKNOWLEDGED, recipient, session)
        if done:
            self.connection.execute(delivery.ACKNOWLEDGE, (at, recipient, session))
        return done

    def acknowledge_ids(self, recipient: str, ids: Sequence[str], at: str) -> list[str]:
        # Offered: its reader may be quicker than whoever notes that the answer was written. Stored: given back since.
        which = f"id IN ({marks(len(ids))}) AND recipient=? AND attempt > 0"
        unread = self._row(f"SELECT count(*) FROM messages WHERE {which} AND {_WAITING}", *ids, recipient)
        self._count_unread(recipient, -unread[0])
        return self._firsts(
            f"UPDATE messages SET stage='acknowledged', acknowledged_at=? "
            f"WHERE {which} AND stage<>'acknowledged' RETURNING id",
            at,
            *ids,
            recipient,
        )

    def seen(self, recipient: str, ids: Sequence[str]) -> list[str]:
        where = f"id IN ({marks(len(ids))}) AND recipient=? AND stage='acknowledged' ORDER BY n"
        return self._firsts(f"SELECT id FROM messages WHERE {where}", *ids, recipient)

    def unacknowledged(self, recipient: str, limit: int, after: int = 0) -> list[Message]:
        # Each half by its own index.
        delivered = self._select(
            "recipient=? AND stage='delivered' AND n>? ORDER BY n LIMIT ?", recipient, after, limit
        )
        return sorted(delivered + self.undelivered(recipient, after), key=lambda message: message.n)[:limit]

    def requeue(
        self, recipient: str, *, except_session: str | None, numbers: Sequence[int] | None, session: str | None = None
    ) -> list[str]:
        where, values = "recipient=?", list[object]([recipient])
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
        set_back = f"UPDATE messages SET stage='stored' WHERE {where}"
        back = self._firsts(f"{set_back} AND stage='delivered' RETURNING id", *values)
        self._count_unread(recipient, len(back))
        return back + self._firsts(f"{set_back} AND {_WAITING} AND stage='offered' RETURNING id", *values)

    def undelivered(self, recipient: str, after: int = 0) -> list[Message]:
        return self._select(f"recipient=? AND {_WAITING} AND n>? ORDER BY n", recipient, after)

    def numbered(self, numbers: Sequence[int]) -> list[Message]:
        return self._select(f"n IN ({marks(len(numbers))}) ORDER BY n", *numbers)

    def history(
        self, *, member: str | None, limit: int, before: int | None, request_id: str | None = None
    ) -> list[Message]:
        where, values = ["true"], list[object]()
        if member is not None:
            where.append("(recipient=? OR sender=?)")
            values += [member, member]
        if before is not None:
            where.append("n<?")
            values.append(before)
        if request_id is not None:
            where.append("request_id=?")
            values.append(request_id)
        return self._select(f"{' AND '.join(where)} ORDER BY n DESC LIMIT ?", *values, limit)[::-1]

    def unread_of(self, recipient: str) -> int:
        row = self._row("SELECT unread FROM members WHERE name=?", recipient)
        return int(row[0]) if row else 0

    def _count_unread(self, recipient: str, change: int) -> None:
        if change:
            self.connection.execute(delivery.COUNT_UNREAD, (change, recipient))
