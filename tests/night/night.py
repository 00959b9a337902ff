"""A short night: eight tasks of one repository, two members, nobody awake, and what goes wrong in a night.

    add, sub, cli, notes    are simply done; the last two when what they build on is merged
    mul                     is said to be done when it is not
    div                     comes to a usage limit
    power                   is under way when the runner is killed
    publish                 cannot be done by anybody but a person

`Night` stages it, runs it as its user would, and says in the morning whether all is as it was promised.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import interlock
from interlock import process_table
from interlock.client import Team
from interlock.model.task import Task
from interlock.runner.lifesigns import session_token
from tests.behaviours.driving import until
from tests.behaviours.repository import Repository

TEAM, BRANCH = "night", "interlock/night"
QUESTION = "Which token may I publish this with?"
LIMIT = "You've hit your usage limit. Try again in 1 second."
LIE = "Everything is written, and all tests pass."
PATIENCE = 100.0

WORK = {
    "add": {"tally/add.py": "def add(a, b):\n    return a + b\n"},
    "sub": {"tally/sub.py": "def sub(a, b):\n    return a - b\n"},
    "mul": {"tally/mul.py": "def mul(a, b):\n    return a * b\n"},
    "div": {"tally/div.py": "def div(a, b):\n    return a / b\n"},
    "power": {"tally/power.py": "def power(a, b):\n    return a**b\n"},
    "cli": {
        "tally/cli.py": "from tally import add, div, mul, power, sub\n\n"
        "KNOWN = {one.__name__[6:]: getattr(one, one.__name__[6:]) for one in (add, div, mul, power, sub)}\n"
        "\n\ndef run(name, a, b):\n    return KNOWN[name](float(a), float(b))\n"
    },
    "notes": {"NOTES.md": "# Notes\n\nadd, sub, mul, div, power\n"},
}
# Of another length than what is right: Python would take the one compiled in the same second for the other.
FALSE = {"tally/mul.py": "def mul(a, b):\n    return a + a + b\n"}
WANTED = {
    **{key: f"from tally.{key} import {key}\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n"
            f"        self.assertEqual({key}(6, 3), {value})\n"
       for key, value in {"add": 9, "sub": 3, "mul": 18, "div": 2, "power": 216}.items()},
    "cli": "from tally.cli import run\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n"
    "        self.assertEqual(run('mul', '6', '3'), 18)\n",
    "notes": "class Test(unittest.TestCase):\n    def test_it(self):\n"
    "        with open('NOTES.md') as file:\n            self.assertIn('power', file.read())\n",
}  # fmt: skip
"""The repository's tests, which were there first: all of them are red in the evening."""

ADA, BOB = ("add", "div", "power", "cli"), ("sub", "mul", "publish", "notes")


class Night:
    """One night below `path`. `members` are the plan's `ada` and `bob`."""

    def __init__(self, path: Path, members: dict[str, Any]) -> None:
        self.path = path
        self.home = path / "home"
        self.user = path / "user"
        for made in (self.home, self.user, path / "marks"):
            made.mkdir(exist_ok=True)
        self.repository = Repository(path / "project")
        tests = {f"tests/test_{key}.py": f"import unittest\n\n{text}" for key, text in WANTED.items()}
        self.repository.commit("What is wanted", **{"tally/__init__.py": "", "tests/__init__.py": "", **tests})
        self._unfinished_business()
        self.plan = path / "plan.yaml"
        self.plan.write_text(json.dumps(_plan(members)))
        self.environment = {
            **os.environ, "INTERLOCK_HOME": str(self.home), "HOME": str(self.user), "NO_COLOR": "1"
        }  # fmt: skip
        self.before, self.around = self.repository.untouchable(), {*os.listdir(path), "run.log"}
        self.orphans: set[int] = set()
        """What was left when the runner was killed, and did not end by itself at once."""
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
        return self._connected.team(TEAM)

    def task(self, key: str) -> Task:
        """The plan's task of that key, as it is now."""
        return self.team.task(key)

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

    def pass_by(self, killed_when: str) -> int:
        """Run the plan, kill the runner when that mark is there, and run it again; the exit code of the second."""
        first = self.begin()
        try:
            until(lambda: self.mark(killed_when).exists() or first.poll() is not None, PATIENCE)
            assert first.poll() is None, self.told()
            assert self.alive() > {first.pid}
            first.send_signal(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL
            self.orphans = self.alive()
        finally:
            first.kill()
            first.wait()
        second = self.begin()
        try:
            return second.wait(PATIENCE)
        finally:
            second.kill()
            second.wait()

    def told(self) -> str:
        """What the runs printed."""
        return (self.path / "run.log").read_text()

    def alive(self) -> set[int]:
        """The processes of this night: all that carry its home, or the token of one of its runs."""
        pids = [row.pid for row in process_table.rows() if row.running]
        begun = TEAM in self._connected.teams()
        tokens = {session_token(run.session) for key in (*ADA, *BOB) for run in self.team.runs(key)} if begun else set()
        marks = [f"INTERLOCK_HOME={self.home}", *(f"INTERLOCK_RUN_TOKEN={token}" for token in tokens if token)]
        return {pid for mark in marks for pid in process_table.marked(pids, mark)} - {os.getpid()}

    def green(self, branch: str) -> bool:
        """Whether the repository's tests succeed in a checkout of that branch of its own."""
        where = self.path / f"checkout-{branch.replace('/', '-')}"
        self.repository.git("clone", "--quiet", "--branch", branch, str(self.repository.path), str(where))
        command = [sys.executable, "-B", "-m", "unittest", "-q"]
        ran = subprocess.run(command, cwd=where, capture_output=True, text=True)
        assert ran.returncode or f"Ran {len(WANTED)} tests" in ran.stderr, ran.stderr
        return ran.returncode == 0

    def check(self, code: int) -> None:
        """All that is promised for the morning."""
        assert self.repository.untouchable() == self.before and set(os.listdir(self.path)) == self.around
        assert not self.green("main")
        self._everything_possible_is_merged(code)
        self._the_lie_was_caught()
        self._the_limit_and_the_kill_cost_nothing()
        self._the_impossible_is_one_question()
        until(lambda: not self.alive())
        self._the_report_says_so()

    def _everything_possible_is_merged(self, code: int) -> None:
        states = {str(task.plan_key): task.state for task in self.team.tasks()}
        assert states == {**dict.fromkeys(WORK, "done"), "publish": "awaiting-response"}, self.told()
        assert code == 1, "not all is done, and scripts have to see it"
        for key, made in WORK.items():
            evidence = self.task(key).evidence
            assert evidence is not None and evidence["passed"] and evidence["merged"], (key, evidence)
            for path, text in made.items():
                assert self.repository.show(BRANCH, path) == text.rstrip("\n"), key
        assert self.green(BRANCH)
        assert set(self.repository.branches()) == {BRANCH, "main", *self._kept()}

    def _kept(self) -> list[str]:
        """The branch of what waits for its answer."""
        return [f"interlock-work/{TEAM}/{self.task('publish').id}"]

    def _the_lie_was_caught(self) -> None:
        lie = self.task("mul")
        assert lie.rounds == 1 and lie.failures == 0 and len(self.team.runs("mul")) == 1
        checks = [
            one.payload for one in self.team.events()[0] if one.type == "verify.finished" and one.task_id == lie.id
        ]
        assert [one["passed"] for one in checks][:2] == [False, True], checks
        assert self.team.task("add").rounds == 0

    def _the_limit_and_the_kill_cost_nothing(self) -> None:
        assert {key: self.task(key).failures for key in WORK} == dict.fromkeys(WORK, 0)
        limited, again = self.team.runs("div")
        assert (limited.outcome, again.outcome) == ("capacity", "done") and "usage limit" in str(limited.reason)
        assert limited.member == again.member and limited.agent_session == again.agent_session
        assert str(again.started_at) > str(limited.ended_at)
        killed, recovered = self.team.runs("power")
        assert (killed.outcome, recovered.outcome) == ("reclaimed", "done")
        # Where it was killed too early for that, a new session is begun.
        assert killed.agent_session in (None, recovered.agent_session)

    def _the_impossible_is_one_question(self) -> None:
        task = self.task("publish")
        (question,) = self.team.questions()
        assert (question.task_id, question.text, question.state) == (task.id, QUESTION, "open")
        assert str(task.output).endswith(QUESTION) and str(task.output).count("?") == 1

    def _the_report_says_so(self) -> None:
        found = json.loads(self.interlock("--json", "report", "--team", TEAM).stdout)
        assert {one["key"] for one in found["done"]} == set(WORK) and all(one["verified"] for one in found["done"])
        assert [one["key"] for one in found["left"]] == ["publish"] and not found["failed"]
        (need,) = found["needs_me"]
        assert (need["kind"], QUESTION in need["text"]) == ("clarification", True)
        happened = {(one["key"], one["outcome"]) for one in found["incidents"]}
        assert {("mul", "check failed"), ("div", "capacity"), ("power", "reclaimed")} <= happened
        assert found["integration"]["branch"] == BRANCH and found["integration"]["tasks"] == len(WORK)

        text = self.interlock("report", "--team", TEAM).stdout
        assert "7 done, 0 failed, 1 left, 1 for you" in text, text
        for said in (r"Needs you\n  \? .*" + re.escape(QUESTION), r"verified after 1 failed check", r"usage limit",
                     rf"{BRANCH} has the work of 7 tasks", r"its runner is gone"):  # fmt: skip
            assert re.search(said, text), (said, text)


def _plan(members: dict[str, Any]) -> dict[str, Any]:
    tasks: dict[str, Any] = {
        key: {
            "subject": f"{key}: make its test green",
            "verify": f"{shlex.quote(sys.executable)} -m unittest -q tests.test_{key}",
            "assignee": "ada" if key in ADA else "bob",
        }
        for key in WORK
    }
    tasks["div"]["priority"] = "high"
    tasks["power"]["blocked_by"] = ["div", "mul"]  # One misfortune at a time.
    tasks["cli"]["blocked_by"] = ["add", "sub", "mul", "div", "power"]
    tasks["notes"]["blocked_by"] = ["cli"]
    tasks["publish"] = {"subject": "publish: put it into the package index", "assignee": "bob"}
    return {
        "team": TEAM, "workdir": "project", "isolation": "worktree", "parallel": 2, "members": members, "tasks": tasks
    }  # fmt: skip


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "interlock.surfaces.cli", *words]
