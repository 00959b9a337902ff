"""Runs of tasks, what they made outside git, and what was handed over to whom."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from interlock.model.run import Artifact, Handoff, Run
from interlock.storage.sqlite.table import Table, as_json, assign, from_json, marks

_HANDOFF = "task_id, parent_id, from_agent, to_agent, payload, state, reason, requested_at, answered_at"
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


def _encoded(field: str, value: Any) -> Any:
    return as_json(value) if field in ("result", "seen") and value is not None else value


def _run(row: tuple[Any, ...]) -> Run:
    run = Run(*row)
    if row[_RESULT] is not None:
        run.result = from_json(row[_RESULT])
    run.seen = {} if row[_SEEN] == "{}" else from_json(row[_SEEN])
    return run


class SqliteHandoffs(Table):
    """See `ledger.HandoffRows`."""

    name = "handoffs"
    key = "task_id"
    columns = tuple(_HANDOFF.split(", "))
    json_columns = frozenset({"payload"})

    def put(self, handoff: Handoff) -> None:
        values = [self.encoded(column, getattr(handoff, column)) for column in self.columns]
        self.connection.execute(
            f"INSERT OR REPLACE INTO handoffs ({_HANDOFF}) VALUES (?{', ?' * (len(values) - 1)})", values
        )

    def update(self, handoff: Handoff, **changes: Any) -> None:
        self.write(handoff.task_id, changes)
        assign(handoff, changes)

    def get(self, task_id: str) -> Handoff | None:
        row = self.connection.execute(f"SELECT {_HANDOFF} FROM handoffs WHERE task_id=?", (task_id,)).fetchone()
        if row is None:
            return None
        handoff = Handoff(*row)
        handoff.payload = from_json(row[4])
        return handoff
