"""One team's ledger in a schema of a PostgreSQL database.

One writer a team: each transaction takes the team's advisory lock, as a statement of its own before anything is read,
so that what it reads is what the writer before it committed. The lock is not held while the disk is waited for: a
commit lets the next writer in, and is answered once the disk has it. What the next one builds on it reaches the disk
after it, or not at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from interlock.clock import Clock, iso
from interlock.errors import (
    CommitUnknown,
    InterlockError,
    LedgerBusy,
    LedgerUnusable,
    StorageError,
    TeamNotFound,
)
from interlock.storage.away import once_told
from interlock.storage.ledger import Rows
from interlock.storage.postgres.rows import PostgresRows
from interlock.storage.postgres.schema import tables
from interlock.storage.postgres.server import (
    LedgerServer,
    PostgresConnection,
    ServerClock,
    WritingConnection,
    busy,
    translated,
)
from interlock.storage.sql import VERSION, archive
from interlock.storage.sql.events import Stamp
from interlock.storage.sql.team import ENTER, START

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"
_LOCKED = (
    "SELECT set_config('lock_timeout', ?, true), set_config('synchronous_commit', 'off', true), "
    "pg_advisory_xact_lock(hashtextextended(?, 0))"
)
"""Nothing is read in it: what was committed while it waited is seen by the statement after it."""
FLUSH = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, true), pg_logical_emit_message(true, 'interlock', '')"
)
"""Waits until what was committed before it is on disk, also on a server that was told not to wait."""
_ENTERED = "LEFT JOIN entered ON true"
BACKUPS = "backups"
_ENDS = (psycopg.OperationalError, errors.ReadOnlySqlTransaction)
"""What the server, or a pooler before it, says when it goes: it may have committed what it was sent before."""


class PostgresLedger:
    """One team's ledger (see `ledger.Ledger`). Safe to share among threads.

    Args:
        schema: the schema of this team's tables.
        id: the team's id, which tells it from a later one of its name.
        directory: where its backups are put.
    """

    def __init__(self, server: LedgerServer, team: str, id: str, schema: str, directory: str, clock: Clock) -> None:
        self.location = f"{server.place} schema {schema}"
        self.id = id
        self._server = server
        self._team = team
        self.schema = schema
        self._directory = directory
        self.clock = self._clock = ServerClock(clock)
        self._mutex = threading.Lock()
        # The catalog says of which version the tables are, or that they are gone, and what time it is.
        catalog = f'"{server.schema}"'
        now = f"{catalog}.now()"
        self._start = START.format(f"(SELECT version FROM {catalog}.teams WHERE schema = ?1), {now}")
        at = f"to_char(to_timestamp({now}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
        enter = ENTER.replace("?3", at).replace("?2", "?3").replace("?1", "?2")
        begun = START.format(f"(SELECT version FROM {catalog}.teams WHERE schema = ?1), {now}, entered.*")
        self._enter = f"WITH entered (own, role, status, agent, known, delivered) AS ({enter}) {begun} {_ENTERED}"

    @contextmanager
    def transaction(self, entering: tuple[str, str | None] | None = None) -> Iterator[Rows]:
        started, patience = self._clock.monotonic(), self._server.patience
        # A thread of this process is waited for as long as another process, and both together no longer.
        if not self._mutex.acquire(timeout=patience):
            raise busy(self.location, patience)
        lost: psycopg.Error | None = None
        done: psycopg.Cursor[Any] | None = None
        held = True
        try:
            with self._server.lent() as raw:
                try:
                    with raw.pipeline():
                        left = max(1, int(1000 * (started + patience - self._clock.monotonic())))
                        raw.execute("BEGIN", prepare=False)
                        PostgresConnection(raw, "").execute(_LOCKED, (str(left), self.schema))
                        rows = self._begun(raw, entering)
                        yield rows
                        rows.events.flush()
                        rows.connection.flush()
                        done = psycopg.Cursor(raw)
                        done.execute("COMMIT", prepare=False)
                        raw.execute(FLUSH)
                        # They are sent at once, and the answers awaited where the block ends: who comes next, is let
                        # in by the server.
                        self._mutex.release()
                        held = False
                except psycopg.Error as error:
                    if done is None or not (raw.closed or isinstance(error, _ENDS)):
                        raise
                    if not raw.closed and isinstance(error, errors.DiskFull) and done.statusmessage is None:
                        raise  # Of something written before: the commit was not carried out.
                    lost = error
                else:
                    if done.statusmessage is None:  # A pipeline whose connection ends between two answers ends quietly.
                        lost = psycopg.OperationalError("the server ended before it answered")
        finally:
            if held:
                self._mutex.release()
        if lost is not None:
            self._settle(rows.events.last, lost)
        elif done is not None and done.statusmessage != "COMMIT":
            raise StorageError(f"{self.location} undid a change. Nothing was changed.", path=self.location)

    def _settle(self, event: Stamp | None, error: psycopg.Error) -> None:
        """Find out what became of a commit whose answer was lost; return only if it stands. The lock is that of the
        old connection until the server has ended it."""

        def look() -> tuple[object] | None:
            assert event is not None
            sql = "SELECT seq, type, at, actor FROM events WHERE seq = ?"
            with suppress(CommitUnknown, LedgerBusy, StorageError), self.transaction() as rows:
                return (rows.connection.execute(sql, event[:1]).fetchone(),)  # type: ignore[attr-defined]
            return None

        found = None
        if event is not None:
            with suppress(InterlockError):
                found = once_told(look)
        if found is None:
            raise CommitUnknown(
                f"The connection to {self.location} was lost while a change was committed: whether it was made is not "
                "known. Look whether it is there before you try again.",
                path=self.location,
            ) from error
        if found[0] != event:
            raise translated(error, self.location, self._server.patience) from error

    @contextmanager
    def snapshot(self) -> Iterator[Rows]:
        with self._server.lent() as raw, raw.pipeline():
            raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", prepare=False)
            yield self._begun(raw)
            raw.execute("ROLLBACK", prepare=False)

    def _begun(self, raw: psycopg.Connection[Any], entering: tuple[str, str | None] | None = None) -> PostgresRows:
        """The rows of a transaction that has begun."""
        connection = WritingConnection(raw, self.schema)
        rows = PostgresRows(connection)
        asked = (self._start, (self.schema,)) if entering is None else (self._enter, (self.schema, *entering))
        try:
            found: Any = connection.execute(*asked).fetchone()
        except errors.UndefinedTable as error:
            raise self._gone() from error
        schema, now, *entered = rows.begin(found)
        if schema is None:
            raise self._gone()
        if schema != VERSION:
            raise LedgerUnusable(
                f"Another version of Interlock has changed {self.location} to schema {schema}; this process knows "
                f"{VERSION}. Nothing was changed. End this process, and start it again with that version.",
                path=self.location,
                schema=schema,
            )
        self.clock.tell(now)
        if entering is not None:
            rows.team.asked = (entering, entered)
        return rows

    def _gone(self) -> TeamNotFound:
        return TeamNotFound(
            f"Team {self._team!r} not found: it was deleted. `interlock team list` shows the others.", team=self._team
        )

    def watch(self) -> Callable[[], bool]:
        seen = self._newest()

        def changed() -> bool:
            nonlocal seen
            before = seen
            try:
                seen = self._newest()
            except InterlockError:
                return True  # Whoever looks now, is told.
            return seen != before

        return changed

    def _newest(self) -> int:
        with self._server.lent() as raw:
            found = PostgresConnection(raw, self.schema).execute("SELECT max(seq) FROM events").fetchone()
            return int(found[0] or 0) if found else 0

    def check(self) -> list[str]:
        with self.snapshot() as rows:
            look = "SELECT count(*), coalesce(max(seq) - min(seq) + 1, 0) FROM events WHERE seq > ?"
            count, expected = rows.connection.execute(look, (rows.upkeep.pruned(),)).fetchone()  # type: ignore[attr-defined]
        return [] if count == expected else [f"{expected - count} of {expected} events are missing"]

    def export(self, path: str) -> str:
        with self.snapshot() as rows:
            head = archive.Head(self._team, self.id, VERSION, iso(self._clock.now()))
            return archive.write(path, head, rows.connection, tables())  # type: ignore[attr-defined]

    def retire(self, rows: Rows) -> str:
        rows.connection.raw.execute(f'DELETE FROM "{self._server.schema}".teams WHERE schema = %s', (self.schema,))  # type: ignore[attr-defined]
        return self.location

    def back_up(self, label: str) -> str:
        at = iso(self._clock.now())
        directory = os.path.join(self._directory, BACKUPS)
        stamp = at.replace(":", "").replace(".", "")
        path = os.path.join(directory, f"ledger-{label}-{stamp}-{os.getpid()}{archive.ENDING}")
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"No backup could be made in {directory}: {error}.", path=directory) from error
        self.export(path)
        return path

    def close(self) -> None:
        self._server.close()
