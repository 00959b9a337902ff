"""A dependency with its cycle check, in a graph of 100,000 tasks and 200,000 edges that point at random.

*Forward*: the blocker is the older task, as nearly always. *Any*: two tasks at random, half of them against the order
in which they were made; such an edge is searched, and refused where it would create a cycle. All are whole, durable
verbs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bench import homes
from bench.floors import durable_transactions
from bench.measure import Row, at_most, median, quantile, times
from interlock.app.team import Team
from interlock.errors import DependencyCycle

TASKS = 100_000
EDGES = 200_000
CALLS = 300


def run() -> list[Row]:
    """Edges along the order, and any edges."""
    floor = median(durable_transactions())
    rng = random.Random(7)
    with homes.directory() as home:
        homes.make(home, 1)
        connection = homes.ledger(home)
        homes.fill_tasks(connection, 1, TASKS)
        forward_edges = pairs(rng, ordered=True)
        edges = {next(forward_edges) for _ in range(EDGES)}
        homes.fill_edges(connection, sorted(edges))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        team = homes.open_team(home, "m0", homes.OFF).acting("lead")
        forward = times(depends(team, pairs(rng, ordered=True)), CALLS)
        anyhow = times(depends(team, pairs(rng, ordered=False)), CALLS)
    size = f"{TASKS:,} tasks, {EDGES:,} edges"
    return [
        Row(f"dependency, forward, {size}, median", median(forward), floor, (at_most(1),)),
        Row(f"dependency, any two tasks, {size}, median", median(anyhow), floor, (at_most(1),)),
        Row(f"dependency, any two tasks, {size}, p99", quantile(anyhow, 0.99), floor),
    ]


def pairs(rng: random.Random, *, ordered: bool) -> Iterator[tuple[int, int]]:
    """(blocker, blocked) without end."""
    while True:
        two = rng.sample(range(1, TASKS + 1), 2)
        yield (min(two), max(two)) if ordered else (two[0], two[1])


def depends(team: Team, edges: Iterator[tuple[int, int]]) -> Callable[[], object]:
    """Add the next edge; a cycle that is refused is an answer too."""

    def depend() -> object:
        blocker, blocked = next(edges)
        try:
            return team.depend(homes.task_id(blocked), on=homes.task_id(blocker))
        except DependencyCycle as error:
            return error

    return depend
