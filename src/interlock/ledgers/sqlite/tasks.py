"""Tasks, their edges and their runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from interlock.jsontext import from_json
from interlock.ledgers.sqlite.table import Table, as_json, assign, marks
from interlock.model.artifact import Artifact
from interlock.model.task import FINAL, PRIORITIES, Run, Task

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


class SqliteRuns:
    """See `ledger.RunRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def begin(self, run: Run) -> None:
        self.connection.execute(_BEGIN_RUN, _run_values(run))

    def update(self, run: Run, **changes: Any) -> None:
        assignments = ", ".join(f"{name}=?" for name in changes)
        self.connection.execute(
            f"UPDATE runs SET {assignments} WHERE task_id=? AND number=?",
            (*(_encoded(name, value) for name, value in changes.items()), run.task_id, run.number),
        )
        assign(run, changes)

    def get(self, task_id: str, number: int) -> Run | None:
        found = self._select("task_id=? AND number=?", (task_id, number))
        return found[0] if found else None

    def of_task(self, task_id: str) -> list[Run]:
        return self._select("task_id=? ORDER BY number", (task_id,))

    def of_session(self, task_id: str, session: str) -> Run | None:
        found = self._select("task_id=? AND session=? ORDER BY number DESC LIMIT 1", (task_id, session))
        return found[0] if found else None

    def open(self) -> list[Run]:
        return self._select("ended_at IS NULL ORDER BY task_id", ())

    def open_count(self) -> int:
        found = self.connection.execute(
            "SELECT count(*) FROM runs WHERE ended_at IS NULL AND runner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "
            "tasks t WHERE t.id = runs.task_id AND t.state IN ('awaiting-response', 'blocked'))"
        )
        return int(found.fetchone()[0])

    def lapsed(self, now: str) -> list[Run]:
        return self._select(
            "ended_at IS NULL AND expires_at IS NOT NULL AND expires_at <= ? AND EXISTS (SELECT 1 FROM tasks t WHERE "
            "t.id = runs.task_id AND t.run = runs.number AND t.state IN ('in-progress', 'review') "
            "AND t.verifying IS NULL) ORDER BY expires_at",
            (now,),
        )

    def runners(self) -> list[str]:
        # One step through the index for each runner, however many runs it has.
        found = self.connection.execute(
            "WITH RECURSIVE each (runner) AS ("
            "SELECT min(runner) FROM runs WHERE ended_at IS NULL AND runner IS NOT NULL UNION ALL "
            "SELECT (SELECT min(r.runner) FROM runs r WHERE r.ended_at IS NULL AND r.runner > each.runner) "
            "FROM each WHERE each.runner IS NOT NULL) SELECT runner FROM each WHERE runner IS NOT NULL"
        )
        return [row[0] for row in found]

    def of_runner(self, runner: str) -> list[Run]:
        return self._select("ended_at IS NULL AND runner = ? ORDER BY task_id", (runner,))

    def spent(self, now: str, *, task: str | None = None, member: str | None = None, since: str = "") -> dict[str, Any]:
        where, values = ["started_at >= ?"], [since]
        for column, value in (("task_id", task), ("member", member)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        turns, sent, got, cost, days, partial, unknown = self.connection.execute(
            "SELECT coalesce(sum(turns), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), "
            "coalesce(sum(cost_usd), 0.0), coalesce(sum(julianday(coalesce(ended_at, ?)) - julianday(started_at)), 0), "
            "max(turns > 0 AND cost_usd IS NULL), "
            "group_concat(DISTINCT CASE WHEN unmetered > 0 "
            "AND (ended_at IS NOT NULL OR input_tokens + output_tokens = 0) THEN member END) "
            f"FROM runs WHERE {' AND '.join(where)}",
            (now, *values),
        ).fetchone()
        return {
            "turns": turns,
            "tokens": sent + got,
            "input_tokens": sent,
            "output_tokens": got,
            "cost_usd": round(cost, 6),
            "time": round(days * 86_400, 3),
            **({"unknown": sorted(unknown.split(","))} if unknown else {}),
            **({"cost_partial": True} if partial else {}),
        }

    def last_agent_session(self, member: str) -> str | None:
        found = self.connection.execute(
            "SELECT agent_session FROM runs WHERE member = ? AND agent_session IS NOT NULL "
            "ORDER BY started_at DESC LIMIT 1",
            (member,),
        ).fetchone()
        return None if found is None else str(found[0])

    def joined(self) -> list[tuple[str, str, str, str | None]]:
        return self.connection.execute(
            "SELECT s.member, s.id, s.process, coalesce(s.gone_at, s.ended_at) FROM "
            "(SELECT DISTINCT member, session FROM runs WHERE ended_at IS NULL AND runner IS NULL) r "
            "JOIN sessions s ON s.member = r.member AND s.id = r.session WHERE s.process IS NOT NULL"
        ).fetchall()

    def of_member_session(self, member: str, session: str) -> list[Run]:
        return self._select(
            f"ended_at IS NULL AND runner IS NULL AND member = ? AND session = ? AND {_IN_PROGRESS} ORDER BY task_id",
            (member, session),
        )

    def by_hand(self) -> list[str]:
        found = self.connection.execute("SELECT task_id FROM runs WHERE ended_at IS NULL AND runner IS NULL")
        return [row[0] for row in found]

    def keep(self, task_id: str, number: int, artifacts: Sequence[Artifact]) -> None:
        self.connection.execute("DELETE FROM artifacts WHERE task_id=? AND run=?", (task_id, number))
        self.connection.executemany(
            f"INSERT OR REPLACE INTO artifacts ({_ARTIFACT}) VALUES ({marks(6)})", map(_artifact_values, artifacts)
        )

    def artifacts(self, task_id: str) -> list[Artifact]:
        found = f"SELECT {_ARTIFACT} FROM artifacts WHERE task_id=? ORDER BY run, path"
        return [Artifact(*row) for row in self.connection.execute(found, (task_id,))]

    def _select(self, where: str, values: tuple[Any, ...]) -> list[Run]:
        return [_run(row) for row in self.connection.execute(f"SELECT {_RUN} FROM runs WHERE {where}", values)]


_NEW_RUN = (
    "task_id, number, member, session, started_at, ended_at, outcome, reason, runner, process, heartbeat_at, "
    "expires_at, beats"
)
_IN_PROGRESS = (
    "EXISTS (SELECT 1 FROM tasks t WHERE t.id = runs.task_id AND t.run = runs.number AND t.state = 'in-progress')"
)
_RUN = f"{_NEW_RUN}, result, applied, seen, agent_session, turns, input_tokens, output_tokens, cost_usd, unmetered"
"""What a run reports and spends comes later than the run."""
_RESULT, _SEEN = len(_NEW_RUN.split(", ")), len(_NEW_RUN.split(", ")) + 2
_RUN_FIELDS = tuple(_NEW_RUN.split(", "))
_BEGIN_RUN = f"INSERT INTO runs ({_NEW_RUN}) VALUES ({marks(len(_RUN_FIELDS))})"
_run_values = attrgetter(*_RUN_FIELDS)
_ARTIFACT = "task_id, run, path, kind, size, sha256"
_artifact_values = attrgetter(*_ARTIFACT.split(", "))


def _encoded(field: str, value: Any) -> Any:
    return as_json(value) if field in ("result", "seen") and value is not None else value


def _run(row: tuple[Any, ...]) -> Run:
    run = Run(*row)
    if row[_RESULT] is not None:
        run.result = from_json(row[_RESULT])
    run.seen = {} if row[_SEEN] == "{}" else from_json(row[_SEEN])
    return run


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
