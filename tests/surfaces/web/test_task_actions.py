"""The buttons of a task: what the model allows a person, all of it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import interlock
from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.model.task import FINAL, MOVES, STATES
from interlock.surfaces.web.task_actions import actions_for, perform

FORM = {"reason": "because", "member": "bob"}


@pytest.fixture
def team(tmp_path: Path) -> Team:
    team = interlock.connect(str(tmp_path / "home")).create_team("crew").acting("human", face="page")
    for name in ("ada", "bob"):
        team.spawn(name)
    return team


def backlog(team: Team) -> str:
    first = team.create_task("first")
    return team.create_task("task", blocked_by=[first.id]).id


def ready(team: Team) -> str:
    return team.create_task("task").id


def in_progress(team: Team) -> str:
    task = team.create_task("task").id
    team.claim(task, by="ada")
    return task


def awaiting(team: Team) -> str:
    task = in_progress(team)
    team.ask(task, "Which?", by="ada")
    return task


def blocked(team: Team) -> str:
    task = in_progress(team)
    team.block(task, reason="no disk", by="ada")
    return task


def review(team: Team) -> str:
    task = team.create_task("task", review="human").id
    team.claim(task, by="ada")
    team.complete(task, by="ada")
    return task


def deadletter(team: Team) -> str:
    task = team.create_task("task", verify="false").id
    team.claim(task, by="ada")
    while team.task(task).state == "in-progress":
        team.complete(task, by="ada")
    return task


MAKERS: dict[str, Callable[[Team], str]] = {
    "backlog": backlog,
    "ready": ready,
    "in-progress": in_progress,
    "awaiting-response": awaiting,
    "blocked": blocked,
    "review": review,
    "deadletter": deadletter,
}


@pytest.mark.long
@pytest.mark.parametrize("state", MAKERS)
def test_every_button_does_what_it_says(team: Team, state: str) -> None:
    offered = actions_for(team.task(MAKERS[state](team)))
    assert {"cancel", "delete", "assign"} < {move.verb for move in offered}
    for move in offered:
        task = MAKERS[state](team)
        assert team.task(task).state == state
        perform(team, task, move.verb, FORM)
        after = team.task(task).state
        assert after in move.leads or not move.leads, f"{move.verb} led from {state} to {after}"
        assert move.leads & MOVES[state] or move.verb == "assign"


@pytest.mark.parametrize("state", MAKERS)
def test_what_a_person_may_make_of_a_task_has_a_button(team: Team, state: str) -> None:
    task = team.task(MAKERS[state](team))
    led = set().union(*(move.leads for move in actions_for(task)))
    # Asking, failing and reporting are for agents; whether a task is ready follows from its blockers.
    mine = MOVES[state] - {"awaiting-response", "deadletter", "review"}
    if state in ("backlog", "ready", "blocked", "awaiting-response", "review"):
        mine -= {"ready", "backlog"} if state not in ("blocked", "awaiting-response") else set()
    if state in ("blocked", "awaiting-response"):
        mine -= {"in-progress", "blocked"}
    if state == "review":
        mine -= {"blocked"}
    assert mine <= led


@pytest.mark.parametrize("state", sorted(FINAL))
def test_what_is_over_has_no_buttons(team: Team, state: str) -> None:
    task = team.task(ready(team))
    task.state = state
    assert actions_for(task) == []


def test_a_task_that_is_reserved_for_another_is_not_offered(team: Team) -> None:
    task = team.create_task("task", assignee="ada")
    assert "claim" not in {move.verb for move in actions_for(task)}


def test_a_button_that_does_not_exist_does_nothing(team: Team) -> None:
    task = ready(team)
    with pytest.raises(InvalidRequest):
        perform(team, task, "acting", FORM)
    assert team.task(task).state == "ready"


def test_the_table_knows_every_state() -> None:
    assert set(MAKERS) | FINAL == set(STATES)
