"""What every aggregate of the SQLite ledger shares: JSON columns, and writing named fields of one row."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

as_json = json.JSONEncoder(ensure_ascii=False).encode
from_json = json.loads


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
