"""One poll of the scheduler over a team with thousands of tasks in progress.

In the worst mix: a third each is driven by a runner that lives, claimed by hand and silent (where a heartbeat may have
been laid down), and claimed by hand with heartbeats. Nothing is stale: what is measured is finding that out. The floor
is a bare `sqlite3` read of as many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import homes
from bench.measure import Row, at_most, in_turns, median
from interlock.processes import ref

SIZES = (1_000, 10_000)
ROUNDS = 15
LATER = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def run() -> list[Row]:
    """A quiet poll at two sizes, beside reading the ids of all runs."""
    rows = []
    for size in SIZES:
        with homes.directory() as home:
            poll, bare = quiet(home, size)
            taken, floor = in_turns([poll, bare], ROUNDS)
        goals = (at_most(100),) if size == SIZES[-1] else ()
        rows.append(Row(f"poll, {size} tasks in progress", median(taken), median(floor), goals))
    per_task = [row.measured / size for row, size in zip(rows, SIZES, strict=True)]
    rows.append(
        Row("poll, cost of a task at 10,000 by that at 1,000", per_task[1] / per_task[0], None, (at_most(2),), "x")
    )
    return rows


def quiet(home: Path, size: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """A poll of a team with `size` tasks in progress, and the floor beside it."""
    team = homes.make(home, 30)
    connection = homes.ledger(home)
    homes.fill_tasks(connection, 1, size, state="in-progress", owner="m1", run=1, session="s1", claimed_at=homes.AT)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "INSERT INTO runs (task_id, number, member, session, started_at, runner, heartbeat_at, expires_at) "
        "SELECT id, 1, 'm' || (n % 30), 's' || (n % 30), ?1, iif(n % 3 = 0, ?2, NULL), iif(n % 3 = 1, NULL, ?1), "
        "iif(n % 3 = 1, NULL, ?3) FROM tasks",
        (homes.AT, ref.current().as_text(), LATER),
    )
    connection.executemany(
        "INSERT INTO sessions (member, id, began_at, process) VALUES (?, ?, ?, ?)",
        ((f"m{n}", f"s{n}", homes.AT, ref.current().as_text()) for n in range(30)),
    )
    connection.execute("COMMIT")
    homes.mirror(team)
    if team.poll().actions:
        raise AssertionError("nothing is stale here, but the poll did something")

    def bare() -> object:
        return connection.execute("SELECT task_id, number FROM runs WHERE ended_at IS NULL").fetchall()

    return team.poll, bare
