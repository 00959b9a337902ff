"""Starts workers on one home, kills them at random, starts others in their place, and lets `checks` judge the rest.

Some workers use the home itself and some a server, which is killed as well; a runner does a plan beside them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch

import interlock
from interlock.processes import table
from tests.agents.endpoint import Endpoint
from tests.crash.checks import check, entries
from tests.crash.night import Night
from tests.crash.worker import MEMBERS, TEAM
from tests.forked import Forked
from tests.postgres import on_postgres
from tests.surfaces.http.harness import Server
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
HOOK = "hook"
"""The hook command itself, for a member that works at the same time."""
SERVER = "server"
"""`interlock up`, for those that are elsewhere."""
RUNNER = "runner"
"""`interlock run`, on a plan that has grown."""
PROGRAM = "program"
"""A process that a run of the plan has begun: Claude Code, Codex, what they start."""
SLOTS = (*MEMBERS, "founder", HOOK, SERVER, RUNNER)
PATIENCE = 100
"""Seconds after which a worker is taken to hang: on a busy machine, a start alone takes some."""


@dataclass
class Life:
    """One worker, from its start to its kill."""

    slot: str
    seed: int
    process: subprocess.Popen[bytes] | subprocess.Popen[str] | Forked
    by_itself: bool
    """Whether it kills itself at a point of its own."""


@dataclass
class Storm:
    """A run of the harness. The same seed makes the same decisions, as far as the machine's timing allows."""

    seed: int
    kills: int
    directory: Path
    lives: list[Life] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    postgres: bool = False
    endpoint: Endpoint | None = None
    server: Server | None = None
    struck: Counter[str] = field(default_factory=Counter)
    """Which processes of runs were killed."""
    night: Night = field(init=False)

    def __post_init__(self) -> None:
        self.night = Night(self.directory, self.home, self.endpoint)

    @property
    def home(self) -> str:
        """The home all of them work on."""
        return str(self.directory / "home")

    def run(self) -> list[str]:
        """Kill `kills` workers; answers what is wrong afterwards."""
        rng = Random(self.seed)
        if self.postgres:
            on_postgres(self.home)
        home = interlock.connect(self.home)
        team = home.create_team(TEAM)
        team.configure({"task_limit": 100_000, "inbox_limit": 100_000})
        home.configure({"team_limit": 10_000})
        for name in MEMBERS:
            team.spawn(name)
        home.close()
        running = {slot: self._start(slot, rng) for slot in sorted(SLOTS, key=lambda one: one != SERVER)}
        killed = 0
        try:
            while killed < self.kills and not self.problems:
                slot = rng.choice(SLOTS if self.endpoint is None else (*SLOTS, *[PROGRAM] * 4))
                if slot == PROGRAM:
                    killed += self._strike(rng, running[RUNNER])
                    continue
                life = running[slot]
                let_live(life.process, rng.uniform(0.0, 0.15))
                if life.by_itself:
                    self._await(life)
                else:
                    if rng.random() < 0.2:
                        life.process.send_signal(signal.SIGSTOP)
                        let_live(life.process, rng.uniform(0.0, 0.1))
                    life.process.kill()
                self._bury(life)
                killed += 1
                running[slot] = self._start(slot, rng)
        finally:
            for life in running.values():
                life.process.kill()
                self._bury(life)
        with patch.dict(os.environ, self.night.environment):  # The doctor looks for their programs.
            return self.problems + self.night.check() + check(self)

    def _strike(self, rng: Random, runner: Life) -> bool:
        """Kill one process of a run, if that runner begins one."""
        until(lambda: runner.process.poll() is not None or self.night.programs(), PATIENCE)
        let_live(runner.process, rng.uniform(0.0, 2.0))
        found = sorted(self.night.programs())
        if not found:
            return False
        pid = rng.choice(found)
        self.struck[" ".join(sorted(table.names(pid)))] += 1
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def log(self, life: Life) -> Path:
        """What that worker did."""
        return self._file(life.slot, life.seed, "log")

    def out(self, life: Life) -> Path:
        """What that worker handed over."""
        return self._file(life.slot, life.seed, "out")

    def _file(self, slot: str, seed: int, kind: str) -> Path:
        return self.directory / f"{slot}-{seed}.{kind}"

    def _start(self, slot: str, rng: Random) -> Life:
        seed, point, elsewhere = rng.randrange(10**9), rng.randrange(1, 600), rng.random() < 0.4
        by_itself = slot not in (HOOK, SERVER, RUNNER) and rng.random() < 0.5
        if slot == RUNNER:
            self.night.grow(rng, 2)
        if slot == SERVER:
            self.server = Server(Path(self.home), port=self.server.port if self.server is not None else 0)
            life = Life(slot, seed, self.server.process, by_itself)
        else:
            life = Life(slot, seed, self._executed(slot, seed, point if by_itself else 0, elsewhere), by_itself)
        self.lives.append(life)
        return life

    def _executed(self, slot: str, seed: int, point: int, elsewhere: bool) -> subprocess.Popen[bytes]:
        assert self.server is not None
        variables = {"INTERLOCK_HOME": self.home, "INTERLOCK_BUSY_TIMEOUT": "60", "PYTHONPATH": f"{ROOT / 'src'}"}
        if elsewhere and slot != RUNNER:
            variables |= {"INTERLOCK_URL": self.server.url, "INTERLOCK_TOKEN": self.server.tokens.admin()}
        base = self.night.environment if slot == RUNNER else os.environ
        log, out = str(self._file(slot, seed, "log")), self._file(slot, seed, "out")
        words = {
            HOOK: ["interlock", "inject", "--team", TEAM, "--as", MEMBERS[0], "--session", f"hook-{seed % 5}"],
            RUNNER: self.night.words,
        }.get(slot, ["tests.crash.worker", slot, str(seed), log, str(out), str(point)])
        with self._file(slot, seed, "err").open("wb") as errors, out.open("wb") as printed:
            return subprocess.Popen(
                [sys.executable, "-m", *words], cwd=ROOT, stdout=printed, stderr=errors, env={**base, **variables}
            )

    def _await(self, life: Life) -> None:
        try:
            life.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.problems.append(f"{life.slot}-{life.seed} did nothing for {PATIENCE} s")
            life.process.kill()

    def _bury(self, life: Life) -> None:
        code, errors = life.process.wait(), ""
        if life.slot == SERVER and self.server is not None:
            errors = self.server.close()
        elif code != -signal.SIGKILL:
            errors = self._file(life.slot, life.seed, "err").read_text()
        if "Traceback" in errors or (code != -signal.SIGKILL and (code, life.slot) not in ((0, HOOK), (0, RUNNER))):
            self.problems.append(f"{life.slot}-{life.seed} ended by itself with {code}:\n{errors}")


def done(storm: Storm) -> str:
    """What was done, in words."""
    ways = Counter(one["way"] for life in storm.lives for one in entries(storm.log(life)) if one["kind"] == "done")
    slots = Counter(life.slot for life in storm.lives)
    told = ", ".join(f"{count} {way}" for way, count in ways.most_common())
    struck = "".join(f"; {count} {name}" for name, count in storm.struck.most_common())
    return f"{told}; {len(storm.night.tasks)} tasks of a plan; {slots[SERVER]} servers, {slots[RUNNER]} runners{struck}"


def let_live(process: subprocess.Popen[bytes] | subprocess.Popen[str] | Forked, seconds: float) -> None:
    """Give it that long, unless it ends before."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def storm(kills: int, seed: int, keep: bool = False, *, postgres: bool = False, agents: bool = False) -> list[str]:
    """Run one storm in a directory of its own; what is wrong afterwards, with the command that does it again."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-crash-"))
    with Endpoint(most=1000 * kills) if agents else nullcontext() as endpoint:
        storm = Storm(seed, kills, directory, postgres=postgres, endpoint=endpoint)
        problems = storm.run()
    print(done(storm))
    if problems:
        words = "".join(f" --{name}" for name, on in (("postgres", postgres), ("agents", agents)) if on)
        problems.append(f"again: python -m tests.crash --kills {kills} --seed {seed}{words}    (files: {directory})")
    elif not keep:
        shutil.rmtree(directory)
    return problems
