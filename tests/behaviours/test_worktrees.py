"""Separate working copies: each task in a worktree of its own, merged and proved before it is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository

TWO = {"ada": SHELL, "bea": SHELL}


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, in the directory to work in."""
    return Repository(place.work)


def stage(place: Place, tasks: dict[str, object], members: dict[str, object] | None = None, **more: object) -> None:
    place.stage(tasks, members, **{"isolation": "worktree", **more})


def test_a_task_works_in_a_worktree_and_is_merged_into_the_integration_branch(
    place: Place, repository: Repository
) -> None:
    before = repository.untouchable()
    stage(place, {"one": {"run": "pwd > where; echo four >> story.txt", "verify": "grep four story.txt"}})
    assert place.drive() == "finished"
    task = place.task("one")
    assert task.state == "done" and task.worktree is not None
    assert repository.untouchable() == before
    assert repository.show("interlock/crew", "story.txt").split() == ["one", "two", "three", "four"]
    where = repository.show("interlock/crew", "where")
    assert where == str(Path(place.team.directory) / "worktrees" / task.id) and not os.path.exists(where)
    assert repository.log("interlock/crew")[0].startswith(f"Merge {task.id}")
    assert task.worktree["merged"] == repository.head("interlock/crew")
    assert task.evidence is not None and task.evidence["merged"] and task.evidence["passed"]
    assert repository.branches() == ["interlock/crew", "main"]
    assert repository.git("worktree", "list").count("\n") == 0
