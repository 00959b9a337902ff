"""A finished plan run again: nothing is run, and yesterday's green is not passed off as today's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.behaviours.repository import Repository
from tests.surfaces.cli.conftest import Interlock

CHECKS: dict[str, Any] = {"test": {"run": "grep -q two story.txt"}, "lint": {"run": "true", "blocked_by": ["test"]}}


def planned(directory: Path, **more: Any) -> Repository:
    """A repository with a plan of two checks, committed."""
    plan = {"team": "crew", "members": {"ada": {"agent": "shell"}}, "tasks": CHECKS, **more}
    repository = Repository(directory)
    repository.commit("plan", **{"plan.yaml": json.dumps(plan)})
    return repository


@pytest.mark.parametrize("isolation", ["worktree", "none"])
def test_a_finished_plan_run_again_says_so_and_names_the_checks_that_are_out_of_date(
    interlock: Interlock, here: Path, isolation: str
) -> None:
    repository = planned(here, isolation=isolation)
    first = interlock("run", "plan.yaml")
    assert first.code == 0 and "Nothing was run" not in first.out, first.err
    again = interlock("run", "plan.yaml")
    assert again.code == 0, "nothing has changed since, so what it says is true now"
    assert "Nothing was run: all of it had been done before (test " in again.out and "lint " in again.out
    assert "`interlock run plan.yaml --team crew --new` does it again" in again.out

    repository.commit("the tests break", **{"story.txt": "one\n"})
    told = interlock("run", "plan.yaml")
    assert told.code == 1, "its green is of other files"
    assert "The files have changed since these ran: test, lint." in told.out
    assert "`interlock run plan.yaml --team crew --redo test --redo lint`" in told.out
    said = interlock("--json", "run", "plan.yaml")
    assert said.code == 1 and said.json["nothing_run"] and said.json["outdated"] == ["test", "lint"]

    redone = interlock("--json", "run", "plan.yaml", "--redo", "test")
    assert redone.code == 1 and not redone.json["nothing_run"] and not redone.json["all_done"]


@pytest.mark.parametrize("isolation", ["worktree", "none"])
def test_what_a_command_changed_itself_makes_nothing_out_of_date(
    interlock: Interlock, here: Path, isolation: str
) -> None:
    tasks = {"one": {"run": "echo 1 > one"}, "two": {"run": "echo 2 > two", "blocked_by": ["one"]}}
    planned(here, isolation=isolation, tasks=tasks)
    assert interlock("run", "plan.yaml").code == 0
    again = interlock("run", "plan.yaml")
    assert again.code == 0 and "Nothing was run" in again.out and "have changed" not in again.out


def test_outside_git_nobody_can_say_whether_the_files_have_changed(interlock: Interlock, here: Path) -> None:
    plan = {"team": "crew", "members": {"ada": {"agent": "shell"}}, "tasks": {"lint": {"run": "true"}}}
    (here / "plan.yaml").write_text(json.dumps(plan))
    assert interlock("run", "plan.yaml").code == 0
    again = interlock("run", "plan.yaml")
    assert again.code == 0 and "Nothing was run" in again.out and "have changed" not in again.out


def test_the_status_says_what_waits_for_interlock_merge(interlock: Interlock, here: Path) -> None:
    planned(here, isolation="worktree", tasks={"one": {"run": "echo 1 > one"}})
    assert interlock("run", "plan.yaml").code == 0
    waits = "Ready to merge\n  interlock/crew has the work of 1 task, not yet on any branch of yours\n"
    assert f"{waits}      interlock merge --all --team crew\n" in interlock("status").out
    assert "Ready to merge" in interlock("status", "--all").out
    assert interlock("merge", "--all").code == 0
    assert interlock("status").out.endswith("Nothing waits and nothing runs. What was done: interlock report\n")
