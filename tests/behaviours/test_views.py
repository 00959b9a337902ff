"""Whole pictures of a team: the board, one task, the latest events, who does what."""

from __future__ import annotations

import pytest

from interlock.app.team import Team
from interlock.errors import InvalidRequest, TaskNotFound


def test_the_board_shows_so_many_of_each_state_and_counts_all(team: Team) -> None:
    ids = [team.create_task(f"task {n}").id for n in range(6)]
    urgent = team.create_task("urgent", priority="critical").id
    for id in ids[:3]:
        team.claim(id, by="ada")
        team.complete(id, by="ada")
    board = team.board(limit=2)
    assert (board.counts["ready"], board.counts["done"], board.counts["blocked"]) == (4, 3, 0)
    assert [task.id for task in board.tasks["ready"]] == [urgent, ids[3]]
    assert [task.id for task in board.tasks["done"]] == [ids[2], ids[1]]
    assert "deleted" not in board.tasks


def test_one_state_is_listed_a_page_at_a_time(team: Team) -> None:
    ids = [team.create_task(f"task {n}").id for n in range(5)]
    first = team.in_state("ready", limit=3)
    assert [task.id for task in first] == ids[:3]
    assert [task.id for task in team.in_state("ready", after=first[-1].n, limit=3)] == ids[3:]
    for id in ids:
        team.cancel(id)
    last = team.in_state("cancelled", limit=3)
    assert [task.id for task in last] == ids[:1:-1]
    assert [task.id for task in team.in_state("cancelled", after=last[-1].n)] == [ids[1], ids[0]]
    with pytest.raises(InvalidRequest):
        team.in_state("nonsense")


def test_the_story_of_a_task_is_all_that_belongs_to_it(team: Team) -> None:
    before = team.create_task("before").id
    task = team.create_task("task", blocked_by=[before]).id
    after = team.create_task("after", blocked_by=[task]).id
    team.claim(before, by="bob")
    team.complete(before, by="bob")
    team.claim(task, by="ada")
    team.update(task, by="ada", log="half done")
    team.ask(task, "Which way?", by="ada")
    team.reply(task, "Left")
    found = team.story(task)
    assert found.task.id == task and [run.number for run in found.runs] == [1]
    assert [text for _, _, text in found.log] == ["half done"]
    assert [(one.text, one.answer) for one in found.questions] == [("Which way?", "Left")]
    assert [one.id for one in found.blockers] == [before] and [one.id for one in found.dependents] == [after]
    assert found.events[0].type == "task.created" and found.handoff is None and found.parent is None
    assert len(team.story(task, events=2).events) == 2
    with pytest.raises(TaskNotFound):
        team.story("999")


def test_the_latest_events_are_paged_backwards_and_chosen_by_type(team: Team) -> None:
    for n in range(3):
        team.create_task(f"task {n}")
    newest = team.latest(limit=2)
    assert newest[0].seq == newest[1].seq + 1 == team.events()[1]
    older = team.latest(before=newest[-1].seq, limit=1)
    assert older[0].seq == newest[-1].seq - 1
    assert {event.type for event in team.latest(types=["task.created"])} == {"task.created"}
    assert len(team.latest(types=["task.created", "member.spawned"])) == 6


def test_the_crew_is_each_member_with_what_it_does(team: Team) -> None:
    task = team.create_task("task").id
    team.claim(task, by="ada")
    team.send(to="bob", content="hello")
    crew = {one.member.name: one for one in team.crew()}
    assert list(crew) == ["lead", "ada", "bob"]
    assert [(one.task_id, one.state, one.reviews) for one in crew["ada"].tasks] == [(task, "in-progress", False)]
    assert crew["ada"].tasks[0].since is not None
    assert (crew["bob"].tasks, crew["bob"].unread) == ([], 1)
