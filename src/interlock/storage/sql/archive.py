"""A ledger as one file, the same from every database.

Compressed lines of JSON: a head; each table's name and columns, then its rows; last how many there are, and the
SHA-256 of all lines between head and end. So the same rows have the same digest, wherever they are.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from interlock.errors import StorageError
from interlock.lazy_dataclass import dataclass
from interlock.storage.sql.table import SqlConnection, marks

FORMAT = 1
ENDING = ".ledger.gz"
AT_ONCE = 500
"""How many rows are written with one call."""
IN_ORDER = ("members", "questions", "requests")
"""The tables whose rows are listed in the order they came, without a column that says it."""


@dataclass(slots=True, frozen=True)
class Head:
    """What an archive says of itself."""

    team: str
    id: str
    version: int
    """That of the tables."""
    at: str
    format: int = FORMAT


def write(path: str, head: Head, connection: SqlConnection, tables: tuple[str, ...]) -> str:
    """Write everything that a snapshot shows to a new file; its digest.

    Raises:
        StorageError: the file cannot be written; nothing is left of it.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    digest, count = hashlib.sha256(), 0
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as plain, gzip.GzipFile(fileobj=plain, mode="wb", mtime=0) as file:
            file.write(_line(asdict(head)))
            for table in tables:
                columns = [name for name in _columns(connection, table) if name != "rowid"]
                order = "rowid" if table in IN_ORDER else ", ".join(f"[{name}]" for name in columns[:3])
                listed = ", ".join(f"[{name}]" for name in columns)
                lines: list[Any] = [{"table": table, "columns": columns}]
                for row in connection.execute(f"SELECT {listed} FROM {table} ORDER BY {order}"):
                    lines.append(list(row))
                    count += 1
                for line in map(_line, lines):
                    digest.update(line)
                    file.write(line)
            file.write(_line({"rows": count, "sha256": digest.hexdigest()}))
        os.link(temporary, path)
    except FileExistsError as error:
        raise StorageError(f"{path} already exists; name another file, or remove it.", path=path) from error
    except OSError as error:
        raise StorageError(f"The ledger could not be copied to {path}: {error}.", path=path) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return digest.hexdigest()


def read(path: str, version: int | None = None) -> tuple[Head, Iterator[tuple[str, list[str], list[Any]]]]:
    """What an archive says of itself, and its rows: (table, columns, row).

    Raises:
        StorageError: it cannot be read, is damaged or incomplete (at the end of the rows), or of another format.
    """
    lines = _lines(path)
    first = next(lines, None)
    if not isinstance(first, dict) or first.get("format") != FORMAT:
        raise StorageError(f"{path} is no archive of a ledger that this version of Interlock knows.", path=path)
    head = Head(**first)
    if version not in (None, head.version):
        raise StorageError(
            f"{path} holds tables of version {head.version}, and this version of Interlock knows {version}. Take it in "
            "with the Interlock that wrote it.",
            path=path,
        )
    return head, _rows(path, lines)


def inspect(path: str) -> list[str]:
    """The faults of an archive; none when it is sound."""
    try:
        for _ in read(path)[1]:
            pass
    except StorageError as error:
        return [error.message]
    return []


def fill(connection: SqlConnection, rows: Iterator[tuple[str, list[str], list[Any]]]) -> None:
    """Write the rows of an archive to empty tables."""
    waiting: list[list[Any]] = []
    now: tuple[str, list[str]] | None = None
    for table, columns, row in rows:
        if now is not None and (now[0] != table or len(waiting) >= AT_ONCE):
            _insert(connection, *now, waiting)
            waiting = []
        now = (table, columns)
        waiting.append(row)
    if now is not None:
        _insert(connection, *now, waiting)


def _insert(connection: SqlConnection, table: str, columns: list[str], rows: list[list[Any]]) -> None:
    listed = ", ".join(f"[{name}]" for name in columns)
    connection.executemany(f"INSERT INTO {table} ({listed}) VALUES ({marks(len(columns))})", rows)


def _columns(connection: SqlConnection, table: str) -> list[str]:
    found = connection.execute(f"SELECT * FROM {table} LIMIT 1")
    found.fetchall()
    return [one[0] for one in found.description]


def _rows(path: str, lines: Iterator[Any]) -> Iterator[tuple[str, list[str], list[Any]]]:
    digest, count, table, columns, last = hashlib.sha256(), 0, "", list[str](), None
    for line in lines:
        if isinstance(line, dict) and "sha256" in line:
            last = line
            break
        digest.update(_line(line))
        if isinstance(line, dict):
            table, columns = line["table"], line["columns"]
        else:
            count += 1
            yield table, columns, line
    if last != {"rows": count, "sha256": digest.hexdigest()}:
        raise StorageError(f"{path} is damaged: it does not hold what its last line says.", path=path)


def _lines(path: str) -> Iterator[Any]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except (OSError, EOFError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}.", path=path) from error


def _line(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
