"""What a person says and does about choices, and what follows from it: pure rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.menus.detection import detect
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.selection import AUTOMATIC, HUMAN, RECOMMENDED, Selection, Situation, select
from interlock.workflow.preferences import explicit as words
from interlock.workflow.preferences import implicit
from interlock.workflow.preferences.explicit import understood
from interlock.workflow.preferences.patterns import (
    EXPLICIT,
    IMPLICIT,
    NEGATIVE,
    POSITIVE,
    PREFERENCE,
    Choice,
    Feedback,
    Forgotten,
    Learned,
    Pattern,
    menu_situation,
    plain,
)
from interlock.workflow.preferences.preferences import Preferences

SKILL, STEP = "/bmad:bmm:workflows:make-plan", "step-01-part.md#1"
WAYS = "What next?\n\n[S] Start building now\n[B] Begin with tests\n\nPlease select an option:"
RISKY = "Please select an option:\n\n[D] Delete the old plan\n[O] Overwrite it\n[X] Exit"
LABELS = ("Start building now", "Begin with tests")
SITUATION = menu_situation(SKILL, STEP, LABELS)


def pattern(label: str = LABELS[0], situation: str = SITUATION) -> Pattern:
    return Pattern("menu", SKILL, STEP, situation, plain(label), f"[S] {label}", "Step 1: Part 1")


def chose(label: str, at: str, recommended: str | None = LABELS[0]) -> Choice:
    type = implicit.decision_type(recommended) if recommended else ""
    offered = tuple(plain(one) for one in LABELS)
    return Choice(SKILL, STEP, SITUATION, plain(label), offered, plain(recommended) if recommended else None, type, at)


def selected(text: str = WAYS, **situation: Any) -> Selection:
    menu = detect(text).menu
    assert menu is not None
    return select(menu, 100, Situation(**situation))


@pytest.mark.req("BMAD-7.8.1", "BMAD-7.8.2", "BMAD-7.8.3", "BMAD-FR63")
@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        ("Don't do that again", NEGATIVE, "Don't do that again"),
        ("don’t do that again.", NEGATIVE, "don't do that again."),
        ("Please do not do this again!", NEGATIVE, "Please do not do this again!"),
        ("Never do that again", NEGATIVE, "Never do that again"),
        ("That was a bad choice", NEGATIVE, "That was a bad choice"),
        ("Good choice", POSITIVE, "Good choice"),
        ("That was a good choice!", POSITIVE, "That was a good choice!"),
        ("great decision.", POSITIVE, "great decision."),
        ("Do that again next time", None, ""),
        ("Always do that again", POSITIVE, "Always do that again"),
        ("Remember this preference: always use thorough validation", PREFERENCE, "always use thorough validation"),
        ("please remember my preference: short sentences", PREFERENCE, "short sentences"),
        ("Remember: British spelling", PREFERENCE, "British spelling"),
        ("Remember this preference", None, ""),
        ("good choices are rare", None, ""),
        ("Is SQLite a good choice?", None, ""),
        ("I don't do that again and again", None, ""),
        ("Remember to add tests", None, ""),
        ("", None, ""),
    ],
)
def test_whole_messages_are_feedback_and_conversation_is_not(message: str, kind: str | None, text: str) -> None:
    found = understood(message)
    assert (found.kind if found else None) == kind
    assert found is None or found.text == text


@given(st.text(max_size=200))
def test_any_message_is_understood_or_left_alone(message: str) -> None:
    found = understood(message)
    assert found is None or (found.text and found.kind in (NEGATIVE, POSITIVE, PREFERENCE))


@pytest.mark.req("BMAD-7.8.1")
def test_feedback_is_about_the_last_thing_the_engine_decided_by_itself_and_says_so() -> None:
    said = understood("Don't do that again")
    assert said is not None
    decisions = [
        {"kind": "menu", "by": "engine", "pattern": pattern().as_dict()},
        {"kind": "next_step", "by": "engine"},
        {"kind": "menu", "by": "human", "pattern": pattern(LABELS[1]).as_dict()},
    ]
    found = words.feedback(said, decisions, "1")
    assert found is not None and found.pattern == pattern()
    noted = words.noted(found)
    assert noted == "Noted: at Step 1: Part 1 I will not choose [S] Start building now again."
    assert words.feedback(said, decisions[1:], "1") is None, "there is nothing it could be about"


@pytest.mark.req("BMAD-7.9.1", "BMAD-FR65")
def test_a_correction_is_against_what_was_chosen_and_for_what_was_chosen_instead() -> None:
    found = implicit.corrected(pattern(), pattern(LABELS[1]), "1")
    assert found is not None
    assert [(one.kind, one.source, one.pattern.choice if one.pattern else "") for one in found] == [
        (NEGATIVE, IMPLICIT, plain(LABELS[0])),
        (POSITIVE, IMPLICIT, plain(LABELS[1])),
    ]
    assert implicit.corrected(pattern(), pattern(), "1") is None
    assert implicit.corrected(pattern(), pattern(situation="menu:other"), "1") is None


def decided(by: str = "engine", at: str = "2", kind: str = "menu", label: str = LABELS[0], **more: Any) -> Any:
    return {"kind": kind, "by": by, "at": at, "pattern": pattern(label, **more).as_dict()}


@pytest.mark.req("BMAD-7.9.1")
@pytest.mark.parametrize(
    ("decisions", "rollbacks", "corrects"),
    [
        ([decided()], [], True),
        ([decided(), {"kind": "unclear", "by": "engine"}], [], True),
        ([decided(), decided(situation="menu:other")], [], False),
        ([decided(), {"kind": "next_step", "by": "engine"}], [], False),
        ([decided(), {"kind": "next_step", "by": "engine"}], [{"at": "3", "kind": "rollback"}], True),
        ([decided()], [{"at": "3", "kind": "rollback", "undone": True}], True),
        ([decided(by="human")], [], False),
        ([decided(label="Party Mode")], [], False),
        ([decided(label="Party Mode")], [{"at": "3", "kind": "rollback"}], True),
        ([], [{"at": "3", "kind": "rollback"}], False),
    ],
)
def test_only_what_follows_at_once_corrects(decisions: list[Any], rollbacks: list[Any], corrects: bool) -> None:
    assert (implicit.automatic_before(decisions, rollbacks, SITUATION) is not None) == corrects


def test_what_was_chosen_long_before_a_rollback_was_not_taken_back_by_it() -> None:
    back = [{"at": "5", "kind": "rollback"}]
    assert implicit.taken_back([decided()], back, SITUATION)
    assert not implicit.taken_back([decided(), decided(at="3", situation="menu:other")], back, SITUATION)
    assert not implicit.taken_back([decided(), decided(by="human", at="6")], back, SITUATION)
    assert not implicit.taken_back([decided(at="7")], back, SITUATION)


@pytest.mark.req("BMAD-7.9.2")
@pytest.mark.parametrize(
    ("chosen", "late"),
    [("SS", ""), ("SSS", "B"), ("SSSB", ""), ("SSBSS", ""), ("SSBSSS", "B"), ("BBBB", "S")],
)
def test_an_option_skipped_three_times_in_a_row_is_shown_last_and_never_hidden(chosen: str, late: str) -> None:
    label = {"S": LABELS[0], "B": LABELS[1]}
    choices = tuple(chose(label[one], str(n)) for n, one in enumerate(chosen))
    found = Preferences(Learned(choices=choices)).at_menu(SKILL, STEP, [Option("S", LABELS[0]), Option("B", LABELS[1])])
    assert "".join(found.last) == late


@pytest.mark.req("BMAD-7.9.3")
@pytest.mark.parametrize(("chosen", "threshold"), [("SSSS", 60), ("SSSSS", 85), ("SSSSSB", 60), ("SSSSBSSSSS", 85)])
def test_five_recommendations_taken_as_they_were_raise_the_confidence_of_their_kind(
    chosen: str, threshold: int
) -> None:
    label = {"S": LABELS[0], "B": LABELS[1]}
    choices = tuple(chose(label[one], str(n)) for n, one in enumerate(chosen))
    found = Preferences(Learned(choices=choices))
    type = implicit.decision_type(LABELS[0])
    assert found.confidence_threshold(SKILL, type) == threshold
    assert found.confidence_threshold("/another", type) == 60
    assert found.confidence_threshold(SKILL, "menu:fix") == 60
    gone = [one["id"] for one in found.listed() if one["kind"] == "confidence_threshold"]
    forgotten = tuple(Forgotten(id, "99") for id in gone)
    assert Preferences(Learned((), choices, forgotten)).confidence_threshold(SKILL, type) == 60


def said(kind: str, label: str, source: str, at: str) -> Feedback:
    return Feedback(kind, f"{kind} {source}", pattern(label), source, at)


@pytest.mark.req("BMAD-7.9.4")
@given(
    st.lists(
        st.tuples(
            st.sampled_from([NEGATIVE, POSITIVE]), st.sampled_from(LABELS), st.sampled_from([EXPLICIT, IMPLICIT]),
            st.integers(0, 9).map(str),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_what_was_said_always_beats_what_was_seen(given_: list[tuple[str, str, str, str]]) -> None:
    found = Preferences(Learned(tuple(said(*one) for one in given_)))
    for label in LABELS:
        explicit = [one for one in given_ if one[1] == label and one[2] == EXPLICIT]
        known = found.about(SITUATION, plain(label))
        assert (known is None) == (not [one for one in given_ if one[1] == label])
        if explicit:
            latest = max(one[3] for one in explicit)
            assert known is not None and known.source == EXPLICIT
            assert known.kind in {one[0] for one in explicit if one[3] == latest}
    wishes = found.at_menu(SKILL, STEP, [Option("S", LABELS[0]), Option("B", LABELS[1])])
    assert wishes.preferred not in wishes.avoided


@pytest.mark.req("BMAD-7.8.4")
def test_what_is_not_wanted_is_not_chosen_and_what_is_preferred_is() -> None:
    assert (selected().mode, selected().confidence_score) == (RECOMMENDED, 60)
    other = selected(avoided=("S",))
    assert other.option is not None and (other.option.key, other.mode, other.learned) == ("B", RECOMMENDED, True)
    better = selected(preferred="B")
    assert better.option is not None and (better.option.key, better.mode) == ("B", AUTOMATIC) and better.learned
    assert better.confidence_score == 85
    assert selected(avoided=("S", "B")).mode == HUMAN
    corrected = selected(avoided=("S",), preferred="B")
    assert corrected.option is not None and (corrected.option.key, corrected.mode) == ("B", AUTOMATIC)
    assert not selected().learned and not selected(preferred="Z").learned


@pytest.mark.req("BMAD-7.9.3")
def test_a_raised_confidence_takes_the_recommendation_and_never_what_is_dangerous() -> None:
    found = selected(threshold=85)
    assert found.option is not None and (found.option.key, found.mode, found.confidence_score) == ("S", AUTOMATIC, 85)
    for wish in ({"preferred": "D"}, {"remembered": "O"}, {"threshold": 85}):
        assert selected(RISKY, **wish).confidence_score <= 30 and selected(RISKY, **wish).mode == HUMAN


@given(
    st.sampled_from([WAYS, RISKY, "**Select an Option:** [A] Advanced Elicitation [P] Party Mode [C] Continue"]),
    st.lists(st.sampled_from("SBDOXAPC"), max_size=4),
    st.none() | st.sampled_from("SBDOXAPC"),
    st.none() | st.sampled_from("SBDOXAPC"),
    st.sampled_from([60, 85]),
    st.booleans(),
)
def test_whatever_was_learned_nothing_unwanted_and_nothing_dangerous_is_chosen(
    menu: str, avoided: list[str], preferred: str | None, remembered: str | None, threshold: int, exists: bool
) -> None:
    found = selected(
        menu, avoided=tuple(avoided), preferred=preferred, remembered=remembered, threshold=threshold,
        output_exists=exists,
    )  # fmt: skip
    if found.mode == AUTOMATIC:
        assert found.option is not None and found.option.key not in avoided and found.option.key not in "DOX"


def test_a_preference_in_words_about_an_option_counts_at_every_menu() -> None:
    options = [Option("P", "Party Mode - Bring several agents in"), Option("C", "Continue")]
    wishes = Preferences(Learned((Feedback(PREFERENCE, "never Party Mode", at="1"),))).at_menu(SKILL, STEP, options)
    assert wishes.avoided == ("P",)
    wishes = Preferences(Learned((Feedback(PREFERENCE, "always choose Continue", at="1"),))).at_menu(
        SKILL, STEP, options
    )
    assert wishes.preferred == "C"
    found = Preferences(Learned((Feedback(PREFERENCE, "always use thorough validation", at="1"),)))
    assert found.at_menu(SKILL, STEP, options).avoided == () and found.words == ["always use thorough validation"]


def test_what_is_forgotten_counts_no_more_until_it_is_said_again() -> None:
    first = said(NEGATIVE, LABELS[0], EXPLICIT, "1")
    gone = Learned((first,), (), (Forgotten(first.id, "2"),))
    assert not Preferences(gone).avoids(SITUATION, plain(LABELS[0])) and not Preferences(gone).listed()
    again = Learned((first, said(NEGATIVE, LABELS[0], EXPLICIT, "3")), (), gone.forgotten)
    assert Preferences(again).avoids(SITUATION, plain(LABELS[0]))
    overruled = Preferences(Learned((first, said(POSITIVE, LABELS[0], IMPLICIT, "5")))).listed()
    assert [one.get("overruled", False) for one in overruled] == [False, True]
