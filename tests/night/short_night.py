"""A short night: eight tasks of one repository, two members, nobody awake, and what goes wrong in a night.

    add, sub, cli, notes    are simply done; the last two when what they build on is merged
    mul                     is said to be done when it is not
    div                     comes to a usage limit
    power                   is under way when the runner is killed
    publish                 cannot be done by anybody but a person

`ShortNight` stages it, runs it as its user would, and says in the morning whether all is as it was promised.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.night.stage import BRANCH, TEAM, Night
from tests.waiting import until

QUESTION = "Which token may I publish this with?"
LIMIT = "You've hit your usage limit. Try again in 1 second."
LIE = "Everything is written, and all tests pass."

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


class ShortNight(Night):
    """`members` are the plan's `ada` and `bob`."""

    def __init__(self, path: Path, members: dict[str, Any]) -> None:
        tests = {f"tests/test_{key}.py": f"import unittest\n\n{text}" for key, text in WANTED.items()}
        super().__init__(path, {"tally/__init__.py": "", **tests}, _plan(members))
        self.tests = len(WANTED)

    def pass_by(self, killed_when: str) -> int:
        """Run the plan, kill the runner when that mark is there, and run it again; the exit code of the second."""
        self.kill_when(self.mark(killed_when).exists)
        return self.run()

    def check(self, code: int) -> None:
        """All that is promised for the morning."""
        self.untouched()
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
            evidence = self.task(key).check
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
                     rf"{BRANCH} has the work of 7 tasks", r"its runner died"):  # fmt: skip
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
    return {"parallel": 2, "members": members, "tasks": tasks}
