"""A team belongs to its directory: the second project of a name, the second clone, and the project that was moved."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import connect
from interlock.surfaces.cli.caller import TEAM_FILE
from tests.behaviours.repository import Repository
from tests.surfaces.cli.conftest import Answer, Interlock

TWO = {"ada": {"agent": "shell"}, "ben": {"agent": "shell"}}
ONE = {"one": {"run": "echo one > one.txt"}}
GATED = {"gate": {"run": "true", "review": "human"}, "later": {"run": "true", "blocked_by": ["gate"]}}
RUN, CHECK = ("--json", "run", "plan.yaml"), ("--json", "plan", "check", "plan.yaml")
DRY_RUN = (*RUN, "--dry-run")

Enter = Callable[[Path], Path]


@pytest.fixture
def enter(here: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Make a directory, where it is not there yet, the current one."""

    def call(directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(directory)
        return directory

    return call


def planned(directory: Path, tasks: dict[str, Any] | None = None, file: str = "plan.yaml", **more: Any) -> None:
    """Write a plan whose members run commands."""
    directory.mkdir(parents=True, exist_ok=True)
    plan = {"members": TWO, "tasks": tasks or ONE, **more}
    (directory / file).write_text(json.dumps(plan, indent=1))


def backend(directory: Path) -> Repository:
    """A repository with the plan of the team `backend`, which works in worktrees, and an `interlock.toml`."""
    planned(directory, team="backend", isolation="worktree")
    (directory / TEAM_FILE).write_text('team = "backend"\n')
    return Repository(directory)


def team_named(answer: Answer) -> str:
    assert answer.code == 0, answer.err
    return str(answer.json["team"])


def notes(answer: Answer) -> str:
    assert answer.code == 0, (answer.out, answer.err)
    return " ".join(answer.json["notes"])


def refusals(interlock: Interlock) -> list[str]:
    """What `run`, `run --dry-run` and `plan check` say against the plan here: each the same."""
    run, dry, check = (interlock(*line) for line in (RUN, DRY_RUN, CHECK))
    assert [run.code, dry.code, check.code] == [1, 1, 1]
    assert run.error["error"] == dry.error["error"] == "team_elsewhere"
    assert run.error["directory"] == dry.error["directory"] == os.getcwd() and run.error["workdir"]
    said = [run.error["message"], dry.error["message"], *(fault["message"] for fault in check.json["errors"])]
    assert len(set(said)) == 1 and len(said) == 3
    return said


def states(interlock: Interlock, team: str) -> dict[str, str]:
    tasks = interlock("--json", "task", "list", "--team", team).json["tasks"]
    return {task["subject"]: task["state"] for task in tasks}


def workdir(interlock: Interlock, team: str) -> str:
    return str(interlock("--json", "team", "show", team).json["workdir"])


def test_the_second_directory_of_a_name_runs_its_own_tests(interlock: Interlock, here: Path, enter: Enter) -> None:
    for place, test in (("one", "@echo all 12 tests passed"), ("two", "@echo 3 tests FAILED; exit 1")):
        enter(here / place / "backend").joinpath("Makefile").write_text(f"test:\n\t{test}\n")
        assert interlock("init").code == 0
        answer = interlock("run", "plan.yaml")
        assert (answer.code, "all 12 tests passed" in answer.out) == ((0, True) if place == "one" else (1, False))
        assert team_named(interlock("--json", "status")) == ("backend" if place == "one" else "backend-2")


def test_a_plan_without_a_team_takes_a_free_name_and_finds_its_team_again(
    interlock: Interlock, here: Path, enter: Enter
) -> None:
    first, second = here / "a", here / "b"
    planned(first, GATED)
    planned(second)
    enter(first)
    assert interlock("run", "plan.yaml").code == 1
    before = states(interlock, "plan")
    enter(second)
    assert "there is another team plan, so this is for a new one: plan-2" in notes(interlock(*CHECK))
    assert team_named(interlock(*DRY_RUN)) == "plan-2"
    for _ in "12":
        assert team_named(interlock(*RUN)) == "plan-2"
    assert states(interlock, "plan-2") == {"echo one > one.txt": "done"} and states(interlock, "plan") == before
    again = interlock(*DRY_RUN)
    assert again.json["unchanged"] == ["one"] and not again.json["new"] and notes(again) == ""
    planned(second, GATED)
    assert interlock("run", "plan.yaml").code == 1
    assert team_named(interlock("--json", "status")) == "plan-2"
    assert interlock("task", "approve", "gate").code == 0
    assert states(interlock, "plan-2")["true"] != "review"
    assert interlock("--json", "task", "show", "gate", "--team", "plan").json["state"] == "review"
    # It stays what it is, also once the other name is free.
    enter(first)
    assert interlock("team", "delete", "plan", "--force").code == 0
    enter(second)
    assert team_named(interlock(*DRY_RUN)) == "plan-2"


def test_two_plans_of_one_name_for_one_directory_are_two_teams(interlock: Interlock, here: Path, enter: Enter) -> None:
    planned(here)
    planned(here / "more", {"two": {"run": "true"}}, workdir="..")
    assert team_named(interlock(*RUN)) == "plan"
    enter(here / "more")
    assert team_named(interlock(*RUN)) == "plan-2"
    assert states(interlock, "plan") == {"echo one > one.txt": "done"}


def test_the_team_file_names_the_team_of_a_plan_without_one(interlock: Interlock, here: Path, enter: Enter) -> None:
    first, second = here / "a", here / "b"
    for place, team in ((first, "shop"), (second, "shop-2")):
        planned(place)
        planned(place, {"two": {"run": "true"}}, file="release.yaml")
        (place / TEAM_FILE).write_text('team = "shop"\n')
        enter(place)
        for _ in "12":
            assert team_named(interlock(*RUN)) == team
        assert team_named(interlock("--json", "status")) == team
        # Another plan names its team by its own file, and leaves that one's tasks alone.
        answer = interlock("--json", "run", "release.yaml")
        assert team_named(answer) == ("release" if team == "shop" else "release-2")
        assert states(interlock, team) == {"echo one > one.txt": "done"}
    (second / TEAM_FILE).write_text('team = "No name"\n')
    assert interlock(*RUN).error["error"] == "invalid_team_name"


def test_a_long_name_makes_room_for_its_number(interlock: Interlock, here: Path, enter: Enter) -> None:
    name = "a" * 50
    for place, team in (("a", name), ("b", "a" * 46 + "-2"), ("b", "a" * 46 + "-2")):
        planned(here / place, file=f"{name}.yaml")
        enter(here / place)
        assert team_named(interlock("--json", "run", f"{name}.yaml")) == team


def test_a_second_clone_is_a_second_team(interlock: Interlock, here: Path, enter: Enter) -> None:
    first, second = here / "first", here / "second"
    repository = backend(first)
    repository.git("clone", "--quiet", str(first), str(second))
    enter(first)
    assert team_named(interlock(*RUN)) == "backend"
    before = interlock("--json", "events").out
    enter(second)
    message, *_ = refusals(interlock)
    assert f"The team backend works in {first}, not in {second}." in message
    assert "--team backend-2" in message and f"interlock team adopt backend --workdir {second}" in message
    line = next(n for n, text in enumerate((second / "plan.yaml").read_text().splitlines(), 1) if '"team"' in text)
    assert f"plan.yaml:{line}: The team backend works in" in interlock("plan", "check", "plan.yaml").out
    # What speaks to the team of this directory says so, too, whether it reads or changes something.
    for verb in ("status", "report", "task list", "merge --all", "pause", "task create More", "stop"):
        answer = interlock("--json", *verb.split())
        assert (answer.code, answer.error["error"]) == (1, "team_not_found"), verb
        assert f"works in {first}, not in {second}" in answer.error["message"], verb
        assert "--team backend" in answer.error["message"] and "interlock team adopt" in answer.error["message"]
    assert team_named(interlock("--json", "status", "--team", "backend")) == "backend"
    assert interlock("--json", "events", "--team", "backend").out == before
    # Told otherwise, it is a team of its own, which is found from here.
    for line in (CHECK, DRY_RUN, RUN, RUN):
        assert interlock(*line, "--team", "backend-2").code == 0
    assert team_named(interlock("--json", "status")) == "backend-2"
    assert "--team backend-2" in refusals(interlock)[0]
    worktree = enter(Path(os.environ["INTERLOCK_HOME"], "teams", "backend-2", "worktrees", "some"))
    (worktree / TEAM_FILE).write_text('team = "backend"\n')
    assert team_named(interlock("--json", "status")) == "backend-2"
    assert workdir(interlock, "backend") == str(first)


def test_a_team_that_works_above_the_directory_of_a_team_file_is_not_taken_for_it(
    interlock: Interlock, here: Path, enter: Enter
) -> None:
    first, second = here / "first", here / "second"
    assert interlock("team", "create", "above").code == 0
    backend(first).git("clone", "--quiet", str(first), str(second))
    enter(first)
    assert interlock(*RUN).code == 0
    enter(second)
    assert interlock("--json", "status").error["error"] == "team_not_found"


def test_a_team_file_beside_the_plan_or_above_or_below_the_directory_names_its_team(
    interlock: Interlock, here: Path, enter: Enter
) -> None:
    planned(here / "plans", team="backend", workdir="../code")
    (here / "code" / "deep").mkdir(parents=True)
    enter(here / "plans")
    assert interlock(*RUN).code == 0
    for place in (here / "plans", here / "code" / "deep", here):
        (place / TEAM_FILE).write_text('team = "backend"\n')
        enter(place)
        assert team_named(interlock("--json", "status")) == "backend"


def test_a_repository_that_was_moved_takes_its_team_along(interlock: Interlock, here: Path, enter: Enter) -> None:
    first, second = here / "first", here / "away" / "second"
    backend(first)
    enter(first)
    assert interlock(*RUN).code == 0
    second.parent.mkdir()
    first.rename(second)
    enter(second)
    assert team_named(interlock("--json", "status")) == "backend"
    moved = f"the team backend has moved from {first} to {second}"
    assert moved in notes(interlock(*CHECK)) and moved in notes(interlock(*DRY_RUN))
    planned(second, {**ONE, "two": {"run": "true"}}, team="backend", isolation="worktree")
    answer = interlock("run", "plan.yaml")
    assert answer.code == 0 and moved in answer.out and workdir(interlock, "backend") == str(second)
    assert states(interlock, "backend") == {"echo one > one.txt": "done", "true": "done"}
    assert notes(interlock(*DRY_RUN)).count("moved") == 0
    # Once more, and without a word on the team in its plan.
    third = here / "third"
    second.rename(third)
    planned(third, isolation="worktree")
    enter(third)
    assert team_named(interlock(*RUN)) == "backend" and workdir(interlock, "backend") == str(third)
    # What looks for the team of a directory by itself, as workflows do, finds it, too.
    fourth = here / "fourth"
    third.rename(fourth)
    with connect(os.environ["INTERLOCK_HOME"]) as home:
        assert home.team_of_project(str(fourth)).name == "backend"
    assert workdir(interlock, "backend") == str(fourth)


def test_a_copy_of_a_repository_is_another_project(interlock: Interlock, here: Path, enter: Enter) -> None:
    first, copy = here / "first", here / "copy"
    backend(first)
    enter(first)
    assert interlock(*RUN).code == 0
    shutil.copytree(first, copy, symlinks=True)
    enter(copy)
    assert f"works in {first}, not in {copy}" in refusals(interlock)[0]
    planned(copy, isolation="worktree")
    assert team_named(interlock(*DRY_RUN)) == "backend-2"


def test_a_clone_in_the_place_of_a_repository_that_was_moved_is_another_project(
    interlock: Interlock, here: Path, enter: Enter
) -> None:
    first, second = here / "first", here / "second"
    repository = backend(first)
    enter(first)
    assert interlock(*RUN).code == 0
    first.rename(second)
    repository.path = second
    repository.git("clone", "--quiet", str(second), str(first))
    enter(first)
    assert f"has worked in {first}, but not in the repository that is there now" in refusals(interlock)[0]
    enter(second)
    assert team_named(interlock("--json", "status")) == "backend"
    assert f"has moved from {first} to {second}" in notes(interlock(*DRY_RUN))
    assert team_named(interlock(*RUN)) == "backend" and workdir(interlock, "backend") == str(second)
    enter(first)
    assert f"works in {second}, not in {first}" in refusals(interlock)[0]
    # Whoever means that team says so.
    moved = interlock("team", "adopt", "backend")
    assert moved.code == 0 and f"backend works in {first}, no longer in {second}" in moved.out
    assert interlock(*RUN).json["all_done"] and team_named(interlock("--json", "status")) == "backend"


@pytest.mark.parametrize("isolation", ["worktree", "none"])
def test_a_drive_that_is_not_there_keeps_its_team(
    interlock: Interlock, here: Path, enter: Enter, isolation: str
) -> None:
    mounted, second = here / "mounted", here / "second"
    first = mounted / "first"
    planned(first, team="backend", isolation=isolation)
    Repository(first).git("clone", "--quiet", str(first), str(second))
    enter(first)
    assert interlock(*RUN).code == 0
    enter(second)
    mounted.rename(here / "unplugged")
    mounted.mkdir()
    for _ in "12":
        message, *_ = refusals(interlock)
        assert f"works in {first}, which is not there now" in message and str(second) in message
        if mounted.exists():
            mounted.rmdir()
    (here / "unplugged").rename(mounted)
    enter(first)
    assert interlock(*RUN).json["all_done"] and workdir(interlock, "backend") == str(first)


def test_a_project_without_worktrees_is_recognised_by_its_plan(interlock: Interlock, here: Path, enter: Enter) -> None:
    first, second, other = here / "first", here / "second", here / "other"
    planned(first, isolation="none")
    enter(first)
    assert team_named(interlock(*RUN)) == "plan"
    first.rename(second)
    planned(other, {"two": {"run": "true"}})
    enter(other)
    assert team_named(interlock(*DRY_RUN)) == "plan-2"
    enter(second)
    answer = interlock(*DRY_RUN)
    assert answer.json["unchanged"] == ["one"] and f"has moved from {first} to {second}" in notes(answer)
    assert team_named(interlock(*RUN)) == "plan" and workdir(interlock, "plan") == str(second)
    # Moved and changed at once, it shows nothing of that: somebody has to say so.
    third = here / "third"
    second.rename(third)
    planned(third, {"two": {"run": "true"}}, team="plan", isolation="none")
    enter(third)
    message, *_ = refusals(interlock)
    assert interlock(*message.rpartition("`interlock ")[2].removesuffix("`.").split()).code == 0
    assert interlock(*RUN).json["all_done"]


def test_a_team_without_a_plan_belongs_to_its_directory_too(interlock: Interlock, here: Path, enter: Enter) -> None:
    assert interlock("team", "create", "backend").code == 0
    assert interlock("task", "create", "By hand").code == 0
    second = here.parent / "second"
    planned(second, team="backend")
    enter(second)
    assert f"works in {here}, not in {second}" in refusals(interlock)[0]
    assert workdir(interlock, "backend") == str(here) and states(interlock, "backend") == {"By hand": "ready"}


def test_the_same_plan_file_does_not_take_a_team_to_another_repository(
    interlock: Interlock, here: Path, enter: Enter
) -> None:
    for name in ("one", "two"):
        backend(here / name)
        (here / name / "sub").mkdir()
    for directory, code in (("one", 0), ("one/sub", 0), ("two", 1)):
        planned(here, team="backend", workdir=directory, isolation="worktree")
        assert interlock(*RUN).code == code, directory
    assert workdir(interlock, "backend") == str(here / "one" / "sub")


def test_a_team_is_moved_where_a_person_says(interlock: Interlock, here: Path, enter: Enter) -> None:
    planned(here, {"one": {"run": "interlock team adopt plan --workdir /; echo $? > code"}})
    assert interlock(*RUN).code == 0
    assert (here / "code").read_text() == "1\n" and workdir(interlock, "plan") == str(here), "no process of a run may"
    nowhere = interlock("--json", "team", "adopt", "plan", "--workdir", "nowhere")
    assert (nowhere.code, nowhere.error["error"]) == (1, "directory_not_found")
    other = enter(here.parent / "other")
    assert interlock("--json", "team", "adopt", "plan").json["workdir"] == str(other)
    assert team_named(interlock("--json", "status")) == "plan" and os.listdir(other) == []
