"""The SQLite ledgers of a home: `<root>/<team>/ledger.db`.

A team is made in a directory with a name of its own and appears by one rename; it is deleted by a rename inside its
last transaction. So nobody ever sees, or commits to, half a team. `interlock doctor` removes what a crash left, and
sees by the lock on such a directory that a living process is still at work in it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from itertools import count

from interlock.clock import Clock, iso
from interlock.errors import StorageError, TeamExists, TeamNotFound
from interlock.model.team import Member, TeamRecord
from interlock.settings import Settings
from interlock.storage import sql
from interlock.storage.catalog import CREATING, DELETING, SharedDocument
from interlock.storage.files import locked_directory
from interlock.storage.sqlite import FILE
from interlock.storage.sqlite.connection import connect, execute_patiently, refuse_network_file_system, translated
from interlock.storage.sqlite.ledger import SqliteLedger, SqliteRows
from interlock.storage.sqlite.recovery import reading
from interlock.storage.sqlite.schema import (
    BACKUPS,
    create_schema,
    inspect,
    is_foreign,
    migrate,
    newest,
    script,
    versions,
)


class SqliteCatalog:
    """The ledgers below `root`, a directory of this machine (see `catalog.Catalog`)."""

    access: SharedDocument | None = None

    def __init__(self, root: str, settings: Settings, clock: Clock, migrations: str | None = None) -> None:
        self._root = root
        self._settings = settings
        self._clock = clock
        self._migrations = migrations
        self._mutex = threading.Lock()
        self._open: dict[str, SqliteLedger] = {}
        self._ours: dict[str, int] = {}  # Files that were seen to be ledgers, each with its inode.

    def script(self, *, migrates: bool = False, to: int | None = None) -> str:
        return script(versions(1 if migrates else 0, to))

    def prepare(self) -> str:
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self._root} cannot be made: {error}.", path=self._root) from error
        return self._root

    def names(self) -> list[str]:
        try:
            names = os.listdir(self._root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"{self._root} cannot be read: {error}.", path=self._root) from error
        found = sorted(name for name in names if not name.startswith(".") and self.exists(name))
        self._let_go(found)
        return found

    def _let_go(self, there: Collection[str]) -> None:
        """Close the ledgers of teams that were deleted, perhaps by another process: a server would keep them."""
        with self._mutex:
            gone = [name for name, one in self._open.items() if name not in there and not one.is_current()]
            closing = [self._open.pop(name) for name in gone]
        for ledger in closing:
            ledger.close()

    def exists(self, team: str) -> bool:
        path = self.location(team)
        try:
            found = os.stat(path)
        except OSError as error:
            return not isinstance(error, (FileNotFoundError, NotADirectoryError))
        if self._ours.get(path) != found.st_ino:
            if is_foreign(path):
                return False
            self._ours[path] = found.st_ino
        return True

    def now(self) -> float:
        return self._clock.now()

    def create(self, team: TeamRecord, lead: Member, at: str) -> None:
        self._make(team.name, lambda rows: rows.found(team, lead, at))

    def take_in(self, path: str, team: str) -> None:
        _, found = sql.archive.read(path, newest(self._migrations))
        self._make(team, lambda rows: sql.archive.fill(rows.connection, found), into=True)

    def _make(self, team: str, fill: Callable[[SqliteRows], None], *, into: bool = False) -> None:
        """Make a ledger; `into` a directory too that shows one which was elsewhere until now."""
        import shutil  # slow to load, and few commands make or delete a team

        directory = os.path.join(self._root, team)
        unfinished = os.path.join(self._root, f"{CREATING}{team}-{self._clock.new_id()}")
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            os.mkdir(unfinished, 0o700)
            with locked_directory(unfinished):
                self._fill(os.path.join(unfinished, FILE), fill)
                if into and os.path.isdir(directory):
                    if not self.exists(team):
                        for log in self.files(team)[1:]:
                            with suppress(FileNotFoundError):
                                os.unlink(log)
                    os.link(os.path.join(unfinished, FILE), os.path.join(directory, FILE))
                    shutil.rmtree(unfinished)
                else:
                    os.rename(unfinished, directory)  # The system refuses to put it over another team's directory.
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            if os.path.isdir(directory):
                raise TeamExists(f"Team {team!r} already exists. Choose another name.", team=team) from None
            raise StorageError(
                f"{self._root} cannot be made or written: {error.strerror or error}. Name another home with --home or "
                "INTERLOCK_HOME.",
                path=self._root,
            ) from error

    def _fill(self, path: str, fill: Callable[[SqliteRows], None]) -> None:
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
            fill(rows)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            connection.close()

    def open(self, team: str) -> SqliteLedger:
        schema, path = newest(self._migrations), self.location(team)
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

    def version(self, team: str) -> tuple[int, int]:
        if not self.exists(team):
            raise TeamNotFound(f"Team {team!r} not found. `interlock team list` shows those there are.", team=team)
        patience = float(self._settings.get("busy_timeout"))
        with closing(connect(self.location(team), self._clock, patience)) as connection:
            found = execute_patiently(connection, "PRAGMA user_version", self._clock, patience).fetchone()
            return int(found[0]), newest(self._migrations)

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
        import shutil

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

    def leftovers(self, *, remove: bool = False) -> list[str]:
        return []  # They have no name of their own any more when the ledger is gone.

    def location(self, team: str) -> str:
        return os.path.join(self._root, team, FILE)

    def changed_since(self, team: str, at: str) -> bool:
        # What was committed last is in the log, or, where that was emptied, in the file.
        times = [os.stat(path).st_mtime for path in self.files(team)[:2] if os.path.exists(path)]
        return iso(max(times, default=0)) >= at

    def files(self, team: str) -> list[str]:
        # The log and its index are made with the ledger's mode, and keep it.
        return [self.location(team) + ending for ending in ("", "-wal", "-shm")]

    def backups(self, team: str) -> list[str]:
        below = os.path.join(self._root, team, BACKUPS)
        try:
            found = [os.path.join(below, name) for name in os.listdir(below) if name.endswith(".db")]
        except OSError:
            return []
        return sorted(found, key=lambda path: os.stat(path).st_mtime, reverse=True)

    def inspect(self, backup: str) -> list[str]:
        return inspect(backup)

    def restoring(self, team: str, backup: str) -> tuple[str, str]:
        from shlex import quote

        ledger, directory = quote(self.location(team)), os.path.join(self._root, team)
        aside = next(path for path in map(f"{directory}/damaged-{{}}".format, count(1)) if not os.path.exists(path))
        # With its log, under names that match: what was committed last may lie in the log alone.
        kept = quote(aside)
        return f"mkdir -m 700 {kept} && mv {ledger}* {kept} && cp {quote(backup)} {ledger}", aside

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
