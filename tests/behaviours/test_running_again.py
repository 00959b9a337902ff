"""Running a plan again continues it; nothing that was done, or is under way, is touched without being asked."""

from __future__ import annotations

import json
import os

import pytest

from interlock.errors import InvalidTransition, MemberLimit, MembersRunning, TeamExists
from tests.behaviours.driving import SHELL, Place, pids, running

ONE = {"run": "echo one >> log"}
TWO = {"run": "echo two >> log", "blocked_by": ["one"]}


def test_what_is_done_stays_done_and_new_tasks_are_added(place: Place) -> None:
    place.stage({"one": ONE})
    place.drive()
    staged = place.stage({"one": ONE, "two": TWO})
    assert [task.key for task in staged.new] == ["two"]
    assert [task.key for task in staged.unchanged] == ["one"]
    place.drive()
    assert place.lines("log") == ["one", "two"]


def test_running_it_again_unchanged_changes_nothing(place: Place) -> None:
    tasks = {"one": ONE, "two": TWO}
    place.stage(tasks)
    before = [task.as_dict() for task in place.team.tasks()]
    changes = place.stage(tasks)
    assert (changes.new, changes.updated, changes.removed_open) == ((), (), ())
    assert [task.as_dict() for task in place.team.tasks()] == before


def test_new_data_about_a_task_changes_nothing_that_it_asks_for_and_is_brought_along(place: Place) -> None:
    place.stage({"one": ONE, "two": TWO, "three": {"run": "true", "blocked_by": ["two"]}})
    place.team.update("three", metadata={"note": "by hand"})
    place.team.claim("one", by="ada")
    tasks = {"one": ONE, "two": TWO, "three": {"run": "true", "blocked_by": ["two"]}}
    for epic in ("1", "2"):
        named = {key: {**task, "metadata": {"epic": epic}} for key, task in tasks.items()}
        staged = place.stage(named)
        assert [task.key for task in staged.unchanged] == ["one", "two", "three"] and not staged.to_ask
        assert {place.task(key).metadata["epic"] for key in tasks} == {epic}
    assert place.task("three").metadata["note"] == "by hand" and place.task("one").state == "in-progress"
    seen = place.team.head()
    place.stage(named)
    assert "task.updated" not in {event.type for event in place.team.events(seen)[0]}


def test_a_changed_task_that_nobody_began_is_brought_up_to_date(place: Place) -> None:
    members = {"ada": SHELL, "bea": SHELL}
    place.stage({"one": ONE, "two": TWO, "three": {"run": "true"}}, members)
    other = place.team.create_task("By hand").id
    place.team.depend("two", on=other)
    changed = {
        "run": "echo 2 >> log",
        "subject": "Two, again",
        "blocked_by": ["three"],
        "assignee": "bea",
        "timeout": 9,
    }
    staged = place.stage({"one": ONE, "two": changed, "three": {"run": "true"}}, members)
    assert [task.key for task in staged.updated] == ["two"]
    two = place.task("two")
    assert (two.subject, two.command, two.assignee, two.timeout) == (
        "Two, again",
        "echo 2 >> log",
        "bea",
        9,
    )
    assert set(two.blocked_by) == {place.task("three").id, other}, "what a person made it wait for stays"


def test_dependencies_may_be_turned_around(place: Place) -> None:
    place.stage({"one": {"run": "true"}, "two": {"run": "true", "blocked_by": ["one"]}})
    place.stage({"one": {"run": "true", "blocked_by": ["two"]}, "two": {"run": "true"}})
    assert place.task("one").blocked_by == [place.task("two").id] and place.task("two").blocked_by == []


def test_a_changed_task_that_was_begun_is_listed_and_left_alone(place: Place) -> None:
    place.stage({"one": ONE, "two": TWO})
    place.team.claim("one", by="ada")
    staged = place.stage({"one": {"run": "echo other"}, "two": TWO})
    assert [task.key for task in staged.changed_started] == ["one"] and staged.to_ask
    assert place.task("one").command == "echo one >> log"


def test_an_open_task_that_left_the_plan_is_cancelled_and_a_begun_one_is_asked_about(place: Place) -> None:
    place.stage({"one": ONE, "two": TWO, "three": {"run": "true"}})
    two = place.task("two").id
    place.team.claim("one", by="ada")
    staged = place.stage({"three": {"run": "true"}})
    assert [task.key for task in staged.removed_open] == ["two"]
    assert [task.key for task in staged.removed_started] == ["one"]
    assert place.team.task(two).state == "cancelled" and place.task("one").state == "in-progress"


def test_a_task_that_comes_back_into_the_plan_is_done_after_all(place: Place) -> None:
    place.stage({"one": ONE, "two": TWO})
    place.stage({"one": ONE})
    assert [task.key for task in place.stage({"one": ONE, "two": TWO}).new] == ["two"]
    place.drive()
    assert place.lines("log") == ["one", "two"]


def test_redo_makes_a_new_task_that_takes_the_place_of_the_old_one(place: Place) -> None:
    three = {"run": "echo three >> log", "blocked_by": ["one"]}
    place.stage({"one": ONE, "two": TWO})
    place.drive()
    old = place.task("one").id
    staged = place.stage({"one": ONE, "two": TWO, "three": three}, again={"redo": ["one"]})
    assert [task.key for task in staged.redo] == ["one"]
    assert place.task("one").id != old and place.team.task(old).state == "done"
    place.drive()
    assert place.lines("log") == ["one", "two", "one", "three"], "two was done; three waited for the new one"


def test_redo_of_a_task_that_failed_for_good_frees_what_waits_for_it(place: Place) -> None:
    place.stage({"one": {"run": "test -f fixed", "retries": 0}, "two": TWO})
    place.drive()
    old = place.task("one").id
    assert place.states() == {"one": "deadletter", "two": "backlog"}
    (place.work / "fixed").touch()
    place.stage({"one": {"run": "test -f fixed", "retries": 0}, "two": TWO}, again={"redo": ["one"]})
    place.drive()
    assert place.states()["two"] == "done" and place.team.task(old).state == "cancelled"
    assert place.team.status().needs_me == []


def test_redo_of_a_task_that_is_under_way_is_refused_and_changes_nothing(place: Place) -> None:
    place.stage({"one": ONE})
    place.team.claim("one", by="ada")
    with pytest.raises(InvalidTransition, match="is in progress"):
        place.stage({"one": ONE, "two": TWO}, again={"redo": ["one"]})
    assert set(place.states()) == {"one"}


def test_new_begins_the_whole_plan_again(place: Place) -> None:
    place.stage({"one": ONE, "two": TWO, "never": {"subject": "Never", "assignee": "bob"}}, _with_bob(place))
    place.drive(until=0)
    tasks = {"one": ONE, "two": TWO}
    place.stage(tasks, again={"new": True})
    place.drive()
    place.stage(tasks, again={"new": True})
    place.drive()
    assert place.lines("log") == ["one", "two"] * 2


def test_a_dry_run_shows_what_would_be_done_and_does_none_of_it(place: Place) -> None:
    staged = place.stage({"one": ONE}, again={"dry_run": True})
    assert [task.key for task in staged.new] == ["one"] and place.home.teams() == []
    place.stage({"one": ONE})
    staged = place.stage({"one": ONE, "two": TWO}, again={"dry_run": True})
    assert [task.key for task in staged.new] == ["two"] and set(place.states()) == {"one"}


def test_members_are_brought_up_to_date(place: Place) -> None:
    place.stage({"one": ONE}, {"ada": SHELL, "bob": place.program("bob", "")})
    place.stage({"one": ONE}, {"ada": {"agent": "shell", "env": ["DEPLOY"]}, "bob": {"agent": {"command": ["other"]}}})
    members = {member.name: member for member in place.team.members()}
    assert members["ada"].env == ["DEPLOY"] and members["bob"].command == ["other"]


def test_a_plan_that_cannot_be_staged_leaves_nothing_behind(place: Place) -> None:
    with pytest.raises(MemberLimit):
        place.stage({"one": ONE}, {f"a{number}": SHELL for number in range(20)})
    assert place.home.teams() == []
    place.stage({"one": ONE})
    with pytest.raises(MemberLimit):
        place.stage({"one": ONE, "two": TWO}, {f"a{number}": SHELL for number in range(20)})
    assert set(place.states()) == {"one"} and len(place.team.members()) == 2


def test_a_plan_that_is_begun_again_while_it_runs_ends_the_programs_of_the_old_run(place: Place) -> None:
    slow = {"run": "test -f again || { touch again; echo $$ > pids; exec sleep 300; }"}
    place.stage({"one": slow})
    with place.runner() as runner:
        place.wait_for("pids")
        place.stage({"one": slow}, again={"new": True})
        runner.hears("ended: finished")
    assert not running(pids(place, "pids")[0]) and place.states() == {"one": "done"}


def test_a_team_that_is_driven_is_moved_only_when_it_has_stopped(place: Place) -> None:
    place.stage({"one": {"run": "echo $$ > pids; while ! test -f go; do sleep 0.02; done"}})
    with place.runner() as runner:
        place.wait_for("pids")
        with pytest.raises(MembersRunning, match="interlock stop --team crew"):
            place.home.move_team("crew", str(place.path))
        (place.work / "go").touch()
        runner.hears("ended: finished")
    place.home.move_team("crew", str(place.path))
    assert place.home.glance("crew").workdir == str(place.path)


def _with_bob(place: Place) -> dict[str, object]:
    return {"ada": SHELL, "bob": place.program("bob", "")}


def test_a_plan_of_another_project_leaves_the_team_of_its_name_alone(place: Place) -> None:
    place.stage({"one": ONE})
    place.drive()
    other = place.path / "other"
    other.mkdir()
    plan = other / "plan.yaml"
    plan.write_text(json.dumps({"team": "crew", "members": {"ada": SHELL}, "tasks": {"one": ONE, "two": TWO}}))
    for how in ({}, {"dry_run": True}, {"new": True}):
        with pytest.raises(TeamExists, match=rf"works in {place.work}, not in {other}\."):
            place.home.stage(str(plan), **how)
    assert place.states() == {"one": "done"} and place.home.glance("crew").workdir == str(place.work)
    # The author of a plan may change its `workdir`.
    place.work.rename(place.path / "elsewhere")
    assert [task.key for task in place.stage({"one": ONE}, workdir="elsewhere").unchanged] == ["one"]
    assert place.home.glance("crew").workdir == str(place.path / "elsewhere")


def test_a_first_plan_in_a_directory_of_the_same_name_is_for_a_team_of_its_own(place: Place) -> None:
    first, second = place.path / "a" / "api", place.path / "b" / "api"
    for directory, team in ((first, "api"), (second, "api-2"), (first, "api"), (second, "api-2")):
        directory.mkdir(parents=True, exist_ok=True)
        found = place.home.first_plan(str(directory))
        assert found.team == team
        place.home.stage(found.files[1])
        for path in found.files:
            os.unlink(path)
