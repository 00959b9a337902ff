"""A worktree for a task that somebody claims by hand."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from interlock.app.team import Team
from interlock.errors import AgentError, Forbidden, InvalidTransition, WorktreeRefused
from interlock.model.task import Task
from tests.behaviours.driving import Place
from tests.behaviours.repository import Repository


@pytest.fixture
def repository(place: Place) -> Repository:
    return Repository(place.work)


@pytest.fixture
def team(place: Place, repository: Repository) -> Team:
    """A team that works in worktrees, with members that nobody runs."""
    made = place.home.create_team("crew", workdir=str(place.work))
    made.configure({"isolation": "worktree"})
    for name in ("ann", "bob"):
        made.spawn(name)
    return made


def begun(team: Team, subject: str, member: str, **more: str) -> Task:
    task = team.create_task(subject, **more)
    team.claim(task.id, by=member)
    return team.worktree(task.id, by=member)


def directory(task: Task) -> Path:
    assert task.worktree is not None
    return Path(task.worktree["directory"])


def test_what_is_done_there_is_verified_and_merged_when_it_is_completed(team: Team, repository: Repository) -> None:
    before = repository.untouchable()
    one = begun(team, "Write a manual", "ann", verify="test -s MANUAL")
    two = begun(team, "Fix the story", "bob")
    assert directory(one) != directory(two) and directory(one).is_dir()
    (directory(one) / "MANUAL").write_text("Read the source.\n")
    (directory(two) / "story.txt").write_text("four\n")
    assert "Read the source." in team.diff(one.id).diff
    done = team.complete(one.id, by="ann")
    assert done.state == "done" and done.check is not None and done.check["merged"]
    assert team.complete(two.id, by="bob").state == "done"
    assert repository.show("interlock/crew", "MANUAL") == "Read the source."
    assert repository.show("interlock/crew", "story.txt") == "four"
    assert not directory(one).exists() and repository.branches() == ["interlock/crew", "main"]
    assert repository.untouchable() == before and team.doctor().healthy


def test_asking_again_keeps_what_lies_there_also_when_two_ask_at_once(team: Team, place: Place) -> None:
    team.configure({"worktree_setup": f"echo made >> {place.path}/times"})
    task = team.create_task("One")
    team.claim(task.id, by="ann")
    found: list[Path] = []
    asking = [
        threading.Thread(target=lambda: found.append(directory(team.worktree(task.id, by="ann")))) for _ in range(3)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(60)
    assert len(found) == 3 and len(set(found)) == 1
    assert (place.path / "times").read_text() == "made\n"
    (found[0] / "half").write_text("work")
    assert (directory(team.worktree(task.id, by="ann")) / "half").read_text() == "work"


def test_a_conflict_comes_back_to_its_author_who_finds_it_in_the_worktree(team: Team, repository: Repository) -> None:
    one, two = begun(team, "One", "ann"), begun(team, "Two", "bob")
    for task, text in ((one, "ann's\n"), (two, "bob's\n")):
        (directory(task) / "story.txt").write_text(text)
    assert team.complete(one.id, by="ann").state == "done"
    back = team.complete(two.id, by="bob")
    assert back.state in ("ready", "in-progress") and "story.txt" in str(back.findings)
    if back.state == "ready":
        team.claim(two.id, by="bob")
    again = directory(team.worktree(two.id, by="bob"))
    text = (again / "story.txt").read_text()
    assert "<<<<<<<" in text and "ann's" in text and "bob's" in text
    (again / "story.txt").write_text("ann's\nbob's\n")
    assert team.complete(two.id, by="bob").state == "done"
    assert repository.show("interlock/crew", "story.txt") == "ann's\nbob's"


def test_only_whoever_works_on_the_task_gets_one(team: Team) -> None:
    task = team.create_task("One")
    with pytest.raises(InvalidTransition, match="not claimed"):
        team.worktree(task.id, by="ann")
    team.claim(task.id, by="ann")
    with pytest.raises(Forbidden):
        team.worktree(task.id, by="bob")
    team.block(task.id, reason="no network", by="ann")
    with pytest.raises(InvalidTransition, match="not being worked on"):
        team.worktree(task.id, by="ann")
    assert team.task(task.id).worktree is None and not (Path(team.directory) / "worktrees").exists()


def test_a_team_that_shares_one_directory_gives_none_and_says_how_to_change_that(team: Team) -> None:
    team.configure({"isolation": "none"})
    task = team.create_task("One")
    team.claim(task.id, by="ann")
    with pytest.raises(WorktreeRefused, match="config set --team crew isolation worktree"):
        team.worktree(task.id, by="ann")


def test_a_setup_that_fails_is_told_and_tried_again_at_the_next_asking(team: Team, place: Place) -> None:
    team.configure({"worktree_setup": f"echo no network; test -e {place.path}/network"})
    task = team.create_task("One")
    team.claim(task.id, by="ann")
    with pytest.raises(AgentError, match="no network"):
        team.worktree(task.id, by="ann")
    assert team.task(task.id).state == "in-progress" and team.task(task.id).worktree is None
    (place.path / "network").touch()
    assert directory(team.worktree(task.id, by="ann")).is_dir()


def test_a_task_that_is_given_back_is_taken_up_in_the_same_worktree(team: Team) -> None:
    task = begun(team, "One", "ann")
    (directory(task) / "half").write_text("work")
    team.release(task.id, by="ann")
    team.claim(task.id, by="bob")
    assert (directory(team.worktree(task.id, by="bob")) / "half").read_text() == "work"
