"""The verbs of the queue of workflows with a hundred entries in it (NFR4: each within 100 ms).

The floor is bare `sqlite3`: one row written as durably, or a hundred read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from bench import homes
from bench.measure import Row, at_most, in_turns, median, quantile

ENTRIES = 100
ROUNDS = 60
SKILL = "/bmad:bmm:workflows:dev-story"
LIMIT = 100


def run() -> list[Row]:
    """Each verb beside its floor; an `add` to the full queue also cancels the oldest and writes to its maker."""
    with homes.directory() as home:
        team = homes.make(home, 1)
        for _ in range(ENTRIES + 1):  # the first has its turn at once
            team.queue_workflow(SKILL)
        connection = homes.ledger(home)
        connection.execute("CREATE TABLE bare (n INTEGER PRIMARY KEY, text TEXT)")

        def write() -> object:
            return connection.execute("INSERT INTO bare (text) VALUES ('x')")

        def read() -> object:
            return connection.execute("SELECT * FROM workflow_queue ORDER BY priority, n").fetchall()

        def last() -> str:
            return str(team.workflow_queue()[-1]["task_id"])

        priorities = cycle(("high", "low"))
        verbs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "list": (team.workflow_queue, read),
            "reprioritise": (lambda: team.reprioritise_workflow(last(), next(priorities)), write),
            "add to a full one": (lambda: team.queue_workflow(SKILL), write),
        }
        rows = []
        for name, (verb, floor) in verbs.items():
            taken, bare = in_turns([verb, floor], ROUNDS)
            rows += _rows(name, taken, bare)
        waiting = [str(one["task_id"]) for one in team.workflow_queue()]
        taken, bare = in_turns([lambda: team.unqueue_workflow(waiting.pop()), write], ROUNDS)
        rows += _rows("remove", taken, bare)
        connection.close()
    return rows


def _rows(name: str, taken: list[float], bare: list[float]) -> list[Row]:
    return [
        Row(f"queue {name}, {ENTRIES} entries", median(taken), median(bare), (at_most(LIMIT / 5),)),
        Row(f"queue {name}, p99", quantile(taken, 0.99), goals=(at_most(LIMIT),)),
    ]
