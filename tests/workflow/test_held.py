"""A pause of a workflow is held while its agent's session lives, and parked after its time (decision 30)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.settings import known
from interlock.workflow.agents.watch import Limits
from interlock.workflow.state.document import RunPlan
from tests.waiting import until
from tests.workflow.company import Company
from tests.workflow.stage import SKILL, MemoryDesk, Part, Player, play, project, script, writes
from tests.workflow.test_in_a_team import Place
from tests.workflow.test_over_acp import PROGRAM, SCRIPT

OVERSIGHT = {"front": "oversight: required\n"}


def company(directory: Path, steps: int = 3, player: Player | None = None, **more: Any) -> Company:
    root = project(directory / "plan-app", steps, **{**OVERSIGHT, **more})
    return Company(directory, root, {"ada": player or Player(writes(root))})


@pytest.mark.req("BMAD-2b.10.3", "BMAD-3.2.2")
def test_an_answer_in_time_goes_on_in_the_same_session_and_run(tmp_path: Path) -> None:
    place = company(tmp_path)
    begun = place.begin(tier=1)
    with place.at_work():
        for step in (1, 2, 3):
            place.event("workflow.step_completed", step=step)
            question = place.question(held=True)
            task = place.team.task(begun["task_id"])
            assert (task.state, task.run, question.kind) == ("awaiting-response", 1, "checkpoint")
            place.answer("confirm", question)
            until(lambda id=question.id: all(one.id != id for one in place.team.questions()))
        until(lambda: place.run()["outcome"] is not None)
    player = place.agents["ada"]
    assert place.run()["outcome"] == "COMPLETED" and len(player.sessions) == 1  # type: ignore[attr-defined]
    assert len(place.team.runs(begun["task_id"])) == 1
    assert not [one for one in place.run()["decisions"] if one["kind"] == "resume"]


def test_a_person_is_waited_for_300_seconds_unless_it_is_set_otherwise() -> None:
    assert Limits().selection == known("workflow_selection").default == 300


@pytest.mark.req("BMAD-2b.10.3")
def test_nobody_answers_in_time_and_the_same_question_is_parked_for_a_new_run(tmp_path: Path) -> None:
    place = company(tmp_path, steps=2)
    place.team.configure({"workflow_selection": 1})
    begun = place.begin(tier=1)
    with place.at_work():
        place.event("workflow.step_completed", step=1)
        until(lambda: bool(place.team.questions()) and not place.team.questions()[0].held)
        question = place.team.questions()[0]
        until(lambda: place.team.runs(begun["task_id"])[0].ended_at is not None)
        assert place.run()["outcome"] is None and place.team.task(begun["task_id"]).state == "awaiting-response"
        place.team.configure({"workflow_selection": 300})
        place.answer("confirm", question)
        place.answer("confirm", place.question(held=True))
        until(lambda: place.run()["outcome"] is not None)
    assert place.run()["outcome"] == "COMPLETED" and len(place.team.runs(begun["task_id"])) == 2
    assert [one["ordinal"] for one in place.run()["asked"]] == [1, 1], "nobody was asked twice"


def test_unattended_nobody_is_waited_for(tmp_path: Path) -> None:
    place = company(tmp_path)
    place.team.configure({"unattended": True})
    begun = place.begin(tier=1)
    with place.at_work():
        assert not place.question().held
        until(lambda: place.team.runs(begun["task_id"])[0].ended_at is not None)
    assert place.team.task(begun["task_id"]).state == "awaiting-response"


def test_a_runner_that_has_nothing_else_to_do_and_is_to_end_parks_at_once(tmp_path: Path) -> None:
    place = company(tmp_path)
    begun = place.begin(tier=1)
    assert place.drive() == "finished"
    (question,) = place.team.questions()
    assert not question.held and place.team.runs(begun["task_id"])[0].ended_at is not None


def test_a_held_run_makes_way_for_a_task_that_only_its_member_can_take(tmp_path: Path) -> None:
    async def part(part: Part) -> str:
        return await work(part) if part.prompt and "make-plan" in part.prompt else '{"status": "COMPLETE"}'

    root = project(tmp_path / "plan-app", **OVERSIGHT)
    work = writes(root)
    place = Company(tmp_path, root, {"ada": Player(part)})
    begun = place.begin(tier=1)
    with place.at_work():
        question = place.question(held=True)
        other = place.team.create_task("Something else", assignee="ada")
        until(lambda: place.team.task(other.id).state == "done")
        assert [one.id for one in place.team.questions()] == [question.id], "it still waits for its answer"
        assert place.team.runs(begun["task_id"])[0].ended_at is not None


def test_another_workflow_has_its_turn_while_one_is_held(tmp_path: Path) -> None:
    root = project(tmp_path / "plan-app", **OVERSIGHT)
    place = Company(tmp_path, root, {"ada": Player(writes(root)), "bob": Player(writes(root))})
    first, second = place.begin(tier=1, agent="ada"), place.begin(tier=1, agent="bob")
    with place.at_work():
        until(lambda: sum(one.held for one in place.team.questions()) == 2)
        assert {one.task_id for one in place.team.questions()} == {first["task_id"], second["task_id"]}


def test_a_run_that_is_rolled_back_or_cancelled_while_it_is_held_lets_go(tmp_path: Path) -> None:
    place = company(tmp_path)
    begun = place.begin(tier=1)
    with place.at_work():
        place.answer("confirm", place.question(held=True))
        place.event("workflow.step_completed", step=2)
        place.question(held=True)
        assert "step" in place.team.rollback_workflow(to=1)["text"]
        until(lambda: place.run()["completed_steps"] == [1] and place.run()["state"] == "WAITING_USER")
        place.question(held=True)
        place.team.cancel_workflow()
        until(lambda: all(one.ended_at for one in place.team.runs(begun["task_id"])))
    assert place.run()["outcome"] == "CANCELLED" and not place.team.questions()


def test_a_program_that_takes_one_prompt_is_not_waited_for(tmp_path: Path) -> None:
    """There is no session to keep."""
    root = project(tmp_path / "p", **OVERSIGHT)
    outcome = play(
        root, Player(script('{"step": "completed"}'), lasting=False), plan=RunPlan(project=str(root), tier=1)
    )
    assert (outcome.ending.kind, outcome.seconds) == ("parked", 0.0)
    assert [one.held for one in outcome.desk.asked.values()] == [False]


@pytest.mark.parametrize("kind", ["menu", "question", "escalation", "checkpoint"])
def test_every_kind_of_pause_is_held_for_the_time_that_is_set(tmp_path: Path, kind: str) -> None:
    root = project(tmp_path / "p", **(OVERSIGHT if kind == "checkpoint" else {}))
    said = {
        "menu": 'What now?\n\n[R] Red [B] Blue [G] Green\n{"step": "waiting"}',
        "question": 'Which port shall it use?\n{"step": "waiting"}',
        "escalation": "Hm.",
        "checkpoint": '{"step": "completed"}',
    }[kind]
    limits = Limits(selection=120.0)
    outcome = play(root, Player(script(said)), limits=limits, plan=RunPlan(project=str(root), tier=1))
    (asked,) = outcome.desk.asked.values()
    assert asked.held and asked.kind == {"question": "clarification"}.get(kind, kind)
    assert (outcome.ending.kind, outcome.seconds) == ("parked", 120.0) and outcome.state.seconds == 0.0


def test_the_silence_of_an_agent_that_waits_for_a_person_is_not_held_against_it(tmp_path: Path) -> None:
    root = project(tmp_path / "p", **OVERSIGHT)

    class Slow(MemoryDesk):
        async def wait(self, question: str, seconds: float) -> tuple[str, str] | None:
            await super().wait(question, 250.0)
            return ("confirm", "ada")

    outcome = play(root, Player(writes(root)), desk=Slow(), plan=RunPlan(project=str(root), tier=1))
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds == 750.0 and outcome.state.timeout_error is None


@pytest.mark.long
@pytest.mark.parametrize("answered", ["while nobody lives", "afterwards"])
def test_a_run_that_is_killed_while_it_is_held_finds_the_same_question(tmp_path: Path, answered: str) -> None:
    place = Place(tmp_path, steps=2, **OVERSIGHT)
    begun = place("run", SKILL, "--agent", f"acp {sys.executable} {PROGRAM} {SCRIPT}", "--tier", "1", "--detach")
    team = place.team

    def work() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "interlock.surfaces.cli", "work", "--team", "plan-app"], cwd=place.root,
            env=place.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    process = work()
    until(lambda: bool(team.questions()) and team.questions()[0].held)
    (question,) = team.questions()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    if answered == "while nobody lives":
        team.reply(begun["task_id"], "confirm", question=question.id)
    process = work()
    try:
        if answered == "afterwards":
            until(lambda: not team.questions()[0].held)
            assert [one.id for one in team.questions()] == [question.id]
            team.reply(begun["task_id"], "confirm", question=question.id)
        until(lambda: team.workflow_run()["completed_steps"] == [1, 2] and bool(team.questions()))
        team.reply(begun["task_id"], "confirm", question=team.questions()[0].id)
        until(lambda: team.workflow_run()["outcome"] is not None)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    assert team.workflow_run()["outcome"] == "COMPLETED" and len(team.workflow_run()["asked"]) == 2
    assert len(team.runs(begun["task_id"])) == 2
