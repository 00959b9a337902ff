"""What the aggregates of the SQLite ledger share: rows to values and back, by columns named like their fields."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")
Coder = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""How a column holds a value, and the reverse; neither is asked about NULL."""

as_json = json.JSONEncoder(ensure_ascii=False).encode
from_json = json.loads
JSON: Coder = (as_json, from_json)
FLAG: Coder = (int, bool)


class Aggregate:
    """Reads and writes through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def _rows(self, sql: str, *values: object) -> list[Any]:
        return self.connection.execute(sql, values).fetchall()

    def _row(self, sql: str, *values: object) -> Any:
        """The first row; None where there is none."""
        return self.connection.execute(sql, values).fetchone()

    def _firsts(self, sql: str, *values: object) -> list[Any]:
        """The first column of every row."""
        return [row[0] for row in self.connection.execute(sql, values)]


class Table(Aggregate, Generic[T]):
    """One table of values: its columns in the order of the value's fields."""

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ("id",)
    columns: ClassVar[tuple[str, ...]]
    coders: ClassVar[dict[str, Coder]] = {}
    _make: Callable[..., T]
    _list: ClassVar[str]
    _key: ClassVar[str]
    _decoders: ClassVar[list[tuple[int, Callable[[Any], Any]]]]

    def __init_subclass__(cls) -> None:
        # In brackets: what is quoted otherwise and is no column, SQLite would take for text.
        cls._list = ", ".join(f"[{column}]" for column in cls.columns)
        cls._key = " AND ".join(f"[{key}]=?" for key in cls.keys)
        cls._decoders = [(place, cls.coders[c][1]) for place, c in enumerate(cls.columns) if c in cls.coders]

    def _select(self, clause: str, *values: object) -> list[T]:
        """The rows that `WHERE clause` gives."""
        rows = self.connection.execute(f"SELECT {self._list} FROM {self.name} WHERE {clause}", values)
        return [self.decoded(row) for row in rows]

    def _first(self, clause: str, *values: object) -> T | None:
        """The first of them."""
        row = self._row(f"SELECT {self._list} FROM {self.name} WHERE {clause}", *values)
        return None if row is None else self.decoded(row)

    def _add(
        self, value: T, *, columns: tuple[str, ...] | None = None, verb: str = "INSERT", clause: str = ""
    ) -> sqlite3.Cursor:
        """Insert those columns (all by default) of a value."""
        names = columns or self.columns
        listed = ", ".join(f"[{name}]" for name in names)
        values = [self.encoded(name, getattr(value, name)) for name in names]
        return self.connection.execute(
            f"{verb} INTO {self.name} ({listed}) VALUES ({marks(len(names))}) {clause}", values
        )

    def _change(self, value: T, changes: dict[str, Any]) -> None:
        """Write `changes` to the row of `value`, and give them to `value`."""
        self._write(tuple(getattr(value, key) for key in self.keys), changes)
        for name, change in changes.items():
            setattr(value, name, change)

    def _write(self, key: tuple[object, ...], changes: dict[str, Any]) -> None:
        """Write `changes` to the row with that key."""
        if unknown := changes.keys() - self.columns:
            raise KeyError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        assignments = ", ".join(f"[{name}]=?" for name in changes)
        values = [self.encoded(name, value) for name, value in changes.items()]
        self.connection.execute(f"UPDATE {self.name} SET {assignments} WHERE {self._key}", (*values, *key))

    def encoded(self, column: str, value: Any) -> Any:
        """`value` as the column holds it."""
        return self.coders[column][0](value) if value is not None and column in self.coders else value

    def decoded(self, row: tuple[Any, ...]) -> T:
        """The value of a row."""
        values = list(row)
        for place, decode in self._decoders:
            if values[place] is not None:
                values[place] = decode(values[place])
        return self._make(*values)


def marks(count: int) -> str:
    """`?, ?, …`"""
    return ", ".join("?" * count)
