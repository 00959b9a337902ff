"""A home in a fresh directory, its teams, and other processes that use the same home."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.wakeup.inprocess import InProcessNotifier
from tests.behaviours.driving import Place
from tests.postgres import on_postgres

PROGRAMS = Path(__file__).parent / "programs"
PATIENT = {"INTERLOCK_BUSY_TIMEOUT": "100"}
"""For many writers at once on a disk that may be slow: how long one waits for the others is not what they show."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home, as a user connects to it."""
    if os.environ.get("TEST_LEDGER") == "postgres":  # As a whole, when somebody wants to know.
        on_postgres(tmp_path / "home")
    found = interlock.connect(str(tmp_path / "home"))
    yield found
    found.close()


@pytest.fixture
def team(home: Home) -> Team:
    """A team with a lead and the members ada and bob, seen by a human."""
    made = home.create_team("alpha-squad")
    made.spawn("ada")
    made.spawn("bob")
    return made


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Home]]:
    """Connects to the home once more, with other settings or another clock."""
    opened: list[Home] = []

    def connect(**options: Any) -> Home:
        environment = {f"INTERLOCK_{name.upper()}": str(value) for name, value in options.pop("settings", {}).items()}
        opened.append(interlock.connect(str(tmp_path / "home"), environment=environment, **options))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when a test says so."""
    return ManualClock()


@pytest.fixture
def timed(connect: Callable[..., Home], clock: ManualClock) -> Team:
    """The team of `team`, in a home whose time is `clock`."""
    made = connect(clock=clock, notifier=InProcessNotifier()).create_team("alpha-squad")
    made.spawn("ada")
    made.spawn("bob")
    return made


class Program:
    """A program of `programs/`, running. It works once `go` is called, so that many can begin at one moment."""

    def __init__(self, name: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **PATIENT},
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def line(self) -> str:
        """The next line it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def go(self) -> None:
        """Let it go on from its next `ready()`."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def result(self) -> list[str]:
        """The lines it still prints, once it has ended well."""
        output, _ = self._process.communicate(timeout=200)
        assert self._process.returncode == 0, output
        return output.splitlines()

    def close(self) -> None:
        """Nothing of it stays."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Starts programs of `programs/`, and ends what is left of them."""
    started: list[Program] = []

    def start(name: str, *arguments: object) -> Program:
        started.append(Program(name, *arguments))
        return started[-1]

    yield start
    for program in started:
        program.close()


@pytest.fixture
def together(start: Callable[..., Program]) -> Callable[..., list[list[str]]]:
    """Starts one program per list of arguments, lets all begin at one moment, and answers what each printed."""

    def together(name: str, *calls: tuple[object, ...]) -> list[list[str]]:
        programs = [start(name, *call) for call in calls]
        for program in programs:
            assert program.line() == "ready"
        for program in programs:
            program.go()
        return [program.result() for program in programs]

    return together


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A home and a directory to work in, for whole runs."""
    made = Place(tmp_path)
    yield made
    # A test that failed in the middle leaves nothing running either.
    for name in made.home.teams():
        made.home.stop(name, now=True)
    made.home.close()
