"""How long after `send` begins a sleeping member has the message in hand, while fifty wait, and what their sleep costs.

Everything a user has is in it: the commit, the files, the wake-up, the offer. The floor is one byte through a bare
datagram socket to one of as many bare processes. Times are on the machine-wide monotonic clock.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import homes
from bench.crew import Crew, say
from bench.measure import Row, at_most, median, quantile
from interlock.app.team import Team

SLEEPERS = 50
ROUNDS = 4
PAUSE = 0.02
"""Seconds between two messages: long enough for whoever was woken to sleep again."""
IDLE = 10.0


def run() -> list[Row]:
    """Fifty processes, then fifty threads of one, beside bare sockets."""
    floor = bare()
    rows = []
    for name, measure in (("processes", processes), ("threads of one server", threads)):
        taken, idle = measure()
        rows += [
            Row(f"wake one of {SLEEPERS} {name}, median", median(taken), median(floor), (at_most(5),)),
            Row(f"wake one of {SLEEPERS} {name}, p99", quantile(taken, 0.99), quantile(floor, 0.99), (at_most(25),)),
        ]
        if idle is not None:
            rows.append(Row(f"{SLEEPERS} {name} asleep", idle, goals=(at_most(3),), unit="% of a core"))
    return rows


def processes() -> tuple[list[float], float | None]:
    """Latencies in ms, and what sleeping costs in per cent of a core."""
    with homes.directory() as home:
        team = homes.make(home, SLEEPERS)
        members = [(home, f"m{number}") for number in range(SLEEPERS)]
        with Crew("wake:waiter", members) as crew:
            crew.go()
            taken = latencies(team, crew.answer)
            return taken, cost(crew.pids)


def threads() -> tuple[list[float], float | None]:
    """The same with all waiters in one process."""
    with homes.directory() as home:
        team = homes.make(home, SLEEPERS)
        with Crew("wake:server", [(home, SLEEPERS)]) as crew:
            crew.go()
            taken = latencies(team, lambda _: crew.answer(0))
            return taken, cost(crew.pids)


def waiter(home: str, member: str) -> Callable[[], object]:
    """A member that waits for mail, and says when it has some."""
    return lambda: wait_for_ever(homes.open_team(home, member))


def server(home: str, count: str) -> Callable[[], object]:
    """One process in which so many members wait."""
    team = homes.open_team(home, "lead")
    members = [threading.Thread(target=wait_for_ever, args=[team.acting(f"m{n}")]) for n in range(int(count))]

    def serve() -> None:
        for member in members:
            member.start()
        for member in members:
            member.join()

    return serve


def wait_for_ever(team: Team) -> None:
    """Say when each message came."""
    while True:
        with team.mail(wait=600) as mail:
            if mail.messages:
                say(time.monotonic_ns())


def latencies(team: Team, answer: Callable[[int], object]) -> list[float]:
    """Send to one after the other; how long each message took, in ms."""
    time.sleep(2)
    taken = []
    for turn in range(-1, ROUNDS):
        for number in range(SLEEPERS):
            time.sleep(PAUSE)
            before = time.monotonic_ns()
            team.send("lead", to=f"m{number}", content="Wake up")
            came = answer(number)
            if turn >= 0:  # The first message also opens sessions.
                taken.append((int(str(came)) - before) / 1e6)
    return taken


def cost(pids: list[int]) -> float | None:
    """Processor time of those processes while they sleep, in per cent of one core; null where nobody tells."""
    time.sleep(1)
    before = on_processor(pids)
    time.sleep(IDLE)
    after = on_processor(pids)
    return None if before is None or after is None else (after - before) / 1e9 / IDLE * 100


def on_processor(pids: list[int]) -> int | None:
    """Nanoseconds that all threads of those processes have run."""
    try:
        found = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
        return sum(int((task / "schedstat").read_text().split()[0]) for task in found)
    except OSError:
        return None


def bare() -> list[float]:
    """Latencies of bare datagrams, ms."""
    with homes.directory() as runtime:
        paths = [runtime / str(number) for number in range(SLEEPERS)]
        with Crew("wake:bare_waiter", [(path,) for path in paths]) as crew, socket.socket(*DATAGRAM) as sender:
            crew.go()
            taken = []
            for number in list(range(SLEEPERS)) * ROUNDS:
                time.sleep(PAUSE)
                before = time.monotonic_ns()
                sender.sendto(b"!", str(paths[number]))
                taken.append((int(crew.answer(number)) - before) / 1e6)
            return taken


DATAGRAM = (socket.AF_UNIX, socket.SOCK_DGRAM)


def bare_waiter(path: str) -> Callable[[], object]:
    """Says when each datagram came."""
    receiver = socket.socket(*DATAGRAM)
    receiver.bind(path)

    def wait() -> None:
        while receiver.recv(1):
            say(time.monotonic_ns())

    return wait
