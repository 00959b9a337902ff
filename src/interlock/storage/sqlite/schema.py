"""Numbered migrations. A ledger's version is its `user_version`; each migration is one transaction, after a backup.

A new ledger begins with what the first of them make together, said at once: that takes an eighth of the time.
"""

from __future__ import annotations

import os
import sqlite3

from interlock.clock import Clock, iso
from interlock.errors import InvalidRequest, LedgerUnusable, StorageError
from interlock.storage.sql import VERSION
from interlock.storage.sqlite.connection import connect, execute_patiently, quoted, translated

BACKUPS = "backups"
DIRECTORY = os.path.join(os.path.dirname(__file__), "migrations")
BASE = 10, os.path.join(os.path.dirname(__file__), "base_010.sql")
"""What the migrations up to that number make; later ones are applied to it."""


def newest(directory: str | None = None) -> int:
    """The number of the newest migration."""
    return VERSION if directory is None else max(number for number, _ in migrations(directory))


def migrations(directory: str | None = None) -> list[tuple[int, str]]:
    """(number, path) of every migration, in order."""
    directory = directory or DIRECTORY
    found = [name for name in os.listdir(directory) if name.endswith(".sql")]
    return sorted((int(name.split("_", 1)[0]), os.path.join(directory, name)) for name in found)


def versions(above: int, to: int | None) -> range:
    """The versions after `above` up to `to`, by default the newest. Raises InvalidRequest: there is no such version."""
    last = VERSION if to is None else to
    if not above < last <= VERSION:
        raise InvalidRequest(f"Tables can be brought to version {above + 1} to {VERSION}.", field="to")
    return range(above + 1, last + 1)


def script(numbers: range) -> str:
    """The text of these migrations."""
    parts = []
    for number, path in migrations():
        if number in numbers:
            with open(path, encoding="utf-8") as file:
                parts.append(f"-- To version {number}\n{file.read().strip()}\nPRAGMA user_version={number};\n")
    return "".join(parts)


def create_schema(connection: sqlite3.Connection, directory: str | None = None) -> None:
    """Bring an empty database to the newest schema."""
    first, base = BASE if directory is None else (0, None)
    connection.execute("BEGIN IMMEDIATE")
    if base is not None:
        _apply(connection, first, base)
    for number, path in migrations(directory):
        if number > first:
            _apply(connection, number, path)
    connection.execute("COMMIT")


def migrate(
    connection: sqlite3.Connection, path: str, version: int, clock: Clock, patience: float, directory: str | None = None
) -> None:
    """Bring an older ledger to the newest schema, one migration at a time, a backup before each.

    Raises:
        LedgerUnusable: the ledger is newer than this version of Interlock, or not one of its ledgers.
    """
    if version == 0 or not is_ours(connection):
        raise LedgerUnusable(
            f"{path} is not a ledger of Interlock, or was never finished. `interlock doctor` says more.",
            path=path,
            damaged=None if os.path.getsize(path) else "it is empty",
        )
    if version > newest(directory):
        raise LedgerUnusable(
            f"{path} was written by a newer version of Interlock (schema {version}, this one knows "
            f"{newest(directory)}). Upgrade Interlock; the ledger was not touched.",
            path=path,
            schema=version,
        )
    for number, file in migrations(directory):
        if number <= version:
            continue
        execute_patiently(connection, "BEGIN IMMEDIATE", clock, patience)
        try:
            # Another process may have been first while we waited for the lock. With the lock held the backup is what
            # this migration is about to change.
            if connection.execute("PRAGMA user_version").fetchone()[0] < number:
                backup(path, backup_path(path, f"before-{number:03d}", iso(clock.now())), clock, patience)
                _complete(connection)
                _apply(connection, number, file)
                connection.execute(
                    "INSERT INTO events (type, at, actor, payload) VALUES ('ledger.migrated', ?, 'interlock', ?)",
                    (iso(clock.now()), f'{{"from": {number - 1}, "to": {number}}}'),
                )
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise translated(error, path) from error
            raise


def tables(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The names of a ledger's tables, sorted."""
    asked = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    return tuple(name for (name,) in connection.execute(asked))


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether a database is a ledger of Interlock, of whatever version."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='team'").fetchone() is not None


def is_foreign(path: str) -> bool:
    """Whether a file is a sound database that Interlock did not make. What is damaged or empty may be a ledger."""
    try:
        connection = sqlite3.connect(f"file:{quoted(path)}?mode=ro&immutable=1", uri=True)
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            return bool(tables) and not is_ours(connection)
        finally:
            connection.close()
    except sqlite3.Error:
        return False


def _complete(connection: sqlite3.Connection) -> None:
    """Migration 001 was changed in place on its first day: ledgers from before lack a column. Since then migrations
    are frozen."""
    if not any(column[1] == "env" for column in connection.execute("PRAGMA table_info(members)")):
        connection.execute("ALTER TABLE members ADD COLUMN env TEXT CHECK (env IS NULL OR json_valid(env))")


def backup_path(ledger: str, label: str, at: str) -> str:
    """Where the backup with that label is kept, beside the ledger; its directory is made.

    Raises:
        StorageError: it cannot be made.
    """
    directory = os.path.join(os.path.dirname(ledger), BACKUPS)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"No backup could be made in {directory}: {error}.", path=directory) from error
    stamp = at.replace(":", "").replace(".", "")
    return os.path.join(directory, f"ledger-{label}-{stamp}-{os.getpid()}.db")


def _apply(connection: sqlite3.Connection, number: int, path: str) -> None:
    with open(path, encoding="utf-8") as file:
        script = file.read()
    # Not executescript: that commits first, and a migration must be one transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    if statement.strip():
        connection.execute(statement)  # A last statement without its semicolon, or a comment.
    connection.execute(f"PRAGMA user_version={number:d}")


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
