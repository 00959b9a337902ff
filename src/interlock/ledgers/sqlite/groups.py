"""Task groups: one row per chat session, kept up to date with its tasks, so that a list of them never counts."""

from __future__ import annotations

import sqlite3
from typing import Any

from interlock.jsontext import from_json
from interlock.ledgers.sqlite.table import as_json
from interlock.model.group import Group

_GROUP = "g.id, g.created_at, g.updated_at, g.first_prompt, g.latest_task, t.state, g.task_count, g.state_counts"
_FROM = f"SELECT {_GROUP} FROM chat_groups g LEFT JOIN tasks t ON t.id = g.latest_task"


class SqliteGroups:
    """See `ledger.GroupRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def insert(self, group: Group) -> None:
        self.connection.execute(
            "INSERT INTO chat_groups (id, created_at, updated_at, first_prompt) VALUES (?, ?, ?, ?)",
            (group.id, group.created_at, group.updated_at, group.first_prompt),
        )

    def get(self, group_id: str) -> Group | None:
        row = self.connection.execute(f"{_FROM} WHERE g.id=?", (group_id,)).fetchone()
        return None if row is None else _group(row)

    def page(self, offset: int, limit: int) -> list[Group]:
        found = self.connection.execute(
            f"{_FROM} ORDER BY g.updated_at DESC, g.n DESC LIMIT ? OFFSET ?", (limit, offset)
        )
        return [_group(row) for row in found]

    def count(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM chat_groups").fetchone()[0])

    def added(self, group_id: str, task_id: str, state: str, at: str) -> None:
        self._counted(group_id, None, state, at)
        self.connection.execute(
            "UPDATE chat_groups SET latest_task=?, task_count=task_count+1 WHERE id=?", (task_id, group_id)
        )

    def moved(self, group_id: str, origin: str, target: str, at: str) -> None:
        self._counted(group_id, origin, target, at)
        if target == "deleted":
            self.connection.execute("UPDATE chat_groups SET task_count=task_count-1 WHERE id=?", (group_id,))

    def tasks(self, group_id: str) -> list[str]:
        found = self.connection.execute(
            "SELECT id FROM tasks WHERE group_id=? AND state != 'deleted' ORDER BY n", (group_id,)
        )
        return [row[0] for row in found]

    def _counted(self, group_id: str, origin: str | None, target: str, at: str) -> None:
        row = self.connection.execute("SELECT state_counts FROM chat_groups WHERE id=?", (group_id,)).fetchone()
        if row is None:
            return  # a task may name a group that no chat began
        counts: dict[str, int] = from_json(row[0])
        if origin is not None:
            counts[origin] = counts.get(origin, 1) - 1
        counts[target] = counts.get(target, 0) + 1
        self.connection.execute(
            "UPDATE chat_groups SET state_counts=?, updated_at=? WHERE id=?",
            (as_json({state: count for state, count in counts.items() if count}), at, group_id),
        )


def _group(row: tuple[Any, ...]) -> Group:
    group = Group(*row)
    group.state_counts = from_json(row[7])
    return group
