"""A plan in a git repository whose members may work at once is isolated, unless it says that it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository
from tests.command import Answer, command

TWO = {"ada": SHELL, "bob": SHELL}


def interlock(place: Place, *words: str) -> Answer:
    """The command, as a person types it."""
    return command("--home", str(place.path / "home"), *words)


def increment(meet: Path, me: str, other: str) -> str:
    """Read a number, wait until the other has read it, too, or has been here before, and write the next one."""
    wait = f"until test -e {meet}/{other}; do sleep 0.02; done"
    return f"n=$(cat counter); touch {meet}/{me}; {wait}; echo $((n + 1)) > counter"


def settings(place: Place) -> str:
    """How the team works."""
    return str(place.team.setting("isolation")[0])


@pytest.mark.long
def test_two_agents_that_increment_one_file_end_at_two_and_run_says_what_that_means(place: Place) -> None:
    repository = Repository(place.work)
    repository.commit("counter", counter="0\n")
    tasks = {"x": {"run": increment(place.path, "x", "y")}, "y": {"run": increment(place.path, "y", "x")}}
    place.stage(tasks, TWO, again={"dry_run": True})
    ended = interlock(place, "run", str(place.path / "plan.yaml"))
    assert ended.code == 0, ended.out + ended.err
    (line,) = [line for line in ended.out.splitlines() if "isolation: worktree" in line]
    assert "merged into interlock/crew" in line and "interlock merge --all" in line
    assert repository.show("interlock/crew", "counter") == "2"
    assert (place.work / "counter").read_text() == "0\n"


def test_a_plan_that_says_none_is_not_isolated_and_run_says_what_that_means(place: Place) -> None:
    Repository(place.work)
    staged = place.stage({"x": {"run": "touch here"}}, TWO, isolation="none")
    (note,) = staged.notes
    assert note.startswith("isolation: none") and "overwrite each other's files" in note
    place.drive()
    assert (place.work / "here").exists() and settings(place) == "none"


@pytest.mark.parametrize("more", [{"parallel": 1}, {"members": {"ada": SHELL}}])
def test_who_works_alone_works_in_the_users_checkout(place: Place, more: dict[str, Any]) -> None:
    Repository(place.work)
    staged = place.stage({"x": {"run": "touch here"}}, **{"members": TWO, **more})
    place.drive()
    assert (place.work / "here").exists() and settings(place) == "none" and staged.notes == ()


def test_outside_git_and_where_nothing_is_committed_there_are_no_worktrees(place: Place) -> None:
    place.stage({"x": {"run": "true"}}, TWO)
    assert settings(place) == "none"


def test_a_team_that_began_unisolated_stays_so_until_its_plan_changes(place: Place) -> None:
    tasks = {"x": {"run": "touch x"}}
    place.stage(tasks, TWO)
    Repository(place.work)
    place.stage(tasks, TWO)
    assert settings(place) == "none"
    place.stage({**tasks, "y": {"run": "touch y"}}, TWO)
    assert settings(place) == "worktree"
    place.stage(tasks, {"ada": SHELL})
    assert settings(place) == "worktree"


def test_plan_check_names_every_fault_with_file_and_line_and_starts_nothing(place: Place) -> None:
    Repository(place.work)
    plan = place.path / "plan.yaml"
    text = "workdir: work\nmembers: {ada: {agent: shell}, bob: {agent: shell}}\ntasks:\n  one:\n    verify: true-ish\n"
    text += "    run: 'true'\n  two:\n    run: echo fine\n"
    plan.write_text(f"{text}    verify: {place.work}/check\n")
    checked = interlock(place, "plan", "check", str(plan))
    assert checked.code == 1
    first, second, *_ = checked.out.splitlines()
    assert first.startswith(f"{plan}:5: verify: the program 'true-ish' was not found")
    assert second.startswith(f"{plan}:9: verify would not look at the work in a worktree: {place.work}/check lies in")
    plan.write_text(text.replace("true-ish", '"true"'))
    checked = interlock(place, "plan", "check", str(plan))
    assert (checked.code, place.home.teams()) == (0, []) and "no errors" in checked.out
