"""Starts workers on one home, kills them at random, starts others in their place, and lets `checks` judge the rest."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import interlock
from tests.crash.checks import check
from tests.crash.worker import MEMBERS, TEAM
from tests.postgres import on_postgres

ROOT = Path(__file__).resolve().parent.parent.parent
HOOK = "hook"
"""The hook command itself, for a member that works at the same time."""
SLOTS = (*MEMBERS, "founder", HOOK)
PATIENCE = 100
"""Seconds after which a worker is taken to hang: on a busy machine, a start alone takes some."""


@dataclass
class Life:
    """One worker, from its start to its kill."""

    slot: str
    seed: int
    process: subprocess.Popen[bytes]
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
        running = {slot: self._start(slot, rng) for slot in SLOTS}
        killed = 0
        try:
            while killed < self.kills and not self.problems:
                slot = rng.choice(SLOTS)
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
        return self.problems + check(self)

    def log(self, life: Life) -> Path:
        """What that worker did."""
        return self.directory / f"{life.slot}-{life.seed}.log"

    def out(self, life: Life) -> Path:
        """What that worker handed over."""
        return self.directory / f"{life.slot}-{life.seed}.out"

    def _start(self, slot: str, rng: Random) -> Life:
        seed = rng.randrange(10**9)
        point = rng.randrange(1, 600) if rng.random() < 0.5 else 0
        life = Life(slot, seed, None, bool(point))  # type: ignore[arg-type]
        command = [
            "tests.crash.worker",
            self.home,
            slot,
            str(seed),
            str(self.log(life)),
            str(self.out(life)),
            str(point),
        ]
        if slot == HOOK:
            life.by_itself = False
            command = ["interlock.surfaces.cli", "inject", "--home", self.home, "--team", TEAM, "--as", MEMBERS[0]]
            command += ["--session", f"hook-{seed % 5}"]
        with open(self.directory / f"{slot}-{seed}.err", "wb") as errors, open(self.out(life), "wb") as out:
            life.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT, stdout=out, stderr=errors,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", "INTERLOCK_BUSY_TIMEOUT": "60"},
            )  # fmt: skip
        self.lives.append(life)
        return life

    def _await(self, life: Life) -> None:
        try:
            life.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.problems.append(f"{life.slot}-{life.seed} did nothing for {PATIENCE} s")
            life.process.kill()

    def _bury(self, life: Life) -> None:
        code = life.process.wait()
        if code != -signal.SIGKILL and (code, life.slot) != (0, HOOK):
            errors = (self.directory / f"{life.slot}-{life.seed}.err").read_text()
            self.problems.append(f"{life.slot}-{life.seed} ended by itself with {code}:\n{errors}")


def let_live(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Give it that long, unless it ends before."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def storm(kills: int, seed: int, keep: bool = False, *, postgres: bool = False) -> list[str]:
    """Run one storm in a directory of its own; what is wrong afterwards, with the command that does it again."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-crash-"))
    problems = Storm(seed, kills, directory, postgres=postgres).run()
    if problems:
        problems.append(f"again: python -m tests.crash --kills {kills} --seed {seed}    (files: {directory})")
    elif not keep:
        shutil.rmtree(directory)
    return problems
