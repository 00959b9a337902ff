"""Menus within a run: which are answered, by whom and why; menus within menus; the history of choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.engine import decision_log
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import APC, DONE, MemoryDesk, Part, Player, play, project, script, writes

BMB = "/bmad:bmb:workflows:make-plan"


def choosing(menu: str) -> Any:
    """An agent that shows `menu` until it is answered, then is done."""

    async def part(part: Part) -> str:
        return DONE if not part.step or "final step" in part.prompt else menu

    return part


@pytest.mark.req("BMAD-2b.2.1", "BMAD-FR8", "BMAD-E2b.3", "BMAD-2b.2.5", "BMAD-NFR2")
def test_a_menu_that_is_certain_is_answered_without_anybody(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    outcome = play(root, Player(writes(root)))
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    menus = [one for one in outcome.desk.of("workflow.decided") if one["kind"] == "menu"]
    assert menus and all(one["choice"] == "C" and one["confidence"] >= 80 for one in menus)
    assert outcome.seconds < 5  # virtual: nothing in the engine waits


@pytest.mark.req("BMAD-2b.2.2", "BMAD-FR10")
def test_a_menu_of_medium_confidence_is_put_to_a_human_with_a_recommendation(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    menu = "What next?\n\n[S] Start building now\n[B] Begin with tests\n\nPlease select an option:"
    outcome = play(root, Player(script(menu)))
    (asked,) = outcome.desk.asked.values()
    assert outcome.ending.kind == "parked" and asked.kind == "menu"
    assert asked.default == "S" and "Recommended: S" in asked.text and 50 <= asked.data["confidence"] < 80


@pytest.mark.req("BMAD-2b.2.3", "BMAD-FR10")
def test_a_menu_of_low_confidence_is_put_to_a_human_without_a_recommendation(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    menu = "Please select an option:\n\n[D] Delete the old plan\n[O] Overwrite it\n[X] Exit"
    outcome = play(root, Player(script(menu)))
    (asked,) = outcome.desk.asked.values()
    assert asked.default is None and "Recommended" not in asked.text and asked.data["confidence"] < 50


@pytest.mark.req("BMAD-2b.2.4")
def test_a_choice_is_logged_with_its_reason_and_confidence_and_can_be_made_again(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    outcome = play(root, Player(writes(root)))
    package = packages.load(str(root))
    workflow = workflows.read(package, package.skills[0])
    logged = [one for one in outcome.desk.of(decision_log.EVENT) if one["kind"] == "menu"]
    assert logged and all(one["why"] and one["confidence"] for one in logged)
    assert [decision_log.replay(one, workflow) for one in logged] == [one["choice"] for one in logged]


def test_what_the_brief_answers_never_reaches_a_human(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if "from the brief" in part.prompt:
            return f"The brief says SQLite.\n{DONE}"
        return f"Which storage should it use?\n{APC}" if False else "Which storage should it use?"

    plan = RunPlan(project=str(root), tier=1, brief="It keeps its data in SQLite, nothing else.")
    outcome = play(root, Player(part), plan=plan)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


def test_a_fact_of_the_brief_and_a_value_given_answer_at_once(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    answers = []

    async def part(part: Part) -> str:
        answers.append(part.answer)
        return "What is the project name?" if part.turn == 1 else "Which story key?" if part.turn == 2 else DONE

    plan = RunPlan(project=str(root), tier=1, brief="Project name: Garden\n", values={"story_key": "1-2-login"})
    outcome = play(root, Player(part), plan=plan)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert answers[1:3] == ["Garden", "1-2-login"]


def test_what_the_brief_does_not_say_is_asked_of_a_human_once(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if "from the brief" in part.prompt:
            return 'Which storage?\n{"step": "waiting", "brief": "silent"}'
        return DONE if part.answer == "Postgres" or part.step != "1" else "Which storage?"

    desk = MemoryDesk(answers=lambda asking: "Postgres")
    outcome = play(root, Player(part), desk=desk, plan=RunPlan(project=str(root), tier=1, brief="A tool."))
    assert outcome.state.outcome == "COMPLETED" and len(desk.asked) == 1
    assert [one["answer"] for one in outcome.state.asked] == ["Postgres"]


def test_yolo_asks_nobody_about_menus_and_questions_and_destroys_nothing(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    menus = [
        "Choose an option:\n\n[D] Delete all\n[N] New file",
        "Which of the two?\n\n1. Red\n2. Blue\n\nChoose (1-2):",
        "How?",
    ]
    answers = []

    async def part(part: Part) -> str:
        answers.append(part.answer)
        return menus[part.turn - 1] if part.turn <= 3 else DONE

    outcome = play(root, Player(part), plan=RunPlan(project=str(root), tier=4, yolo=True))
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert answers[1:3] == ["N", "1"]


@pytest.mark.req("BMAD-2b.3.1", "BMAD-2b.3.2", "BMAD-FR9")
@pytest.mark.parametrize("report", ["Critical Issues: 4\nMajor Issues: 0", "Critical: 0\nMajor Issues: 6"])
def test_the_builders_thresholds_call_party_mode_which_is_recorded_and_chosen(tmp_path: Path, report: str) -> None:
    root = project(tmp_path / "p", module="bmb")
    player = Player(script(f"{report}\n\n{APC}"))
    outcome = play(root, player, skill=BMB, subagents=Player(script("I do not know.")))
    assert player.prompts[1].startswith("P\n")
    assert [one["what"] for one in outcome.state.triggers] == ["party_mode"]
    assert [one["what"] for one in outcome.desk.of("workflow.triggered")] == ["party_mode"]


@pytest.mark.req("BMAD-2b.3.3", "BMAD-FR9")
def test_a_low_compliance_score_calls_advanced_elicitation(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    player = Player(choosing(f"**Compliance Score:** 65%\n\n{APC}"))
    outcome = play(root, player, skill=BMB)
    assert player.prompts[1].startswith("A\n") and not outcome.desk.asked
    assert outcome.state.triggers[0]["what"] == "advanced_elicitation"


@pytest.mark.req("BMAD-2b.3.4", "BMAD-FR9")
def test_within_the_thresholds_the_builder_continues(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    player = Player(choosing(f"Critical Issues: 3\nMajor Issues: 5\nCompliance Score: 70%\n\n{APC}"))
    outcome = play(root, player, skill=BMB)
    assert player.prompts[1].startswith("C\n") and not outcome.state.triggers and outcome.state.outcome == "COMPLETED"


ASKS = "Choose a number (1-5), [r] to Reshuffle, [a] List All, or [x] to Proceed:"
SHORT = f"{ASKS}\n\n1. Pre-mortem\n2. Five whys\n3. Red team"
METHODS = f"{SHORT}\nr. Reshuffle the list\na. List all methods\nx. Proceed / No further actions"


@pytest.mark.req("BMAD-2b.4.2", "BMAD-2b.4.3", "BMAD-FR11")
@pytest.mark.parametrize("methods", [METHODS, SHORT])
def test_elicitation_takes_one_round_returns_by_x_and_the_parent_menu_is_answered(tmp_path: Path, methods: str) -> None:
    root = project(tmp_path / "p", module="bmb")
    answers = []

    async def part(part: Part) -> str:
        answers.append(part.answer)
        shown = ["Compliance Score: 40%\n" + APC, methods, "Accept these changes to the plan? (y/n)", methods, APC]
        return shown[part.turn - 1] if part.turn <= 5 else DONE

    outcome = play(root, Player(part), skill=BMB)
    assert answers[1:6] == ["A", "1", "y", "x", "C"] and outcome.state.menu_stack == []
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


@pytest.mark.req("BMAD-2b.4.1", "BMAD-FR11")
def test_party_mode_shows_its_own_menu_and_is_left_by_it(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    answers = []

    async def part(part: Part) -> str:
        answers.append(part.answer)
        agree = '{"agent": "%s", "recommendation": "Begin the plan again", "confidence": 80}'
        party = f"{agree % 'Ada'}\n{agree % 'Bob'}\n\n[E] Exit Party Mode - End the collaborative session"
        return ["Critical: 9\n" + APC, party, APC][part.turn - 1] if part.turn <= 3 else DONE

    outcome = play(root, Player(part), skill=BMB)
    assert answers[1:4] == ["P", "E", "C"] and outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


@pytest.mark.req("BMAD-2b.4.4", "BMAD-FR11")
def test_more_than_three_levels_of_menus_are_navigated_by_a_human(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")
    party = "Go?\n\n[E] Exit Party Mode - End the collaborative session"

    async def part(part: Part) -> str:
        shown = ["Critical: 9\n" + APC, METHODS, party, METHODS, party]
        return shown[(part.turn - 1) % 5]

    outcome = play(
        root, Player(part), skill=BMB, desk=MemoryDesk(answers=lambda one: "P" if "[P]" in one.text else None)
    )
    assert outcome.ending.kind == "parked" and "nested more than 3 deep" in str(outcome.state.decisions[-1]["why"])


@pytest.mark.req("BMAD-2b.5.1", "BMAD-2b.5.4", "BMAD-FR12")
def test_each_choice_is_kept_with_its_time_menu_and_confidence_in_order(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    menu = "Please select an option:\n\n[D] Delete\n[O] Overwrite"

    async def part(part: Part) -> str:
        return DONE if part.turn == 3 or part.step in ("2", "3") else menu if part.turn == 2 else APC

    desk = MemoryDesk(answers=lambda asking: "O")
    outcome = play(root, Player(part), desk=desk)
    history = outcome.state.menu_history
    assert [(one["menu_id"], one["selection"], one["automatic"]) for one in history] == [
        ("1:a/p/c", "C", True),
        ("1:d/o", "O", False),
    ]
    assert [one["timestamp"] for one in history] == sorted(one["timestamp"] for one in history)
    assert all({"timestamp", "menu_id", "selection", "confidence"} <= set(one) for one in history)


@pytest.mark.long
@pytest.mark.req("BMAD-2b.5.3")
def test_the_history_keeps_the_latest_hundred(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        return DONE if part.turn > 120 else f"Please select an option:\n\n[D] Delete plan {part.turn}\n[O] Overwrite"

    desk = MemoryDesk(answers=lambda asking: "O")
    outcome = play(root, Player(part), desk=desk)
    assert len(outcome.state.menu_history) == 100
    assert sum(one.kind == "menu" for one in desk.asked.values()) == 120


@pytest.mark.req("BMAD-2b.5.2")
def test_an_interrupted_run_has_its_menu_history_when_it_goes_on(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    desk = MemoryDesk(die_at=7)
    play(root, Player(writes(root)), desk=desk)
    assert desk.saved is not None and desk.saved.state == "RUNNING"
    before = list(desk.saved.menu_history)
    again = play(root, Player(writes(root)), state=desk.saved)
    assert before and again.state.menu_history[: len(before) - 1] == before[:-1]
    assert sum(one["count"] for one in again.state.menu_history) >= sum(one["count"] for one in before)
    assert again.state.outcome == "COMPLETED"
