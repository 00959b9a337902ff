"""A long night on several machines: two servers on one PostgreSQL server, and two workers that share no file with them.

One worker is cut off for so long that it loses what it does, the database crashes, and one server is killed for good,
which cuts off its worker, too. What must be true in the morning is what `long_night.py` says. Both servers have the
repository, as servers on one machine do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import interlock
from tests.behaviours.driving import Runner
from tests.network import Way
from tests.night.long_night import QUESTION, TASKS, LongNight
from tests.night.stage import TEAM, Night
from tests.postgres import Breakable, on_postgres
from tests.surfaces.http.harness import Server
from tests.waiting import until

PLAYER = Path(__file__).with_name("elsewhere_player.py")
MEMBERS = ("ada", "bob", "cem", "dot")
LEASE = 15
"""Seconds; a busy machine may well take that long for a beat, and then the run is done again."""
FEWEST = 12
PATIENCE = 900.0


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """`interlock up`."""
    server = Server(home)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def working(home: Path, name: str, server: Server, way: Way) -> Iterator[Runner]:
    """`interlock work`, on a machine of its own."""
    token = server.tokens.create(name, role="machine", team=TEAM)[1]
    options = {"server": way.url, "token": token, "team": TEAM, "name": name, "parallel": 2, "labels": ["far"]}
    worker = Runner(str(home), options)
    try:
        yield worker
    finally:
        worker.end()
        way.close()


def member(work: LongNight, path: Path) -> dict[str, Any]:
    """Whoever does the tasks, as `elsewhere_player.py` plays them; the marks are its memory."""
    (path / "marks").mkdir(parents=True)
    script = {one.key: {"text": one.text, "misfortunes": one.misfortunes} for one in work.works}
    told = {"tasks": script, "impossible": work.impossible, "crossed": sorted(work.crossed), "question": QUESTION}
    (path / "night.json").write_text(json.dumps({**told, "marks": str(path / "marks")}))
    return {"agent": {"command": [sys.executable, str(PLAYER), str(path / "night.json")]}}


@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.timeout(1500)
def test_a_long_night_of_two_workers_and_two_servers(tmp_path: Path, seed: int, dose: float) -> None:
    work = LongNight(seed, max(FEWEST, int(TASKS * dose)))
    plan = work.plan(dict.fromkeys(MEMBERS, member(work, tmp_path / "agents")))
    for task in plan["tasks"].values():
        task["labels"] = ["far"]
    database = Breakable()
    for name in ("night/home", "other/home"):
        on_postgres(tmp_path / name, database.url)
    with ExitStack() as stack:
        stack.callback(database.close)
        night = stack.enter_context(Night(tmp_path / "night", work.files(), plan))
        (night.path / "run.log").touch()
        with interlock.connect(str(night.home)) as home:
            home.stage(str(night.plan))
        night.team.configure({"heartbeat_ttl": LEASE, "retry_delay": 0.05})

        def share(part: float) -> None:
            until(lambda: len(night.done()) >= len(work.possible) * part, PATIENCE)

        with serving(night.home) as first, serving(tmp_path / "other" / "home") as second:
            ways = [Way(one.host, one.port) for one in (first, second)]
            with (
                working(tmp_path / "near", "near", first, ways[0]),
                working(tmp_path / "far", "far", second, ways[1]),
            ):
                share(0.2)
                ways[1].cut()
                until(lambda: "far" not in {one.name for one in night.team.workers() if one.alive}, PATIENCE)
                ways[1].mend()
                share(0.5)
                database.crash()
                share(0.7)
                first.kill()
                until(
                    lambda: not [one for one in night.team.tasks() if one.state in ("ready", "in-progress", "review")],
                    PATIENCE,
                )
        work.check(night, 1)
