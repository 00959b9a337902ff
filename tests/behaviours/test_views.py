"""Whole pictures of a team: the board, one task, the latest events, who does what."""

from __future__ import annotations

import pytest

from interlock.app.team import Team
from interlock.errors import InvalidRequest, TaskNotFound
from interlock.model.views import BoardFilter


def test_the_board_shows_so_many_of_each_column_and_counts_all(team: Team) -> None:
    ids = [team.create_task(f"task {n}").id for n in range(6)]
    urgent = team.create_task("urgent", priority="critical").id
    behind = team.create_task("later", blocked_by=[urgent]).id
    for id in ids[:3]:
        team.claim(id, by="ada")
        team.complete(id, by="ada")
    team.claim(ids[3], by="bob")
    team.block(ids[4], reason="no key")
    checked = team.create_task("looked at", review="human").id
    team.claim(checked, by="ada")
    team.complete(checked, by="ada")
    team.delete(team.create_task("gone").id)
    board = team.board(limit=2)
    assert board.counts == {"next": 3, "working": 1, "needs-you": 1, "in-review": 1, "to-merge": 0, "done": 3}
    assert board.states["ready"] == 2
    shown = {name: [task.id for task in tasks] for name, tasks in board.tasks.items()}
    assert shown["next"] == [urgent, ids[5]] and shown["done"] == [ids[2], ids[1]]
    assert (shown["working"], shown["needs-you"], shown["in-review"]) == ([ids[3]], [ids[4]], [checked])
    assert [task.id for task in team.column("next", offset=2)] == [behind]


def test_a_board_is_searched_and_filtered_and_a_column_is_listed_a_page_at_a_time(team: Team) -> None:
    ids = [team.create_task(f"Task {n}", body="50%_ of it" if n == 4 else "").id for n in range(5)]
    first = team.column("ready", limit=3)
    assert [task.id for task in first] == ids[:3]
    assert [task.id for task in team.column("ready", offset=3, limit=3)] == ids[3:]
    assert [task.id for task in team.column("next", BoardFilter("50%_ task"))] == [ids[4]]
    assert team.board(BoardFilter("5__")).counts["next"] == 0, "what a pattern means elsewhere is only text"
    team.claim(ids[0], by="ada")
    team.assign(ids[1], to="ada")
    mine = team.board(BoardFilter(member="ada")).tasks
    assert [task.id for task in (*mine["working"], *mine["next"])] == ids[:2]
    team.create_task("Now", priority="critical")
    assert team.board(BoardFilter(priority="critical")).counts["next"] == 1
    for id in ids:
        team.cancel(id)
    assert sorted(task.id for task in team.column("cancelled")) == ids
    with pytest.raises(InvalidRequest):
        team.column("nonsense")
    with pytest.raises(InvalidRequest):
        team.board(BoardFilter(priority="soon"))


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
    crew = {one.member.name: one for one in team.member_overviews()}
    assert list(crew) == ["lead", "ada", "bob"]
    assert [(one.task_id, one.state, one.reviews) for one in crew["ada"].tasks] == [(task, "in-progress", False)]
    assert crew["ada"].tasks[0].since is not None
    assert (crew["bob"].tasks, crew["bob"].unread) == ([], 1)
