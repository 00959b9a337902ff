"""The server that ledgers are on: its connections, its errors as ours, and the statements that it takes.

Within a transaction statements are sent in pipeline mode: those that answer nothing wait for no answer, so that a verb
costs a round trip for each thing it reads, not for each thing it writes. Nothing is set for a connection, only for a
transaction, and tables are named with their schema: a pooler may give each transaction another connection.
"""

from __future__ import annotations

import logging
import re
import select
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any

import psycopg
from psycopg import conninfo, errors, pq, sql

from interlock.clock import Clock
from interlock.errors import InvalidRequest, LedgerBusy, LedgerUnusable, StorageError
from interlock.settings import Settings
from interlock.storage.postgres.schema import tables

IDLE = 4
"""Connections that a process keeps open while nobody needs them."""
MOST = 16
"""Connections that it has at once."""
OLDEST = 15
"""The oldest version of PostgreSQL that is tested."""
KEEP_ALIVE = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""A server that is gone without a word is noticed."""
_REFUSALS: tuple[tuple[tuple[type[psycopg.Error], ...], bool, str], ...] = (
    (
        (errors.InsufficientPrivilege,),
        False,
        "{place} refuses: {said}. Nothing was changed. The role needs CREATE on the database, and everyone who shares "
        "these teams needs the role that made them: GRANT CREATE ON DATABASE … TO …",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        True,
        "The ledger at {place} is read-only at the moment: the server is a standby, or was told to change nothing. "
        "Nothing was changed. Try again once it takes changes, or name the server that does in the setting ledger.",
    ),
    (
        (errors.DiskFull,),
        True,
        "The disk of the server at {place} is full: {said}. Nothing was changed. Free space there, then try again.",
    ),
    (
        (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName),
        False,
        "A pooler such as PgBouncer stands before {place}, and prepared statements do not pass it: {said}. Nothing was "
        "changed. Set ledger_direct to the address of the server itself; where there is none, to that of ledger, and "
        "ledger_notices to false.",
    ),
    (
        (psycopg.OperationalError, psycopg.InterfaceError),
        True,
        "The ledger at {place} could not be reached or written: {said}. Nothing was changed. Check the server and the "
        "setting ledger, then try again.",
    ),
)
"""Whether errors of a kind may pass, and what is said of them; the first that fits."""
_LIST = "(SELECT value FROM json_each(?))"

# What psycopg has to say, it raises as well.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class LedgerServer:
    """A database, and the connections to it that nobody uses at the moment. Safe to share among threads.

    Nothing looks at the address before it is needed: whoever set a wrong one must be able to set another.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self.schema = str(settings.get("ledger_schema"))
        """The schema that lists the teams."""
        self.patience = float(settings.get("busy_timeout"))
        self._address = url
        direct = str(settings.get("ledger_direct"))
        self._direct_address = direct or url
        # Behind a pooler a statement that was prepared on one connection is run on another.
        self._prepare = None if direct else 5
        self._idle: list[psycopg.Connection[Any]] = []
        self._reached = False
        self._free = threading.BoundedSemaphore(MOST)

    @cached_property
    def place(self) -> str:
        """Where it is, for messages: without a password. Raises StorageError: the setting is no address."""
        found = _parsed("ledger", self._address)
        return f"postgresql://{found.get('host', 'localhost')}/{found.get('dbname', '')}"

    @cached_property
    def _url(self) -> str:
        found = _parsed("ledger", self._address)
        _parsed("ledger_direct", self._direct_address)  # Who listens there has nobody to tell.
        return conninfo.make_conninfo(**{"application_name": "interlock", **KEEP_ALIVE, **found})

    @contextmanager
    def lent(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection without a transaction. One that is left inside is rolled back; errors are ours.

        Raises:
            LedgerBusy: all of this process's are in use.
            LedgerUnusable: the server is too old.
            StorageError: the setting is no address, or the server cannot be reached, or refuses.
        """
        if not self._free.acquire(timeout=max(self.patience, 0.1)):
            raise busy(self.place, self.patience)
        try:
            raw = self._taken()
            try:
                yield raw
            except errors.ReadOnlySqlTransaction:
                # It follows another server now, and so do the others that are open: reach the new one.
                raw.close()
                self.close()
                raise
            finally:
                self._give_back(raw)
        except psycopg.Error as error:
            raise translated(error, self.place, self.patience) from error
        finally:
            self._free.release()

    def _taken(self) -> psycopg.Connection[Any]:
        while True:
            try:
                raw = self._idle.pop()
            except IndexError:
                return self._connected()
            if not select.select([raw.fileno()], [], [], 0)[0]:
                return raw
            raw.close()  # Nothing was asked: the server has said that it ends.

    def _connected(self) -> psycopg.Connection[Any]:
        patience = max(2, round(self.patience))
        pause, until = 0.05, time.monotonic() + self.patience
        url = self._url
        while True:
            try:
                found = psycopg.connect(url, autocommit=True, prepare_threshold=self._prepare, connect_timeout=patience)
            except psycopg.OperationalError:
                # A server that was there a moment ago is perhaps being restarted.
                if not self._reached or time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
            else:
                if (version := found.info.server_version // 10_000) < OLDEST:
                    found.close()
                    raise LedgerUnusable(
                        f"The server at {self.place} is PostgreSQL {version}, and a ledger needs {OLDEST} or newer. "
                        "Nothing was changed.",
                        path=self.place,
                    )
                self._reached = True
                return found

    def direct(self) -> psycopg.Connection[Any]:
        """A connection that no pooler is between, where the settings name the way; not one of those that are lent.

        Raises:
            psycopg.Error: there is none to be had.
        """
        url = conninfo.make_conninfo(self._direct_address, application_name="interlock", **KEEP_ALIVE)
        return psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None)

    def _give_back(self, raw: psycopg.Connection[Any]) -> None:
        try:
            if raw.info.transaction_status != pq.TransactionStatus.IDLE:
                raw.rollback()
        except psycopg.Error:
            raw.close()
        if not raw.closed:
            self._idle.append(raw) if len(self._idle) < IDLE else raw.close()

    def close(self) -> None:
        """Close what nobody uses."""
        while self._idle:
            self._idle.pop().close()


class ServerClock:
    """Time as the server has it: told with each transaction, and carried on by the ticks of this machine.

    What a transaction dates is never later than its commit, nor earlier than the commit before: the server tells its
    time once the lock is held.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = (clock.now(), clock.monotonic())

    def tell(self, now: float) -> None:
        """It is `now` on the server."""
        self._told = (now, self._clock.monotonic())

    def now(self) -> float:
        now, ticks = self._told
        return now + (self._clock.monotonic() - ticks)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def new_id(self) -> str:
        return self._clock.new_id()


@lru_cache(maxsize=4096)
def translate(statement: str, schema: str, before: int = 0) -> str:
    """`?` and `?2` as `$1` and `$2`, `before` values later, `[name]` as `"name"`, and tables with their schema."""
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        if found[2]:
            return f'"{found[2]}"'
        count += 1
        return f"${before + int(found[1] or count)}"

    named = _tables().sub(rf"\1 {sql.Identifier(schema).as_string()}.\2", statement)
    named = named.replace(_LIST, "(SELECT value::bigint FROM json_array_elements_text(?::json))")
    return re.sub(r"\?(\d*)|\[(\w+)\]", one, named)


@lru_cache
def _tables() -> re.Pattern[str]:
    return re.compile(rf"\b(FROM|JOIN|INTO|UPDATE) ({'|'.join(tables())})\b")


@lru_cache(maxsize=4096)
def _named(statement: str) -> tuple[frozenset[str], str | None]:
    """The tables that a statement names, and the one it writes where it does nothing else."""
    named = [table for _, table in _tables().findall(statement)]
    writes = named and statement.startswith(("INSERT", "UPDATE", "DELETE")) and " RETURNING " not in statement
    return frozenset(named), named[0] if writes else None


class PostgresConnection:
    """Runs the statements that the ledgers share, over a connection of psycopg's (see `sql.table.SqlConnection`)."""

    def __init__(self, raw: psycopg.Connection[Any], schema: str) -> None:
        self.raw = raw
        self.schema = schema

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        return self._run(translate(statement, self.schema), values)

    def _run(self, statement: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        cursor = psycopg.RawCursor(self.raw)
        with _encoding():
            cursor.execute(statement, _plain(values))
        return cursor

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> psycopg.Cursor[Any]:
        cursor = psycopg.RawCursor(self.raw)
        with _encoding():
            cursor.executemany(translate(statement, self.schema), [_plain(row) for row in rows])
        return cursor

    def flush(self) -> None:
        """Send what is kept here: nothing is."""


class WritingConnection(PostgresConnection):
    """Keeps what is written until its tables are named again, or `flush` is called, and sends it as one statement.

    The parts of one statement see the tables as they were before it.
    """

    def __init__(self, raw: psycopg.Connection[Any], schema: str) -> None:
        super().__init__(raw, schema)
        self._parts: list[str] = []
        self._values: list[Any] = []
        self._tables: set[str] = set()

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        named, written = _named(statement)
        if not self._tables.isdisjoint(named):
            self.flush()
        if written is None:
            return super().execute(statement, values)
        self._parts.append(translate(statement, self.schema, len(self._values)))
        self._values += values
        self._tables.add(written)
        return psycopg.RawCursor(self.raw)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> psycopg.Cursor[Any]:
        self.flush()
        return super().executemany(statement, rows)

    def flush(self) -> None:
        """Send what was written and is still here."""
        if self._parts:
            *parts, last = self._parts
            before = ", ".join(f"part{number} AS ({part})" for number, part in enumerate(parts))
            values, self._parts, self._values, self._tables = self._values, [], [], set()
            self._run(f"WITH {before} {last}" if before else last, values)


def _plain(values: Sequence[Any]) -> list[Any]:
    # Flags are numbers in the ledger; PostgreSQL's text has no NUL.
    return [
        int(value) if isinstance(value, bool)
        else value.replace("\0", "␀") if isinstance(value, str) and "\0" in value
        else value
        for value in values
    ]  # fmt: skip


@contextmanager
def _encoding() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"A name, id or text is not valid Unicode: {error.reason}. Nothing was changed."
        ) from error


def _parsed(setting: str, address: str) -> dict[str, Any]:
    """The parts of an address. What it was, is not said again: it may hold a password.

    Raises:
        StorageError: it is none.
    """
    try:
        return conninfo.conninfo_to_dict(address)
    except psycopg.Error as error:
        scheme, separator, _ = address.partition("://")
        said = "it does not begin with postgresql://"
        if separator and scheme in ("postgresql", "postgres"):
            said = re.sub(r'[: ]*"[^"]*"', "", str(error)).strip()
            said += ". Write % as %25, @ as %40 and : as %3A in a password" if "percent" in said else ""
        raise StorageError(
            f"The setting {setting} is no address of a PostgreSQL server: {said}. Set one, postgresql://USER@HOST/DATABASE."
        ) from None  # The other one quotes the address.


def translated(error: Exception, place: str, patience: float) -> Exception:
    """Our error for one of the server's, the network's or the caller's fault; the same error where it is ours."""
    if isinstance(error, (errors.LockNotAvailable, errors.SerializationFailure)):
        return busy(place, patience)
    if isinstance(error, errors.NumericValueOutOfRange):
        return InvalidRequest("A number is too large to be one of the ledger's. Nothing was changed.")
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)):
        return LedgerUnusable(
            f"The schema at {place} is not the one this version of Interlock expects: {error}. Nothing was changed."
        )
    if isinstance(error, psycopg.Error):
        said = " ".join((error.diag.message_primary or str(error)).split()).rstrip(".?")
        for kinds, away, text in _REFUSALS:
            if isinstance(error, kinds):
                return StorageError(text.format(place=place, said=said), path=place, away=away)
    return error


def busy(place: str, patience: float) -> LedgerBusy:
    """The error for a ledger that stayed locked for `patience` seconds."""
    return LedgerBusy(
        f"The ledger at {place} stayed locked for {patience:g} s and nothing was changed. Try again; "
        "the setting busy_timeout makes Interlock wait longer.",
        setting="busy_timeout",
    )
