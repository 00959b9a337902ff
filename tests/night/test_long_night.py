"""A long night: forty tasks that build on each other, four members, and something goes wrong with every third of them.

Each task writes a module whose number is made of those it depends on, so its test is green only in a tree that holds
all of them. One task nobody but a person can do; whatever builds on it has to wait. In the morning everything else is
merged, each once, verified on the merged tree, and explained. Two tasks write the same file, which may conflict.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.night.stage import BRANCH, Night, player

PLAYER = Path(__file__).with_name("long_player.py")
QUESTION = "Which account may I publish this with?"
MEMBERS = ("ada", "bob", "cem", "dot")
MISFORTUNES = ("crash", "limit", "lie", "silent", "half")
TASKS, FEWEST = 40, 12
RUNNER_DEATHS = 3


@dataclass
class Work:
    """One task: what it builds on, its number, what goes wrong with it before it goes well."""

    key: str
    needs: list[str]
    number: int
    misfortunes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What its module has to be."""
        names = "".join(f"from parts.{key} import NUMBER as {key}\n" for key in self.needs)
        return f"{names}\nNUMBER = {' + '.join([str(int(self.key[1:])), *self.needs])}\n"

    @property
    def test(self) -> str:
        """What says whether it is."""
        return (
            f"import unittest\n\nfrom parts.{self.key} import NUMBER\n\n\nclass Test(unittest.TestCase):\n"
            f"    def test_it(self):\n        self.assertEqual(NUMBER, {self.number})\n"
        )


def planned(seed: int, size: int) -> list[Work]:
    """A graph of so many tasks, each on up to three before it."""
    chance = random.Random(seed)
    found: list[Work] = []
    for number in range(1, size + 1):
        before = found[-9:]
        needs = sorted(chance.sample([one.key for one in before], min(len(before), chance.choice([0, 1, 1, 2, 3]))))
        value = number + sum(one.number for one in found if one.key in needs)
        unlucky = chance.sample(MISFORTUNES, chance.choice([1, 1, 2])) if chance.random() < 0.4 else []
        found.append(Work(f"t{number}", needs, value, unlucky))
    return found


def beyond(works: list[Work], key: str) -> set[str]:
    """What can only be done after that task."""
    found: set[str] = set()
    for one in works:
        if found & set(one.needs) or key in one.needs:
            found.add(one.key)
    return found


def crossing(works: list[Work], left_out: set[str]) -> set[str]:
    """Two neighbours of which neither builds on the other: both write the same file, whoever is merged later finds a
    conflict."""
    for one, other in zip(works, works[1:], strict=False):
        if one.key not in other.needs and not {one.key, other.key} & left_out:
            return {one.key, other.key}
    raise AssertionError("no two tasks of the night are independent")


def plan(works: list[Work], impossible: str, member: dict[str, Any]) -> dict[str, Any]:
    """The plan of the night."""
    python = shlex.quote(sys.executable)
    tasks = {
        one.key: {
            "subject": f"{one.key}: make its test green",
            "verify": f"{python} -B -m unittest -q tests.test_{one.key}",
            "blocked_by": one.needs,
        }
        for one in works
    }
    tasks[impossible]["subject"] = f"{impossible}: publish it"
    return {"parallel": len(MEMBERS), "members": dict.fromkeys(MEMBERS, member), "tasks": tasks}


@pytest.mark.storm
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.timeout(1500)
def test_a_long_night(tmp_path: Path, seed: int, dose: float) -> None:
    works = planned(seed, max(FEWEST, int(TASKS * dose)))
    impossible = works[len(works) * 3 // 4].key
    waiting = beyond(works, impossible)
    possible = [one for one in works if one.key not in {impossible, *waiting}]
    crossed = crossing(works, {impossible, *waiting})
    script = {one.key: {"text": one.text, "misfortunes": one.misfortunes} for one in works}
    member = player(tmp_path, PLAYER, tasks=script, impossible=impossible, crossed=sorted(crossed), question=QUESTION)
    tests = {f"tests/test_{one.key}.py": one.test for one in works}
    with Night(tmp_path, {"parts/__init__.py": "", **tests}, plan(works, impossible, member)) as night:
        for death in range(RUNNER_DEATHS):
            at = len(possible) * (death + 1) // (RUNNER_DEATHS + 1)
            night.kill_when(lambda at=at: len(night.done()) >= at, 600)  # type: ignore[misc]
        code = night.run(900)
        told = night.told()[-4000:]

        states = {str(task.plan_key): task.state for task in night.team.tasks()}
        done = {one.key for one in possible}
        assert night.done() == done, told
        assert states[impossible] == "awaiting-response" and code == 1, told
        assert {states[key] for key in waiting} <= {"backlog"}, told
        events, _ = night.team.events()
        merges = [one.task_id for one in events if one.type == "merge.finished" and one.payload["outcome"] == "merged"]
        ids = {key: night.task(key).id for key in done}
        assert sorted(merges) == sorted(ids.values()), "each is merged, and once"
        for one in possible:
            evidence = night.task(one.key).check
            assert evidence is not None and evidence["passed"] and evidence["merged"], (one.key, evidence)
            assert night.repository.show(BRANCH, f"parts/{one.key}.py") == one.text.rstrip("\n"), one.key
        assert set(night.repository.show(BRANCH, "parts/crossed.txt").split()) == crossed
        (question,) = night.team.questions()
        assert question.text == QUESTION and question.task_id == night.task(impossible).id

        found = json.loads(night.interlock("--json", "report", "--team", "night").stdout)
        assert {one["key"] for one in found["done"]} == done and all(one["verified"] for one in found["done"])
        assert {one["key"] for one in found["left"]} == {impossible, *waiting} and not found["failed"]
        text = night.interlock("report", "--team", "night").stdout
        assert re.search(r"Needs you\n  \? .*" + re.escape(QUESTION), text), text
        night.untouched()
        assert not night.alive()
