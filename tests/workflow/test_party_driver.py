"""The driver of Party Mode by itself: inputs, progress, ends, and that it always ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.workflow.package.personas import Persona
from interlock.workflow.party import cast, contributions, party_mode_driver
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.party_mode_driver import (
    CONSENSUS,
    ENDS,
    EXIT_KEYWORD,
    MAX_ROUNDS,
    SIMULATED,
    STAGNATION,
    TIMEOUT,
    Party,
    RoundInput,
)

PROBLEM = "Step 3 (Scope) fails its validation with the same result twice: the scope names no users."


def party(**given: Any) -> Party:
    whole = {
        "context": "The document is plan.md.",
        "questions": ("What is the cause?", "What is to be done?"),
        "voices": ("Ada", "Bob", "Cy"),
        **given,
    }
    return Party("stall", SIMULATED, PROBLEM, **whole)


def says(agent: str, recommendation: str, confidence: float | None = 80, position: str = "") -> Contribution:
    return Contribution(agent, f"I looked at the scope. {recommendation}", recommendation, position, confidence)


def all_say(recommendation: str) -> list[Contribution]:
    return [says(name, recommendation) for name in ("Ada", "Bob", "Cy")]


def onward(found: Party, *rounds: list[Contribution]) -> tuple[Party, RoundInput | None]:
    given: RoundInput | None = party_mode_driver.opening(found)
    for one in rounds:
        went = party_mode_driver.heard(found, one)
        found, given = went.party, went.input
    return found, given


def test_the_first_round_has_the_problem_and_what_is_known() -> None:
    first = party_mode_driver.opening(party())
    assert first.round_number == 1 and first.problem == PROBLEM and "plan.md" in first.context
    assert first.questions == ("What is the cause?", "What is to be done?")
    assert all(word in first.text for word in ("Round 1 of at most 5", PROBLEM, "plan.md", "1. What is the cause?"))
    assert '"recommendation"' in first.expected_format and first.expected_format in first.text


@pytest.mark.req("BMAD-5.1.3", "BMAD-FR20")
def test_each_rounds_input_has_number_context_questions_and_format() -> None:
    found = party()
    given = party_mode_driver.opening(found)
    for number, way in enumerate(("Ask the users", "Copy the users of the brief", "Leave users out"), 1):
        assert given is not None and given.round_number == number
        assert given.context and given.questions and "JSON" in given.expected_format
        went = party_mode_driver.heard(found, [says("Ada", way), says("Bob", f"Do it otherwise: {number} stages")])
        found, given = went.party, went.input


def test_a_later_round_has_a_synthesis_of_the_earlier_ones_and_follows_them_up() -> None:
    _, given = onward(party(), [says("Ada", "Add a users section"), says("Bob", "Drop the scope step")])
    assert given is not None
    assert "A: Add a users section (Ada)" in given.context and "B: Drop the scope step (Bob)" in given.context
    assert "50 % agree" in given.context and "Ada said:" in given.context
    assert any("against A and against B" in one for one in given.questions)
    assert "letter of one of the positions" in given.expected_format


@pytest.mark.req("BMAD-5.1.4")
def test_who_is_unclear_or_off_topic_is_asked_back() -> None:
    vague = Contribution("Bob", "It depends.")
    astray = Contribution("Cy", "Bananas!", "Bananas")
    _, given = onward(party(), [says("Ada", "Add a users section"), vague, astray])
    assert given is not None
    assert any(one.startswith("Bob:") and "not clear" in one and "A" in one for one in given.questions)
    assert any(one.startswith("Cy:") and "Come back" in one for one in given.questions)
    assert not any(one.startswith("Ada:") for one in given.questions)


@pytest.mark.req("BMAD-5.2.1", "BMAD-FR21")
def test_the_progress_of_each_round_is_kept() -> None:
    found, _ = onward(
        party(), [says("Ada", "Add users"), says("Bob", "Add users"), says("Cy", "Drop it")], [says("Ada", "Add users")]
    )
    shown = found.as_dict()["rounds"]
    assert [(one["round_number"], one["agents_responded"], one["consensus_level"]) for one in shown] == [
        (1, 3, 67),
        (2, 1, 100),
    ]


def test_when_all_recommend_the_same_it_ends_early() -> None:
    found, given = onward(party(), all_say("Add a users section to the scope"))
    assert given is None and found.exit_reason == CONSENSUS and len(found.rounds) == 1
    summary = party_mode_driver.summary(found)
    assert summary.recommendation == "Add a users section to the scope" and summary.confidence == 80


def test_one_voice_alone_is_no_consensus() -> None:
    found, given = onward(party(), [says("Ada", "Add a users section")])
    assert found.running and given is not None


def test_positions_are_taken_by_their_letter_from_the_second_round_on() -> None:
    second = [
        says("Ada", "", position="B"),
        says("Bob", "As I said", position="Option B: drop"),
        says("Cy", "x", 60, "b."),
    ]
    found, _ = onward(party(), [says("Ada", "Add users"), says("Bob", "Drop the step"), says("Cy", "Split it")], second)
    assert found.exit_reason == CONSENSUS and found.rounds[1].votes == {"Ada": "B", "Bob": "B", "Cy": "B"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Add a users section to the scope", "Add the users section to scope", True),
        ("Split step 2", "Split step 3", False),
        ("Add the users section", "Do not add the users section", False),
        ("Use SQLite", "Use PostgreSQL", False),
        ("A better plan", "a better plan.", True),
    ],
)
def test_texts_are_compared_by_their_words_numbers_and_negations(one: str, other: str, same: bool) -> None:
    found, _ = onward(party(), [says("Ada", one), says("Bob", other)])
    assert (len(found.options) == 1) is same


@pytest.mark.req("BMAD-5.2.3")
def test_at_the_last_round_the_best_recommendation_stands() -> None:
    rounds = [
        [says("Ada", f"Way {number} of doing it", 90), says("Bob", f"Path {number} instead", 40)]
        for number in range(1, 6)
    ]
    found, given = onward(party(), *rounds)
    assert given is None and found.exit_reason == MAX_ROUNDS and len(found.rounds) == 5
    assert party_mode_driver.summary(found).recommendation == "Way 5 of doing it"


def test_two_rounds_in_a_row_without_progress_are_stagnation() -> None:
    same = [says("Ada", "Add users"), says("Bob", "Drop the step"), says("Cy", "Split it")]
    found, given = onward(party(), same, same, same)
    assert given is None and found.exit_reason == STAGNATION and len(found.rounds) == 3
    positions = party_mode_driver.summary(found).positions
    assert positions == {"Ada": "A: Add users", "Bob": "B: Drop the step", "Cy": "C: Split it"}


@pytest.mark.req("BMAD-FR21d", "BMAD-E5.9")
@pytest.mark.parametrize("word", ["*exit", "goodbye", "end party", "quit", "QUIT", "Goodbye!"])
def test_an_exit_keyword_ends_it_at_once(word: str) -> None:
    spoken = Contribution("Bob", f"I have said what I had to say.\n\n{word}")
    found, given = onward(party(), [says("Ada", "Add users"), spoken])
    assert given is None and found.exit_reason == EXIT_KEYWORD
    assert party_mode_driver.summary(found).recommendation == "Add users"
    assert party_mode_driver.told(party(), f"please {word}").exit_reason == EXIT_KEYWORD


@pytest.mark.req("BMAD-FR21d", "BMAD-E5.9", "BMAD-5.4.1")
@pytest.mark.parametrize("word", ["exit", "that is quite enough", "quitting", "goodbyes", "ending the party", "* exit"])
def test_what_is_no_exit_keyword_to_the_letter_does_not_end_it(word: str) -> None:
    found, given = onward(party(), [says("Ada", "Add users"), Contribution("Bob", word)])
    assert found.running and given is not None
    assert party_mode_driver.told(party(), word).running


def test_a_voice_that_speaks_about_an_exit_word_does_not_leave() -> None:
    said = Contribution("Bob", "The `quit` command of the shell should ask before it ends.", "Ask before quit")
    found, _ = onward(party(), [says("Ada", "Add users"), said])
    assert found.running


def test_a_forced_end_keeps_what_was_heard() -> None:
    found, _ = onward(party(), [says("Ada", "Add users", 90), says("Bob", "Drop the step", 20)])
    found = party_mode_driver.cut(found, TIMEOUT, "nobody answered within 120 s")
    summary = party_mode_driver.summary(found)
    assert (summary.exit_reason, summary.rounds, summary.recommendation) == (TIMEOUT, 1, "Add users")
    assert summary.error == "nobody answered within 120 s" and summary.error in summary.text
    assert party_mode_driver.cut(found, "error", "again") is found


anything = st.text(max_size=60) | st.sampled_from(["A", "B", "Add users", "drop it", "*exit", "quit", "It depends."])
voiced = st.builds(
    Contribution,
    agent=st.sampled_from(["Ada", "Bob", "Cy", "Di", "", "*exit"]),
    text=anything,
    recommendation=anything,
    position=anything,
    confidence=st.none() | st.floats(0, 100),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(voiced, max_size=5), min_size=5, max_size=8), st.integers(1, 5))
def test_whatever_is_said_it_ends_within_its_rounds_with_a_reason_and_can_be_kept(
    rounds: list[list[Contribution]], most: int
) -> None:
    found = party(max_rounds=most)
    given: RoundInput | None = party_mode_driver.opening(found)
    for said in rounds:
        if given is None:
            break
        assert given.text and given.round_number == len(found.rounds) + 1
        kept = Party.of(json.loads(json.dumps(found.as_dict())))
        assert kept is not None
        went, again = party_mode_driver.heard(found, said), party_mode_driver.heard(kept, said)
        assert went.input == again.input and went.party.as_dict() == again.party.as_dict()
        found, given = went.party, went.input
        assert 0 <= found.rounds[-1].consensus_level <= 100
    assert not found.running and found.exit_reason in ENDS and len(found.rounds) <= most
    summary = party_mode_driver.summary(found)
    assert summary.text and 0 <= summary.confidence <= 100 and json.dumps(summary.as_dict())


LINE = '{"agent": "Winston", "recommendation": "Split it", "position": "split", "confidence": 70}'


@pytest.mark.parametrize(
    ("said", "recommendation", "confidence"),
    [
        (f"I think so.\n{LINE}", "Split it", 70),
        (f"I think so.\n\n```json\n{json.dumps(json.loads(LINE), indent=1)}\n```\n", "Split it", 70),
        ('It is easy.\n{"recommendation": "Split it", "confidence": 0.7}', "Split it", 70),
        ('{"recommendation": "Split it", "confidence": "70%"} And that is all.', "Split it", 70),
        ("**Recommendation:** Split it\nConfidence: 70 %", "Split it", 70),
        ("After all that I would recommend to Split it. Later more.", "Split it", None),
        ('{"recommendation": "Split it", "confidence": 300}', "Split it", None),
        ('{"recommendation": ["a"], "position": {"x": 1}}', "", None),
        ("It depends on many things.", "", None),
        ('{"recommendation": "Split it', "Split it", None),
        ("", "", None),
    ],
)
def test_a_contribution_is_understood_with_and_without_its_line(
    said: str, recommendation: str, confidence: float | None
) -> None:
    found = contributions.alone("Winston", said)
    assert (found.recommendation, found.confidence) == (recommendation, confidence)


def test_a_round_that_one_agent_hosts_is_told_apart_by_its_voices() -> None:
    said = (
        "🎉 **Session:** welcome!\n\n🏗️ **Winston**: Split it, it is too large.\n"
        '{"agent": "Winston", "recommendation": "Split it", "confidence": 80}\n\n'
        "💻 **Amelia** (dev): As Winston says.\nRecommendation: Split it\n\n[E] Exit Party Mode"
    )
    found = contributions.hosted(said, ["Winston", "Amelia", "Mary"])
    assert [(one.agent, one.recommendation) for one in found] == [("Winston", "Split it"), ("Amelia", "Split it")]
    unknown = contributions.hosted("**Ann:** no.\n**Ben**: yes.\n", [])
    assert [one.agent for one in unknown] == ["Ann", "Ben"]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400), st.lists(st.text(max_size=8), max_size=3))
def test_no_text_is_too_odd_to_be_read(said: str, known: list[str]) -> None:
    for text in (said, "{" * 50 + '"' + said, f'{{"position": "{said}"}}'):
        contributions.alone("Ada", text)
        contributions.hosted(text, known)


@pytest.mark.parametrize("topic", [cast.PROBLEM, cast.REVIEW, cast.IDEATION])
@pytest.mark.parametrize("size", [None, 1, 3, 5, 9])
def test_three_to_five_different_voices_take_part(topic: str, size: int | None) -> None:
    for installed in ((), (Persona("architect", "Winston", "Architect", "builds"),)):
        voices = cast.voices(installed, topic, size=size)
        assert 3 <= len(voices) <= 5 and len({one.text for one in voices}) == len(voices)
        assert all(one.text.startswith("You are ") for one in voices)


def test_the_builders_discuss_what_is_built() -> None:
    builders = [Persona(name, name.title(), "Builder", "builds") for name in ("agent-builder", "module-builder")]
    voices = cast.voices([*builders, Persona("architect", "Winston", "Architect")], cast.PROBLEM, "bmb")
    assert [one.name for one in voices[:2]] == ["Agent-Builder", "Module-Builder"] and len(voices) == 3
