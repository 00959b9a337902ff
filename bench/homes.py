"""Homes to measure in, and ledgers of any size in them: filled by SQL, since a million verbs would take an hour."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import interlock
from interlock.app.team import Team

TEAM = "bench"
OFF = {"INTERLOCK_MIRROR": "false"}
ON = {"INTERLOCK_MIRROR": "true"}
ROOMY = {"task_limit": 10_000_000, "inbox_limit": 10_000_000, "member_limit": 1000}
AT = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@contextmanager
def directory() -> Iterator[Path]:
    """A directory for one scenario, gone at the very end.

    Not earlier: for minutes after thousands of files were removed some file systems (ext4 without a journal) are ten
    times slower at making new ones, and the next scenario would pay for the last.
    """
    path = tempfile.mkdtemp(prefix="interlock-bench-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    yield Path(path)


def make(home: Path, members: int) -> Team:
    """A team with members `m0`, `m1` … and no limits that a measurement could meet."""
    team = interlock.connect(str(home)).create_team(TEAM)
    team.configure(ROOMY)
    for number in range(members):
        team.spawn(f"m{number}")
    return team


def open_team(home: Path | str, member: str, environment: Mapping[str, str] | None = None) -> Team:
    """The team of a home, as `member`."""
    from interlock.wiring import connect

    return connect(str(home), environment=environment).team(TEAM).acting(member)


def ledger(home: Path | str) -> sqlite3.Connection:
    """A bare connection to the team's ledger, as durable as Interlock's own, with SQLite's own patience."""
    connection = sqlite3.connect(Path(home) / "teams" / TEAM / "ledger.db", timeout=60, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def task_id(n: int) -> str:
    """The id of the n-th task that `fill_tasks` makes."""
    return f"TASK-{AT[:10]}-{n:03d}"


def fill_tasks(connection: sqlite3.Connection, first: int, last: int, **columns: Any) -> None:
    """Tasks with the numbers `first` to `last`, ready unless `columns` say otherwise."""
    values = {
        "state": "ready", "subject": "A task like any other", "body": "Do what has to be done. " * 8,
        "created_by": "lead", "created_at": AT, "updated_at": AT, **columns,
    }  # fmt: skip
    names = ", ".join(values)
    marks = ", ".join("?" * len(values))
    _in_one(
        connection,
        f"WITH RECURSIVE numbers (n) AS (VALUES ({first:d}) UNION ALL SELECT n + 1 FROM numbers WHERE n < {last:d}) "
        f"INSERT INTO tasks (n, id, rank, {names}) "
        f"SELECT n, printf('TASK-{AT[:10]}-%03d', n), n, {marks} FROM numbers",
        tuple(values.values()),
    )
    connection.execute(
        "UPDATE team SET day = ?, day_count = max(day_count, ?), "
        "open_tasks = (SELECT count(*) FROM tasks WHERE state NOT IN ('done', 'cancelled', 'deleted'))",
        (AT[:10], last),
    )


def fill_edges(connection: sqlite3.Connection, edges: Iterable[tuple[int, int]]) -> None:
    """Edges (blocker, blocked) between tasks, by number; who has a blocker that is not done waits in the backlog."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        "INSERT INTO edges (blocker, blocked) VALUES (?, ?)",
        ((task_id(blocker), task_id(blocked)) for blocker, blocked in edges),
    )
    connection.execute(
        "UPDATE tasks SET open_blockers = found.open, state = iif(found.open, 'backlog', tasks.state) FROM ("
        "SELECT e.blocked AS id, sum(b.state <> 'done') AS open FROM edges e JOIN tasks b ON b.id = e.blocker "
        "GROUP BY e.blocked) AS found WHERE tasks.id = found.id AND tasks.state IN ('ready', 'backlog')"
    )
    connection.execute("COMMIT")


def fill_runs(connection: sqlite3.Connection, last: int) -> None:
    """A run that ended for each of the tasks 1 to `last`."""
    _in_one(
        connection,
        "INSERT INTO runs (task_id, number, member, session, started_at, ended_at, outcome) "
        "SELECT id, 1, 'm1', 'cli:m1', ?1, ?1, 'done' FROM tasks WHERE n <= ?2",
        (AT, last),
    )


def fill_events(connection: sqlite3.Connection, count: int, tasks: int) -> None:
    """So many events more, spread over the tasks 1 to `tasks`."""
    _in_one(
        connection,
        f"WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < {count:d}) "
        "INSERT INTO events (type, at, actor, task_id, payload) "
        f"SELECT 'task.logged', ?, 'm0', printf('TASK-{AT[:10]}-%03d', n % {tasks:d} + 1), ? FROM numbers",
        (AT, '{"text": "One step further than before"}'),
    )


def fill_mail(connection: sqlite3.Connection, recipient: str, count: int) -> None:
    """So many unread messages for one member."""
    _in_one(
        connection,
        f"WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < {count:d}) "
        "INSERT INTO messages (id, sender, recipient, type, content, timestamp, stage) "
        "SELECT printf('filler-%d', n), 'lead', ?, 'message', 'Something that can wait', ?, 'stored' FROM numbers",
        (recipient, AT),
    )
    connection.execute("UPDATE members SET unread = unread + ? WHERE name = ?", (count, recipient))


def mirror(team: Team) -> None:
    """Write the files of everything in the ledger."""
    team._workspace.mirror.rebuild()


def _in_one(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(sql, values)
    connection.execute("COMMIT")
