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

from interlock.clock import Clock
from interlock.errors import InvalidRequest, LedgerBusy, LedgerUnusable, StorageError
from interlock.storage import sql

FIRST_PAUSE = 0.000_2
GROWTH = 1.7
PATIENT_PAUSE = 0.004
PATIENT_UNTIL = 0.012
EAGER_PAUSE = 0.000_3
EAGER_UNTIL = 0.3
LONGEST_PAUSE = 0.02

# PROTOCOL is what a reader gets when the log's locks change hands too fast for it.
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_PRAGMAS = ["PRAGMA synchronous=FULL"]
if sys.platform == "darwin":
    _PRAGMAS += ["PRAGMA fullfsync=ON", "PRAGMA checkpoint_fullfsync=ON"]


def connect(path: str, clock: Clock, patience: float) -> sqlite3.Connection:
    """A connection to an existing ledger file, with the pragmas above.

    Raises:
        LedgerUnusable: the file is damaged or no database.
        StorageError: the machine does not let it be opened: a full or read-only disk, permissions.
        LedgerBusy: another process was recovering or closing it for `patience` seconds.
    """
    try:
        connection = sqlite3.connect(
            f"file:{quoted(path)}?mode=rw",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        for pragma in _PRAGMAS:
            # Reads the schema, so it may meet a lock.
            execute_patiently(connection, pragma, clock, patience, path=path)
    except BaseException:
        connection.close()
        raise
    return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection merely has the lock."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _BUSY


def execute_patiently(
    connection: sqlite3.Connection,
    sql: str,
    clock: Clock,
    patience: float,
    path: str | None = None,
) -> sqlite3.Cursor:
    """Run a statement that may meet another's lock, trying again with exponential backoff and jitter.

    Args:
        path: the ledger file, where an error is to say what is wrong with it.

    Raises:
        LedgerBusy: it was still locked after `patience` seconds.
        StorageError: the disk is full, read-only or failing.
    """
    pause, started = FIRST_PAUSE, 0.0
    while True:
        try:
            return connection.execute(sql)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise translated(error, path) from error
        now = clock.monotonic()
        started = started or now
        waited = now - started
        if waited >= patience:
            raise busy(patience)
        clock.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
        pause = next_pause(pause, waited)


def busy(patience: float) -> LedgerBusy:
    """The error for a ledger that stayed locked for `patience` seconds."""
    return LedgerBusy(
        f"The ledger stayed locked for {patience:g} s and nothing was changed. Try again; "
        "the setting busy_timeout makes Interlock wait longer.",
        setting="busy_timeout",
    )


def next_pause(pause: float, waited: float) -> float:
    """How long to sleep before the next try, in seconds, after one of `pause`."""
    if waited < PATIENT_UNTIL:
        return min(pause * GROWTH, PATIENT_PAUSE)
    if waited < EAGER_UNTIL:
        return EAGER_PAUSE
    return min(pause * GROWTH, LONGEST_PAUSE)


TRANSLATED = (sqlite3.Error, UnicodeEncodeError, OverflowError)
_HERE = (os.path.dirname(__file__), os.path.dirname(sql.__file__))


def raised_by_sql(error: BaseException) -> bool:
    """Whether a statement of the ledger raised it. What a rule raises in a transaction is a defect of the rule, and
    neither the machine nor the caller's values are to blame."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) in _HERE


def translated(error: Exception, path: str | None = None) -> Exception:
    """Our error for one of SQLite's that is the machine's or the caller's fault; the same error where it is ours."""
    if isinstance(error, OSError):
        return StorageError(f"The ledger {path} could not be looked at: {error.strerror}.", path=path)
    if isinstance(error, UnicodeEncodeError):
        return InvalidRequest(f"A name, id or text is not valid Unicode: {error.reason}. Nothing was changed.")
    if isinstance(error, OverflowError):
        return InvalidRequest("A number is too large to be one of the ledger's. Nothing was changed.")
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    ledger = f"The ledger {path}" if path else "The ledger"
    if code in _BUSY:
        return LedgerBusy("The ledger is locked and nothing was changed. Try again.", setting="busy_timeout")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        why = (trouble(path) if path else None) or str(error)
        return StorageError(
            f"{ledger} could not be opened or written: {why}. Nothing was changed. Free space or fix the permissions "
            "of the team's directory, then try again; `interlock doctor` checks both.",
            away=True,
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerUnusable(f"{ledger} is damaged: {error}. `interlock doctor` says what to do.", damaged=str(error))
    if _foreign_schema(error):
        return LedgerUnusable(
            f"The schema of {path or 'the ledger'} is not the one this version of Interlock expects: {error}. Nothing "
            "was changed. `interlock doctor` says more."
        )
    return error


def _foreign_schema(error: Exception) -> bool:
    """Whether a table or column is missing, which only happens where something else has changed the ledger."""
    text = str(error)
    return isinstance(error, sqlite3.OperationalError) and (text.startswith("no such ") or " has no column " in text)


def quoted(path: str) -> str:
    """`path` as a part of a `file:` address."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb smb3 smbfs afpfs afs 9p ceph glusterfs lustre fuse.sshfs fuse.s3fs fuse.glusterfs webdav".split()
)


def refuse_network_file_system(path: str) -> None:
    """SQLite's shared memory and locks do not work across machines.

    Raises:
        LedgerUnusable: `path` lies on a network file system.
    """
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise LedgerUnusable(
            f"{path} lies on a network file system ({kind}), where file locks cannot be trusted. "
            "Set INTERLOCK_HOME to a directory on a local disk.",
            path=path,
            file_system=kind,
        )


def file_system_of(path: str) -> str | None:
    """The type of the file system that holds `path`; null where the machine does not tell."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split(" ", 3)[1:3] for line in file]
    except OSError:
        return None
    real = os.path.realpath(path)
    best, kind = "", None
    for point, name in mounts:
        point = point.replace("\\040", " ")
        if len(point) >= len(best) and (real == point or real.startswith(point.rstrip("/") + "/")):
            best, kind = point, name
    return kind


def trouble(path: str) -> str | None:
    """What the file system has against writing the ledger at `path`; None where nothing shows.

    SQLite's own words do not tell a full disk from a read-only one or from a wrong mode.
    """
    directory = os.path.dirname(path)
    try:
        disk = os.statvfs(directory)
    except OSError as error:
        return f"{directory} cannot be looked at: {error.strerror}"
    if disk.f_flag & os.ST_RDONLY:
        return f"the file system of {directory} is read-only"
    for file in (directory, path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK):
            return f"this user may not read and write {file} (mode {os.stat(file).st_mode & 0o7777:04o})"
    return "the disk is full" if disk.f_bavail == 0 else None
