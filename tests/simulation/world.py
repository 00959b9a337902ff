"""The world of one simulation: a virtual clock, processes that exist only here, and a real ledger on disk.

Everything is decided by one seeded generator, in one thread, so that a seed is a whole history. Between any two
transactions anybody else may act: that is where the interleavings come from.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock, iso
from interlock.errors import InterlockError, StorageError
from interlock.model.event import EVENT_TYPES
from interlock.model.run import Run
from interlock.model.task import MOVES, STATES, Task
from interlock.processes import ref
from interlock.runner.recovery_scan import LivenessProbe
from interlock.wakeup.inprocess import InProcessNotifier
from tests.postgres import VirtualTime

T = TypeVar("T")

TEAM = "sim"
MEMBERS = {"m0": None, "m1": "scripted", "m2": "scripted", "j0": None, "j1": None}
"""Each with its agent: only who has one is given reviews by a runner."""
CONNECTIONS = 3
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
FAULTS = (
    "its process dies before the mirror", "its process dies before the notice", "its process dies", "the disk is full",
    "the machine sleeps", "the clock is set forward", "the clock is set back",
)  # fmt: skip
EVERYTHING = {
    "states": STATES,
    "transitions": tuple(f"{origin} to {target}" for origin, targets in MOVES.items() for target in sorted(targets)),
    "events": tuple(EVENT_TYPES),
    "faults": FAULTS,
}
"""What a simulation may reach."""
SETTINGS = {
    "heartbeat_ttl": 60, "retries": 2, "retry_delay": 2, "verify_rounds": 2, "parallel": 2, "shutdown_timeout": 90,
    "task_limit": 14, "inbox_limit": 25, "stop_grace": 0, "verify_timeout": 60,
}  # fmt: skip


class Died(BaseException):
    """The process that did something ended in the middle of it. No code catches a kill."""


class DyingNotifier(InProcessNotifier):
    """Wakes like any, unless the process of the caller dies before."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def notify(self, team: str, topics: Collection[str]) -> None:
        self._world.may_die("notice")
        super().notify(team, topics)


def _found(home: Home) -> None:
    team = home.create_team(TEAM)
    for name, agent in MEMBERS.items():
        team.spawn(name, agent=agent)


@cache
def _founded() -> tuple[tempfile.TemporaryDirectory[str], int]:
    """A home with the team as it is when a simulation starts, and how many ids it took."""
    place = tempfile.TemporaryDirectory(prefix="interlock-sim-founded-", dir=MEMORY)
    clock = ManualClock()
    with interlock.connect(place.name, environment={"INTERLOCK_MIRROR": "false"}, clock=clock) as home:
        _found(home)
    return place, int(clock.new_id()[-12:], 16) - 1


class World:
    """Where actors meet. `say` is told every step."""

    def __init__(
        self, seed: int, directory: str, say: Callable[[str], None] = lambda line: None, *, postgres: bool = False,
        disks: bool = True,
    ) -> None:  # fmt: skip
        self.rng = random.Random(seed)
        self.reached: Counter[tuple[str, str]] = Counter()
        """How often each thing of `EVERYTHING` was reached, as (kind, name)."""
        self.perilous = True
        """Whether processes die and disks fill up."""
        self._dies: str | None = None
        self._disk = random.Random(f"disk {seed}") if disks and not postgres else None
        self.clock = VirtualTime(directory) if postgres else ManualClock()
        self.say = say
        settings = {**SETTINGS, "mirror": self.rng.random() < 0.1, "claim_ttl": self.rng.choice([0, 0, 150])}
        environment = {f"INTERLOCK_{name.upper()}": str(value).lower() for name, value in settings.items()}
        notifier = DyingNotifier(self)
        self._copy(directory, founded=not postgres and not settings["mirror"])
        self._homes: list[Home] = [
            interlock.connect(directory, environment=environment, clock=self.clock, notifier=notifier)
            for _ in range(CONNECTIONS)
        ]
        if postgres or settings["mirror"]:
            _found(self._homes[0])
        self.teams: list[Team] = [home.team(TEAM) for home in self._homes]
        for team in self.teams:
            mirror = team._workspace.mirror  # type: ignore[attr-defined]
            mirror.catch_up = self._mortal(mirror.catch_up)
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
        if isinstance(self.clock, VirtualTime):
            self.clock.close()

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
        """Do it; null where it was refused, which is nobody's fault.

        Raises:
            Died: the process that did it ended after its commit.
        """
        self._dies = self.rng.choice(["mirror", "notice"]) if self.perilous and self.chance(0.02) else None
        try:
            found = verb()
        except Died:
            self.say(f"{iso(self.clock.now())} {who}: {what}: its process dies after the commit")
            raise
        except InterlockError as error:
            self.say(f"{iso(self.clock.now())} {who}: {what}: {error.code}")
            if isinstance(error, StorageError):
                self.fault("the disk is full")
            return None
        finally:
            self._dies = None
        self.say(f"{iso(self.clock.now())} {who}: {what}")
        return found

    def may_die(self, before: Literal["mirror", "notice"]) -> None:
        """The point after a commit and before its mirror or notice."""
        if self._dies == before:
            self._dies = None
            self.fault(f"its process dies before the {before}")
            raise Died

    def fault(self, name: str) -> None:
        """Something of `FAULTS` happens."""
        self.reached["faults", name] += 1
        self.say(name)

    def safe(self) -> None:
        """From now on no process dies by itself, and there is room."""
        self.perilous = False
        self._room(1_000_000)
        self._disk = None
        self.attempt("human", "resumes everything", self.teams[0].resume)

    def look_back(self) -> None:
        """Note what the ledger says was reached."""
        for event in self.teams[0].events()[0]:
            self.reached["events", event.type] += 1
            if event.type == "task.transitioned":
                origin, target = event.payload["from"], event.payload["to"]
                self.reached["states", target] += 1
                self.reached["transitions", f"{origin} to {target}"] += 1

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
            self.fault("the machine sleeps")
            self.clock.advance(self.rng.choice([120.0, 3600.0, 8 * 3600.0]))
        elif dice < 0.02:
            by = self.rng.choice([-3600.0, -90.0, 90.0, 3600.0, 86400.0])
            self.fault("the clock is set forward" if by > 0 else "the clock is set back")
            self.clock.jump(by)
        else:
            self.clock.advance(self.rng.choice([0.0, 0.01, 0.5, 2.0, 5.0, 12.0]))
        if self._disk is not None and self._disk.random() < 0.05:
            # A limit below what a file has is what it has.
            full = self._disk.random() < 0.15
            self._room(1 if full else 1_000_000)

    def _room(self, pages: int) -> None:
        for team in self.teams:
            writer = team._workspace.ledger._writer if self._disk is not None else None  # type: ignore[attr-defined]
            if writer is not None:
                writer.connection.execute(f"PRAGMA max_page_count={pages}")

    def _mortal(self, catch_up: Callable[..., T]) -> Callable[..., T]:
        def perhaps(*given: Any, **named: Any) -> T:
            self.may_die("mirror")
            return catch_up(*given, **named)

        return perhaps

    def _copy(self, directory: str, *, founded: bool) -> None:
        """Begin with the home that every simulation begins with: migrating one takes as long as fifty steps."""
        if founded:
            place, ids = _founded()
            shutil.copytree(place.name, directory, dirs_exist_ok=True)
            for _ in range(ids):
                self.clock.new_id()


class SimulatedEyes(LivenessProbe):
    """Sees the world's processes instead of the machine's."""

    def __init__(self, world: World) -> None:
        self._world = world

    def alive(self, process: str) -> bool | None:
        text = ref.without_token(process)
        return None if text.startswith("far|") else self._world.alive.get(text, False)

    def end_session(self, session: str, grace: float) -> None:
        """A runner that is gone takes its program along here: what goes on speaking are ghosts."""

    def end(self, run: Run, grace: float) -> bool:
        if str(run.runner).startswith("far|"):
            return True
        if self._world.chance(0.05):
            return False
        self._world.ended[run.id] = True
        return True
