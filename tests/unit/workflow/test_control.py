"""Confidence, stalls, loops, batches, checkpoints, exit words, adaptive settings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.engine import checkpoint_pace, stalls
from interlock.workflow.engine.adaptive_settings import adapt
from interlock.workflow.engine.checkpoint_pace import DoneOperation
from interlock.workflow.engine.confidence_calculator import PRIORITIES, ConfidenceThresholds, calculate
from interlock.workflow.engine.stalls import Visits
from interlock.workflow.party.party_mode_driver import EXIT_WORDS, exit_word

SIGNALS = st.dictionaries(st.sampled_from(sorted(PRIORITIES)), st.none() | st.floats(0, 100), max_size=5)


@given(SIGNALS, st.none() | st.integers(0, 4))
def test_a_score_stays_within_what_its_signals_and_the_tier_allow(
    signals: dict[str, float | None], tier: int | None
) -> None:
    found = calculate(signals, tier)
    present = [value for value in signals.values() if value is not None]
    assert found.error is None and 0 <= found.score <= 100 and found.score == round(found.score, 1)
    if not present:
        assert found.score == 25
        return
    adjustment = (0, 0, -5, -10, -15)[tier or 0]
    assert found.score <= max(0, max(present) + adjustment) + 0.1
    if len(present) == 1:
        assert found.score <= max(0, 60 + adjustment)
    else:
        assert found.score >= max(0, min(present) + adjustment) - 0.1


@given(SIGNALS)
def test_a_higher_tier_is_never_surer(signals: dict[str, float | None]) -> None:
    scores = [calculate(signals, tier).score for tier in range(5)]
    assert scores == sorted(scores, reverse=True)


@given(st.one_of(st.floats(), st.text(), st.lists(st.integers()), st.booleans(), st.integers()))
def test_nothing_that_is_given_as_signals_raises(given_value: object) -> None:
    assert calculate(given_value).score in (25, 30)
    found = calculate({"memory_match": given_value, "party_mode": 50})
    usable = isinstance(given_value, (int, float)) and not isinstance(given_value, bool) and 0 <= given_value <= 100
    assert (found.error is None) == usable


def test_not_a_number_is_a_failure() -> None:
    assert calculate({"memory_match": math.nan}).error == "calculation_failed"
    assert calculate({}, True).score == 30


def test_a_workflow_may_have_its_own_classes() -> None:
    signals = {"memory_match": 60, "party_mode": 60}
    assert calculate(signals).classification == "Medium"
    assert calculate(signals, None, ConfidenceThresholds(high=60)).classification == "High"


def test_equal_outputs_are_a_stall_whatever_the_clock_said() -> None:
    one = stalls.output_hash("\x1b[31m2 failed\x1b[0m in 0.31s at 2026-01-08T10:00:00Z")
    other = stalls.output_hash("2  failed in 1.2s at 2026-01-09T11:30:00Z\n")
    assert stalls.is_stalled(one, other) and len(one) == 64
    hashes = [stalls.output_hash(f"nothing changed since {at}") for at in ("3f2a91c0de", "0b7c55e1aa")]
    assert hashes[0] == hashes[1], "what varies with each try is no other failure"
    assert not stalls.is_stalled(one, stalls.output_hash("3 failed in 0.31s")) and not stalls.is_stalled(None, one)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6), st.randoms())
def test_a_set_of_issues_has_one_hash_in_any_order(issues: list[str], random: object) -> None:
    shuffled = [*issues, issues[0]]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert stalls.issue_hash(issues) == stalls.issue_hash(shuffled)
    assert stalls.validation_hash("one output", issues) == stalls.validation_hash("another", issues)


def test_a_stall_is_retried_then_given_to_party_mode_once_then_to_a_human() -> None:
    assert stalls.stall_response(1, "h") == "retry_with_memory"
    assert stalls.stall_response(2, "h") == "party_mode"
    assert stalls.stall_response(3, "h", frozenset({"h"})) == "escalate"


def test_the_fifth_visit_of_a_state_is_a_loop_and_a_reply_starts_anew() -> None:
    visits = Visits()
    for _ in range(4):
        visits = visits.visit("RUNNING", "3", 1, "the same").visit("RUNNING", "4", 1, "the same")
        assert not visits.looping
    assert visits.visit("RUNNING", "3", 1, "the same ").looping
    assert not visits.visit("RUNNING", "3", 2, "the same").looping
    assert not visits.answered().visit("RUNNING", "3", 1, "the same").looping


def test_batches_by_tier() -> None:
    sizes = [checkpoint_pace.batch_size(tier) for tier in (0, 1, 2, 3, 4, None)]
    assert sizes == [None, None, 5, 3, 1, 5]
    done = ["step 0", "step 1", "step 2"]
    assert [checkpoint_pace.is_full(done[:number], 3) for number in (1, 2, 3)] == [False, False, True]
    assert not checkpoint_pace.is_full(done, 2) and not checkpoint_pace.is_full(done, 0)
    assert checkpoint_pace.is_full(done, 0, size=2)
    assert checkpoint_pace.summary(done) == "3 steps done: step 0, step 1, step 2."


@pytest.mark.parametrize(
    ("confidence", "kind", "explicit"),
    [(100, "minimal", False), (80, "minimal", False), (79.9, "summary", False), (50, "summary", False),
     (49.9, "full_audit_trail", True), (0, "full_audit_trail", True)],
)  # fmt: skip
def test_a_checkpoint_shows_more_the_less_sure_it_is(confidence: float, kind: str, explicit: bool) -> None:
    done = [DoneOperation("Chose C", "the step's way on", decision=True), DoneOperation("Saved it", "prd.md")]
    shown = checkpoint_pace.present(confidence, "Step 3 done", done)
    assert (shown.format, shown.explicit_approval) == (kind, explicit)
    assert shown.details == "1. Chose C: the step's way on\n2. Saved it: prd.md"  # whatever the format
    if kind == "minimal":
        assert len(shown.text.splitlines()) <= 2 and shown.options == ("confirm",)
    assert ("Saved it: prd.md" in shown.text) == explicit


@pytest.mark.parametrize("message", ["*exit", "please *EXIT now", "Goodbye!", "end party", "OK, quit.", "**exit**"])
def test_exit_words(message: str) -> None:
    assert exit_word(message) in EXIT_WORDS


@pytest.mark.parametrize(
    "message", ["exit", "quite good", "xquit", "quit_now", "end the party", "goodbyes", "", "*exited"]
)
def test_words_that_only_contain_one(message: str) -> None:
    assert exit_word(message) is None


def test_settings_adapt_to_tier_domain_and_module() -> None:
    assert (adapt(0).automation, adapt(0).batch, adapt(0).checkpoints) == ("aggressive", None, "minimal")
    assert (adapt(4).automation, adapt(4).batch, adapt(4).checkpoints) == ("conservative", 1, "frequent")
    assert adapt(None) == adapt(2)
    assert adapt(1, domain="Healthcare").gates and adapt(1, domain="healthcare").batch == 5
    assert adapt(2, domain="finance").gates != adapt(2, domain="healthcare").gates and not adapt(2).gates
    bmb = adapt(2, module="bmb", thresholds={"blocking_errors": 1, "high": 90, "automatic": 95, "medium": "x"})
    assert bmb.bmb and (bmb.bmb.blocking_errors, bmb.bmb.major_issues) == (1, 5)
    assert (bmb.confidence, bmb.automatic_from) == (ConfidenceThresholds(high=90), 95) and adapt(
        2, module="bmm"
    ).bmb is None
