"""How long after `send` begins a managed member without a task is prompted with the message, its session being open.

The agent plays a script in the runner's process, so what a program and its model take is left out. The floor is a
member that waits for its mail in a thread (`message wait`): commit, wake-up and offer, without a runner.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from pathlib import Path

from bench import homes
from bench.measure import Row, at_most, median, quantile
from interlock.agents.scripted import Say, ScriptedAgent
from interlock.agents.session import Opening
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import SystemClock
from interlock.errors import TeamNotFound
from interlock.model.driving import Stop
from interlock.model.names import HUMAN
from interlock.runner.executors import AgentExecutor
from interlock.settings import Settings
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.wakeup.socket import SocketNotifier

ROUNDS = 50
PAUSE = 0.05


def run() -> list[Row]:
    """An idle member of a runner, beside one that waits."""
    floor, taken = waiting(), prompted()
    return [
        Row("prompt an idle member, median", median(taken), median(floor), (at_most(50),)),
        Row("prompt an idle member, p99", quantile(taken, 0.99), quantile(floor, 0.99), (at_most(200),)),
    ]


def prompted() -> list[float]:
    """Latencies in ms to the beginning of the prompt."""
    came: queue.Queue[int] = queue.Queue()

    async def script(prompt: str, say: Say, opening: Opening) -> str:
        came.put(time.monotonic_ns())
        return "read"

    with homes.directory() as directory:
        homes.make(directory, 0)
        clock, settings = SystemClock(), Settings({})
        agent = AgentExecutor(ScriptedAgent("m", script))
        catalog, notifier = SqliteCatalog(str(directory / "teams"), settings, clock), SocketNotifier(str(directory))
        home = Home(str(directory), settings, clock, catalog, notifier, lambda member: agent)
        team = home.team(homes.TEAM)
        team.spawn("managed", agent="script", command=["true"])
        stop = Stop()
        runner = threading.Thread(target=home.drive, args=[homes.TEAM], kwargs={"stop": stop, "endless": True})
        runner.start()
        try:
            return latencies(team, "managed", came)
        finally:
            stop.request("measured", now=True)
            runner.join()


def waiting() -> list[float]:
    """Latencies in ms to a member that sleeps in a thread."""
    came: queue.Queue[int] = queue.Queue()
    with homes.directory() as directory:
        team = homes.make(Path(directory), 1)
        threading.Thread(target=_wait, args=[team.acting("m0"), came], daemon=True).start()
        return latencies(team, "m0", came)


def latencies(team: Team, member: str, came: queue.Queue[int]) -> list[float]:
    """Send one message after the other; how long each took, in ms."""
    taken = []
    for turn in range(-1, ROUNDS):
        time.sleep(PAUSE if turn else 1.0)
        before = time.monotonic_ns()
        team.send(HUMAN, to=member, content="Well?")
        at = came.get(timeout=60)
        if turn >= 0:  # The first message also opens the session.
            taken.append((at - before) / 1e6)
    return taken


def _wait(team: Team, came: queue.Queue[int]) -> None:
    with suppress(TeamNotFound):  # The end: its directory is removed.
        while True:
            with team.mail(wait=600) as mail:
                if mail.messages:
                    came.put(time.monotonic_ns())
