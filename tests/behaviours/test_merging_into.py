"""`interlock merge` and `interlock diff`: how finished work becomes the user's, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.errors import Forbidden, GitFailed, InvalidRequest, WorktreeRefused
from interlock.model.report import IntegrationBranch
from tests.behaviours.driving import ROOT, Place
from tests.behaviours.repository import Repository, stage


@pytest.fixture
def repository(place: Place) -> Repository:
    """The user's repository, with the work of two tasks beside each other and one on top of the first."""
    made = Repository(place.work)
    tasks = {
        "a": {"run": "echo a > a.txt"},
        # Only when `on-a` has begun, which would be built on it otherwise.
        "b": {"run": "echo bäß > b.txt; echo four >> story.txt", "blocked_by": ["on-a"]},
        "on-a": {"run": "cp a.txt on-a.txt", "blocked_by": ["a"]},
        "bad": {"run": "echo half > half.txt; false", "retries": 0},
    }
    stage(place, tasks)
    assert place.drive() == "finished"
    return made


@pytest.mark.long
def test_all_of_it_becomes_the_users_branch_as_it_was_proved(place: Place, repository: Repository) -> None:
    before = repository.untouchable()
    shown = place.team.merge(everything=True, dry_run=True)
    assert [task.key for task in shown.tasks] == ["a", "on-a", "b"] and not shown.merged
    assert "story.txt" in shown.stat and repository.untouchable() == before
    done = place.team.merge(everything=True)
    assert done.merged and done.into == "main" and done.after == repository.head("interlock/crew")
    assert repository.head("main") == done.after and repository.git("status", "--porcelain") == ""
    assert (place.work / "on-a.txt").read_text() == "a\n" and not (place.work / "half.txt").exists()
    again = place.team.merge(everything=True)
    assert not again.merged and again.before == again.after and again.tasks == []
    assert place.team.report().integration == IntegrationBranch("interlock/crew", 3, 3)
    (event,) = [event for event in place.team.events()[0] if event.type == "work.merged"]
    assert event.actor == "human" and len(event.payload["tasks"]) == 3


def test_a_task_brings_along_what_it_was_built_on_and_nothing_else(place: Place, repository: Repository) -> None:
    done = place.team.merge(["on-a"])
    assert [task.key for task in done.tasks] == ["a", "on-a"]
    assert (place.work / "on-a.txt").exists() and not (place.work / "b.txt").exists()
    assert place.team.merge(["b", "a"]).merged and (place.work / "b.txt").exists()
    assert (integration := place.team.report().integration) is not None and integration.delivered == 3
    assert place.team.merge(everything=True).conflicts == []


def test_a_branch_that_is_not_checked_out_is_moved_and_the_checkout_is_left_alone(
    place: Place, repository: Repository
) -> None:
    repository.git("branch", "release")
    before = repository.untouchable()
    done = place.team.merge(everything=True, into="release")
    assert done.into == "release" and repository.head("release") == repository.head("interlock/crew")
    after = repository.untouchable()
    assert {**after, "refs": None} == {**before, "refs": None} and repository.head("main") != done.after


@pytest.mark.long
def test_work_of_the_user_goes_on_beside_and_is_merged_with(place: Place, repository: Repository) -> None:
    mine = repository.commit("mine", mine="x")
    (place.work / "mine").write_text("not committed")
    done = place.team.merge(everything=True)
    assert done.merged and mine in repository.git("log", "--format=%H") and (place.work / "a.txt").exists()
    assert (place.work / "mine").read_text() == "not committed"
    assert repository.git("log", "-1", "--format=%s|%an") == "Merge interlock/crew|Una User"


@pytest.mark.long
@pytest.mark.parametrize("how", ["changed", "staged", "untracked", "ignored"])
def test_what_is_not_committed_and_would_be_touched_stops_it(place: Place, repository: Repository, how: str) -> None:
    name = {"changed": "story.txt", "staged": "story.txt", "untracked": "a.txt", "ignored": "b.txt"}[how]
    (place.work / name).write_text("mine\n")
    if how == "staged":
        repository.git("add", name)
    if how == "ignored":
        (place.work / ".git" / "info" / "exclude").write_text("b.txt\n")
    before = repository.untouchable()
    if how != "ignored":
        assert place.team.merge(everything=True, dry_run=True).dirty == [name]
    with pytest.raises((WorktreeRefused, GitFailed)) as caught:
        place.team.merge(everything=True)
    assert name in caught.value.message and "nothing was changed" in caught.value.message
    assert repository.untouchable() == before


@pytest.mark.parametrize("every", [False, True])
def test_a_git_that_fails_half_way_leaves_nothing_half_written(
    place: Place, repository: Repository, every: bool
) -> None:
    before = repository.untouchable()
    (place.work / ".git" / "info" / "attributes").write_text("story.txt filter=f\n")
    smudge = "false" if every else 'said=$(cat); case "$said" in *four*) exit 1; esac; echo "$said"'
    for name, value in (("smudge", smudge), ("clean", "cat"), ("required", "true")):
        repository.git("config", f"filter.f.{name}", value)
    with pytest.raises(GitFailed, match="filter f failed") as caught:
        place.team.merge(everything=True)
    if every:  # The old content cannot be had either.
        assert "half changed: story.txt. `git checkout HEAD -- FILE`" in caught.value.message
        assert repository.git("status", "--porcelain") == " D story.txt"
        repository.git("config", "filter.f.smudge", "cat")
        repository.git("checkout", "HEAD", "--", "story.txt")
    else:
        assert "and nothing was changed: " in caught.value.message
    assert repository.git("status", "--porcelain") == "" and not (place.work / "a.txt").exists()
    assert (place.work / "story.txt").read_text() == "one\ntwo\nthree\n"
    after = repository.untouchable()
    assert {name: after[name] for name in ("head", "refs", "status")} == {
        name: before[name] for name in ("head", "refs", "status")
    }
    repository.git("config", "filter.f.smudge", "cat")
    assert place.team.merge(everything=True).merged and (place.work / "a.txt").exists()


@pytest.mark.long
def test_a_conflict_changes_nothing_and_names_the_files(place: Place, repository: Repository) -> None:
    repository.commit("mine", **{"story.txt": "one\ntwo\nthree\nmine\n"})
    before = repository.untouchable()
    assert place.team.merge(everything=True, dry_run=True).conflicts == ["story.txt"]
    with pytest.raises(WorktreeRefused, match=r"conflict in story.txt; nothing was changed") as caught:
        place.team.merge(everything=True)
    assert caught.value.details["conflicts"] == ["story.txt"] and repository.untouchable() == before
    assert place.team.merge(["a"]).merged  # what does not conflict can be had
    assert os.listdir(Path(place.team.directory) / "worktrees") == [place.task("bad").id]


def test_only_what_is_done_and_only_a_persons_branch_are_merged(place: Place, repository: Repository) -> None:
    for call, says in (
        ({"tasks": ["bad"]}, "it is deadletter"),
        ({"everything": True, "into": "interlock/crew"}, "Interlock's own"),
        ({"everything": True, "into": "nowhere"}, "no branch nowhere"),
    ):
        with pytest.raises(WorktreeRefused, match=says):
            place.team.merge(**call)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        place.team.merge()
    repository.git("checkout", "--quiet", "--detach")
    with pytest.raises(WorktreeRefused, match="--into"):
        place.team.merge(everything=True)
    assert place.team.merge(everything=True, into="main").merged


@pytest.mark.long
def test_no_member_and_nobody_inside_a_run_merges(place: Place, repository: Repository) -> None:
    with pytest.raises(Forbidden):
        place.team.merge(everything=True, by="lead")
    command = ["interlock", "merge", "--all", "--team", "crew"]
    environment = {**os.environ, "INTERLOCK_HOME": place.home.path, "INTERLOCK_RUN_TOKEN": "0" * 32}
    program = [sys.executable, "-m", "interlock.surfaces.cli", *command[1:]]
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Only a person" in done.stderr
    assert repository.head("main") != repository.head("interlock/crew")


def test_the_diff_of_an_open_task_has_all_that_lies_there_and_touches_nothing(
    place: Place, repository: Repository
) -> None:
    task = place.task("bad")
    work = Path(str((task.worktree or {})["path"]))
    index = (place.work / ".git" / "worktrees" / task.id / "index").read_bytes()
    assert "+half" in place.team.diff("bad").diff
    assert (place.work / ".git" / "worktrees" / task.id / "index").read_bytes() == index
    assert (work / "half.txt").exists()
    for key, line in (("a", "+a"), ("b", "+four")):
        found = place.team.diff(key)
        assert line in found.diff and found.merged and "on-a" not in found.diff
    patch = place.team.diff("b").diff
    applied = subprocess.run(["git", "apply", "--check"], cwd=place.work, input=patch, text=True, check=False)
    assert applied.returncode == 0


def test_a_diff_is_read_in_parts_of_whole_lines(place: Place, repository: Repository) -> None:
    whole = place.team.diff("b")
    assert (whole.next, whole.size) == (None, len(whole.diff.encode()))
    for most in (4, 5, 40, whole.size - 1, whole.size):
        start: int | None = 0
        parts = []
        while start is not None:
            part = place.team.diff("b", start=start, most=most)
            assert part.size == whole.size and len(part.diff) <= most
            parts.append(part.diff)
            start = part.next
        assert "".join(parts) == whole.diff, most
    assert most > 100 and all(part.endswith("\n") for part in parts)
    for wrong in ({"start": -1}, {"most": -1}, {"start": "0"}):
        with pytest.raises(InvalidRequest):
            place.team.diff("b", **wrong)  # type: ignore[arg-type]


def test_without_a_worktree_there_is_no_diff(place: Place) -> None:
    place.stage({"one": {"run": "true"}, "later": {"run": "true", "blocked_by": ["one"]}})
    with pytest.raises(InvalidRequest, match="has not begun"):
        place.team.diff("later")
    place.drive()
    with pytest.raises(InvalidRequest, match="isolation"):
        place.team.diff("one")
