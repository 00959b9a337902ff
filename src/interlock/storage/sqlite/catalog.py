"""The SQLite ledgers of a home: `<root>/<team>/ledger.db`.

A team is made in a directory with a name of its own and appears by one rename; it is deleted by a rename inside its
last transaction. So nobody ever sees, or commits to, half a team. `interlock doctor` removes what a crash left, and
sees by the lock on such a directory that a living process is still at work in it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading

from interlock.clock import Clock
from interlock.errors import StorageError, TeamExists, TeamNotFound
from interlock.model.team import Member, Team
from interlock.settings import Settings
from interlock.storage.files import locked_directory
from interlock.storage.sqlite.connection import connect, execute_patiently, refuse_network_file_system, translated
from interlock.storage.sqlite.ledger import SqliteLedger
from interlock.storage.sqlite.recovery import reading
from interlock.storage.sqlite.rows import SqliteRows
from interlock.storage.sqlite.schema import create_schema, inspect, is_foreign, migrate, newest

FILE = "ledger.db"
CREATING = ".creating-"
DELETING = ".deleting-"


class SqliteCatalog:
    """The ledgers below `root`, a directory of this machine (see `catalog.Catalog`)."""

    def __init__(self, root: str, settings: Settings, clock: Clock, migrations: str | None = None) -> None:
        self._root = root
        self._settings = settings
        self._clock = clock
        self._migrations = migrations
        self._mutex = threading.Lock()
        self._open: dict[str, SqliteLedger] = {}
        self._ours: dict[str, int] = {}  # Files that were seen to be ledgers, each with its inode.

    def names(self) -> list[str]:
        try:
            names = os.listdir(self._root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"{self._root} cannot be read: {error}.", path=self._root) from error
        return sorted(name for name in names if not name.startswith(".") and self.exists(name))

    def exists(self, team: str) -> bool:
        path = self._path(team)
        try:
            found = os.stat(path)
        except OSError as error:
            return not isinstance(error, (FileNotFoundError, NotADirectoryError))
        if self._ours.get(path) != found.st_ino:
            if is_foreign(path):
                return False
            self._ours[path] = found.st_ino
        return True

    def create(self, team: Team, lead: Member, at: str) -> None:
        directory = os.path.join(self._root, team.name)
        unfinished = os.path.join(self._root, f"{CREATING}{team.name}-{self._clock.new_id()}")
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            os.mkdir(unfinished, 0o700)
            with locked_directory(unfinished):
                self._fill(os.path.join(unfinished, FILE), team, lead, at)
                os.rename(unfinished, directory)  # The system refuses to put it over another team's directory.
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            if os.path.isdir(directory):
                raise TeamExists(f"Team {team.name!r} already exists. Choose another name.", team=team.name) from None
            raise StorageError(f"Cannot create a team in {self._root}: {error}.", path=self._root) from error

    def _fill(self, path: str, team: Team, lead: Member, at: str) -> None:
        try:
            connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        except sqlite3.Error as error:
            raise StorageError(f"Cannot create the ledger {path}: {error}.", path=path) from error
        try:
            os.chmod(path, 0o600)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            create_schema(connection, self._migrations)
            rows = SqliteRows(connection)
            connection.execute("BEGIN IMMEDIATE")
            rows.team.insert(team)
            rows.team.add_member(lead)
            rows.events.append("team.created", lead.name, None, at, {"name": team.name, "lead": team.lead_session_key})
            spawned = {"name": lead.name, "session_key": lead.session_key, "agent": None}
            rows.events.append("member.spawned", lead.name, None, at, spawned)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            connection.close()

    def open(self, team: str) -> SqliteLedger:
        schema, path = newest(self._migrations), self._path(team)
        with self._mutex:
            ledger = self._open.get(team)
            if ledger is not None and ledger.is_current():
                return ledger
            if ledger is not None:
                # The team was deleted, and perhaps created again: what is open here is the old one.
                self._open.pop(team).close()
            if not self.exists(team):
                raise TeamNotFound(f"Team {team!r} not found. `interlock team list` shows those there are.", team=team)
            ledger = SqliteLedger(path, team, schema, self._settings, self._clock)
            refuse_network_file_system(path)
            ledger.use(self._migrated(path, schema))
            self._open[team] = ledger
            return ledger

    def _migrated(self, path: str, schema: int) -> sqlite3.Connection | None:
        """A connection to write with; None where the disk cannot be written but the ledger can be read."""
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

    def delete(self, team: str, at: str) -> None:
        directory = os.path.join(self._root, team)
        doomed = os.path.join(self._root, f"{DELETING}{team}-{self._clock.new_id()}")
        try:
            with locked_directory(directory):
                self._move_away(team, directory, doomed, at)
                self._forget(team)
                shutil.rmtree(doomed, ignore_errors=True)
        except FileNotFoundError:
            raise TeamNotFound(f"Team {team!r} not found: it was deleted.", team=team) from None

    def _move_away(self, team: str, directory: str, doomed: str, at: str) -> None:
        try:
            with self.open(team).transaction() as rows:
                rows.team.update(rows.team.get(), status="deleted", updated_at=at)
                # Inside the transaction: nobody commits meanwhile, and a crash leaves the whole team or none.
                os.rename(directory, doomed)
        except (OSError, StorageError) as error:
            if not os.path.isdir(doomed):
                raise StorageError(f"Team {team!r} could not be deleted: {error}.", path=directory) from error

    def inspect(self, backup: str) -> list[str]:
        return inspect(backup)

    def close(self) -> None:
        with self._mutex:
            ledgers, self._open = list(self._open.values()), {}
        for ledger in ledgers:
            ledger.close()

    def _forget(self, team: str) -> None:
        with self._mutex:
            ledger = self._open.pop(team, None)
        if ledger is not None:
            ledger.close()

    def _path(self, team: str) -> str:
        return os.path.join(self._root, team, FILE)
