"""The same verbs in a small team and in one with a hundred times its history: the cost goes with the change.

Both ledgers are written by SQL; verbs take turns between them, so that a busy moment meets both alike. A completion
here always unblocks a dependent. The floor is the small team.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from bench import homes
from bench.measure import Row, at_most_times, in_turns, median
from interlock.app.team import Team

SMALL = (1_000, 10_000)
LARGE = (100_000, 1_000_000)
PAIRS = 200


def run() -> list[Row]:
    """Claim, complete and send, small beside large."""
    with homes.directory() as small, homes.directory() as large:
        teams = [(grown(small, *SMALL), SMALL[0]), (grown(large, *LARGE), LARGE[0])]
        found = {
            name: in_turns([spread(verb, team, tasks) for team, tasks in teams], PAIRS)
            for name, verb in (("claim", claims), ("complete and unblock", completes), ("send", sends))
        }
    size = f"at {LARGE[0]:,} tasks, {LARGE[1]:,} events"
    return [
        Row(f"{verb} {size}", median(large_taken), median(small_taken), (at_most_times(1.3),))
        for verb, (small_taken, large_taken) in found.items()
    ]


def grown(home: Path, tasks: int, events: int) -> Team:
    """A team of that size: half of its tasks done, of the others each second waits for the one before it."""
    homes.make(home, 2)
    connection = homes.ledger(home)
    half = tasks // 2
    homes.fill_tasks(connection, 1, half, state="done", owner="m1", run=1, completed_at=homes.AT)
    homes.fill_tasks(connection, half + 1, tasks)
    homes.fill_edges(connection, [(n, n + 1) for n in range(half + 1, tasks, 2)])
    homes.fill_edges(connection, [(n, n + half) for n in range(1, half)])
    homes.fill_runs(connection, half)
    homes.fill_events(connection, events, tasks)
    homes.fill_mail(connection, "m1", min(tasks, 1000))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return homes.open_team(home, "m0", homes.OFF)


def spread(verb: Callable[[Team, int], object], team: Team, tasks: int) -> Callable[[], object]:
    """That verb on the first task of another pair at each call, spread over all that are not done."""
    half = tasks // 2
    numbers = itertools.count(half + 1, 2 * (half // 2 // (PAIRS + 10)))
    return lambda: verb(team, next(numbers))


def claims(team: Team, n: int) -> object:
    """Claim the n-th task."""
    return team.claim(homes.task_id(n))


def completes(team: Team, n: int) -> object:
    """Complete it, which unblocks the next one."""
    return team.complete(homes.task_id(n))


def sends(team: Team, n: int) -> object:
    """Send a message that speaks of it."""
    return team.send(to="m1", content=f"{homes.task_id(n)} is done, have a look")
