"""What the aggregates share: rows to values and back, by columns named like their fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

T = TypeVar("T")
Coder = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""How a column holds a value, and the reverse; neither is asked about NULL."""

as_json = json.JSONEncoder(ensure_ascii=False).encode
from_json = json.loads
JSON: Coder = (as_json, from_json)
FLAG: Coder = (int, bool)
AT_ONCE = 400
"""How many keys one statement asks for at most."""


class Cursor(Protocol):
    """What a statement answers."""

    @property
    def description(self) -> Any:
        """Its columns, each with its name first."""

    def fetchone(self) -> Any:
        """The next row; None where there is none."""

    def fetchall(self) -> list[Any]:
        """All the others."""

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """Runs statements in the words of SQLite that every database here takes: `?` and `?2` for values, `[name]` for a
    name that may be a keyword."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Cursor:
        """Run a statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        """Run it for each of `rows`."""


class Aggregate:
    """Reads and writes through one connection."""

    days: ClassVar[str] = "julianday({})"
    """A time as a number of days."""

    def __init__(self, connection: SqlConnection) -> None:
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
    ) -> Cursor:
        """Insert those columns (all by default) of a value."""
        names = columns or self.columns
        listed = ", ".join(f"[{name}]" for name in names)
        values = self.encoded(names, [getattr(value, name) for name in names])
        return self.connection.execute(
            f"{verb} INTO {self.name} ({listed}) VALUES ({marks(len(names))}) {clause}", values
        )

    def _change(self, value: T, changes: dict[str, Any]) -> None:
        """Write `changes` to the row of `value`, and give them to `value`."""
        self._write(tuple([getattr(value, key) for key in self.keys]), changes)
        for name, change in changes.items():
            setattr(value, name, change)

    def _write(self, key: tuple[object, ...], changes: dict[str, Any]) -> None:
        """Write `changes` to the row with that key."""
        if unknown := changes.keys() - self.columns:
            raise KeyError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        assignments = ", ".join(f"[{name}]=?" for name in changes)
        values = self.encoded(changes, changes.values())
        self.connection.execute(f"UPDATE {self.name} SET {assignments} WHERE {self._key}", (*values, *key))

    def encoded(self, columns: Iterable[str], values: Iterable[Any]) -> list[Any]:
        """These values as the columns hold them."""
        coders, each = self.coders, zip(columns, values, strict=True)
        return [coders[name][0](value) if value is not None and name in coders else value for name, value in each]

    def decoded(self, row: tuple[Any, ...]) -> T:
        """The value of a row."""
        values = list(row)
        for place, decode in self._decoders:
            if values[place] is not None:
                values[place] = decode(values[place])
        return self._make(*values)


def marks(count: int) -> str:
    """`?, ?, …`, for nothing what no value equals."""
    return ", ".join("?" * count) or "NULL"


def parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """`keys` in parts that a statement takes."""
    return (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))


def said(column: str) -> str:
    """The condition that JSON in a column has what `saying` gives. Both databases have `replace`, and neither the
    other's way into JSON; texts in it have their quotes escaped."""
    return f"replace({column}, CAST(? AS TEXT), '') <> {column}"


def saying(name: str, value: object) -> str:
    """How JSON gives `name` that value."""
    return as_json({name: value})[1:-1]
