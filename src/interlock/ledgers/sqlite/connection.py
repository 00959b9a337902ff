"""One connection to a ledger file, set up with care.

* `synchronous=FULL`: a commit that returned survives power loss.
* No waiting inside SQLite: its own back-off sleeps up to 100 ms at a time, which gives outliers of half a second when
  eight writers meet. We try again ourselves, with short, growing, jittered pauses, until `busy_timeout` is over.
* The file is never opened by anything but SQLite: closing a second handle would drop the process's POSIX locks.
"""

from __future__ import annotations

import os
import sqlite3
import sys

from interlock.errors import InvalidRequest, LedgerBusy, LedgerUnusable, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from interlock.clock import Clock

FIRST_PAUSE = 0.000_2
LONGEST_PAUSE = 0.008
GROWTH = 1.7

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) if sys.version_info >= (3, 11) else ()


def connect(path: str, clock: Clock, patience: float) -> sqlite3.Connection:
    """A connection to an existing ledger file, with the pragmas above.

    Whoever closes a ledger last empties its log under an exclusive lock, so that even opening may have to wait.

    Raises:
        LedgerUnusable: the file cannot be opened or is no database.
        LedgerBusy: it was still locked after `patience` seconds.
    """
    try:
        connection = sqlite3.connect(
            f"file:{_quoted(path)}?mode=rw",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    try:
        execute_patiently(connection, "PRAGMA synchronous=FULL", clock, patience)
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync=ON")
            connection.execute("PRAGMA checkpoint_fullfsync=ON")
    except (sqlite3.Error, LedgerUnusable, StorageError) as error:
        connection.close()
        raise unusable(path, error.__cause__ or error) from error
    except LedgerBusy:
        connection.close()
        raise
    return connection


def unusable(path: str, error: BaseException) -> LedgerUnusable:
    """The error for a file that is no sound ledger."""
    return LedgerUnusable(
        f"The ledger {path} cannot be used: {error}. `interlock doctor` says more; backups lie beside it.", path=path
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection merely has the lock."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _BUSY


def execute_patiently(
    connection: sqlite3.Connection, sql: str, clock: Clock, patience: float, parameters: Sequence[Any] = ()
) -> sqlite3.Cursor:
    """Run a statement that may meet another's lock, trying again with exponential backoff and jitter.

    Raises:
        LedgerBusy: it was still locked after `patience` seconds.
        StorageError: the disk is full, read-only or failing.
    """
    pause = FIRST_PAUSE
    deadline: float | None = None
    while True:
        try:
            return connection.execute(sql, parameters)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise translated(error) from error
        now = clock.monotonic()
        if deadline is None:
            deadline = now + patience
        if now >= deadline:
            raise LedgerBusy(
                f"The ledger stayed locked for {patience:g} s and nothing was changed. Try again; "
                "the setting busy_timeout makes Interlock wait longer.",
                setting="busy_timeout",
            )
        clock.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
        pause = min(pause * GROWTH, LONGEST_PAUSE)


TRANSLATED = (sqlite3.Error, UnicodeEncodeError, OverflowError)


def translated(error: Exception) -> Exception:
    """Our error for one of SQLite's that is the machine's or the caller's fault; the same error where it is ours."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidRequest(f"A name, id or text is not valid Unicode: {error.reason}. Nothing was changed.")
    if isinstance(error, OverflowError):
        return InvalidRequest("A number is too large to be one of the ledger's. Nothing was changed.")
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return StorageError(
            f"The ledger could not be written: {error}. Nothing was changed. Free space or mend the permissions "
            "of the team's directory, then try again."
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerUnusable(f"The ledger is damaged: {error}. `interlock doctor` says more; backups lie beside it.")
    return error


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
