"""Tasks, their edges and their runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.model.group import Group
from interlock.model.task import FINAL, PRIORITIES, Task
from interlock.storage.sqlite.table import Table, as_json, assign, from_json, marks

_TASK = (
    "n, id, subject, body, state, owner, assignee, reserved, type, priority, review, verify, command, parent_id, "
    "group_id, project_id, plan_key, plan_digest, run, session, failures, rounds, open_blockers, soft, rank, "
    "not_before, output, context, findings, evidence, verifying, metadata, created_by, created_at, updated_at, "
    "claimed_at, completed_at, merging, worktree, env, timeout, retries, limits, workflow, "
    "review_required, delegation_depth"
)
_FIELDS = tuple(_TASK.split(", "))
_EVIDENCE, _METADATA, _PRIORITY, _SOFT = (_FIELDS.index(f) for f in ("evidence", "metadata", "priority", "soft"))
_INSERT = f"INSERT INTO tasks ({', '.join(_FIELDS[1:])}) VALUES ({marks(len(_FIELDS) - 1)})"
_OPEN_STATES = ", ".join(f"'{state}'" for state in sorted(FINAL | {"deadletter"}))


class SqliteTasks(Table):
    """See `ledger.TaskRows`."""

    name = "tasks"
    key = "n"
    columns = _FIELDS
    json_columns = frozenset({"evidence", "verifying", "metadata", "merging", "worktree", "env", "limits"})

    def encoded(self, column: str, value: Any) -> Any:
        return PRIORITIES.index(value) if column == "priority" else super().encoded(column, value)

    def insert(self, task: Task) -> int:
        values = [self.encoded(column, getattr(task, column)) for column in _FIELDS[1:]]
        task.n = int(self.connection.execute(_INSERT, values).lastrowid or 0)
        task.rank = task.n
        self.connection.execute("UPDATE tasks SET rank=n WHERE n=?", (task.n,))
        return task.n

    def update(self, task: Task, **changes: Any) -> None:
        self.write(task.n, changes)
        assign(task, changes)

    def get(self, task_id: str) -> Task | None:
        return self._one("id=?", (task_id,))

    def ids_ending(self, suffix: str, limit: int) -> list[str]:
        pattern = "%-" + suffix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        found = self.connection.execute(
            "SELECT id FROM tasks WHERE id LIKE ? ESCAPE '\\' ORDER BY n DESC LIMIT ?", (pattern, limit)
        )
        return [row[0] for row in found]

    def by_plan_key(self, key: str) -> Task | None:
        return self._one("plan_key=? ORDER BY n DESC LIMIT 1", (key,))

    def planned(self) -> list[Task]:
        found = self._many("plan_key IS NOT NULL ORDER BY n", ())
        return list({task.plan_key: task for task in found}.values())

    def select(
        self,
        *,
        states: Iterable[str] | None = None,
        owner: str | None = None,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
    ) -> list[Task]:
        where, values = ["n>?"], [after]  # type: list[str], list[Any]
        if before is not None:
            where.append("n<?")
            values.append(before)
        if states is None:
            where.append("state<>'deleted'")
        else:
            wanted = sorted(states)
            where.append(f"state IN ({marks(len(wanted))})")
            values += wanted
        if owner is not None:
            where.append("owner=?")
            values.append(owner)
        values.append(-1 if limit is None else limit)
        order = "n" if before is None else "n DESC"
        return self._many(f"{' AND '.join(where)} ORDER BY {order} LIMIT ?", tuple(values))

    def next_ready(self, member: str, *, shell: bool | None, now: str) -> Task | None:
        best: Task | None = None
        for reserved, values in (("IS NULL", ()), ("= ?", (member,))):  # type: tuple[str, tuple[str, ...]]
            for without in (0, 1) if shell is None else (0 if shell else 1,):
                task = self._one(
                    f"state='ready' AND coalesce(reserved, assignee) {reserved} AND (command IS NULL) = {without} "
                    "AND (not_before IS NULL OR not_before<=?) "
                    "AND NOT (type IS 'WORKFLOW' AND id IN (SELECT task_id FROM workflow_queue)) "
                    "ORDER BY priority, n LIMIT 1",
                    (*values, now),
                )
                if task is not None and (best is None or _urgency(task) < _urgency(best)):
                    best = task
        return best

    def ready(self, limit: int) -> list[Task]:
        return self._many("state='ready' ORDER BY priority, n LIMIT ?", (limit,))

    def ready_after(self, now: str) -> str | None:
        found = self.connection.execute(
            "SELECT min(not_before) FROM tasks WHERE state='ready' AND not_before IS NOT NULL AND not_before>?", (now,)
        )
        return found.fetchone()[0]  # type: ignore[no-any-return]

    def owned(self, member: str) -> list[Task]:
        return self._many(f"owner=? AND owner IS NOT NULL AND state NOT IN ({_OPEN_STATES}) ORDER BY n", (member,))

    def verifying(self) -> list[Task]:
        return self._many("verifying IS NOT NULL AND state = 'review' ORDER BY n", ())

    def merging(self) -> list[Task]:
        return self._many("merging IS NOT NULL AND state = 'review' ORDER BY n", ())

    def worktrees(self) -> list[Task]:
        return self._many("worktree IS NOT NULL ORDER BY n", ())

    def baseline(self, tree: str, setup: str, command: str) -> tuple[bool | None] | None:
        found = self.connection.execute(
            "SELECT red FROM baselines WHERE tree=? AND setup=? AND command=?", (tree, setup, command)
        ).fetchone()
        return None if found is None else (None if found[0] is None else bool(found[0]),)

    def baselined(self, tree: str, setup: str, command: str, red: bool | None, at: str) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO baselines (tree, setup, command, red, at) VALUES (?, ?, ?, ?, ?)",
            (tree, setup, command, red, at),
        )

    def current(self) -> dict[str, str]:
        found = self.connection.execute("SELECT owner, id FROM tasks WHERE state='in-progress' ORDER BY claimed_at, n")
        return dict(found.fetchall())

    def counts(self) -> dict[str, int]:
        return dict(self.connection.execute("SELECT state, count(*) FROM tasks GROUP BY state").fetchall())

    def add_log(self, task_id: str, at: str, author: str, text: str) -> None:
        self.connection.execute(
            "INSERT INTO work_log (task_id, at, author, text) VALUES (?, ?, ?, ?)", (task_id, at, author, text)
        )

    def log(self, task_id: str) -> list[tuple[str, str, str]]:
        return self.connection.execute(
            "SELECT at, author, text FROM work_log WHERE task_id=? ORDER BY n", (task_id,)
        ).fetchall()

    def _one(self, where: str, values: tuple[Any, ...]) -> Task | None:
        row = self.connection.execute(f"SELECT {_TASK} FROM tasks WHERE {where}", values).fetchone()
        return None if row is None else _task(row)

    def _many(self, where: str, values: tuple[Any, ...]) -> list[Task]:
        return [_task(row) for row in self.connection.execute(f"SELECT {_TASK} FROM tasks WHERE {where}", values)]


class SqliteGraph:
    """See `ledger.GraphRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def add(self, blocker: str, blocked: str, by: str | None = None) -> bool:
        cursor = self.connection.execute(
            "INSERT OR IGNORE INTO edges (blocked, blocker, created_by) VALUES (?, ?, ?)", (blocked, blocker, by)
        )
        return cursor.rowcount > 0

    def maker(self, blocker: str, blocked: str) -> str | None:
        found = self.connection.execute(
            "SELECT created_by FROM edges WHERE blocked=? AND blocker=?", (blocked, blocker)
        ).fetchone()
        return found[0] if found else None

    def remove(self, blocker: str, blocked: str) -> bool:
        cursor = self.connection.execute("DELETE FROM edges WHERE blocked=? AND blocker=?", (blocked, blocker))
        return cursor.rowcount > 0

    def blockers(self, task_id: str) -> list[tuple[str, str]]:
        return self.connection.execute(
            "SELECT t.id, t.state FROM edges e JOIN tasks t ON t.id = e.blocker WHERE e.blocked=? ORDER BY t.n",
            (task_id,),
        ).fetchall()

    def dependents(self, task_id: str) -> list[str]:
        found = self.connection.execute("SELECT blocked FROM edges WHERE blocker=?", (task_id,))
        return [row[0] for row in found]

    def open_dependents(self, task_id: str) -> list[Task]:
        found = self.connection.execute(
            f"SELECT {', '.join('t.' + field for field in _FIELDS)} FROM edges e JOIN tasks t ON t.id = e.blocked "
            "WHERE e.blocker=? AND t.state NOT IN ('done', 'cancelled', 'deleted') ORDER BY t.n",
            (task_id,),
        )
        return [_task(row) for row in found]

    def edges(self) -> list[tuple[str, str]]:
        return self.connection.execute("SELECT blocker, blocked FROM edges").fetchall()

    def edges_of(self, task_ids: Sequence[str]) -> list[tuple[str, str, str, str]]:
        found: list[tuple[str, str, str, str]] = []
        for start in range(0, len(task_ids), 400):
            some = task_ids[start : start + 400]
            found += self.connection.execute(
                "SELECT b.id, b.state, d.id, d.state FROM edges e JOIN tasks b ON b.id = e.blocker "
                f"JOIN tasks d ON d.id = e.blocked WHERE e.blocked IN ({marks(len(some))}) ORDER BY b.n",
                tuple(some),
            ).fetchall()
            found += self.connection.execute(
                "SELECT b.id, b.state, d.id, d.state FROM edges e JOIN tasks b ON b.id = e.blocker "
                f"JOIN tasks d ON d.id = e.blocked WHERE e.blocker IN ({marks(len(some))}) ORDER BY d.n",
                tuple(some),
            ).fetchall()
        return found

    def rank(self, task_id: str) -> int:
        return int(self.connection.execute("SELECT rank FROM tasks WHERE id=?", (task_id,)).fetchone()[0])

    def set_ranks(self, ranks: Mapping[str, int]) -> None:
        self.connection.executemany("UPDATE tasks SET rank=? WHERE id=?", [(rank, id) for id, rank in ranks.items()])


def _urgency(task: Task) -> tuple[int, int]:
    return PRIORITIES.index(task.priority), task.n


def _task(row: tuple[Any, ...]) -> Task:
    task = Task(*row)
    task.priority = PRIORITIES[row[_PRIORITY]]
    task.soft = bool(row[_SOFT])
    task.metadata = {} if row[_METADATA] == "{}" else from_json(row[_METADATA])
    task.evidence = [] if row[_EVIDENCE] in (None, "[]") else from_json(row[_EVIDENCE])
    task.review_required = None if task.review_required is None else bool(task.review_required)
    for column in ("verifying", "merging", "worktree", "env", "limits"):
        value = getattr(task, column)
        if value is not None:
            setattr(task, column, from_json(value))
    return task


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
            # Deleted tasks are not listed, so none of them is the latest.
            self.connection.execute(
                "UPDATE chat_groups SET task_count=task_count-1, latest_task=(SELECT id FROM tasks "
                "WHERE group_id=chat_groups.id AND state != 'deleted' ORDER BY n DESC LIMIT 1) WHERE id=?",
                (group_id,),
            )

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
