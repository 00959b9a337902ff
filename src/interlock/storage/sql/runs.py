"""Runs of tasks, what they made outside git, and what was handed over to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from interlock.model.json import Json
from interlock.model.run import Artifact, Handoff, Run
from interlock.storage.sql.table import JSON, Table, marks, parts

BY_HAND = "ended_at IS NULL AND runner IS NULL"
DRIVEN = "ended_at IS NULL AND runner IS NOT NULL"
LAPSED = (
    "ended_at IS NULL AND expires_at IS NOT NULL AND expires_at <= ? AND EXISTS (SELECT 1 FROM tasks t WHERE "
    "t.id = runs.task_id AND t.run = runs.number AND t.state IN ('in-progress', 'review') "
    "AND t.verifying IS NULL)"
)
_IN_PROGRESS = (
    "EXISTS (SELECT 1 FROM tasks t WHERE t.id = runs.task_id AND t.run = runs.number AND t.state = 'in-progress')"
)
_REAL = (  # A rejection opens one that nobody works in, and gives it back at once where its author is gone.
    "(outcome IS NULL OR outcome <> 'released' OR ended_at <> started_at) "
    "AND task_id NOT IN (SELECT id FROM tasks WHERE state = 'deleted')"
)
_ARTIFACTS = "SELECT task_id, run, path, kind, size, sha256 FROM artifacts"


class SqlRuns(Table[Run]):
    """See `ledger.RunRows`."""

    names: ClassVar[str] = "group_concat(DISTINCT {})"
    """Every text once, with commas between."""

    name = "runs"
    keys = ("task_id", "number")
    columns = (
        "task_id", "number", "member", "session", "started_at", "ended_at", "outcome", "reason", "runner", "process",
        "heartbeat_at", "expires_at", "beats",
        # What a run reports and spends comes later than the run.
        "result", "applied", "seen", "agent_session", "turns", "input_tokens", "output_tokens", "cost_usd", "unmetered",
    )  # fmt: skip
    coders = {"result": JSON, "seen": JSON}  # noqa: RUF012
    _make = Run

    def begin(self, run: Run) -> None:
        self._add(run, columns=self.columns[:13])

    def begin_aside(self, member: str, session: str, at: str) -> int:
        number = int(self._row("SELECT coalesce(max(number), 0) + 1 FROM runs WHERE task_id=''")[0])
        # It counts as ended at once: nothing hangs on it, and where nobody closes its account its tokens are unknown.
        run = Run("", number, member, session, at, ended_at=at)
        self.begin(run)
        self.update(run, unmetered=1)
        return number

    def update(self, run: Run, **changes: Any) -> None:
        self._change(run, changes)

    def end(self, task_id: str, number: int, at: str, outcome: str, reason: str | None) -> None:
        where = "task_id=? AND number=? AND ended_at IS NULL"
        self.connection.execute(
            f"UPDATE runs SET ended_at=?, outcome=?, reason=? WHERE {where}", (at, outcome, reason, task_id, number)
        )

    def reopen(self, task_id: str, number: int) -> None:
        self._write((task_id, number), {"ended_at": None, "outcome": None, "reason": None})

    def get(self, task_id: str, number: int) -> Run | None:
        return self._first("task_id=? AND number=?", task_id, number)

    def of_task(self, task_id: str) -> list[Run]:
        return self._select("task_id=? ORDER BY number", task_id)

    def by_task(self, task_ids: Sequence[str]) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for some in parts(task_ids):
            for run in self._select(f"task_id IN ({marks(len(some))}) ORDER BY task_id, number", *some):
                found.setdefault(run.task_id, []).append(run)
        return found

    def of_session(self, task_id: str, session: str) -> Run | None:
        return self._first("task_id=? AND session=? ORDER BY number DESC LIMIT 1", task_id, session)

    def open(self) -> list[Run]:
        return self._select("ended_at IS NULL ORDER BY task_id")

    def open_count(self) -> int:
        found = self._row(
            f"SELECT count(*) FROM runs WHERE {DRIVEN} AND NOT EXISTS (SELECT 1 FROM "
            "tasks t WHERE t.id = runs.task_id AND t.state IN ('awaiting-response', 'blocked'))"
        )
        return int(found[0])

    def lapsed(self, now: str) -> list[Run]:
        return self._select(f"{LAPSED} ORDER BY expires_at", now)

    def runners(self) -> list[str]:
        # One step through the index for each runner, however many runs it has.
        return self._firsts(
            "WITH RECURSIVE each (runner) AS ("
            f"SELECT min(runner) FROM runs WHERE {DRIVEN} UNION ALL "
            "SELECT (SELECT min(r.runner) FROM runs r WHERE r.ended_at IS NULL AND r.runner > each.runner) "
            "FROM each WHERE each.runner IS NOT NULL) SELECT runner FROM each WHERE runner IS NOT NULL"
        )

    def of_runner(self, runner: str) -> list[Run]:
        return self._select("ended_at IS NULL AND runner = ? ORDER BY task_id", runner)

    def spent(self, now: str, *, task: str | None = None, member: str | None = None, since: str = "") -> Json:
        where, values = ["started_at >= ?"], [since]
        for column, value in (("task_id", task), ("member", member)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        found = self._sums(now, " AND ".join(where), values)
        return {**found, "cost_usd": found["cost_usd"] or 0.0}

    def totals(self, now: str, since: str) -> Json:
        where = f"{_REAL} AND (ended_at IS NULL OR ended_at >= ?)"
        firsts = "SELECT count(NULLIF(task_id, '')), min(started_at), max(coalesce(ended_at, ?)) FROM runs WHERE"
        count, began, ended = self._row(f"{firsts} {where}", now, since)
        return {**self._sums(now, where, [since]), "runs": int(count), "began_at": began, "ended_at": ended}

    def _sums(self, now: str, where: str, values: Sequence[object]) -> Json:
        """What the runs that `where` gives used together; no cost where none reported one."""
        ended = self.days.format("coalesce(ended_at, ?)")
        names = self.names.format(
            "CASE WHEN unmetered > 0 AND (ended_at IS NOT NULL OR input_tokens + output_tokens = 0) THEN member END"
        )
        turns, sent, got, cost, days, partial, unknown = self._row(
            "SELECT coalesce(sum(turns), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), "
            f"sum(cost_usd), coalesce(sum({ended} - {self.days.format('started_at')}), 0), "
            "max(CASE WHEN turns > 0 AND cost_usd IS NULL THEN 1 ELSE 0 END), "
            f"{names} "
            f"FROM runs WHERE {where}",
            now,
            *values,
        )
        return {
            "turns": int(turns),
            "tokens": int(sent + got),
            "input_tokens": int(sent),
            "output_tokens": int(got),
            "cost_usd": None if cost is None else round(cost, 6),
            "time": round(days * 86_400, 3),
            **({"unknown": sorted(unknown.split(","))} if unknown else {}),
            **({"cost_partial": True} if partial else {}),
        }

    def last_agent_session(self, member: str) -> str | None:
        where = "member = ? AND agent_session IS NOT NULL ORDER BY started_at DESC LIMIT 1"
        found = self._row(f"SELECT agent_session FROM runs WHERE {where}", member)
        return None if found is None else str(found[0])

    def joined(self) -> list[tuple[str, str, str, str | None]]:
        return self._rows(
            "SELECT s.member, s.id, s.process, coalesce(s.gone_at, s.ended_at) FROM "
            f"(SELECT DISTINCT member, session FROM runs WHERE {BY_HAND}) r "
            "JOIN sessions s ON s.member = r.member AND s.id = r.session WHERE s.process IS NOT NULL"
        )

    def of_member_session(self, member: str, session: str) -> list[Run]:
        return self._select(
            f"{BY_HAND} AND member = ? AND session = ? AND {_IN_PROGRESS} ORDER BY task_id",
            member,
            session,
        )

    def by_hand(self) -> list[str]:
        return self._firsts(f"SELECT task_id FROM runs WHERE {BY_HAND}")

    def keep(self, task_id: str, number: int, artifacts: Sequence[Artifact]) -> None:
        self.connection.execute("DELETE FROM artifacts WHERE task_id=? AND run=?", (task_id, number))
        rows = [(one.task_id, one.run, one.path, one.kind, one.size, one.sha256) for one in artifacts]
        self.connection.executemany(
            "INSERT INTO artifacts (task_id, run, path, kind, size, sha256) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (task_id, run, path) "
            "DO UPDATE SET kind=excluded.kind, size=excluded.size, sha256=excluded.sha256",
            rows,
        )

    def artifacts(self, task_id: str) -> list[Artifact]:
        return [Artifact(*row) for row in self._rows(f"{_ARTIFACTS} WHERE task_id=? ORDER BY run, path", task_id)]

    def artifacts_by_task(self, task_ids: Sequence[str]) -> dict[str, list[Artifact]]:
        found: dict[str, list[Artifact]] = {}
        for some in parts(task_ids):
            among = f"task_id IN ({marks(len(some))}) ORDER BY task_id, run, path"
            for row in self._rows(f"{_ARTIFACTS} WHERE {among}", *some):
                found.setdefault(row[0], []).append(Artifact(*row))
        return found


class SqlHandoffs(Table[Handoff]):
    """See `ledger.HandoffRows`."""

    name = "handoffs"
    keys = ("task_id",)
    columns = (
        "task_id", "parent_id", "from_agent", "to_agent", "payload", "state", "reason", "requested_at", "answered_at",
    )  # fmt: skip
    coders = {"payload": JSON}  # noqa: RUF012
    _make = Handoff

    def put(self, handoff: Handoff) -> None:
        self._add(
            handoff,
            clause="ON CONFLICT (task_id) DO UPDATE SET "
            + ", ".join(f"{name}=excluded.{name}" for name in self.columns[1:]),
        )

    def get(self, task_id: str) -> Handoff | None:
        return self._first("task_id=?", task_id)
