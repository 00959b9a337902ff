"""Tasks, the edges between them, and the groups that a chat session makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from interlock import model
from interlock.model.json import Json
from interlock.model.task import AGELESS, BROKEN, COLUMNS, FINAL, PRIORITIES, Task
from interlock.storage import sql
from interlock.storage.ledger import TaskPage
from interlock.storage.sql.table import FLAG, JSON, Aggregate, Table, as_json, from_json, marks, parts, said, saying

_NOT_OWNED = ", ".join(f"'{state}'" for state in sorted(FINAL | {"deadletter"}))
_LINKED = (
    "EXISTS (SELECT 1 FROM edges WHERE blocked = tasks.id) OR EXISTS (SELECT 1 FROM edges WHERE blocker = tasks.id)"
)
_EACH = ", ".join(f"({number})" for number in range(len(PRIORITIES)))
_BESIDE = (
    "(SELECT max(seq) FROM events WHERE task_id = tasks.id), "
    "EXISTS (SELECT 1 FROM work_log WHERE task_id = tasks.id), EXISTS (SELECT 1 FROM handoffs WHERE task_id = tasks.id)"
)
_STAYS, _MERGED, _DELIVERED = (  # Each a text, where it is known.
    f"replace(worktree, '\"{name}\": \"', '') <> worktree" for name in ("stays", "merged", "delivered")
)
VERIFYING = "verifying IS NOT NULL AND state = 'review'"
MERGING = "merging IS NOT NULL AND state = 'review'"
WAITING = "SELECT min(not_before) FROM tasks WHERE state = 'ready' AND not_before IS NOT NULL AND not_before > ?"
"""When the next task is ready of those that wait for a time after this one."""
_EDGES = "FROM edges e JOIN tasks b ON b.id = e.blocker JOIN tasks d ON d.id = e.blocked"
_GROUPS = (
    "SELECT g.id, g.created_at, g.updated_at, g.first_prompt, g.latest_task, t.state, g.task_count, g.state_counts "
    "FROM chat_groups g LEFT JOIN tasks t ON t.id = g.latest_task"
)


_CHECKED = {"working": " AND verifying IS NOT NULL", "in-review": " AND verifying IS NULL AND merging IS NULL",
            "to-merge": " AND verifying IS NULL AND merging IS NOT NULL"}  # fmt: skip
_COLUMNS = {
    name: "("
    + " OR ".join(f"state='{state}'{_CHECKED.get(name, '') if state == 'review' else ''}" for state in states)
    + ")"
    for name, states in COLUMNS.items()
}
_TEXT = "subject || ' ' || id || ' ' || coalesce(plan_key, '') || ' ' || coalesce(body, '')"
_NEWEST = "coalesce(completed_at, updated_at) DESC, n DESC"
_ORDERS = {"next": "state DESC, priority, n", "ready": "priority, n", **dict.fromkeys(("done", "cancelled"), _NEWEST)}


def _sought(sought: model.views.BoardFilter) -> tuple[str, list[Any]]:
    """The condition that a filter is, and its values."""
    where, values = ["TRUE"], list[Any]()
    for word in sought.words.split():
        like = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        where.append(f"lower({_TEXT}) LIKE lower(CAST(? AS TEXT)) ESCAPE '\\'")
        values.append(like)
    if sought.member:
        where.append("? IN (owner, reserved, assignee)")
        values.append(sought.member)
    if sought.priority:
        where.append("priority=?")
        values.append(PRIORITIES.index(sought.priority))
    if sought.epic:
        where.append(said("metadata"))
        values.append(saying("epic", sought.epic))
    return " AND ".join(where), values


def _days(ageing: float) -> float:
    return (ageing or AGELESS) / 86_400


class SqlTasks(Table[Task]):
    """See `ledger.TaskRows`."""

    name = "tasks"
    keys = ("n",)
    columns = (
        "n", "id", "subject", "body", "state", "owner", "assignee", "reserved", "type", "priority", "review", "verify",
        "command", "parent_id", "group_id", "project_id", "plan_key", "plan_digest", "run", "session", "failures",
        "rounds", "open_blockers", "soft", "rank", "not_before", "output", "context", "findings", "evidence",
        "verifying", "metadata", "created_by", "created_at", "updated_at", "claimed_at", "completed_at", "merging",
        "worktree", "env", "timeout", "retries", "limits", "workflow", "review_required", "delegation_depth", "labels",
    )  # fmt: skip
    coders = {  # noqa: RUF012
        **dict.fromkeys(("evidence", "verifying", "metadata", "merging", "worktree", "env", "limits", "labels"), JSON),
        "priority": (PRIORITIES.index, PRIORITIES.__getitem__),
        "soft": FLAG,
        "review_required": FLAG,
    }

    epic: ClassVar[str] = "json_object('epic', json_extract(metadata, '$.epic'))"
    """The metadata of a task, of which only the epic is asked."""
    in_index: ClassVar[str] = ""
    """What the index of the ready queue has before priority and `n`, where a database would else sort the queue."""

    def _make(self, *values: Any) -> Task:
        task = Task(*values)
        task.evidence = task.evidence or []
        return task

    def insert(self, task: Task) -> int:
        # The next `n` is the next rowid: one writer, and no task is ever removed.
        names = [name for name in self.columns[1:] if name != "rank"]
        cursor = self.connection.execute(
            f"INSERT INTO tasks ({', '.join(f'[{name}]' for name in names)}, n, rank) "
            f"SELECT {marks(len(names))}, next.n, next.n FROM (SELECT coalesce(max(n), 0) + 1 AS n FROM tasks) next "
            "RETURNING n",
            self.encoded(names, [getattr(task, name) for name in names]),
        )
        task.n = task.rank = int(cursor.fetchone()[0])
        return task.n

    def update(self, task: Task, **changes: Any) -> None:
        self._change(task, changes)

    def get(self, task_id: str) -> Task | None:
        return self._one("id=?", task_id)

    def page(self, task_id: str) -> TaskPage | None:
        found = self._row(f"SELECT {self._list}, {_LINKED}, {_BESIDE} FROM tasks WHERE id=?", task_id)
        if found is None:
            return None
        *row, newest, logged, handed = found
        return TaskPage(
            self._marked(row),
            newest or 0,
            self.log(task_id) if logged else [],
            sql.runs.SqlHandoffs(self.connection).get(task_id) if handed else None,
        )

    def named(self, key: str, ending: str | None, limit: int) -> list[Task]:
        if ending is not None:
            ending = "%-" + ending.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return self._select(
            "n IN (SELECT * FROM (SELECT n FROM tasks WHERE plan_key=? ORDER BY n DESC LIMIT 1) AS k UNION ALL "
            "SELECT * FROM (SELECT n FROM tasks WHERE id LIKE ? ESCAPE '\\' ORDER BY n DESC LIMIT ?) AS e) "
            "ORDER BY n DESC",
            key,
            ending,
            limit,
        )

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
        ended_since: str | None = None,
    ) -> list[Task]:
        where, values = ["n>?"], list[object]([after])
        if ended_since is not None:
            where.append("completed_at>=?")
            values.append(ended_since)
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
        return self._select(
            f"{' AND '.join(where)} ORDER BY {order} LIMIT ?", *values, 2**62 if limit is None else limit
        )

    def evidence(self, ended_since: str | None) -> Iterator[tuple[list[Json], int]]:
        done, since = "FROM tasks WHERE state='done' AND coalesce(completed_at, '')>=?", ended_since or ""
        yield [], int(self._row(f"SELECT count(*) {done} AND coalesce(evidence, '[]')='[]'", since)[0])
        for (text,) in self.connection.execute(f"SELECT evidence {done} AND coalesce(evidence, '[]')<>'[]'", (since,)):
            yield from_json(text), 1

    def troubled(
        self, outcomes: Collection[str], events: Mapping[str, Sequence[tuple[str, object]]], since: str, limit: int
    ) -> list[Task]:
        told, values = list[str](), list[object]([since, *outcomes, since])
        for type, things in events.items():
            told.append(" OR ".join([said("payload")] * len(things)) or "TRUE")
            values += (type, *(saying(*thing) for thing in things))
        trouble = (
            f"SELECT task_id, ended_at AS at FROM runs WHERE ended_at>=? AND outcome NOT IN ({marks(len(outcomes))}) "
            "UNION ALL SELECT task_id, at FROM events "
            f"WHERE at>=? AND ({' OR '.join(f'type=? AND ({one})' for one in told)})"
        )
        latest = (
            f"SELECT t.n AS n FROM ({trouble}) AS trouble JOIN tasks t ON t.id = trouble.task_id "
            "WHERE t.state<>'deleted' GROUP BY t.n ORDER BY max(trouble.at) DESC, t.n DESC LIMIT ?"
        )
        return self._select(f"n IN (SELECT n FROM ({latest}) AS latest) ORDER BY n", *values, limit)

    def board(self, column: str, sought: model.views.BoardFilter, *, limit: int, offset: int = 0) -> list[Task]:
        where, values = _sought(sought)
        within = _COLUMNS.get(column, "state=?")
        values = [*([] if column in _COLUMNS else [column]), *values, limit, offset]
        order = _ORDERS.get(column, "updated_at, n")
        # Sorted by number first, so that only the rows that are shown are read whole.
        shown = f"SELECT n FROM tasks WHERE {within} AND {where} ORDER BY {order} LIMIT ? OFFSET ?"
        return self._select(f"n IN (SELECT n FROM ({shown}) AS shown) ORDER BY {order}", *values)

    def board_counts(self, sought: model.views.BoardFilter) -> dict[str, int]:
        where, values = _sought(sought)
        each = ", ".join(f"count(CASE WHEN {within} THEN 1 END)" for within in _COLUMNS.values())
        return dict(zip(_COLUMNS, self._row(f"SELECT {each} FROM tasks WHERE {where}", *values), strict=True))

    def epics(self) -> list[str]:
        named = "state <> 'deleted' AND replace(metadata, '\"epic\": ', '') <> metadata"
        found = [from_json(one) for one in self._firsts(f"SELECT DISTINCT {self.epic} FROM tasks WHERE {named}")]
        names = {one["epic"] for one in found if isinstance(one.get("epic"), str)}
        return sorted(names, key=lambda name: (not name.isdigit(), len(name) if name.isdigit() else 0, name))

    def next_ready(
        self, member: str, *, shell: bool | None, now: str, labels: Collection[str] = (), ageing: float = 0,
        only: Collection[str] | None = None,
    ) -> Task | None:  # fmt: skip
        # Looks at the ready queue's index, each of which ends at its first row, where one would sort the queue: for
        # each priority two or four, and as many again for each set of labels that tasks ask for and that is offered.
        # BETWEEN: with `=` SQLite takes another index, for its order.
        asked: list[tuple[str, tuple[str, ...]]] = [("IS NULL", ())]
        if labels:
            sets = self._firsts("SELECT DISTINCT labels FROM tasks WHERE state='ready' AND labels IS NOT NULL")
            asked += [("= ?", (one,)) for one in sets if set(from_json(one)) <= set(labels)]
        whose: list[tuple[str, tuple[str, ...]]] = [("IS NULL", ()), ("= ?", (member,))]
        withouts = ("FALSE", "TRUE") if shell is None else ("FALSE" if shell else "TRUE",)
        looks, values = list[str](), list[str | float]()
        planned = "" if only is None else f"AND plan_key IN ({', '.join('?' * len(only)) or 'NULL'}) "
        for (reserved, names), without, (wanted, texts) in itertools.product(whose, withouts, asked):
            values += (*names, *texts, *(only or ()), now)
            looks.append(
                "SELECT (SELECT n FROM tasks WHERE state='ready' "
                f"AND coalesce(reserved, assignee) {reserved} AND (command IS NULL) = {without} "
                f"AND labels {wanted} AND tasks.priority BETWEEN each.priority AND each.priority "
                f"{planned}AND (not_before IS NULL OR not_before<=?) "
                "AND NOT (coalesce(type, '') = 'WORKFLOW' AND id IN (SELECT task_id FROM workflow_queue)) "
                f"ORDER BY {self.in_index} tasks.priority, n LIMIT 1) FROM each"
            )
        return self._one(
            f"n IN (WITH each (priority) AS (VALUES {_EACH}) {' UNION ALL '.join(looks)}) "
            f"ORDER BY {self._turn}, n LIMIT 1",
            *values,
            _days(ageing),
        )

    @property
    def _turn(self) -> str:
        """When the turn of a task is, in days: by its age, less urgent ones as many times `ageing` later."""
        return f"{self.days.format('created_at')} + priority * ?"

    def _one(self, clause: str, *values: object) -> Task | None:
        """The first task that `WHERE clause` gives, and whether a dependency touches it."""
        found = self._row(f"SELECT {self._list}, {_LINKED} FROM tasks WHERE {clause}", *values)
        return None if found is None else self._marked(found)

    def _marked(self, row: Sequence[Any]) -> Task:
        *values, linked = row
        task = self.decoded(tuple(values))
        task.linked = bool(linked)
        return task

    def ready(self, limit: int, ageing: float = 0) -> list[Task]:
        return self._select(f"state='ready' ORDER BY {self._turn}, n LIMIT ?", _days(ageing), limit)

    def ready_after(self, now: str) -> str | None:
        found: str | None = self._row(WAITING, now)[0]
        return found

    def owned(self, member: str) -> list[Task]:
        return self._select(f"owner=? AND owner IS NOT NULL AND state NOT IN ({_NOT_OWNED}) ORDER BY n", member)

    def verifying(self) -> list[Task]:
        return self._select(f"{VERIFYING} ORDER BY n")

    def merging(self) -> list[Task]:
        return self._select(f"{MERGING} ORDER BY n")

    def worktrees(self) -> list[Task]:
        return self._select("worktree IS NOT NULL ORDER BY n")

    def kept(self, states: Collection[str]) -> list[Task]:
        which = f"(state IN ({marks(len(states))}) OR {_STAYS})"
        return self._select(f"worktree IS NOT NULL AND {which} ORDER BY n", *states)

    def merged(self) -> int:
        found = self._row(f"SELECT count(*) FROM tasks WHERE worktree IS NOT NULL AND state='done' AND {_MERGED}")
        return int(found[0])

    def undelivered(self) -> list[Task]:
        return self._select(f"worktree IS NOT NULL AND state='done' AND {_MERGED} AND NOT {_DELIVERED} ORDER BY n")

    def baseline(self, tree: str, setup: str, command: str) -> tuple[bool | None] | None:
        found = self._row("SELECT red FROM baselines WHERE tree=? AND setup=? AND command=?", tree, setup, command)
        return None if found is None else (None if found[0] is None else bool(found[0]),)

    def baselined(self, tree: str, setup: str, command: str, red: bool | None, at: str) -> None:
        self.connection.execute(
            "INSERT INTO baselines (tree, setup, command, red, at) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (tree, setup, command) DO UPDATE SET red=excluded.red, at=excluded.at",
            (tree, setup, command, red, at),
        )

    def current(self) -> dict[str, str]:
        return dict(self._rows("SELECT owner, id FROM tasks WHERE state='in-progress' ORDER BY claimed_at, n"))

    def counts(self) -> dict[str, int]:
        return dict(self._rows("SELECT state, count(*) FROM tasks GROUP BY state ORDER BY state"))

    def add_log(self, task_id: str, at: str, author: str, text: str) -> None:
        self.connection.execute(
            "INSERT INTO work_log (task_id, at, author, text) VALUES (?, ?, ?, ?)", (task_id, at, author, text)
        )

    def log(self, task_id: str) -> list[tuple[str, str, str]]:
        return self._rows("SELECT at, author, text FROM work_log WHERE task_id=? ORDER BY n", task_id)


class SqlGraph(Aggregate):
    """See `ledger.GraphRows`."""

    def add(self, blocker: str, blocked: str, by: str | None = None) -> bool:
        cursor = self.connection.execute(
            "INSERT INTO edges (blocked, blocker, created_by) VALUES (?, ?, ?) "
            "ON CONFLICT DO NOTHING RETURNING blocked",
            (blocked, blocker, by),
        )
        return cursor.fetchone() is not None

    def maker(self, blocker: str, blocked: str) -> str | None:
        found = self._row("SELECT created_by FROM edges WHERE blocked=? AND blocker=?", blocked, blocker)
        return found[0] if found else None

    def remove(self, blocker: str, blocked: str) -> bool:
        return bool(self._rows("DELETE FROM edges WHERE blocked=? AND blocker=? RETURNING blocked", blocked, blocker))

    def blockers(self, task_id: str) -> list[tuple[str, str]]:
        where = "e.blocked=? ORDER BY t.n"
        return self._rows(f"SELECT t.id, t.state FROM edges e JOIN tasks t ON t.id = e.blocker WHERE {where}", task_id)

    def dependents(self, task_id: str) -> list[str]:
        return self._firsts("SELECT blocked FROM edges WHERE blocker=?", task_id)

    def holding_up(self, after: int) -> list[Task]:
        held = "SELECT e.blocker FROM edges e JOIN tasks t ON t.id = e.blocked WHERE t.state='backlog' AND t.n>?"
        near = "SELECT e.blocker FROM far JOIN tasks t ON t.id = far.id JOIN edges e ON e.blocked = t.id"
        return SqlTasks(self.connection)._select(
            f"id IN (WITH RECURSIVE far (id) AS ({held} UNION {near} WHERE t.state='backlog') SELECT id FROM far) "
            "AND state NOT IN ('done', 'deleted') ORDER BY n",
            after,
        )

    def open_dependents(self, task_id: str) -> list[Task]:
        return SqlTasks(self.connection)._select(
            "id IN (SELECT blocked FROM edges WHERE blocker=?) AND state NOT IN ('done', 'cancelled', 'deleted') "
            "ORDER BY n",
            task_id,
        )

    def edges(self) -> list[tuple[str, str]]:
        return self._rows("SELECT blocker, blocked FROM edges")

    def edges_of(self, task_ids: Sequence[str]) -> list[tuple[str, str, str, str]]:
        found: list[tuple[str, str, str, str]] = []
        for some in parts(task_ids):
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

    def broken(self) -> list[tuple[str, str, str, str, str]]:
        return self._rows(
            f"SELECT d.id, d.subject, b.id, b.subject, b.state {_EDGES} "
            f"WHERE d.state='backlog' AND b.state IN ({marks(len(BROKEN))}) ORDER BY d.n, b.n",
            *BROKEN,
        )

    def rank(self, task_id: str) -> int:
        return int(self._row("SELECT rank FROM tasks WHERE id=?", task_id)[0])

    def set_ranks(self, ranks: Mapping[str, int]) -> None:
        self.connection.executemany("UPDATE tasks SET rank=? WHERE id=?", [(rank, id) for id, rank in ranks.items()])


class SqlGroups(Aggregate):
    """See `ledger.GroupRows`. One row per chat session is kept up to date, so that listing them never counts tasks."""

    def insert(self, group: model.group.Group) -> None:
        self.connection.execute(
            "INSERT INTO chat_groups (id, created_at, updated_at, first_prompt) VALUES (?, ?, ?, ?)",
            (group.id, group.created_at, group.updated_at, group.first_prompt),
        )

    def get(self, group_id: str) -> model.group.Group | None:
        row = self._row(f"{_GROUPS} WHERE g.id=?", group_id)
        return None if row is None else _group(row)

    def page(self, offset: int, limit: int) -> list[model.group.Group]:
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


def _group(row: tuple[Any, ...]) -> model.group.Group:
    return model.group.Group(*(*row[:-1], from_json(row[-1])))
