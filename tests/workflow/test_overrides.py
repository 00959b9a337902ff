"""Wishes about care change what a run does at its next decision, and never what keeps it safe."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.engine.ports import Asking
from interlock.workflow.preferences import overrides, profiles
from interlock.workflow.preferences.wishes import understood
from interlock.workflow.reviews.pre_final_review import PreFinalReview
from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play, project, script, writes

AT = "2026-11-21T10:00:00.000Z"
FAILED = '{"step": "completed", "verdict": "FAILED", "issues": ["no scope"]}'


def said(*texts: str) -> dict[str, Any]:
    """The document of a session in which these things were said."""
    document: dict[str, Any] = {}
    for number, text in enumerate(texts):
        found = understood(text)
        assert isinstance(found, tuple), text
        overrides.apply(document, found, at=f"2026-11-21T10:00:{number:02d}.000Z", by="ada")
    return document


def run(tmp_path: Path, tier: int = 2, *, steps: int = 12, desk: MemoryDesk | None = None, **more: Any) -> Outcome:
    root = project(
        tmp_path / "p", steps=steps, **{name: more.pop(name) for name in ("front", "module") if name in more}
    )
    plan = RunPlan(project=str(root), tier=tier, **more.pop("plan", {}))
    play_ = more.pop("part", None) or writes(root)
    return play(root, Player(play_), desk=desk or MemoryDesk(answers=lambda asking: "confirm"), plan=plan, **more)


def agreeing(asking: Asking) -> str:
    """A human who goes on."""
    return "C" if asking.kind == "menu" else "confirm"


def pauses(outcome: Outcome) -> list[Any]:
    """The steps after which a human confirmed a checkpoint."""
    return [one["step"] for one in outcome.state.asked if one["purpose"] == "checkpoint" and one.get("answer")]


def once(text: str, otherwise: str = "confirm", after: int = 0) -> Callable[[Asking], str]:
    """A human who says `text` to one question and `otherwise` to every other."""
    seen: list[Asking] = []

    def answer(asking: Asking) -> str:
        seen.append(asking)
        return text if len(seen) == after + 1 else otherwise

    return answer


@pytest.mark.req("BMAD-7.1.1", "BMAD-FR48", "BMAD-E7.1", "BMAD-UO.7")
def test_minimal_interruptions_said_to_a_checkpoint_make_them_fewer(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=once("I want minimal interruptions"))
    outcome = run(tmp_path, 4, desk=desk)
    assert outcome.state.outcome == "COMPLETED"
    # Tier 4 pauses after each step; two levels less careful is tier 2, after five.
    assert pauses(outcome) == [1, 6, 11]
    asked = list(desk.asked.values())
    assert "Noted: tier 2" in asked[1].text and "1 step done" in asked[1].text, "it is asked again, with what was noted"
    assert asked[1].kind == asked[0].kind and asked[1].options == asked[0].options
    assert next(one["adjusted"] for one in outcome.state.asked if "adjusted" in one) == "I want minimal interruptions"


@pytest.mark.req("BMAD-7.1.1", "BMAD-E7.1")
def test_more_care_is_more_checkpoints(tmp_path: Path) -> None:
    assert pauses(run(tmp_path / "a", 2, desk=MemoryDesk(answers=lambda _: "yes", shared=said("be careful")))) == [
        3,
        6,
        9,
    ]
    assert pauses(run(tmp_path / "b", 2)) == [5, 10]


def speaking(root: Path, desk: MemoryDesk, step: str, text: str) -> Any:
    """An agent during whose work in `step` somebody says `text` elsewhere: in chat, on the command line."""
    writing = writes(root)

    async def part(part: Part) -> Any:
        if part.step == step and text:
            desk.shared |= said(text)
        return await writing(part)

    return part


@pytest.mark.req("BMAD-7.1.2", "BMAD-E7.1", "BMAD-2a.7.5")
def test_an_explicit_tier_counts_from_the_next_decision_on(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=lambda asking: "confirm")
    outcome = run(tmp_path, 1, desk=desk, part=speaking(tmp_path / "p", desk, "5", "use tier 3"))
    assert outcome.state.outcome == "COMPLETED"
    # It ran through until then; the steps since the last checkpoint fill the batch of tier 3 at once.
    assert pauses(outcome) == [5, 8, 11]
    (logged,) = outcome.desk.of("workflow.adjusted")
    assert logged["in_force"]["tier"] == {"value": 3, "method": "tier", "text": "use tier 3"}
    decided = [one for one in outcome.desk.of("workflow.decided") if one["kind"] == "override"]
    assert len(decided) == 1 and "use tier 3" in decided[0]["choice"] and decided[0]["step"] == 5


@pytest.mark.req("BMAD-7.1.3", "BMAD-E7.1")
def test_a_profile_applies_its_tier_and_its_confidence(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=agreeing, shared=said("profile: cautious"))
    outcome = run(tmp_path, 1, desk=desk)
    assert outcome.state.outcome == "COMPLETED" and outcome.state.care["confidence"]["value"] == 90
    # A way on that the step marks is sure at 85: less than the profile wants, so the first menu is put to a human.
    menus = [one for one in desk.asked.values() if one.kind == "menu"]
    assert len(menus) == 1 and pauses(outcome) == [3, 6, 9]
    assert not [one for one in run(tmp_path / "b", 1).desk.asked.values() if one.kind == "menu"]


@pytest.mark.req("BMAD-7.1.3")
def test_a_profile_of_the_project_applies_too(tmp_path: Path) -> None:
    own = profiles.read({"night": {"tier": 3, "batch_size": 4}})
    desk = MemoryDesk(answers=lambda asking: "confirm", shared=said("profile: night"))
    outcome = run(tmp_path, 1, desk=desk, profiles=lambda: own)
    assert pauses(outcome) == [4, 8]


@pytest.mark.req("BMAD-7.1.3")
def test_a_profile_that_there_is_not_is_answered_with_those_there_are(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=once("profile: nonsense"))
    outcome = run(tmp_path, 4, steps=3, desk=desk)
    assert outcome.state.outcome == "COMPLETED" and overrides.KEY not in desk.shared
    assert "There are: cautious, thorough" in list(desk.asked.values())[1].text


@pytest.mark.req("BMAD-7.1.4", "BMAD-E7.1")
def test_an_inline_modifier_is_about_that_operation_only(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=once("confirm [thorough]"))
    outcome = run(tmp_path, 2, desk=desk)
    # The step that follows the checkpoint is done as in tier 4, with a checkpoint of its own; then five again.
    assert outcome.state.outcome == "COMPLETED" and pauses(outcome) == [5, 6, 11]
    assert next(one["answer"] for one in outcome.state.asked) == "confirm"
    assert outcome.state.care == {}


@pytest.mark.req("BMAD-7.1.4")
def test_an_inline_modifier_in_an_answer_is_not_sent_to_the_agent(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    answers = []

    async def part(part: Part) -> str:
        answers.append(part.answer)
        return "Which trees?" if part.turn == 1 else DONE

    desk = MemoryDesk(answers=lambda asking: "Apple trees [thorough]" if asking.kind == "clarification" else "confirm")
    outcome = play(root, Player(part), desk=desk, plan=RunPlan(project=str(root), tier=1))
    assert answers[1] == "Apple trees" and outcome.state.outcome == "COMPLETED"
    assert pauses(outcome) == [1], "thorough counts for the step that asked, and for no other"


@pytest.mark.req("BMAD-7.1.4")
def test_a_modifier_said_at_the_beginning_is_about_the_whole_run(tmp_path: Path) -> None:
    document: dict[str, Any] = {}
    overrides.apply_inline(document, "bmm-make-plan-x", "thorough", None, at=AT, by="ada")
    outcome = run(tmp_path, 1, steps=4, plan={"said": document[overrides.KEY]}, desk=MemoryDesk(answers=agreeing))
    assert pauses(outcome) == [1, 2, 3]


@pytest.mark.req("BMAD-7.1.5", "BMAD-FR48")
def test_a_specific_setting_changes_only_itself(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=lambda asking: "confirm", shared=said("batch_size: 2"))
    outcome = run(tmp_path, 3, desk=desk)
    assert pauses(outcome) == [2, 4, 6, 8, 10]
    care = outcome.state.care
    assert care["batch_size"] == {"value": 2, "method": "setting", "text": "batch_size: 2"}
    assert care["tier"]["value"] == 3 and care["tier"]["method"] == "project" and "confidence" not in care


@pytest.mark.req("BMAD-7.2.1", "BMAD-7.2.2", "BMAD-FR49", "BMAD-E7.2")
@pytest.mark.parametrize(
    ("texts", "after"),
    [
        (("use tier 2", "profile: aggressive"), [5, 10]),
        (("profile: aggressive", "use tier 2"), [5, 10]),
        (("profile: cautious", "batch_size: 2"), [3, 6, 9]),
        (("be very careful", "profile: balanced"), [5, 10]),
        (("be very careful", "batch_size: 4"), [4, 8]),
        (("profile: cautious", "minimal interruptions", "batch_size: 2", "use tier 4"), list(range(1, 12))),
    ],
)
def test_of_several_the_strongest_decides(tmp_path: Path, texts: tuple[str, ...], after: list[int]) -> None:
    desk = MemoryDesk(answers=agreeing, shared=said(*texts))
    assert pauses(run(tmp_path, 1, desk=desk)) == after


@pytest.mark.req("BMAD-7.2.3", "BMAD-FR50")
def test_what_was_said_to_one_run_counts_for_the_next_of_its_session(tmp_path: Path) -> None:
    first = MemoryDesk(answers=once("use tier 3"))
    assert pauses(run(tmp_path / "a", 4, desk=first)) == [1, 4, 7, 10]
    next_ = MemoryDesk(answers=lambda asking: "confirm", shared=copy.deepcopy(first.shared))
    assert pauses(run(tmp_path / "b", 1, desk=next_)) == [3, 6, 9]


def test_it_is_taken_back_in_words_too(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=once("clear overrides", after=1), shared=said("use tier 4"))
    outcome = run(tmp_path, 3, desk=desk)
    assert pauses(outcome) == [1, 2, 5, 8, 11]
    assert "was said is taken back" in str([one["why"] for one in outcome.state.decisions if one["kind"] == "override"])


@pytest.mark.req("BMAD-7.2.4", "BMAD-7.2.5", "BMAD-FR50", "BMAD-E7.11")
@pytest.mark.parametrize(
    "text", ["skip final approval", "disable stall detection", "use tier 0 and skip final approval"]
)
def test_an_answer_that_would_bypass_safety_is_refused_and_the_question_stays(tmp_path: Path, text: str) -> None:
    desk = MemoryDesk(answers=once(text))
    outcome = run(tmp_path, 1, steps=3, desk=desk, front="oversight: required\n")
    asked = list(desk.asked.values())
    assert "safety_override_blocked" in asked[1].text and "cannot be bypassed" in asked[1].text
    (blocked,) = outcome.desk.of("workflow.override_blocked")
    assert blocked["error"] == "safety_override_blocked"
    assert len([one for one in outcome.state.asked if one.get("answer")]) == 3, "each step was confirmed by a human"
    assert overrides.KEY not in desk.shared and outcome.state.outcome == "COMPLETED"


EVERYTHING = [
    ({}, said("use tier 0")),
    ({}, said("profile: quick")),
    ({}, said("minimal interruptions")),
    ({}, said("batch_size: all", "confidence: 50")),
    ({"yolo": True}, said("use tier 0", "profile: aggressive", "batch_size: all", "minimal interruptions")),
    ({"thresholds": {"automatic": 50, "final_approval": False, "stall_detection": "off", "oversight": "none"}}, {}),
]


@pytest.mark.req("BMAD-E7.11", "BMAD-FR50", "BMAD-7.2.4")
@pytest.mark.parametrize(("plan", "shared"), EVERYTHING)
def test_no_override_and_no_configuration_takes_the_final_approval_away(
    tmp_path: Path, plan: dict[str, Any], shared: dict[str, Any]
) -> None:
    desk = MemoryDesk(answers=lambda asking: None, shared=copy.deepcopy(shared))
    outcome = run(tmp_path, 3, steps=1, desk=desk, front="oversight: required\n", plan=plan, part=script(DONE))
    assert outcome.ending.kind == "parked" and outcome.state.outcome is None
    (asked,) = desk.asked.values()
    assert (
        outcome.state.waiting is not None and outcome.state.waiting.purpose == "oversight" and "confirm" in asked.text
    )


@pytest.mark.req("BMAD-E7.11", "BMAD-FR50", "BMAD-7.2.4")
@pytest.mark.parametrize(("plan", "shared"), EVERYTHING)
def test_no_override_and_no_configuration_takes_the_review_of_large_work_away(
    tmp_path: Path, plan: dict[str, Any], shared: dict[str, Any]
) -> None:
    desk = MemoryDesk(answers=lambda asking: None, shared=copy.deepcopy(shared))
    outcome = run(tmp_path, 3, steps=2, desk=desk, plan=plan, part=script(DONE), examinations=(PreFinalReview(),))
    assert "gate-pre_final_review" in outcome.state.plan_of_steps
    assert outcome.state.examinations, "it was held"


@pytest.mark.req("BMAD-E7.11", "BMAD-FR50", "BMAD-7.2.4")
@pytest.mark.parametrize(("plan", "shared"), EVERYTHING)
def test_no_override_and_no_configuration_takes_the_stall_detection_away(
    tmp_path: Path, plan: dict[str, Any], shared: dict[str, Any]
) -> None:
    desk = MemoryDesk(answers=lambda asking: None, shared=copy.deepcopy(shared))
    outcome = run(tmp_path, 3, desk=desk, plan=plan, part=script(FAILED))
    recovery = [one["basis"]["recovery"] for one in outcome.desk.of("workflow.decided") if one["kind"] == "recovery"]
    assert any(one["stalled"] for one in recovery)
    assert "party_mode" in [one["choice"] for one in outcome.state.decisions if one["kind"] == "recovery"]
    assert outcome.state.outcome != "COMPLETED"


@pytest.mark.req("BMAD-E7.11", "BMAD-7.2.4")
def test_a_configuration_that_would_switch_it_off_is_refused_once_in_the_log(tmp_path: Path) -> None:
    given: dict[str, Any] = {"automatic": 80}
    writing = writes(tmp_path / "p")

    async def part(part: Part) -> Any:
        if part.step == "2":
            given["stall_detection"] = "off"  # changed in mid-run
        return await writing(part)

    outcome = run(tmp_path, 1, steps=5, part=part, thresholds=lambda: given)
    (blocked,) = outcome.desk.of("workflow.override_blocked")
    assert (blocked["error"], blocked["what"]) == ("safety_override_blocked", "stall detection")
    assert outcome.state.outcome == "COMPLETED"


@pytest.mark.req("BMAD-E7.11", "BMAD-FR50")
def test_what_is_dangerous_is_never_answered_whatever_confidence_is_enough(tmp_path: Path) -> None:
    desk = MemoryDesk(answers=lambda asking: None, shared=said("confidence: 50", "use tier 0"))
    menu = "Please select an option:\n\n[D] Delete the plan\n[O] Overwrite it"
    outcome = run(tmp_path, 1, desk=desk, part=script(menu))
    assert outcome.ending.kind == "parked" and len(desk.asked) == 1


def test_a_lower_confidence_lets_more_menus_be_answered(tmp_path: Path) -> None:
    menu = "Please select an option:\n\n[C] Continue\n[S] Start the next section"

    def play_with(*texts: str) -> Outcome:
        desk = MemoryDesk(answers=lambda asking: None, shared=said(*texts) if texts else {})
        place = tmp_path / (texts[0][-2:] if texts else "none")
        return run(place, 1, steps=1, desk=desk, part=script(menu, DONE))

    assert len(play_with().desk.asked) == 1
    assert play_with("confidence: 60").state.outcome == "COMPLETED"


@pytest.mark.parametrize("text", ["be careful", "quick", "use tier 3"])
def test_a_menus_own_option_is_an_answer_and_a_question_of_the_agent_is_the_agents(tmp_path: Path, text: str) -> None:
    answers = []

    async def part(part: Part) -> str:
        answers.append(part.answer)
        if part.turn == 1:
            return f"Which of the two?\n\n1. {text}\n2. Something else\n\nChoose (1-2):"
        return "What should it say?" if part.turn == 2 else DONE

    desk = MemoryDesk(answers=lambda asking: text)
    outcome = run(tmp_path, 1, steps=1, desk=desk, part=part)
    assert outcome.state.outcome == "COMPLETED" and answers[1:3] == ["1", text]
    assert overrides.KEY not in desk.shared
