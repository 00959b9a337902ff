"""The team's row, its members and their sessions."""

from __future__ import annotations

from typing import Any

from interlock.model.team import Member, Team
from interlock.storage.sqlite.table import Table, as_json, assign, from_json

_TEAM = (
    "id, name, lead_session_key, status, workdir, settings, created_at, updated_at, day, day_count, open_tasks, runner"
)
_MEMBER = (
    "name, session_key, inbox, role, agent, command, type, model, permissions, status, unread, session, "
    "joined_at, last_active_at, env, limits"
)


class SqliteTeam(Table):
    """See `ledger.TeamRows`."""

    name = "members"
    key = "name"
    columns = tuple(_MEMBER.split(", "))
    json_columns = frozenset({"command", "env", "limits"})

    def get(self) -> Team:
        row = list(self.connection.execute(f"SELECT {_TEAM} FROM team").fetchone())
        row[5] = from_json(row[5])
        return Team(*row)

    def insert(self, team: Team) -> None:
        """Store the one row of a new team."""
        self.connection.execute(
            "INSERT INTO team (id, name, lead_session_key, status, workdir, created_at, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (team.id, team.name, team.lead_session_key, team.status, team.workdir, team.created_at, team.updated_at),
        )
        self.update(team, settings=team.settings)

    def is_deleted(self) -> bool:
        """Whether the team's last act was its own deletion."""
        return bool(self.connection.execute("SELECT status = 'deleted' FROM team").fetchone()[0])

    def settings(self) -> dict[str, Any]:
        text = self.connection.execute("SELECT settings FROM team").fetchone()[0]
        return from_json(text) if text != "{}" else {}

    def update(self, team: Team, **changes: Any) -> None:
        encoded = {k: as_json(v) if k == "settings" else v for k, v in changes.items()}
        assignments = ", ".join(f"{name}=?" for name in encoded)
        self.connection.execute(f"UPDATE team SET {assignments}", tuple(encoded.values()))
        assign(team, changes)

    def day_number(self, day: str) -> int:
        # On another day than last time, what is there already counts: a clock that was set back comes to a day again.
        self.connection.execute(
            "UPDATE team SET day_count = 1 + CASE day WHEN ?1 THEN day_count ELSE "
            "(SELECT count(*) FROM tasks WHERE id >= 'TASK-' || ?1 || '-' AND id < 'TASK-' || ?1 || '.') END, day = ?1",
            (day,),
        )
        return int(self.connection.execute("SELECT day_count FROM team").fetchone()[0])

    def count_open(self, change: int) -> int:
        self.connection.execute("UPDATE team SET open_tasks = open_tasks + ?", (change,))
        return int(self.connection.execute("SELECT open_tasks FROM team").fetchone()[0])

    def add_member(self, member: Member) -> None:
        # Somebody of that name may have been here before and left mail unread: it is this member's now.
        member.unread = int(
            self.connection.execute(
                "SELECT count(*) FROM messages WHERE recipient=? AND stage IN ('stored', 'offered')", (member.name,)
            ).fetchone()[0]
        )
        values = [self.encoded(column, getattr(member, column)) for column in self.columns]
        self.connection.execute(f"INSERT INTO members ({_MEMBER}) VALUES (?{', ?' * (len(values) - 1)})", values)

    def update_member(self, member: Member, **changes: Any) -> None:
        self.write(member.name, changes)
        assign(member, changes)

    def remove_member(self, name: str) -> None:
        self.connection.execute("DELETE FROM members WHERE name=?", (name,))

    def member(self, name: str) -> Member | None:
        return self._one("name=?", name)

    def member_by_key(self, session_key: str) -> Member | None:
        return self._one("session_key=?", session_key)

    def members(self) -> list[Member]:
        found = self.connection.execute(
            f"SELECT {_MEMBER} FROM members "
            "ORDER BY CASE role WHEN 'lead' THEN 0 WHEN 'member' THEN 1 ELSE 2 END, rowid"
        )
        return [_member(row) for row in found]

    def inbox_taken(self, directory: str) -> str | None:
        row = self.connection.execute("SELECT name FROM members WHERE inbox = ?", (directory,)).fetchone()
        return None if row is None else str(row[0])

    def session_known(self, member: str, session: str) -> bool:
        found = self.connection.execute(
            "SELECT 1 FROM sessions WHERE member=? AND id=? AND ended_at IS NULL", (member, session)
        )
        return found.fetchone() is not None

    def begin_session(
        self, member: str, session: str, at: str, process: str | None, program: str | None = None
    ) -> None:
        self.connection.execute(
            "INSERT INTO sessions (member, id, began_at, process, program) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (member, id) DO UPDATE SET ended_at = NULL, gone_at = NULL, process = excluded.process, "
            "program = coalesce(excluded.program, program)",
            (member, session, at, process, program),
        )

    def seats(
        self, session: str | None = None, process: str | None = None
    ) -> list[tuple[str, str, str | None, str | None]]:
        which, values = "ended_at IS NULL", tuple[str | None, ...]()
        if session is not None or process is not None:
            which, values = ("id = ?", (session,)) if session is not None else ("process = ?", (process,))
        return self.connection.execute(
            "SELECT member, id, process, ended_at FROM sessions "
            f"WHERE program IS NOT NULL AND {which} ORDER BY began_at DESC, member",
            values,
        ).fetchall()

    def holds_work(self, member: str, session: str) -> bool:
        found = self.connection.execute(
            "SELECT 1 FROM runs WHERE ended_at IS NULL AND runner IS NULL AND member=? AND session=? LIMIT 1",
            (member, session),
        )
        return found.fetchone() is not None

    def sent_back(self, member: str, session: str) -> bool:
        found = self.connection.execute("SELECT sent_back FROM sessions WHERE member=? AND id=?", (member, session))
        row = found.fetchone()
        return row is not None and bool(row[0])

    def note_sent_back(self, member: str, session: str, sent: bool) -> None:
        self.connection.execute(
            "UPDATE sessions SET sent_back=?1 WHERE member=?2 AND id=?3 AND sent_back != ?1", (sent, member, session)
        )

    def end_session(self, member: str, session: str, at: str) -> None:
        self.connection.execute(
            "UPDATE sessions SET ended_at=? WHERE member=? AND id=? AND ended_at IS NULL", (at, member, session)
        )

    def living_sessions(self, member: str) -> list[tuple[str, str | None]]:
        return self.connection.execute(
            "SELECT id, process FROM sessions WHERE member=? AND ended_at IS NULL ORDER BY began_at", (member,)
        ).fetchall()

    def kept_sessions(self) -> list[tuple[str, str]]:
        return self.connection.execute(
            "SELECT member, id FROM sessions WHERE ended_at IS NULL AND id LIKE 'run:%' ORDER BY member, id"
        ).fetchall()

    def session(self, member: str, session: str) -> tuple[str | None, str | None] | None:
        found: tuple[str | None, str | None] | None = self.connection.execute(
            "SELECT process, coalesce(gone_at, ended_at) FROM sessions WHERE member=? AND id=?", (member, session)
        ).fetchone()
        return found

    def session_lives(self, member: str, session: str, process: str | None) -> None:
        self.connection.execute(
            "UPDATE sessions SET gone_at = NULL, process = CASE WHEN program IS NULL THEN coalesce(?1, process) "
            "ELSE process END WHERE member=?2 AND id=?3 "
            "AND (gone_at IS NOT NULL OR (?1 IS NOT NULL AND process IS NOT ?1 AND program IS NULL))",
            (process, member, session),
        )

    def note_gone(self, member: str, session: str, at: str) -> None:
        self.connection.execute(
            "UPDATE sessions SET gone_at=? WHERE member=? AND id=? AND gone_at IS NULL", (at, member, session)
        )

    def touch(self, member: str, session: str, at: str) -> None:
        """Note that a member acted."""
        self.connection.execute("UPDATE members SET last_active_at=?, session=? WHERE name=?", (at, session, member))

    def address(self, name: str) -> tuple[str, str, str, int] | None:
        """(name, inbox, role, unread) of a member, by name or session key: all that mail needs."""
        found: tuple[str, str, str, int] | None = self.connection.execute(
            "SELECT name, inbox, role, unread FROM members WHERE name=?1 OR session_key=?1", (name,)
        ).fetchone()
        return found

    def names(self) -> list[str]:
        """The names of all members and people."""
        return [name for (name,) in self.connection.execute("SELECT name FROM members ORDER BY rowid")]

    def _one(self, where: str, value: str) -> Member | None:
        row = self.connection.execute(f"SELECT {_MEMBER} FROM members WHERE {where}", (value,)).fetchone()
        return None if row is None else _member(row)


def _member(row: tuple[Any, ...]) -> Member:
    named = dict(zip(SqliteTeam.columns, row, strict=True))
    for column in SqliteTeam.json_columns:
        if named[column] is not None:
            named[column] = from_json(named[column])
    return Member(**named)
