"""Tasks, the edges between them, and the groups that a chat session makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.model.group import Group
from interlock.model.task import FINAL, PRIORITIES, Task
from interlock.storage.sqlite.table import FLAG, JSON, Aggregate, Table, as_json, from_json, marks

_NOT_OWNED = ", ".join(f"'{state}'" for state in sorted(FINAL | {"deadletter"}))
_EDGES = "FROM edges e JOIN tasks b ON b.id = e.blocker JOIN tasks d ON d.id = e.blocked"
_GROUPS = (
    "SELECT g.id, g.created_at, g.updated_at, g.first_prompt, g.latest_task, t.state, g.task_count, g.state_counts "
    "FROM chat_groups g LEFT JOIN tasks t ON t.id = g.latest_task"
)


class SqliteTasks(Table[Task]):
    """See `ledger.TaskRows`."""

    name = "tasks"
    keys = ("n",)
    columns = (
        "n", "id", "subject", "body", "state", "owner", "assignee", "reserved", "type", "priority", "review", "verify",
        "command", "parent_id", "group_id", "project_id", "plan_key", "plan_digest", "run", "session", "failures",
        "rounds", "open_blockers", "soft", "rank", "not_before", "output", "context", "findings", "evidence",
        "verifying", "metadata", "created_by", "created_at", "updated_at", "claimed_at", "completed_at", "merging",
        "worktree", "env", "timeout", "retries", "limits", "workflow", "review_required", "delegation_depth",
    )  # fmt: skip
    coders = {  # noqa: RUF012
        **dict.fromkeys(("evidence", "verifying", "metadata", "merging", "worktree", "env", "limits"), JSON),
        "priority": (PRIORITIES.index, PRIORITIES.__getitem__),
        "soft": FLAG,
        "review_required": FLAG,
    }

    def _make(self, *values: Any) -> Task:
        task = Task(*values)
        task.evidence = task.evidence or []
        return task

    def insert(self, task: Task) -> int:
        task.n = task.rank = int(self._add(task, columns=self.columns[1:]).lastrowid or 0)
        self.connection.execute("UPDATE tasks SET rank=n WHERE n=?", (task.n,))
        return task.n

    def update(self, task: Task, **changes: Any) -> None:
        self._change(task, changes)

    def get(self, task_id: str) -> Task | None:
        return self._first("id=?", task_id)

    def ids_ending(self, suffix: str, limit: int) -> list[str]:
        pattern = "%-" + suffix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return self._firsts("SELECT id FROM tasks WHERE id LIKE ? ESCAPE '\\' ORDER BY n DESC LIMIT ?", pattern, limit)

    def by_plan_key(self, key: str) -> Task | None:
        return self._first("plan_key=? ORDER BY n DESC LIMIT 1", key)

    def planned(self) -> list[Task]:
        return list({task.plan_key: task for task in self._select("plan_key IS NOT NULL ORDER BY n")}.values())

    def select(
        self,
        *,
        states: Iterable[str] | None = None,
        owner: str | None = None,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
    ) -> list[Task]:
        where, values = ["n>?"], list[object]([after])
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
        order = "n" if before is None else "n DESC"
        return self._select(f"{' AND '.join(where)} ORDER BY {order} LIMIT ?", *values, -1 if limit is None else limit)

    def next_ready(self, member: str, *, shell: bool | None, now: str) -> Task | None:
        # Four looks at the ready queue's index, each of which ends at its first row, where one would sort the queue.
        found = []
        for reserved, values in (("IS NULL", ()), ("= ?", (member,))):  # type: tuple[str, tuple[str, ...]]
            for without in (0, 1) if shell is None else (0 if shell else 1,):
                task = self._first(
                    f"state='ready' AND coalesce(reserved, assignee) {reserved} AND (command IS NULL) = {without} "
                    "AND (not_before IS NULL OR not_before<=?) "
                    "AND NOT (type IS 'WORKFLOW' AND id IN (SELECT task_id FROM workflow_queue)) "
                    "ORDER BY priority, n LIMIT 1",
                    *values,
                    now,
                )
                if task is not None:
                    found.append(task)
        return min(found, key=lambda task: (PRIORITIES.index(task.priority), task.n), default=None)

    def ready(self, limit: int) -> list[Task]:
        return self._select("state='ready' ORDER BY priority, n LIMIT ?", limit)

    def ready_after(self, now: str) -> str | None:
        where = "state='ready' AND not_before IS NOT NULL AND not_before>?"
        found: str | None = self._row(f"SELECT min(not_before) FROM tasks WHERE {where}", now)[0]
        return found

    def owned(self, member: str) -> list[Task]:
        return self._select(f"owner=? AND owner IS NOT NULL AND state NOT IN ({_NOT_OWNED}) ORDER BY n", member)

    def verifying(self) -> list[Task]:
        return self._select("verifying IS NOT NULL AND state = 'review' ORDER BY n")

    def merging(self) -> list[Task]:
        return self._select("merging IS NOT NULL AND state = 'review' ORDER BY n")

    def worktrees(self) -> list[Task]:
        return self._select("worktree IS NOT NULL ORDER BY n")

    def baseline(self, tree: str, setup: str, command: str) -> tuple[bool | None] | None:
        found = self._row("SELECT red FROM baselines WHERE tree=? AND setup=? AND command=?", tree, setup, command)
        return None if found is None else (None if found[0] is None else bool(found[0]),)

    def baselined(self, tree: str, setup: str, command: str, red: bool | None, at: str) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO baselines (tree, setup, command, red, at) VALUES (?, ?, ?, ?, ?)",
            (tree, setup, command, red, at),
        )

    def current(self) -> dict[str, str]:
        return dict(self._rows("SELECT owner, id FROM tasks WHERE state='in-progress' ORDER BY claimed_at, n"))

    def counts(self) -> dict[str, int]:
        return dict(self._rows("SELECT state, count(*) FROM tasks GROUP BY state"))

    def add_log(self, task_id: str, at: str, author: str, text: str) -> None:
        self.connection.execute(
            "INSERT INTO work_log (task_id, at, author, text) VALUES (?, ?, ?, ?)", (task_id, at, author, text)
        )

    def log(self, task_id: str) -> list[tuple[str, str, str]]:
        return self._rows("SELECT at, author, text FROM work_log WHERE task_id=? ORDER BY n", task_id)


class SqliteGraph(Aggregate):
    """See `ledger.GraphRows`."""

    def add(self, blocker: str, blocked: str, by: str | None = None) -> bool:
        cursor = self.connection.execute(
            "INSERT OR IGNORE INTO edges (blocked, blocker, created_by) VALUES (?, ?, ?)", (blocked, blocker, by)
        )
        return cursor.rowcount > 0

    def maker(self, blocker: str, blocked: str) -> str | None:
        found = self._row("SELECT created_by FROM edges WHERE blocked=? AND blocker=?", blocked, blocker)
        return found[0] if found else None

    def remove(self, blocker: str, blocked: str) -> bool:
        cursor = self.connection.execute("DELETE FROM edges WHERE blocked=? AND blocker=?", (blocked, blocker))
        return cursor.rowcount > 0

    def blockers(self, task_id: str) -> list[tuple[str, str]]:
        where = "e.blocked=? ORDER BY t.n"
        return self._rows(f"SELECT t.id, t.state FROM edges e JOIN tasks t ON t.id = e.blocker WHERE {where}", task_id)

    def dependents(self, task_id: str) -> list[str]:
        return self._firsts("SELECT blocked FROM edges WHERE blocker=?", task_id)

    def open_dependents(self, task_id: str) -> list[Task]:
        return SqliteTasks(self.connection)._select(
            "id IN (SELECT blocked FROM edges WHERE blocker=?) AND state NOT IN ('done', 'cancelled', 'deleted') "
            "ORDER BY n",
            task_id,
        )

    def edges(self) -> list[tuple[str, str]]:
        return self._rows("SELECT blocker, blocked FROM edges")

    def edges_of(self, task_ids: Sequence[str]) -> list[tuple[str, str, str, str]]:
        found: list[tuple[str, str, str, str]] = []
        for start in range(0, len(task_ids), 400):
            some = task_ids[start : start + 400]
            # Each half by its own index.
            ids = marks(len(some))
            rows = self._rows(
                f"SELECT b.id, b.state, d.id, d.state, 0, b.n {_EDGES} WHERE e.blocked IN ({ids}) UNION ALL "
                f"SELECT b.id, b.state, d.id, d.state, 1, d.n {_EDGES} WHERE e.blocker IN ({ids}) ORDER BY 5, 6",
                *some,
                *some,
            )
            found += [row[:4] for row in rows]
        return found

    def rank(self, task_id: str) -> int:
        return int(self._row("SELECT rank FROM tasks WHERE id=?", task_id)[0])

    def set_ranks(self, ranks: Mapping[str, int]) -> None:
        self.connection.executemany("UPDATE tasks SET rank=? WHERE id=?", [(rank, id) for id, rank in ranks.items()])


class SqliteGroups(Aggregate):
    """See `ledger.GroupRows`. One row per chat session is kept up to date, so that listing them never counts tasks."""

    def insert(self, group: Group) -> None:
        self.connection.execute(
            "INSERT INTO chat_groups (id, created_at, updated_at, first_prompt) VALUES (?, ?, ?, ?)",
            (group.id, group.created_at, group.updated_at, group.first_prompt),
        )

    def get(self, group_id: str) -> Group | None:
        row = self._row(f"{_GROUPS} WHERE g.id=?", group_id)
        return None if row is None else _group(row)

    def page(self, offset: int, limit: int) -> list[Group]:
        found = self._rows(f"{_GROUPS} ORDER BY g.updated_at DESC, g.n DESC LIMIT ? OFFSET ?", limit, offset)
        return [_group(row) for row in found]

    def count(self) -> int:
        return int(self._row("SELECT count(*) FROM chat_groups")[0])

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
        return self._firsts("SELECT id FROM tasks WHERE group_id=? AND state != 'deleted' ORDER BY n", group_id)

    def _counted(self, group_id: str, origin: str | None, target: str, at: str) -> None:
        row = self._row("SELECT state_counts FROM chat_groups WHERE id=?", group_id)
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
    return Group(*(*row[:-1], from_json(row[-1])))
