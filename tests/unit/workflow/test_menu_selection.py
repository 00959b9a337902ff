"""Which option is chosen: by label, by what is known, and never a dangerous one by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.model.json import Json
from interlock.workflow.engine.menus import KeptSelection, with_selection
from interlock.workflow.menus import escalation, meanings
from interlock.workflow.menus.detection import detect
from interlock.workflow.menus.escalation import ADVANCED_ELICITATION, CONTINUE, PARTY_MODE, BmbResult
from interlock.workflow.menus.forms import DEEPEST, belongs_to
from interlock.workflow.menus.forms import IN_ELICITATION as ELICITATION
from interlock.workflow.menus.forms import IN_PARTY as PARTY
from interlock.workflow.menus.menu_participation_engine import participate
from interlock.workflow.menus.selection import AUTOMATIC, HUMAN, RECOMMENDED, Selection, Situation, select
from tests.unit.workflow.test_menu_detection import APC, STEP
from tests.unit.workflow.test_menu_detection import ELICITATION as METHODS

WRITTEN = Situation(output_exists=True)


def answer(text: str, situation: Situation = WRITTEN, step: str = "") -> Selection:
    found = participate(text, step, situation).selection
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("label", "meaning"),
    [
        ("Continue", meanings.CONTINUE),
        ("Continue - Save this and move to Scoping (Step 8 of 11)", meanings.CONTINUE),
        ("Yes, Continue to Discovery", meanings.CONTINUE),
        ("Proceed / No Further Actions", meanings.CONTINUE),
        ("Yes, Begin Validation", meanings.WAY_ON),
        ("Complete Research - Save final document", meanings.WAY_ON),
        ("Advanced Elicitation", meanings.ELICITATION),
        ("Party Mode - others", meanings.PARTY),
        ("Exit Party Mode", meanings.EXIT),
        ("Exit", meanings.EXIT),
        ("Manual Review", meanings.EDIT),
        ("Clarify", meanings.EDIT),
        ("Create", meanings.OTHER),
        ("Accept", meanings.ACCEPT),
        ("Start over (will overwrite existing work)", meanings.DESTRUCTIVE),
        ("Continue (will delete the old one)", meanings.DESTRUCTIVE),
        ("Apply Automated Fixes", meanings.DESTRUCTIVE),
        ("Fix Findings", meanings.FIX),
        ("Begin Development (not recommended - fresh context better)", meanings.OTHER),
        ("List All", meanings.HELP),
    ],
)
def test_a_label_says_what_it_means(label: str, meaning: str) -> None:
    assert meanings.meaning(label) == meaning


def test_one_continue_with_its_output_there_is_answered() -> None:
    found = answer(APC)
    assert (found.mode, found.option and found.option.key, found.confidence_score) == (AUTOMATIC, "C", 100)
    assert found.selection_reason and found.as_dict()["confidence_score"] == 100


def test_without_its_output_it_is_only_recommended() -> None:
    assert (answer(APC, Situation()).mode, answer(APC, Situation()).confidence_score) == (RECOMMENDED, 60)


def test_the_letter_c_alone_is_not_continue() -> None:
    for text in ("[A] Accept [P] Pivot [C] Clarify", "[T] Test [C] Manual Review", "Select: [A] Elicit [C] Exit"):
        found = answer(text)
        assert found.mode != AUTOMATIC, text


@pytest.mark.parametrize(
    "text",
    [
        "[X] Exit Workflow",
        "[C] Exit",
        "Select an option: [D] Delete the original [K] Archive it",
        "Select an option: [A] Apply Automated Fixes [X] Exit",
        "Re-running will overwrite the existing architecture. Continue? (y/n)",
        "Accept these changes to the PRD? (y/n)",
        "[X] Start over (will overwrite existing work)",
    ],
)
def test_what_exits_overwrites_deletes_applies_or_accepts_goes_to_a_human(text: str) -> None:
    for situation in (WRITTEN, Situation(output_exists=True, remembered="y"), Situation(remembered="x", way_on="x")):
        found = participate(text, "", situation).selection
        assert found is None or (found.mode == HUMAN and found.confidence_score <= 30), (text, found)


def test_a_question_whether_to_go_on_is_answered() -> None:
    found = answer("Continue to next step? (y/n/edit)")
    assert (found.mode, found.option and found.option.key) == (AUTOMATIC, "y")


def test_the_only_option_and_the_one_the_step_marks_are_answered() -> None:
    assert answer("[C] Complete Research - save it", Situation()).mode == AUTOMATIC
    found = answer("Select an option: [B] Begin [S] Start", Situation(way_on="s"))
    assert (found.mode, found.option and found.option.key, found.choice) == (AUTOMATIC, "S", 85)


def test_of_several_ways_a_remembered_one_is_taken() -> None:
    text = "Select an option: [B] Begin slowly [S] Start quickly"
    assert answer(text).mode == RECOMMENDED
    found = answer(text, Situation(remembered="S"))
    assert (found.mode, found.option and found.option.key, found.choice) == (AUTOMATIC, "S", 85)


def test_open_findings_are_never_accepted_silently() -> None:
    text = "[A] Advanced Elicitation [F] Fix Findings [P] Party Mode [C] Continue"
    fix = answer(text, Situation(output_exists=True, open_findings=2))
    assert (fix.mode, fix.option and fix.option.key) == (RECOMMENDED, "F")
    assert answer(APC, Situation(output_exists=True, open_findings=1)).mode == HUMAN


def test_the_steps_own_menu_in_a_fence_is_answered_with_its_way_on() -> None:
    found = answer(f"```\n{APC}\n```", Situation(), STEP)
    assert (found.mode, found.option and found.option.key, found.detection) == (AUTOMATIC, "C", 100)


def test_a_menu_that_was_detected_with_less_than_80_is_only_recommended() -> None:
    menu = detect("[C] Continue [B] Back").menu
    assert menu and select(menu, 70, WRITTEN).mode == RECOMMENDED and select(menu, 49, WRITTEN).mode == HUMAN


@pytest.mark.parametrize(
    ("result", "asked"),
    [
        (BmbResult(4, 0, 100), PARTY_MODE),
        (BmbResult(3, 6, 100), PARTY_MODE),
        (BmbResult(3, 5, 69.9), ADVANCED_ELICITATION),
        (BmbResult(4, 0, 10), PARTY_MODE),
        (BmbResult(3, 5, 70), CONTINUE),
        (BmbResult(), CONTINUE),
    ],
)
def test_the_builders_thresholds(result: BmbResult, asked: str) -> None:
    assert escalation.escalation(result) == asked
    key = {PARTY_MODE: "P", ADVANCED_ELICITATION: "A", CONTINUE: "C"}[asked]
    found = answer(APC, Situation(output_exists=True, escalation=asked))
    assert (found.mode, found.option and found.option.key) == (AUTOMATIC, key)


def test_a_report_of_the_builder_is_read() -> None:
    report = "**Compliance Score:** 64% based on template adherence\n**Critical Issues:** 4\n**Major Issues:** 2\n"
    assert escalation.read(report) == BmbResult(4, 2, 64.0)


def test_elicitation_takes_one_method_and_then_leaves_by_x() -> None:
    first = answer(METHODS, Situation(within=ELICITATION))
    then = answer(METHODS, Situation(within=ELICITATION, rounds=1))
    assert (first.option and first.option.key, then.option and then.option.key) == ("1", "x")


def test_party_mode_is_left_by_its_exit() -> None:
    text = "[E] Exit Party Mode - End the collaborative session"
    found = answer(text, Situation(within=PARTY))
    assert (found.mode, found.option and found.option.key) == (AUTOMATIC, "E")
    assert answer(text).mode == HUMAN


def test_a_fourth_level_of_menus_is_for_a_human() -> None:
    for depth in range(1, DEEPEST + 1):
        assert answer(APC, Situation(output_exists=True, depth=depth)).mode == AUTOMATIC
    assert answer(APC, Situation(output_exists=True, depth=DEEPEST + 1)).mode == HUMAN


def test_a_nested_menu_is_known_by_its_form() -> None:
    menus = [detect(text).menu for text in (METHODS, "[E] Exit Party Mode - bye", APC)]
    assert [menu and belongs_to(menu) for menu in menus] == [ELICITATION, PARTY, None]


@given(
    st.lists(
        st.sampled_from(["Exit", "Delete it", "Overwrite all", "Accept as is", "Apply fixes", "Start over"]),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.booleans(),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, "a", "b"]),
)
def test_among_dangerous_options_alone_none_is_ever_answered(
    wanted: list[str], output: bool, marked: str | None, remembered: str | None
) -> None:
    text = "Select an option:\n" + "\n".join(f"[{'abcd'[number]}] {label}" for number, label in enumerate(wanted))
    found = participate(text, "", Situation(output_exists=output, way_on=marked, remembered=remembered)).selection
    assert found is None or found.mode == HUMAN


def entry(number: int, selection: str = "C", automatic: bool = True) -> KeptSelection:
    return KeptSelection(f"2026-01-01T00:00:{number % 60:02}Z", f"menu-{number}", selection, 90, "why", automatic)


def test_the_history_keeps_the_last_hundred_in_order() -> None:
    history: list[Json] = []
    for number in range(130):
        history = with_selection(history, entry(number))
    assert [one["menu_id"] for one in history] == [f"menu-{number}" for number in range(30, 130)]


def test_continues_of_a_batch_take_one_entry() -> None:
    history: list[Json] = []
    for one in (entry(1), entry(2), entry(3, "A"), entry(4, "A", automatic=False)):
        history = with_selection(history, one, batched=True)
    assert [(one["selection"], one["count"]) for one in history] == [("C", 2), ("A", 1), ("A", 1)]
