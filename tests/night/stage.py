"""What every night of the tests has: a repository with tests that are red, a plan, a user who is asleep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import interlock
from interlock.app.team import Team
from interlock.model.task import Task
from interlock.processes import table
from interlock.runner.run_processes import session_token
from tests.agents.acting import PROGRAM
from tests.behaviours.repository import Repository
from tests.waiting import until

TEAM, BRANCH = "night", "interlock/night"
PATIENCE = 250.0


class Night:
    """One night below `path`: `tests` are the repository's files that were there first, `plan` what is to be done.
    `beside` is another night of the same user, with another repository and team."""

    def __init__(
        self, path: Path, tests: dict[str, str], plan: dict[str, Any], *, team: str = TEAM, beside: Night | None = None
    ) -> None:
        self.path = path
        self.name, self.branch = team, f"interlock/{team}"
        self.home = beside.home if beside else path / "home"
        self.user = beside.user if beside else path / "user"
        for made in (path, self.home, self.user, path / "marks"):
            made.mkdir(exist_ok=True)
        self.repository = Repository(path / "project")
        self.tests = len(tests)
        self.repository.commit("What is wanted", **{"tests/__init__.py": "", **tests})
        self._unfinished_business()
        self.plan = path / "plan.yaml"
        common = {"team": team, "workdir": "project", "isolation": "worktree"}
        self.plan.write_text(json.dumps({**common, **plan}))
        self.keys = tuple(plan["tasks"])
        self.environment = {
            **os.environ, "INTERLOCK_HOME": str(self.home), "HOME": str(self.user), "NO_COLOR": "1"
        }  # fmt: skip
        self.before, self.around = self.repository.untouchable(), {*os.listdir(path), "run.log"}
        self.orphans: set[int] = set()
        """The other processes of the night when the runner was killed."""
        self._connected = interlock.connect(str(self.home))

    def __enter__(self) -> Night:
        return self

    def __exit__(self, *_: object) -> None:
        """Where the test failed, too, nothing of it runs on."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._connected.close()

    def _unfinished_business(self) -> None:
        """What the user went to bed over: something staged, something changed, something unknown to git."""
        project = self.repository.path
        (project / "staged.txt").write_text("staged\n")
        self.repository.git("add", "staged.txt")
        (project / "story.txt").write_text("one\ntwo\nmine\n")
        (project / "loose.txt").write_text("not known\n")
        (project / ".env").write_text("SECRET=1\n")

    @property
    def team(self) -> Team:
        """The plan's team."""
        return self._connected.team(self.name)

    def task(self, key: str) -> Task:
        """The plan's task of that key, as it is now."""
        return self.team.task(key)

    def done(self) -> set[str]:
        """The keys of what is done so far."""
        if self.name not in self._connected.teams():
            return set()
        return {str(task.plan_key) for task in self.team.tasks() if task.state == "done"}

    def mark(self, name: str) -> Path:
        """A file by which agents and test know how far it is; outside the repository."""
        return self.path / "marks" / name

    def interlock(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command line, as the user types it."""
        return subprocess.run(_command(*words), cwd=self.user, env=self.environment, capture_output=True, text=True)

    def begin(self) -> subprocess.Popen[bytes]:
        """`interlock run plan.yaml --unattended`, in a session of its own as a terminal makes it."""
        with open(self.path / "run.log", "ab") as log:
            return subprocess.Popen(
                _command("run", str(self.plan), "--unattended"),
                cwd=self.user, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def kill_when(self, ready: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Run the plan, and kill the runner when it is `ready`; fails where it ended before."""
        runner = self.begin()
        try:
            until(lambda: ready() or runner.poll() is not None, patience)
            assert runner.poll() is None, self.told()
            alive = self.alive()
            assert alive >= {runner.pid}
            runner.send_signal(signal.SIGKILL)
            assert runner.wait() == -signal.SIGKILL
            self.orphans = alive - {runner.pid}
        finally:
            runner.kill()
            runner.wait()

    def run(self, patience: float = PATIENCE) -> int:
        """Run the plan to its end; the exit code."""
        runner = self.begin()
        try:
            return runner.wait(patience)
        finally:
            runner.kill()
            runner.wait()

    def told(self) -> str:
        """What the runs printed."""
        return (self.path / "run.log").read_text()

    def alive(self) -> set[int]:
        """The processes of this night: all that carry its home, or the token of one of its runs."""
        pids = [row.pid for row in table.rows() if row.running]
        begun = self.name in self._connected.teams()
        tokens = {session_token(run.session) for key in self.keys for run in self.team.runs(key)} if begun else set()
        marks = [f"INTERLOCK_HOME={self.home}", *(f"INTERLOCK_RUN_TOKEN={token}" for token in tokens if token)]
        return {pid for mark in marks for pid in table.marked(pids, mark)} - {os.getpid()}

    def green(self, branch: str) -> bool:
        """Whether the repository's tests succeed in a checkout of that branch of its own."""
        where = self.path / f"checkout-{branch.replace('/', '-')}"
        self.repository.git("clone", "--quiet", "--branch", branch, str(self.repository.path), str(where))
        command = [sys.executable, "-B", "-m", "unittest", "-q"]
        ran = subprocess.run(command, cwd=where, capture_output=True, text=True)
        assert ran.returncode or f"Ran {self.tests} tests" in ran.stderr, ran.stderr
        return ran.returncode == 0

    def untouched(self) -> None:
        """Nothing of the user's was touched, and nothing lies about."""
        assert self.repository.untouchable() == self.before and set(os.listdir(self.path)) == self.around


def player(path: Path, script: Path, **given: Any) -> dict[str, Any]:
    """A member whose program plays `script` with what is given to it; its profile stands in the user's own
    `agents.toml`."""
    told = {"marks": str(path / "marks"), "sessions": str(path / "marks" / "sessions"), **given}
    (path / "night.json").write_text(json.dumps({**told, "record": str(path / "marks" / "record.jsonl")}))
    argv = [sys.executable, str(PROGRAM), str(script), str(path / "night.json")]
    (path / "home").mkdir()
    (path / "home" / "agents.toml").write_text(
        f"[player]\nacp = {json.dumps(argv)}\n[[player.limits]]\npattern = 'usage limit'\nafter = 900\n"
    )
    return {"agent": "player"}


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "interlock.surfaces.cli", *words]
