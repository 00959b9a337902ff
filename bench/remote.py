"""The same verbs of a home here, and over HTTP on the loopback from a client that knows an address and a token.

The floor is the verb without a server, and for the look at a task also what a bare server needs to answer as many bytes
from a thread, as every verb is carried out in one. Calls take turns, so that a busy moment meets all alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import interlock
from bench.homes import TEAM, directory, make
from bench.measure import Row, at_most_times, in_turns, median
from bench.server import BARE, server
from interlock.app.team import Team
from interlock.app.tokens import Tokens
from interlock.remote.connection import ServerConnection

CALLS = 200
TASK_BYTES = 870


def run() -> list[Row]:
    """Look, create, claim and complete."""
    with directory() as place:
        make(place, members=2)
        token = Tokens(str(place)).admin()
        up = ["-m", "interlock.surfaces.cli", "--home", str(place), "--json", "up", "--port", "0"]
        (place / "task.json").write_bytes(b'"%s"' % (b"x" * TASK_BYTES))
        with (
            server([sys.executable, *up]) as (url, _),
            server([sys.executable, "-c", BARE, str(place / "task.json")]) as (bare, _),
        ):
            teams = [interlock.connect(str(place)).team(TEAM), interlock.connect(url, token).team(TEAM)]
            answers = ServerConnection(bare, None)
            rows = []
            for name, verb in VERBS.items():
                calls = [*(verb(team) for team in teams), lambda: answers.get("/api/task-groups")]
                here, there, floor = map(median, in_turns(calls, CALLS))
                rows.append(Row(f"{name}, over HTTP beside local", there, here, (at_most_times(4),)))
                if verb is _look:
                    rows.append(Row(f"{name}, over HTTP beside a bare server's answer", there, floor))
            return rows


def _look(team: Team) -> Callable[[], object]:
    task = team.create_task("A task like any other").id
    return lambda: team.task(task)


def _work(team: Team) -> Callable[[], object]:
    def work() -> None:
        task = team.create_task("A task like any other").id
        team.claim(task, by="m0")
        team.complete(task, by="m0")

    return work


VERBS = {
    "show a task": _look,
    "create a task": lambda team: lambda: team.create_task("A task like any other"),
    "create, claim and complete": _work,
}
