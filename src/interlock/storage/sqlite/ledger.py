"""One team's ledger file: transactions and snapshots.

One write connection per process and team behind a mutex, and a handful of read connections that are reused
(TEAM-pool). A transaction checks that the file it is about to change is still the team's: a team that was deleted
meanwhile, or created again under the same name, is another file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress

from interlock.clock import Clock, iso
from interlock.errors import InterlockError, LedgerUnusable, StorageError, TeamNotFound
from interlock.settings import Settings
from interlock.storage import sql
from interlock.storage.away import once_told
from interlock.storage.ledger import Rows
from interlock.storage.sql.events import Stamp
from interlock.storage.sql.rows import SqlRows
from interlock.storage.sql.team import START as BEGINNING
from interlock.storage.sqlite.connection import (
    TRANSLATED,
    busy,
    connect,
    execute_patiently,
    raised_by_sql,
    translated,
)
from interlock.storage.sqlite.recovery import is_undone, reading, recover, unknown
from interlock.storage.sqlite.schema import backup, backup_path, tables

START = BEGINNING.format("(SELECT user_version FROM pragma_user_version)")
LostCommit = tuple[Stamp | None, sqlite3.Error]
"""The last event of a commit that failed, None without any, and its error."""
IDLE_READERS = 4
COMMITS_PER_LOOK = 16
"""How often a process checks the size of the log: at its first commit, which may be its only one, then at every
sixteenth."""


class SqliteRows(SqlRows):
    """See `ledger.Rows`."""

    connection: sqlite3.Connection
    earlier = "strftime('%Y-%m-%dT%H:%M:%fZ', {}, ?1)"
    earlier_at = "json_replace({0}, '$.at', strftime('%Y-%m-%dT%H:%M:%fZ', json_extract({0}, '$.at'), ?1))"


class SqliteLedger:
    """One team's ledger file (see `ledger.Ledger`). Safe to share among threads."""

    def __init__(self, path: str, team: str, schema: int, settings: Settings, clock: Clock) -> None:
        self.location = path
        self.id = None
        self._team = team
        self._schema = schema
        self.clock = self._clock = clock
        self._patience = float(settings.get("busy_timeout"))
        self._wal_bytes = int(settings.get("wal_bytes"))
        self._mutex = threading.Lock()
        self._watching = threading.Lock()
        self._writer: SqliteRows | None = None
        self._readers: list[SqliteRows] = []
        self._watch: sqlite3.Connection | None = None
        self._commits = 0
        self._unknown = False  # Whether a commit failed and recovery has not yet shown what became of it.
        self._file = self._file_id()

    def use(self, connection: sqlite3.Connection | None) -> None:
        """Write through a connection that is already open."""
        self._writer = None if connection is None else SqliteRows(connection)

    @contextmanager
    def transaction(self, entering: tuple[str, str | None] | None = None) -> Iterator[Rows]:
        started = self._clock.monotonic()
        # A thread of this process is waited for as long as another process, and both together no longer.
        if not self._mutex.acquire(timeout=self._patience):
            raise busy(self._patience)
        try:
            lost = yield from self._transaction(max(0.0, started + self._patience - self._clock.monotonic()))
        finally:
            self._mutex.release()
        if lost is not None:
            self._settle(*lost)

    def _transaction(self, patience: float) -> Generator[Rows, None, LostCommit | None]:
        self._check_still_there()
        if self._unknown:
            self._recover()
        rows = self._writer = self._writer or SqliteRows(self._connect())
        try:
            execute_patiently(rows.connection, "BEGIN IMMEDIATE", self._clock, patience, path=self.location)
        except StorageError:
            # A connection that was opened while nothing could be written stays read-only.
            self._writer = None
            rows.connection.close()
            raise
        try:
            # A team is deleted by a rename in its last transaction, so that the place of the file tells it.
            self._check_still_there()
            (schema,) = rows.begin(rows.connection.execute(START).fetchone())
            self._check_schema(schema)
            yield rows
            rows.events.flush()
        except BaseException as error:
            self._roll_back(rows.connection)
            if isinstance(error, TRANSLATED) and raised_by_sql(error):
                raise translated(error, self.location) from error
            raise
        try:
            rows.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(rows.connection)
            if is_undone(error):
                raise translated(error, self.location) from error
            self._unknown = True
            return rows.events.last, error
        self._bound_log(rows.connection)
        return None

    def _settle(self, event: Stamp | None, error: sqlite3.Error) -> None:
        """Find out what became of a commit that failed; return only if it stands."""

        def look() -> bool | None:
            with suppress(InterlockError, sqlite3.Error), self._mutex:
                return self._recover(event)
            return None

        stands = look() if event is None else once_told(look)
        if stands is None:
            raise unknown(self.location, error) from error
        if not stands:
            raise translated(error, self.location) from error

    def _recover(self, event: Stamp | None = None) -> bool | None:
        """Close the ledger and open it again, which recovers it. See `recovery.recover`."""
        self._close()
        self._writer = SqliteRows(connect(self.location, self._clock, self._patience))
        found = recover(self._writer.connection, event, self.location, self._clock, self._patience)
        self._unknown = False
        return found

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        self._check_still_there()
        try:
            rows = self._readers.pop()
        except IndexError:
            try:
                rows = SqliteRows(self._connect())
            except StorageError as error:
                with reading(self.location, error) as connection:
                    rows = SqliteRows(connection)
                    rows.begin(connection.execute(START).fetchone())
                    yield rows
                return
        try:
            rows.connection.execute("BEGIN")
            # BEGIN alone takes no lock: this read fixes the moment, and waits where the log is being recovered.
            rows.begin(execute_patiently(rows.connection, START, self._clock, self._patience).fetchone())
            yield rows
            rows.connection.execute("ROLLBACK")
        except BaseException as error:
            rows.connection.close()
            if isinstance(error, TRANSLATED) and raised_by_sql(error):
                raise translated(error, self.location) from error
            raise
        if len(self._readers) < IDLE_READERS:
            self._readers.append(rows)
        else:
            rows.connection.close()

    def watch(self) -> Callable[[], bool]:
        seen = self._version()

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, self._version()
            return seen != before

        return changed

    def _version(self) -> int:
        # A mutex of its own: a waiter does not wait behind a writer.
        with self._watching:
            if self._watch is None:
                self._watch = self._connect()
            cursor = execute_patiently(self._watch, "PRAGMA data_version", self._clock, self._patience)
            return int(cursor.fetchone()[0])

    def check(self) -> list[str]:
        with self.snapshot() as rows:
            found = rows.connection.execute("PRAGMA integrity_check").fetchall()  # type: ignore[attr-defined]
        return [line for (line,) in found if line != "ok"]

    def back_up(self, label: str) -> str:
        path = backup_path(self.location, label, iso(self._clock.now()))
        self.copy_to(path)
        return path

    def export(self, path: str) -> str:
        at = iso(self._clock.now())
        with self.snapshot() as rows:
            head = sql.archive.Head(self._team, rows.team.get().id, self._schema, at)
            return sql.archive.write(path, head, rows.connection, tables(rows.connection))  # type: ignore[attr-defined]

    def retire(self, rows: Rows) -> str:
        kept = backup_path(self.location, "moved", iso(self._clock.now()))
        try:
            # With its log, under names that match.
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.rename(self.location + ending, kept + ending)
        except OSError as error:
            raise StorageError(f"The ledger cannot be put aside: {error}.", path=self.location) from error
        return kept

    def copy_to(self, path: str) -> None:
        """Copy the ledger, consistent, to a new file.

        Raises:
            StorageError: it cannot be written.
        """
        backup(self.location, path, self._clock, self._patience)

    def close(self) -> None:
        with self._mutex:
            self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.connection.close()
        self._writer = None
        # Taken out one by one: another thread that takes one at this moment has it to itself.
        with suppress(IndexError):
            while True:
                self._readers.pop().connection.close()
        with self._watching:
            if self._watch is not None:
                self._watch.close()
            self._watch = None

    def is_current(self) -> bool:
        """Whether the file at its path is still the one that was opened."""
        try:
            return self._file_id() == self._file
        except TeamNotFound:
            return False

    def _connect(self) -> sqlite3.Connection:
        try:
            return connect(self.location, self._clock, self._patience)
        except LedgerUnusable:
            self._check_still_there()  # Deleted at this very moment?
            raise

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # Closing undoes the transaction as well; the next one opens a new connection.
            self._writer = None
            connection.close()

    def _bound_log(self, connection: sqlite3.Connection) -> None:
        # SQLite's own checkpoints reuse the log but never shrink it, and a long reader keeps it growing.
        self._commits += 1
        if self._commits % COMMITS_PER_LOOK != 1:
            return
        try:
            if os.stat(self.location + "-wal").st_size > self._wal_bytes:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (OSError, sqlite3.Error):
            return  # The commit stands; a reader is in the way, and a later commit will try again.

    def _file_id(self) -> tuple[int, int]:
        try:
            found = os.stat(self.location)
        except FileNotFoundError:
            raise self._gone() from None
        except OSError as error:
            raise translated(error, self.location) from error
        return found.st_dev, found.st_ino

    def _check_still_there(self) -> None:
        if self._file_id() != self._file:
            raise self._gone()

    def _check_schema(self, found: int) -> None:
        # Another process may have migrated it since it was opened here.
        if found != self._schema:
            raise LedgerUnusable(
                f"Another version of Interlock has changed {self.location} to schema {found}; this process knows "
                f"{self._schema}. Nothing was changed. End this process, and start it again with that version.",
                path=self.location,
                schema=found,
            )

    def _gone(self) -> TeamNotFound:
        return TeamNotFound(
            f"Team {self._team!r} not found: it was deleted. `interlock team list` shows the others.", team=self._team
        )
