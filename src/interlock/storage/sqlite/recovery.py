"""When the disk fails: what became of a commit, and how a ledger is read where nothing can be written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.clock import Clock
from interlock.errors import CommitUnknown, StorageError
from interlock.storage.sql.events import Stamp
from interlock.storage.sqlite.connection import TRANSLATED, busy, execute_patiently, is_busy, quoted, translated

LOOK_AGAIN = 0.01


def is_undone(error: sqlite3.Error) -> bool:
    """Whether a COMMIT that failed so left nothing behind.

    The log's last page, which makes a commit of what was written, was not reached. An error after that, such as a
    failed fsync, leaves a whole commit in the log that nobody sees until the log is recovered.
    """
    code = getattr(error, "sqlite_errorcode", None) or 0
    return is_busy(error) or code & 0xFF != sqlite3.SQLITE_IOERR or code == sqlite3.SQLITE_IOERR_WRITE


def unknown(path: str, error: sqlite3.Error) -> CommitUnknown:
    """The error for a commit that failed and whose outcome recovery has not shown yet."""
    return CommitUnknown(
        f"The disk failed while the ledger {path} was written ({error}): whether this change was made is not known "
        "yet. Nothing more is written until recovery has shown it. Check the disk, then look whether the change is "
        "there before you try again.",
        path=path,
    )


def recover(
    connection: sqlite3.Connection, event: Stamp | None, path: str, clock: Clock, patience: float
) -> bool | None:
    """Empty the log, so that the ledger says alone what was committed, then look for `event`.

    Returns:
        Whether `event` is there; None where there is none to look for.

    Raises:
        StorageError: the disk still fails.
        LedgerBusy: readers kept the log in use for `patience` seconds.
    """
    deadline = clock.monotonic() + patience
    checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
    while execute_patiently(connection, checkpoint, clock, patience, path=path).fetchone()[0]:
        if clock.monotonic() > deadline:
            raise busy(patience)
        clock.sleep(LOOK_AGAIN)
    if event is None:
        return None
    found = connection.execute("SELECT seq, type, at, actor FROM events WHERE seq = ?", event[:1]).fetchone()
    return bool(found == event)


@contextmanager
def reading(path: str, refused: StorageError) -> Iterator[sqlite3.Connection]:
    """A ledger that cannot be opened to write, for one look at a file that stays as it is meanwhile.

    Raises:
        StorageError: `refused`, where the log holds what the file does not, or somebody writes.
    """
    before = _state(path)
    if before is None:
        raise refused
    try:
        connection = sqlite3.connect(
            f"file:{quoted(path)}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error:
        raise refused from None
    try:
        yield connection
    except TRANSLATED as error:
        raise translated(error, path) from error
    finally:
        connection.close()
    if _state(path) != before:
        raise refused


def _state(path: str) -> tuple[int, int] | None:
    try:
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            return None
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
