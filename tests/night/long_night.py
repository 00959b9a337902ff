"""Long nights: up to forty tasks that build on each other, and something goes wrong with every third of them.

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

from tests.night.stage import Night
from tests.waiting import until

QUESTION = "Which account may I publish this with?"
MISFORTUNES = ("crash", "limit", "lie", "silent", "half")
UNFINISHED = {"lie", "silent", "half"}
"""The misfortunes after which the check is run on what is not what was wanted."""
TASKS = 40


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


class LongNight:
    """What is to be done in one repository, by what goes wrong; `size` tasks, made from `seed`."""

    def __init__(self, seed: int, size: int) -> None:
        self.works = planned(seed, size)
        self.impossible = self.works[len(self.works) * 3 // 4].key
        self.waiting = beyond(self.works, self.impossible)
        self.possible = [one for one in self.works if one.key not in {self.impossible, *self.waiting}]
        self.crossed = crossing(self.works, {self.impossible, *self.waiting})
        self.figures: dict[str, Any] = {}
        """What the witness said in the morning."""

    def files(self) -> dict[str, str]:
        """What the repository has in the evening: all its tests are red."""
        return {"parts/__init__.py": "", **{f"tests/test_{one.key}.py": one.test for one in self.works}}

    def plan(self, members: dict[str, Any]) -> dict[str, Any]:
        """The plan of the night."""
        python = shlex.quote(sys.executable)
        tasks = {
            one.key: {
                "subject": f"{one.key}: make its test green",
                "verify": f"{python} -B -m unittest -q tests.test_{one.key}",
                "blocked_by": one.needs,
            }
            for one in self.works
        }
        tasks[self.impossible]["subject"] = f"{self.impossible}: publish it"
        return {"parallel": len(members), "members": members, "tasks": tasks}

    def misfortunes(self, key: str) -> list[str]:
        """What goes wrong with that task, in this order."""
        return next(one.misfortunes for one in self.works if one.key == key)

    def wanted(self, key: str, root: Path) -> dict[str, str]:
        """The files that the task `key` makes in its worktree `root`, whole, from what is there."""
        (work,) = (one for one in self.works if one.key == key)
        files = {f"parts/{key}.py": work.text}
        if key in self.crossed:
            shared = root / "parts" / "crossed.txt"
            known = shared.read_text().split() if shared.exists() else []
            lines = {key, *(one for one in known if one in self.crossed)}  # Without the marks of a conflict.
            files["parts/crossed.txt"] = "".join(f"{one}\n" for one in sorted(lines))
        return files

    def check(self, night: Night, code: int) -> None:
        """All that is promised for the morning."""
        told = night.told()[-4000:]
        states = {str(task.plan_key): task.state for task in night.team.tasks()}
        done = {one.key for one in self.possible}
        assert night.done() == done, told
        assert states[self.impossible] == "awaiting-response" and code == 1, told
        assert {states[key] for key in self.waiting} <= {"backlog"}, told
        events, _ = night.team.events()
        merges = [one.task_id for one in events if one.type == "merge.finished" and one.payload["outcome"] == "merged"]
        self._nothing_is_held_against_who_did_it_right(night, told)
        ids = {key: night.task(key).id for key in done}
        assert sorted(merges) == sorted(ids.values()), "each is merged, and once"
        for one in self.possible:
            evidence = night.task(one.key).check
            assert evidence is not None and evidence["passed"] and evidence["merged"], (one.key, evidence)
            assert night.repository.show(night.branch, f"parts/{one.key}.py") == one.text.rstrip("\n"), one.key
        assert set(night.repository.show(night.branch, "parts/crossed.txt").split()) == self.crossed
        (question,) = night.team.questions()
        assert question.text == QUESTION and question.task_id == night.task(self.impossible).id

        found = json.loads(night.interlock("--json", "report", "--team", night.name).stdout)
        assert {one["key"] for one in found["done"]} == done and all(one["verified"] for one in found["done"])
        assert {one["key"] for one in found["left"]} == {self.impossible, *self.waiting} and not found["failed"]
        text = night.interlock("report", "--team", night.name).stdout
        assert re.search(r"Needs you\n  \? .*" + re.escape(QUESTION), text), text
        self.figures = self._witnessed(night)
        night.untouched()
        until(lambda: not night.alive())

    def _nothing_is_held_against_who_did_it_right(self, night: Night, told: str) -> None:
        """Checks fail, and attempts are used up, by what went wrong with the task itself; no death of a runner does. A
        run whose machine fell silent has used up one: that may have been the task's doing."""
        for one in self.possible:
            task = night.task(one.key)
            failed = [
                (event.payload["ended"], event.at)
                for event in night.team.events()[0]
                if (event.type, event.task_id) == ("verify.finished", task.id) and not event.payload["passed"]
            ]
            assert len(failed) <= sum(name in UNFINISHED for name in one.misfortunes), (one, failed, told)
            ends = [(run.outcome, run.reason) for run in night.team.runs(one.key)]
            expired = sum(outcome == "expired" for outcome, _ in ends)
            assert task.failures <= one.misfortunes.count("crash") + expired, (one, task.failures, ends, told)

    def _witnessed(self, night: Night) -> dict[str, Any]:
        """What a stranger can derive from the ledger's rows, and check without this home."""
        found: dict[str, Any] = json.loads(
            night.interlock("--json", "report", "--witness", "--team", night.name).stdout
        )
        assert found["claimed"] == found["witnessed"] == found["verified"] == len(self.possible), found
        assert (found["unwitnessed"], found["lost"], found["open_questions"]) == ([], [], 1), found
        receipt = str(night.mark("receipt.json"))
        night.interlock("report", "--receipt", receipt, "--team", night.name)
        checked = night.interlock("verify-receipt", receipt, "--repository", str(night.repository.path))
        assert checked.returncode == 0 and f"{len(self.possible)} of {len(self.possible)}" in checked.stdout, checked
        return found
