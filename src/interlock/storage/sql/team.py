"""The team's row, its members and their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock import model
from interlock.model.team import ActingMember, LedgerStart, Member, TeamRecord
from interlock.storage.sql import delivery
from interlock.storage.sql.table import JSON, Aggregate, SqlConnection, Table, as_json, from_json

_TEAM = tuple(
    "id name lead_session_key status workdir settings created_at updated_at day day_count open_tasks runner "
    "landed".split()
)
START = (
    f"SELECT {', '.join(f'team.{name}' for name in _TEAM)}, seq, at, {{}} "
    "FROM team LEFT JOIN events ON seq = (SELECT max(seq) FROM events)"
)
"""What every transaction and snapshot begins with: the team's row, the newest event, and what else is asked."""
KEPT = "ended_at IS NULL AND gone_at IS NULL AND process IS NOT NULL AND id LIKE 'run:%'"
"""Living sessions that runners hold."""
ENTER = (
    "UPDATE members SET last_active_at = ?3, session = coalesce(?2, 'cli:' || name) "
    "WHERE name = ?1 OR session_key = ?1 RETURNING name, role, status, agent, "
    "EXISTS (SELECT 1 FROM sessions WHERE member = members.name AND id = members.session AND ended_at IS NULL), "
    "EXISTS (SELECT 1 FROM messages WHERE recipient = members.name AND messages.session = members.session "
    "AND stage = 'delivered')"
)


class SqlTeam(Table[Member]):
    """See `ledger.TeamRows`. The order in which members joined is that of the table's rows."""

    name = "members"
    keys = ("name",)
    columns = (
        "name", "session_key", "inbox", "role", "agent", "command", "type", "model", "permissions", "status", "unread",
        "session", "joined_at", "last_active_at", "env", "limits",
    )  # fmt: skip
    coders = {"command": JSON, "env": JSON, "limits": JSON}  # noqa: RUF012

    def _make(self, *values: Any) -> Member:
        *head, env, limits = values
        return Member(*(*head, None, env, limits))

    def __init__(self, connection: SqlConnection) -> None:
        super().__init__(connection)
        self._unchanged: Sequence[Any] | None = None

    def begin(self, found: Sequence[Any]) -> tuple[LedgerStart, Sequence[Any]]:
        """A transaction or snapshot begins with what `START` found; that, and what else was asked."""
        self._unchanged = row = found[: len(_TEAM)]
        head, at, *others = found[len(_TEAM) :]
        settings = from_json(row[5]) if row[5] != "{}" else {}
        return LedgerStart(head or 0, at or "", row[1], settings, row[4]), others

    def get(self) -> TeamRecord:
        row = list(self._unchanged or self._row(f"SELECT {', '.join(_TEAM)} FROM team"))
        row[5] = from_json(row[5])
        return TeamRecord(*row)

    def insert(self, team: TeamRecord) -> None:
        """Store the one row of a new team."""
        self.connection.execute(
            "INSERT INTO team (id, name, lead_session_key, status, workdir, created_at, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (team.id, team.name, team.lead_session_key, team.status, team.workdir, team.created_at, team.updated_at),
        )
        self.update(team, settings=team.settings)

    def update(self, team: TeamRecord, **changes: Any) -> None:
        encoded = {name: as_json(value) if name == "settings" else value for name, value in changes.items()}
        assignments = ", ".join(f"{name}=?" for name in encoded)
        self._unchanged = None
        self.connection.execute(f"UPDATE team SET {assignments}", tuple(encoded.values()))
        for name, value in changes.items():
            setattr(team, name, value)

    def number_task(self, day: str) -> tuple[int, int]:
        # On another day than last time, what is there already counts: a clock that was set back comes to a day again.
        self._unchanged = None
        counted = "SELECT count(*) FROM tasks WHERE id >= 'TASK-' || ?1 || '-' AND id < 'TASK-' || ?1 || '.'"
        found: tuple[int, int] = self._row(
            "UPDATE team SET open_tasks = open_tasks + 1, day = ?1, "
            f"day_count = 1 + CASE day WHEN ?1 THEN day_count ELSE ({counted}) END RETURNING day_count, open_tasks",
            day,
        )
        return found

    def count_open(self, change: int) -> None:
        self._unchanged = None
        self.connection.execute("UPDATE team SET open_tasks = open_tasks + ?", (change,))

    def add_member(self, member: Member) -> None:
        # Somebody of that name may have been here before and left mail unread: it is this member's now.
        counted = "SELECT count(*) FROM messages WHERE recipient=? AND stage IN ('stored', 'offered')"
        member.unread = int(self._row(counted, member.name)[0])
        self._add(member)

    def update_member(self, member: Member, **changes: Any) -> None:
        self._change(member, changes)

    def remove_member(self, name: str) -> None:
        self.connection.execute("DELETE FROM members WHERE name=?", (name,))

    def member(self, name: str) -> Member | None:
        return self._first("name=?", name)

    def members(self) -> list[Member]:
        return self._select("true ORDER BY CASE role WHEN 'lead' THEN 0 WHEN 'member' THEN 1 ELSE 2 END, rowid")

    def inbox_taken(self, directory: str) -> str | None:
        row = self._row("SELECT name FROM members WHERE lower(inbox) = lower(?)", directory)
        return None if row is None else str(row[0])

    def enter(self, name: str, session: str | None, at: str) -> ActingMember | None:
        return self._entered(self._rows(ENTER, name, session, at))

    @staticmethod
    def _entered(rows: list[Any]) -> ActingMember | None:
        if not rows:
            return None
        own, role, status, agent, known, delivered = rows[0]
        return ActingMember(own, role, status, agent, bool(known), bool(delivered))

    def address(self, name: str) -> tuple[str, str, str, int] | None:
        found: tuple[str, str, str, int] | None = self._row(
            "SELECT name, inbox, role, unread FROM members WHERE name=?1 OR session_key=?1", name
        )
        return found

    def workers(self) -> dict[str, model.worker.WorkerRecord]:
        return {one.name: one for one in SqlWorkers(self.connection).all()}

    def put_worker(self, worker: model.worker.WorkerRecord) -> None:
        SqlWorkers(self.connection).put(worker)

    def names(self) -> list[str]:
        return self._firsts("SELECT name FROM members ORDER BY rowid")


class SqlWorkers(Table[Any]):
    """Part of `ledger.TeamRows`."""

    name = "workers"
    keys = ("name",)
    columns = (
        "name", "process", "host", "version", "labels", "members", "parallel", "load", "status", "status_at",
        "began_at", "beat_at", "ended_at",
    )  # fmt: skip
    coders = {"labels": JSON, "members": JSON}  # noqa: RUF012

    def _make(self, *values: Any) -> model.worker.WorkerRecord:
        return model.worker.WorkerRecord(*values)

    def all(self) -> list[model.worker.WorkerRecord]:
        return self._select("true ORDER BY name")

    def put(self, worker: model.worker.WorkerRecord) -> None:
        changes = ", ".join(f"{name}=excluded.{name}" for name in self.columns[1:])
        self._add(worker, clause=f"ON CONFLICT (name) DO UPDATE SET {changes}")


class SqlSessions(Aggregate):
    """See `ledger.SessionRows`."""

    def known(self, member: str, session: str) -> bool:
        where = "member=? AND id=? AND ended_at IS NULL"
        return self._row(f"SELECT 1 FROM sessions WHERE {where}", member, session) is not None

    def begin(self, member: str, session: str, at: str, process: str | None, program: str | None = None) -> None:
        self.connection.execute(
            "INSERT INTO sessions (member, id, began_at, process, program) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (member, id) DO UPDATE SET ended_at = NULL, gone_at = NULL, process = excluded.process, "
            "program = coalesce(excluded.program, sessions.program)",
            (member, session, at, process, program),
        )

    def end(self, member: str, session: str, at: str) -> None:
        where = "member=? AND id=? AND ended_at IS NULL"
        self.connection.execute(f"UPDATE sessions SET ended_at=? WHERE {where}", (at, member, session))

    def joined(
        self, session: str | None = None, process: str | None = None
    ) -> list[tuple[str, str, str | None, str | None]]:
        which, values = "ended_at IS NULL", tuple[str, ...]()
        if session is not None:
            which, values = "id = ?", (session,)
        elif process is not None:
            which, values = "process = ?", (process,)
        return self._rows(
            f"SELECT member, id, process, ended_at FROM sessions WHERE program IS NOT NULL AND {which} "
            "ORDER BY began_at DESC, member",
            *values,
        )

    def hold_work(self, member: str, session: str) -> bool:
        where = "ended_at IS NULL AND runner IS NULL AND member=? AND session=?"
        return self._row(f"SELECT 1 FROM runs WHERE {where} LIMIT 1", member, session) is not None

    def sent_back(self, member: str, session: str) -> bool:
        row = self._row("SELECT sent_back FROM sessions WHERE member=? AND id=?", member, session)
        return row is not None and bool(row[0])

    def note_sent_back(self, member: str, session: str, sent: bool) -> None:
        self.connection.execute(delivery.NOTE_SENT_BACK, (sent, member, session))

    def living(self, member: str) -> list[tuple[str, str | None]]:
        where = "member=? AND ended_at IS NULL ORDER BY began_at"
        return self._rows(f"SELECT id, process FROM sessions WHERE {where}", member)

    def of_runners(self) -> list[tuple[str, str, str]]:
        return self._rows(f"SELECT member, id, process FROM sessions WHERE {KEPT} ORDER BY member, id")

    def get(self, member: str, session: str) -> tuple[str | None, str | None] | None:
        found: tuple[str | None, str | None] | None = self._row(
            "SELECT process, coalesce(gone_at, ended_at) FROM sessions WHERE member=? AND id=?", member, session
        )
        return found

    def note_alive(self, member: str, session: str, process: str | None) -> None:
        self.connection.execute(delivery.NOTE_ALIVE, (process, member, session))

    def note_gone(self, member: str, session: str, at: str) -> None:
        where = "member=? AND id=? AND gone_at IS NULL"
        self.connection.execute(f"UPDATE sessions SET gone_at=? WHERE {where}", (at, member, session))
