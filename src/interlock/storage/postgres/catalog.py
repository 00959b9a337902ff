"""The ledgers of a PostgreSQL database: a schema for each team, and one that lists them."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Any

import psycopg
from psycopg import errors, sql

from interlock.clock import Clock, iso
from interlock.errors import InterlockError, LedgerUnusable, StorageError, TeamExists, TeamNotFound
from interlock.model.json import Json
from interlock.model.team import Member, TeamRecord
from interlock.settings import Settings
from interlock.storage.catalog import DELETING, SharedDocument
from interlock.storage.files import locked_directory, replace
from interlock.storage.postgres import schema
from interlock.storage.postgres.ledger import BACKUPS, LOCK, PostgresLedger
from interlock.storage.postgres.notices import Notices
from interlock.storage.postgres.rows import PostgresRows
from interlock.storage.postgres.server import LedgerServer, PostgresConnection
from interlock.storage.sql import VERSION, archive
from interlock.storage.sqlite.schema import versions

DEADLINE = 600_000
"""Milliseconds that one statement of what keeps ledgers may take: tables made, filled, migrated or dropped."""
SHOWN = "config.json"
"""The file in a team's directory that shows the id of the team."""
MARK = ".deleting"
"""The file in a directory that says which team, of which server, is being deleted or was."""
FOUNDATION = {
    "teams": """
CREATE SCHEMA IF NOT EXISTS {0};
CREATE TABLE IF NOT EXISTS {0}.teams (
    name text COLLATE "C" PRIMARY KEY, id text NOT NULL, schema text NOT NULL UNIQUE, version integer NOT NULL
)
""",
    "now": """
CREATE FUNCTION {0}.now() RETURNS double precision LANGUAGE sql VOLATILE RETURN extract(epoch FROM clock_timestamp())
""",
    "access": """
CREATE SCHEMA IF NOT EXISTS {0};
CREATE TABLE {0}.access (one boolean PRIMARY KEY CHECK (one), document text NOT NULL)
""",
}
"""The statements that make what all teams share: the list of them, the time, and who may come in."""


class AccessTable:
    """The `SharedDocument` of who may come in: one row beside the list of teams."""

    def __init__(self, server: LedgerServer) -> None:
        self._server = server
        self._table = sql.SQL("{}.access").format(sql.Identifier(server.schema))

    def read(self) -> Json:
        with self._server.lent() as raw:
            try:
                found = raw.execute(sql.SQL("SELECT document FROM {}").format(self._table)).fetchone()
            except (errors.UndefinedTable, errors.InvalidSchemaName):
                return {}  # Nobody was let in yet.
        return {} if found is None else dict(json.loads(found[0]))

    @contextmanager
    def changing(self) -> Iterator[Json]:
        with self._server.lent() as raw, raw.transaction():
            raw.execute(f"SET LOCAL lock_timeout = {max(1, int(self._server.patience * 1000))}")
            PostgresConnection(raw, "").execute(LOCK, (f"{self._server.schema} access",))
            if raw.execute("SELECT to_regclass(%s)", (self._table.as_string(),)).fetchone() == (None,):
                raw.execute(sql.SQL(FOUNDATION["access"]).format(sql.Identifier(self._server.schema)))
            found = raw.execute(sql.SQL("SELECT document FROM {}").format(self._table)).fetchone()
            kept = {} if found is None else json.loads(found[0])
            yield kept
            write = "INSERT INTO {} VALUES (true, %s) ON CONFLICT (one) DO UPDATE SET document = excluded.document"
            raw.execute(sql.SQL(write).format(self._table), (json.dumps(kept),))


class PostgresCatalog:
    """The ledgers in the database that the setting `ledger` names (see `catalog.Catalog`).

    Args:
        root: the directory of this machine with a directory for the files and backups of each team.
    """

    def __init__(self, url: str, root: str, settings: Settings, clock: Clock) -> None:
        self._server = LedgerServer(url, settings)
        self._root = root
        self._clock = clock
        self._teams = sql.SQL("{}.teams").format(sql.Identifier(self._server.schema))
        self._mutex = threading.Lock()
        self._open: dict[str, PostgresLedger] = {}
        self.notices = Notices(self._server)
        self.access: SharedDocument = AccessTable(self._server)

    def names(self) -> list[str]:
        return [name for (name,) in self._asked("SELECT name FROM {} ORDER BY name")]

    def exists(self, team: str) -> bool:
        return bool(self._asked("SELECT 1 FROM {} WHERE name = %s", team))

    def _asked(self, question: str, *values: object) -> list[Any]:
        with self._server.lent() as raw:
            try:
                found: list[Any] = raw.execute(sql.SQL(question).format(self._teams), values).fetchall()
                return found
            except errors.UndefinedTable:
                return []  # No team has been made here yet.

    def now(self) -> float:
        with self._server.lent() as raw:
            try:
                found = raw.execute(sql.SQL("SELECT {}.now()").format(sql.Identifier(self._server.schema))).fetchone()
            except (errors.UndefinedFunction, errors.InvalidSchemaName):  # No team has been made here yet.
                found = raw.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        return float(found[0]) if found else 0.0

    def create(self, team: TeamRecord, lead: Member, at: str) -> None:
        self._vacate(team.name, team.id)
        with self._server.lent() as raw, raw.transaction():
            PostgresRows(self._made(raw, team.name, team.id)).found(team, lead, at)
        self._room(team.name, team.id)

    def take_in(self, path: str, team: str) -> None:
        head, found = archive.read(path, VERSION)
        if self.exists(team):
            raise _taken(team)
        # Under another name it is another team, which the directory of each machine has to show.
        id = head.id if head.team == team else self._clock.new_id()
        self._vacate(team, id)
        with self._server.lent() as raw, raw.transaction():
            connection = self._made(raw, team, id)
            archive.fill(connection, found)
            for table in schema.numbered():
                place = sql.Identifier(connection.schema, table)
                said = "SELECT setval(pg_get_serial_sequence({}, 'n'), max(n)) FROM {} HAVING max(n) IS NOT NULL"
                raw.execute(sql.SQL(said).format(sql.Literal(place.as_string()), place))
        self._room(team, id)

    def _made(self, raw: psycopg.Connection[Any], team: str, id: str) -> PostgresConnection:
        """The empty tables of a new team, in a transaction that has begun.

        Raises:
            TeamExists: there is one of that name.
        """
        place = f"{self._server.schema}:{team}"[:50] + ":" + self._clock.new_id()[:8]
        self._limit(raw)
        self._found(raw)
        insert = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING").format(self._teams)
        if raw.execute(insert, (team, id, place, VERSION)).rowcount == 0:
            raise _taken(team)
        raw.execute(sql.SQL("CREATE SCHEMA {0}; SET LOCAL search_path TO {0}").format(sql.Identifier(place)))
        raw.execute(";\n".join(schema.base()))
        return PostgresConnection(raw, place)

    def _found(self, raw: psycopg.Connection[Any]) -> None:
        """Make what all teams share, where it is not there yet."""
        PostgresConnection(raw, "").execute(LOCK, (self._server.schema,))
        catalog = sql.Identifier(self._server.schema)
        if raw.execute("SELECT to_regclass(%s)", (self._teams.as_string(),)).fetchone() == (None,):
            raw.execute(sql.SQL(FOUNDATION["teams"]).format(catalog))
        if raw.execute("SELECT to_regprocedure(%s)", (f"{catalog.as_string()}.now()",)).fetchone() == (None,):
            raw.execute(sql.SQL(FOUNDATION["now"]).format(catalog))

    def script(self, *, migrates: bool = False, to: int | None = None) -> str:
        if migrates:
            numbers = versions(schema.FIRST, to)
            return "".join(f"-- To version {one}\n" + ";\n".join(schema.migration(one)) + ";\n" for one in numbers)
        listed, own = (
            sql.Identifier(name).as_string() for name in (self._server.schema, f"{self._server.schema}:TEAM:ID")
        )
        shared = [part.strip().format(listed) for part in FOUNDATION.values()]
        made = [*shared, f"CREATE SCHEMA {own}", f"SET search_path TO {own}", *schema.base()]
        return ";\n".join(made) + ";\n"

    def prepare(self) -> str:
        with self._server.lent() as raw, raw.transaction():
            self._limit(raw)
            self._found(raw)
        with self.access.changing():
            return f"{self._server.place} schema {self._server.schema}"

    def open(self, team: str) -> PostgresLedger:
        found = self._asked("SELECT id, schema, version FROM {} WHERE name = %s", team)
        with self._mutex:
            if not found:
                self._open.pop(team, None)
                raise TeamNotFound(f"Team {team!r} not found. `interlock team list` shows those there are.", team=team)
            id, place, version = found[0]
            if version != VERSION:
                self._migrate(team, place)
            ledger = self._open.get(team)
            if ledger is None or (ledger.id, ledger.schema) != (id, place):
                directory = self._room(team, id)
                ledger = self._open[team] = PostgresLedger(self._server, team, id, place, directory, self._clock)
            return ledger

    def version(self, team: str) -> tuple[int, int]:
        for (version,) in self._asked("SELECT version FROM {} WHERE name = %s", team):
            return version, VERSION
        raise TeamNotFound(f"Team {team!r} not found. `interlock team list` shows those there are.", team=team)

    def _room(self, team: str, id: str) -> str:
        """The directory of a team on this machine, which may have been made on another one.

        Raises:
            LedgerUnusable: it is another team's.
        """
        self._vacate(team, id)
        directory = os.path.join(self._root, team)
        with suppress(OSError):  # Whoever writes there says what is wrong.
            for path in (self._root, directory):
                os.makedirs(path, mode=0o700, exist_ok=True)
        return directory

    def _vacate(self, team: str, id: str) -> None:
        """Remove what a deleted team of that name left in the directory here.

        Raises:
            LedgerUnusable: the directory shows a team that was not deleted here, of files or of another server: files,
                logs and worktrees of two would be mixed.
        """
        directory = os.path.join(self._root, team)
        with suppress(OSError):
            before = self._marked(directory)
            if before not in (None, id):
                self._put_away(team, before)
        try:
            with open(os.path.join(directory, SHOWN), encoding="utf-8") as file:
                shown = json.load(file)["id"]
        except (OSError, ValueError, LookupError, TypeError):
            return
        if shown != id:
            raise LedgerUnusable(
                f"{directory} belongs to another team {team!r}, which is kept in files of this home or on another "
                "server, or was deleted on another machine. Nothing was changed. Move that directory away to work with "
                f"the team {team!r} of {self._server.place} here, or use another name.",
                path=directory,
            )

    def _mark(self, id: str) -> str:
        return f"{self._server.place}\n{self._server.schema}\n{id}"

    def _marked(self, directory: str) -> str | None:
        """The id of the team of this server whose deletion began in that directory."""
        with suppress(OSError, UnicodeError), open(os.path.join(directory, MARK), encoding="utf-8") as file:
            said = file.read()
            id = said.rpartition("\n")[2]
            return id if said == self._mark(id) else None
        return None

    def _put_away(self, team: str, id: str) -> None:
        """Remove the directory here of a team that was deleted, unless another process was faster.

        Raises:
            OSError: it cannot be.
        """
        directory = os.path.join(self._root, team)
        doomed = os.path.join(self._root, f"{DELETING}{team}-{self._clock.new_id()}")
        with suppress(FileNotFoundError), locked_directory(directory):
            listed = self._asked("SELECT 1 FROM {} WHERE name = %s AND id = %s", team, id)
            if self._marked(directory) == id and not listed:
                os.rename(directory, doomed)
                shutil.rmtree(doomed, ignore_errors=True)

    def leftovers(self, *, remove: bool = False) -> list[str]:
        listed = dict(self._asked("SELECT name, id FROM {}"))
        found = []
        for name in os.listdir(self._root) if os.path.isdir(self._root) else []:
            directory = os.path.join(self._root, name)
            id = self._marked(directory)
            if id is not None and listed.get(name) != id and not name.startswith(DELETING):
                if remove:
                    self._put_away(name, id)
                found.append(directory)
        return found

    def _limit(self, raw: psycopg.Connection[Any]) -> None:
        """No statement of this transaction waits for a lock longer than a user does, or works on without an end."""
        patience = max(1, int(self._server.patience * 1000))
        raw.execute(f"SET LOCAL lock_timeout = {patience}; SET LOCAL statement_timeout = {patience + DEADLINE}")

    def _migrate(self, team: str, place: str) -> None:
        """Bring older tables to the newest version, in one transaction.

        Raises:
            LedgerUnusable: they are newer than this version of Interlock.
        """
        with self._server.lent() as raw, raw.transaction():
            self._limit(raw)
            connection = PostgresConnection(raw, place)
            connection.execute(LOCK, (place,))
            asked = sql.SQL("SELECT version FROM {} WHERE schema = %s").format(self._teams)
            (version,) = raw.execute(asked, (place,)).fetchone() or (VERSION,)
            if version > VERSION:
                raise LedgerUnusable(
                    f"{self.location(team)} was written by a newer version of Interlock (schema {version}, this one "
                    f"knows {VERSION}). Upgrade Interlock; the ledger was not touched.",
                    schema=version,
                )
            raw.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(place)))
            rows = PostgresRows(connection)
            newest: Any = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
            rows.events.begin(newest[0])
            for number in range(version + 1, VERSION + 1):
                raw.execute(";\n".join(schema.migration(number)))
                moved = {"from": number - 1, "to": number}
                rows.events.append("ledger.migrated", "interlock", None, iso(self._clock.now()), moved)
            rows.events.flush()
            raw.execute(sql.SQL("UPDATE {} SET version = %s WHERE schema = %s").format(self._teams), (VERSION, place))

    def delete(self, team: str, at: str) -> None:
        asked = "SELECT id, schema FROM {} WHERE name = %s"
        gone = TeamNotFound(f"Team {team!r} not found: it was deleted.", team=team)
        directory = os.path.join(self._root, team)
        try:
            for id, _ in self._asked(asked, team):
                self._room(team, id)
            with locked_directory(directory):
                found = self._asked(asked, team)
                if not found:
                    raise gone
                ((id, place),) = found
                # After a crash it tells that nobody needs the directory any more.
                replace(os.path.join(directory, MARK), self._mark(id).encode())
                try:
                    if not self._drop(place):
                        raise gone
                except BaseException:
                    with suppress(InterlockError):
                        if self._asked(asked, team) == found:
                            os.unlink(os.path.join(directory, MARK))
                    raise
            self._put_away(team, id)
        except FileNotFoundError:
            raise gone from None
        except OSError as error:
            raise StorageError(f"Team {team!r} could not be deleted: {error}.", path=directory) from error
        with self._mutex:
            self._open.pop(team, None)

    def _drop(self, place: str) -> bool:
        """Whether that schema was a team's, which is none any more."""
        with self._server.lent() as raw, raw.transaction():
            self._limit(raw)
            PostgresConnection(raw, place).execute(LOCK, (place,))
            gone = raw.execute(sql.SQL("DELETE FROM {} WHERE schema = %s").format(self._teams), (place,))
            if gone.rowcount:
                raw.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(place)))
            return bool(gone.rowcount)

    def location(self, team: str) -> str:
        return f"{self._server.place} team {team}"

    def changed_since(self, team: str, at: str) -> bool:
        try:
            ((place,),) = self._asked("SELECT schema FROM {} WHERE name = %s", team)
            with self._server.lent() as raw:
                newest = PostgresConnection(raw, place).execute("SELECT at FROM events ORDER BY seq DESC LIMIT 1")
                return (newest.fetchone() or ("",))[0] >= at
        except (InterlockError, ValueError):
            return True

    def files(self, team: str) -> list[str]:
        return []

    def backups(self, team: str) -> list[str]:
        below = os.path.join(self._root, team, BACKUPS)
        try:
            found = [os.path.join(below, name) for name in os.listdir(below) if name.endswith(archive.ENDING)]
        except OSError:
            return []
        return sorted(found, key=lambda path: os.stat(path).st_mtime, reverse=True)

    def inspect(self, backup: str) -> list[str]:
        return archive.inspect(backup)

    def restoring(self, team: str, backup: str) -> tuple[str, str]:
        # The damaged one stays where it is; what is put beside it is a team of its own.
        return f"interlock ledger import {quote(backup)} --name {team[:45]}-back", self.location(team)

    def close(self) -> None:
        self.notices.close()
        self._server.close()


def _taken(team: str) -> TeamExists:
    return TeamExists(f"Team {team!r} already exists. Choose another name.", team=team)
