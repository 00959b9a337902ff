"""The world of one simulation: a virtual clock, processes that exist only here, and a real ledger on disk.

Everything is decided by one seeded generator, in one thread, so that a seed is a whole history. Between any two
transactions anybody else may act: that is where the interleavings come from.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock, iso
from interlock.errors import InterlockError
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.processes import ref
from interlock.runner.recovery_scan import LivenessProbe
from interlock.wakeup.inprocess import InProcessNotifier

T = TypeVar("T")

TEAM = "sim"
CONNECTIONS = 3
SETTINGS = {
    "heartbeat_ttl": 60, "retries": 2, "retry_delay": 2, "verify_rounds": 2, "parallel": 2, "shutdown_timeout": 90,
    "task_limit": 14, "inbox_limit": 25, "stop_grace": 0, "verify_timeout": 60,
}  # fmt: skip


class World:
    """Where actors meet. `say` is told every step."""

    def __init__(self, seed: int, directory: str, say: Callable[[str], None] = lambda line: None) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.say = say
        settings = {**SETTINGS, "mirror": self.rng.random() < 0.1, "claim_ttl": self.rng.choice([0, 0, 150])}
        environment = {f"INTERLOCK_{name.upper()}": str(value).lower() for name, value in settings.items()}
        notifier = InProcessNotifier()
        self._homes: list[Home] = [
            interlock.connect(directory, environment=environment, clock=self.clock, notifier=notifier)
            for _ in range(CONNECTIONS)
        ]
        self._homes[0].create_team(TEAM)
        self.teams: list[Team] = [home.team(TEAM) for home in self._homes]
        self.alive: dict[str, bool] = {}
        """Processes of this machine by their text, and whether they live."""
        self.ended: dict[str, bool] = {}
        """Runs whose programs somebody has ended."""
        self.notes = 0
        self.effects: dict[str, int] = {}
        """How often each thing that was said has moved its task."""
        self.dropped: list[tuple[str, int, str, str]] = []
        """(task, run, note, time) of every result that was laid down in time for its run."""

    def close(self) -> None:
        """Give the ledgers back."""
        for home in self._homes:
            home.close()

    def team(self) -> Team:
        """The team through one of several connections, as a human sees it."""
        return self.rng.choice(self.teams)

    def workspace(self) -> Any:
        """The workspace of one of several connections."""
        return self.team()._workspace  # type: ignore[attr-defined]

    def process(self, host: str = "here") -> str:
        """A process that begins."""
        text = f"{host}|boot|{len(self.alive) + 1}|1"
        self.alive[text] = True
        return text

    def token(self) -> str:
        """Thirty-two hexadecimal digits."""
        return f"{self.rng.getrandbits(128):032x}"

    def chance(self, share: float) -> bool:
        """True in `share` of all cases."""
        return self.rng.random() < share

    def evidence(self) -> dict[str, Any]:
        """How a check has ended."""
        passed = self.chance(0.6)
        return {"command": "check", "exit_code": int(not passed), "passed": passed, "seconds": 0.1, "tail": "so it is"}

    def note(self) -> str:
        """A text that nobody has said before."""
        self.notes += 1
        return f"note-{self.notes:04d}."

    def attempt(self, who: str, what: str, verb: Callable[[], T]) -> T | None:
        """Do it; null where it was refused, which is nobody's fault."""
        try:
            found = verb()
        except InterlockError as error:
            self.say(f"{iso(self.clock.now())} {who}: {what}: {error.code}")
            return None
        self.say(f"{iso(self.clock.now())} {who}: {what}")
        return found

    def row(self, task_id: str) -> Task | None:
        """A task as the ledger has it."""
        with self.teams[0]._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
            found: Task | None = rows.tasks.get(task_id)
            return found

    def drop(self, task_id: str, name: str, fields: dict[str, Any]) -> None:
        """Lay a file into the directory of a task's run, now."""
        path = Path(self.teams[0].directory) / "runs" / task_id / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(json.dumps(fields))
        os.utime(path, (self.clock.now(), self.clock.now()))

    def pass_time(self) -> None:
        """A moment, seldom a long one; seldom the clock on the wall is set."""
        dice = self.rng.random()
        if dice < 0.01:
            self.say("the machine sleeps")
            self.clock.advance(self.rng.choice([120.0, 3600.0, 8 * 3600.0]))
        elif dice < 0.02:
            self.say("the clock is set")
            self.clock.jump(self.rng.choice([-3600.0, -90.0, 90.0, 3600.0, 86400.0]))
        else:
            self.clock.advance(self.rng.choice([0.0, 0.01, 0.5, 2.0, 5.0, 12.0]))


class SimulatedEyes(LivenessProbe):
    """Sees the world's processes instead of the machine's."""

    def __init__(self, world: World) -> None:
        self._world = world

    def alive(self, process: str) -> bool | None:
        text = ref.without_token(process)
        return None if text.startswith("far|") else self._world.alive.get(text, False)

    def end(self, run: Run, grace: float) -> bool:
        if str(run.runner).startswith("far|"):
            return True
        if self._world.chance(0.05):
            return False
        self._world.ended[run.id] = True
        return True
