"""The SQLite ledgers of a home: found, made, opened, migrated and kept open."""

from __future__ import annotations

import os
import sqlite3
import threading

from interlock.clock import Clock
from interlock.errors import StorageError
from interlock.model.team import Member, Team
from interlock.settings import Settings
from interlock.storage.sqlite.connection import connect, execute_patiently, refuse_network_file_system, translated
from interlock.storage.sqlite.ledger import SqliteLedger
from interlock.storage.sqlite.recovery import reading
from interlock.storage.sqlite.rows import SqliteRows
from interlock.storage.sqlite.schema import create_schema, inspect, is_foreign, migrate, newest

FILE = "ledger.db"


class SqliteCatalog:
    """Opens ledgers and keeps them open (`ledger.Ledgers`)."""

    def __init__(self, settings: Settings, clock: Clock, migrations: str | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._migrations = migrations
        self._mutex = threading.Lock()
        self._open: dict[str, SqliteLedger] = {}
        self._ours: dict[str, int] = {}  # Files that were seen to be ledgers, each with its inode.

    def create(self, directory: str, team: Team, lead: Member, at: str) -> None:
        """See `ledger.Ledgers.create`."""
        path = os.path.join(directory, FILE)
        try:
            connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        except sqlite3.Error as error:
            raise StorageError(f"No ledger could be made in {directory}: {error}.", path=directory) from error
        try:
            os.chmod(path, 0o600)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            create_schema(connection, self._migrations)
            rows = SqliteRows(connection)
            connection.execute("BEGIN IMMEDIATE")
            rows.insert_team(team)
            rows.team.add_member(lead)
            rows.events.append("team.created", lead.name, None, at, {"name": team.name, "lead": team.lead_session_key})
            rows.events.append(
                "member.spawned",
                lead.name,
                None,
                at,
                {"name": lead.name, "session_key": lead.session_key, "agent": None},
            )
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            connection.close()

    def has(self, directory: str) -> bool:
        """See `ledger.Ledgers.has`."""
        path = os.path.join(directory, FILE)
        try:
            found = os.stat(path)
        except OSError as error:
            return not isinstance(error, (FileNotFoundError, NotADirectoryError))
        if self._ours.get(path) != found.st_ino:
            if is_foreign(path):
                return False
            self._ours[path] = found.st_ino
        return True

    def open(self, directory: str) -> SqliteLedger:
        """See `ledger.Ledgers.open`."""
        schema = newest(self._migrations)
        with self._mutex:
            ledger = self._open.get(directory)
            if ledger is not None and ledger.is_current():
                return ledger
            if ledger is not None:
                # The team was deleted and made anew, perhaps by another process: what we have open is the old one.
                self._open.pop(directory).close()
            path = os.path.join(directory, FILE)
            ledger = SqliteLedger(path, schema, self._settings, self._clock)
            refuse_network_file_system(path)
            ledger.use(self._migrated(path, schema))
            self._open[directory] = ledger
            return ledger

    def inspect(self, path: str) -> list[str]:
        """See `ledger.Ledgers.inspect`."""
        return inspect(path)

    def forget(self, directory: str) -> None:
        """Close the ledger in `directory`, if it is open here."""
        with self._mutex:
            ledger = self._open.pop(directory, None)
        if ledger is not None:
            ledger.close()

    def close(self) -> None:
        """See `ledger.Ledgers.close`."""
        with self._mutex:
            ledgers, self._open = list(self._open.values()), {}
        for ledger in ledgers:
            ledger.close()

    def _migrated(self, path: str, schema: int) -> sqlite3.Connection | None:
        """A connection to write with; None where the disk takes nothing, but lets the ledger be read."""
        patience = float(self._settings.get("busy_timeout"))
        try:
            connection = connect(path, self._clock, patience)
        except StorageError as error:
            with reading(path, error) as still:
                if still.execute("PRAGMA user_version").fetchone()[0] != schema:
                    raise
            return None
        try:
            version = int(execute_patiently(connection, "PRAGMA user_version", self._clock, patience).fetchone()[0])
            if version != schema:
                migrate(connection, path, version, self._clock, patience, self._migrations)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise translated(error, path) from error
            raise
        return connection
