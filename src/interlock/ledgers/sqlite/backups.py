"""Copies of a ledger: before each migration, before a repair, and whenever somebody asks."""

from __future__ import annotations

import os
import sqlite3

from interlock.errors import StorageError
from interlock.ledgers.sqlite.connection import connect, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clock import Clock


def backup(source: str, target: str, clock: Clock, patience: float) -> None:
    """Copy a ledger with SQLite's own backup, which neither blocks writers nor drops locks. `target` appears whole or
    not at all.

    Raises:
        StorageError: it cannot be written.
    """
    temporary = f"{target}.{os.getpid()}.tmp"
    connection = connect(source, clock, patience)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        copy = sqlite3.connect(temporary)
        try:
            connection.backup(copy)
        finally:
            copy.close()
        os.rename(temporary, target)
    except (OSError, sqlite3.Error) as error:
        _remove(temporary)
        raise StorageError(f"The ledger could not be copied to {target}: {error}.", path=target) from error
    finally:
        connection.close()


def inspect(path: str) -> list[str]:
    """Faults of a ledger file that nobody uses; empty when it is sound."""
    try:
        # Immutable: no log and no lock are looked for, and none are left beside it.
        connection = sqlite3.connect(f"file:{quoted(path)}?mode=ro&immutable=1", uri=True)
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            found = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
        finally:
            connection.close()
    except sqlite3.Error as error:
        return [str(error)]
    return found if version else [*found, "it is no ledger"]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
