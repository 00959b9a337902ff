"""What tests of the main job share: a home in a temporary directory, plans as data, agents as little programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import interlock
from interlock.agents.session import Update
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.model.event import Event
from interlock.model.plan import StagedPlan
from interlock.model.status import Need
from interlock.model.task import Task
from interlock.processes import table
from tests.behaviours import drive
from tests.forked import Forked
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
QUICK = {"retry_delay": 0.05, "stop_grace": 1.0}
SHELL = {"agent": "shell"}


class Place:
    """A home, a directory to work in, and the plan `plan.yaml` in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"
        self.work.mkdir()
        self.home: Home = interlock.connect(str(path / "home"))
        self.said: list[tuple[str, str, str]] = []

    @property
    def team(self) -> Team:
        """The plan's team."""
        return self.home.team("crew")

    def program(self, name: str, source: str) -> dict[str, Any]:
        """A member whose agent is that Python source; `prompt` and `say` are there."""
        head = "import os, subprocess, sys, time\nprompt = sys.stdin.read()\n"
        head += "def say(text): print(text, flush=True)\n"
        head += "def interlock(*words): return subprocess.run(['interlock', *words], capture_output=True, text=True)\n"
        file = self.path / f"{name}.py"
        file.write_text(head + textwrap.dedent(source))
        return {"agent": {"command": [sys.executable, str(file)]}}

    def stage(
        self,
        tasks: dict[str, Any],
        members: dict[str, Any] | None = None,
        again: dict[str, Any] | None = None,
        **more: Any,
    ) -> StagedPlan:
        """Write the plan and stage it; `again` holds arguments of `Home.stage`."""
        plan = {"team": "crew", "workdir": "work", "members": members or {"ada": SHELL}, "tasks": tasks, **more}
        file = self.path / "plan.yaml"
        file.write_text(json.dumps(plan))
        staged = self.home.stage(str(file), **(again or {}))
        if not (again or {}).get("dry_run"):
            self.team.configure(QUICK)
        return staged

    def drive(self, **more: Any) -> str:
        """Drive the team in this process; why it ended. What was said is in `said`."""

        def hear(update: Update) -> None:
            self.said.append((update.member, update.kind, update.text))

        return self.home.drive("crew", **{"on_update": hear, **more})

    def task(self, key: str) -> Task:
        """The plan's task of that key, as it is now."""
        return self.team.task(key)

    def states(self) -> dict[str, str]:
        """The state of each task by key."""
        return {str(task.plan_key): task.state for task in self.team.tasks() if task.plan_key}

    def log(self, key: str, run: int | None = None) -> str:
        """What a run has printed."""
        return Path(self.team.output(key, run)[0]).read_text(errors="replace")

    def needs(self, kind: str) -> list[Need]:
        """What needs a person, of that kind."""
        return [need for need in self.team.status().needs_me if need.kind == kind]

    def lines(self, name: str) -> list[str]:
        """The lines of a file in the working directory."""
        file = self.work / name
        return file.read_text().splitlines() if file.exists() else []

    def wait_for(self, name: str) -> None:
        """Wait until a program has written a line into that file of the working directory."""
        until(lambda: bool(self.lines(name)))

    @contextmanager
    def runner(self, **options: Any) -> Iterator[Runner]:
        """A process that drives the team."""
        started = Runner(self.home.path, options)
        try:
            yield started
        finally:
            started.end()


class Runner:
    """A process that does `home.drive`, and prints what it hears, perhaps `within` another program. See `drive.py`."""

    def __init__(self, home: str, options: dict[str, Any], within: Sequence[str] = ()) -> None:
        words = (home, json.dumps(options))
        self._process: subprocess.Popen[str] | Forked = (
            subprocess.Popen(
                [*within, sys.executable, "-m", drive.__name__, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            if within
            else Forked(drive.main, *words, directory=ROOT, errors=False)
        )
        self.pid = self._process.pid

    def hears(self, text: str) -> re.Match[str]:
        """Wait until it prints a line that `text`, a regular expression, is found in."""
        assert self._process.stdout is not None
        seen = []
        for line in self._process.stdout:
            seen.append(line)
            found = re.search(text, line)
            if found:
                return found
        raise AssertionError(f"{text!r} was never said, but:\n{''.join(seen)}")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without warning, as a crash or the system's out-of-memory killer would."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Wait for its own end; its exit code."""
        return self._process.wait(timeout=200)

    def end(self) -> None:
        """Leave nothing of it."""
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


def follow(team: Team, wanted: Callable[[Event], bool]) -> Event:
    """Wait for the first event, from the beginning of the team's history, that is `wanted`."""
    for event in team.follow():
        if wanted(event):
            return event
    raise AssertionError("the history ended")


def running(pid: int) -> bool:
    """Whether a process with that number runs."""
    row = table.row(pid)
    return row is not None and row.running


def pids(place: Place, name: str) -> list[int]:
    """The process numbers that programs wrote into a file of the working directory."""
    return [int(line) for line in place.lines(name)]


def outside(**variables: str) -> dict[str, str]:
    """The environment with these variables."""
    return {**os.environ, **variables}
