"""What every aggregate of the SQLite ledger shares: writing named fields of one row."""

from __future__ import annotations

import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_encode: Callable[[Any], str] | None = None


def as_json(value: Any) -> str:
    """`value` as JSON text, by one encoder; the module is loaded when first needed, since hooks mostly do not."""
    global _encode
    if _encode is None:
        import json

        _encode = json.JSONEncoder(ensure_ascii=False).encode
    return _encode(value)


class Table:
    """One table with a text key, its columns in the order of the value's own fields."""

    name = ""
    key = "id"
    columns: tuple[str, ...] = ()
    json_columns: frozenset[str] = frozenset()

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._updates: dict[tuple[str, ...], str] = {}

    def write(self, key: object, changes: dict[str, Any]) -> None:
        """Write `changes` to the row with that key."""
        names = tuple(changes)
        sql = self._updates.get(names)
        if sql is None:
            unknown = set(names) - set(self.columns)
            if unknown:
                raise KeyError(f"{self.name} has no column {', '.join(sorted(unknown))}")
            assignments = ", ".join(f'"{name}"=?' for name in names)
            sql = self._updates[names] = f'UPDATE {self.name} SET {assignments} WHERE "{self.key}"=?'
        self.connection.execute(sql, (*(self.encoded(name, value) for name, value in changes.items()), key))

    def encoded(self, column: str, value: Any) -> Any:
        """`value` as the column holds it."""
        if column in self.json_columns and value is not None:
            return as_json(value)
        return value


def assign(value: object, changes: dict[str, Any]) -> None:
    """Give the value in hand what its row got."""
    for name, change in changes.items():
        setattr(value, name, change)


def marks(count: int) -> str:
    """`?, ?, …`"""
    return ", ".join("?" * count)
