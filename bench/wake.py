"""How long after a notification fifty sleeping processes are awake.

The floor is the same machine, the same number of processes and the same kernel primitive without Interlock: one byte
through a datagram socket pair to each. Times are on the machine-wide monotonic clock, from just before the first
byte is sent until the sleeper runs again.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.measure import Row, median, quantile
from interlock.notifiers.socket import SocketNotifier

SLEEPERS = 50
ROUNDS = 20
SOURCE = str(Path(__file__).resolve().parent.parent / "src")

# Both sleepers answer each wake-up with the time, and are asleep again when the next round begins.
SLEEPER = f"""
import sys, time
sys.path.insert(0, {SOURCE!r})
from interlock.notifiers.socket import SocketNotifier
with SocketNotifier(sys.argv[1], sys.argv[2]).waiter("bench", ["tasks"], lambda: False) as waiter:
    print("ready", flush=True)
    while waiter.wait(60):
        print(time.monotonic_ns(), flush=True)
"""

BARE_SLEEPER = """
import socket, sys, time
end = socket.socket(fileno=int(sys.argv[1]))
print("ready", flush=True)
while end.recv(1):
    print(time.monotonic_ns(), flush=True)
"""


def run() -> list[Row]:
    """Wake fifty processes, with Interlock and without."""
    ours, floor = interlock(), bare()
    return [
        Row(f"wake {SLEEPERS} processes, median of each", median(ours), median(floor), goal=5.0),
        Row(f"wake {SLEEPERS} processes, p99 of each", quantile(ours, 0.99), quantile(floor, 0.99), goal=50.0),
    ]


def interlock() -> list[float]:
    """Latencies through the notifier, ms."""
    with tempfile.TemporaryDirectory(prefix="il-", dir="/tmp") as home, ExitStack() as stack:
        runtime = f"{home}/r"
        sleepers = [start(stack, SLEEPER, home, runtime) for _ in range(SLEEPERS)]
        notifier = SocketNotifier(home, runtime)
        return latencies(sleepers, lambda: notifier.notify("bench", ["tasks"]))


def bare() -> list[float]:
    """Latencies of bare datagrams, ms."""
    with ExitStack() as stack:
        sleepers, ends = [], []
        for _ in range(SLEEPERS):
            mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            ends.append(stack.enter_context(mine))
            with theirs:
                sleepers.append(start(stack, BARE_SLEEPER, str(theirs.fileno()), descriptor=theirs.fileno()))

        def wake() -> None:
            for end in ends:
                end.send(b"!")

        return latencies(sleepers, wake)


def start(stack: ExitStack, code: str, *arguments: str, descriptor: int | None = None) -> subprocess.Popen[str]:
    """A sleeping process, ended with the stack; it sleeps when all have said that they are ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=() if descriptor is None else (descriptor,),
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def latencies(sleepers: list[subprocess.Popen[str]], wake: Callable[[], None]) -> list[float]:
    """Wake all of them some rounds; how long each took each time, ms."""
    for sleeper in sleepers:
        answer(sleeper)
    found = []
    for _ in range(ROUNDS):
        before = time.monotonic_ns()
        wake()
        found += [(int(answer(sleeper)) - before) / 1e6 for sleeper in sleepers]
    return found


def answer(sleeper: subprocess.Popen[str]) -> str:
    """The next line that a sleeper says."""
    assert sleeper.stdout is not None
    return sleeper.stdout.readline()
