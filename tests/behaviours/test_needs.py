"""A task that nobody can take waits for a person, and one cause is told once."""

from __future__ import annotations

import pytest
from click import unstyle

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.model.report import as_text
from interlock.model.status import folded
from tests.behaviours.speech import update


@pytest.mark.req("GUARD-closed")
def test_a_chat_in_a_project_without_an_agent_needs_somebody(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home.create_project("website", str(tmp_path_factory.mktemp("site")))
    home.chat("website", "Make the button blue")
    team = home.team("website")
    (need,) = team.status().needs_me
    assert need.kind == "unclaimable" and "the team has no agent" in need.text
    assert need.verb == "interlock member spawn NAME --agent AGENT --team website"
    assert team.report().needs_me == [need]
    team.spawn("ada", agent="claude")
    assert team.status().needs_me == []


def test_hundreds_of_tasks_with_one_cause_are_one_need(home: Home) -> None:
    team = home.create_team("website")
    team.configure({"mirror": False})
    for n in range(120):
        team.create_task(f"Task {n}", **({"run": "true"} if n % 4 == 0 else {}))
    commands, others = team.status().needs_me
    assert (commands.count, others.count) == (30, 90)
    assert commands.text == "Task 0 and 29 more: nobody can take this: the team has no agent"
    assert commands.verb.startswith("interlock member spawn NAME --agent shell")
    assert len(folded([commands, others])) == 2
    team.spawn("sh", agent="shell")
    (left,) = team.status().needs_me
    assert (left.count, left.task_id) == (90, others.task_id)
    assert "a task without a command needs an agent" in left.text


@pytest.mark.req("GUARD-closed")
def test_tasks_for_agents_that_were_all_stopped_are_one_need(home: Home) -> None:
    team = home.create_team("website")
    team.spawn("ada", agent="claude")
    for n in range(3):
        team.create_task(f"Task {n}")
    assert team.status().needs_me == []
    team.request_shutdown("ada")
    team.answer_shutdown(approve=True, by="ada")
    (need,) = team.status().needs_me
    assert (need.kind, need.count) == ("stopped", 3)
    assert need.verb == "interlock resume --member ada --team website"


def test_whoever_has_a_seat_may_take_it_by_hand(home: Home) -> None:
    team = home.create_team("website")
    team.create_task("Sit down")
    assert len(team.status().needs_me) == 1
    team.spawn("bob")
    assert team.status().needs_me == []


def test_a_question_in_a_list_says_what_it_is_about(team: Team) -> None:
    subjects = ["Deploy the site", "Rotate the keys"]
    for subject in subjects:
        task = team.create_task(subject)
        team.claim(task.id, by="ada")
        assert team.protocol(update(task.id, status="blocked", notes="")).accepted
    asked = "is blocked and gave no reason. Do you permit code changes for this task? (YES/NO)"
    assert [need.text for need in team.status().needs_me] == [f"ada {asked}"] * 2
    lines = [unstyle(line) for line in as_text(team.report())]
    assert [line for line in lines if "?" in line] == [f"  ? {subject}: ada {asked}" for subject in subjects]
    assert lines.count("      waits for an answer") == 2, "not the line that is there to the letter of a specification"
