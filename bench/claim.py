"""Processes race for the tasks of one team until none is left.

The floor is bare `sqlite3` on the same schema, writing the same rows as durably, waiting with SQLite's own patience.
Nobody may get a task that somebody else got: that is checked, and ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench import homes
from bench.crew import Crew
from bench.measure import Row, at_least, at_least_times, at_most, median, quantile

TASKS = 4000
ROUNDS = 3

Result = tuple[float, list[float]]


def run() -> list[Row]:
    """Four racers beside the floor, then eight."""
    floor, off, on = [], [], []
    for _ in range(ROUNDS):
        floor.append(race("bare", 4, homes.OFF)[0])
        off.append(race("claimer", 4, homes.OFF)[0])
        on.append(race("claimer", 4, homes.ON)[0])
    rows = [
        Row("claim race, 4 processes, mirror off", median(off), median(floor), (at_least_times(0.4),), "/s"),
        Row(
            "claim race, 4 processes, mirror on", median(on), median(floor), (at_least_times(0.15), at_least(600)), "/s"
        ),
    ]
    for name, environment in (("off", homes.OFF), ("on", homes.ON)):
        rate, taken = race("claimer", 8, environment)
        rows += [
            Row(f"claim, 8 writers, mirror {name}, claims", rate, unit="/s"),
            Row(f"claim, 8 writers, mirror {name}, p99", quantile(taken, 0.99), goals=(at_most(50),)),
            Row(f"claim, 8 writers, mirror {name}, slowest", max(taken), goals=(at_most(250),)),
        ]
    return rows


def race(work: str, racers: int, environment: Mapping[str, str]) -> Result:
    """Claims per second, and how long each took, in ms."""
    with homes.directory() as home:
        team = homes.make(home, racers)
        connection = homes.ledger(home)
        homes.fill_tasks(connection, 1, TASKS)
        connection.close()
        if environment is homes.ON:
            # The files that a claim moves are there, as they would be.
            homes.mirror(team)
        with Crew(f"claim:{work}", [(home, f"m{number}") for number in range(racers)], environment) as crew:
            answers, seconds = crew.race()
    got = [task for tasks, _ in answers for task in tasks]
    if len(got) != TASKS or len(set(got)) != TASKS:
        raise AssertionError(f"{len(got)} claims of {len(set(got))} different tasks, there are {TASKS}")
    return TASKS / seconds, [ms for _, taken in answers for ms in taken]


def claimer(home: str, member: str) -> Callable[[], Any]:
    """A racer through the public API."""
    team = homes.open_team(home, member)

    def claim() -> str | None:
        task = team.next_task()
        return None if task is None else task.id

    return lambda: until_none(claim)


def bare(home: str, member: str) -> Callable[[], Any]:
    """A racer that writes the same rows, and does nothing else."""
    connection = homes.ledger(home)
    session = f"cli:{member}"

    def claim() -> str | None:
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(
            "SELECT n, id FROM tasks WHERE state = 'ready' AND coalesce(reserved, assignee) IS NULL "
            "AND (command IS NULL) = 1 ORDER BY priority, n LIMIT 1"
        ).fetchone()
        if found is None:
            connection.execute("ROLLBACK")
            return None
        n, task = found
        connection.execute(
            "UPDATE tasks SET state = 'in-progress', owner = ?, session = ?, run = 1, claimed_at = ?, updated_at = ? "
            "WHERE n = ?",
            (member, session, homes.AT, homes.AT, n),
        )
        connection.execute(
            "INSERT INTO runs (task_id, number, member, session, started_at) VALUES (?, 1, ?, ?, ?)",
            (task, member, session, homes.AT),
        )
        for kind, payload in (
            ("task.transitioned", '{"from": "ready", "to": "in-progress", "reason": "claimed"}'),
            ("task.claimed", f'{{"owner": "{member}", "run": "{task}.1", "session": "{session}", "forced": false}}'),
        ):
            connection.execute(
                "INSERT INTO events (type, at, actor, task_id, payload) VALUES (?, ?, ?, ?, ?)",
                (kind, homes.AT, member, task, payload),
            )
        connection.execute(
            "UPDATE members SET last_active_at = ?, session = ? WHERE name = ?", (homes.AT, session, member)
        )
        connection.execute("COMMIT")
        return str(task)

    return lambda: until_none(claim)


def until_none(claim: Callable[[], str | None]) -> tuple[list[str], list[float]]:
    """What was claimed until nothing was left, and how long each took, in ms."""
    tasks: list[str] = []
    taken: list[float] = []
    while True:
        before = time.perf_counter_ns()
        task = claim()
        if task is None:
            return tasks, taken
        tasks.append(task)
        taken.append((time.perf_counter_ns() - before) / 1e6)
