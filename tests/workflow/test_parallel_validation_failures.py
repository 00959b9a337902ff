"""Validators that cannot be heard: each row of what is done about it, and what holds whatever they do (BMAD-6.3)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents.session import Turn
from interlock.workflow.agents.watch import Limits
from interlock.workflow.barrier import SynchronizationBarrier
from interlock.workflow.panel import PROCEED, RETRY_ALL, RETRY_FAILED, SEQUENTIAL, VALIDATION, WITH_CONTEXT
from interlock.workflow.reviews.parallel_bmb_validation import ParallelBmbValidation
from interlock.workflow.state.document import WorkflowState
from tests.workflow.builder import (
    BABBLES,
    DIES,
    LABELS,
    PASSED,
    SLEEPS,
    Act,
    Maker,
    Validators,
    build,
    builder,
    finds,
    rounds,
)
from tests.workflow.stage import MemoryDesk, Outcome

WAIT = 120.0


def failing(*labels: str, then: Act = PASSED) -> dict[str, list[Act]]:
    """These die in their first attempt."""
    return {label: [DIES, then] for label in labels}


def together(validators: Validators) -> list[list[str]]:
    """The labels that began at the same moment."""
    found: dict[float, list[str]] = {}
    for label, at in validators.began:
        found.setdefault(at, []).append(label)
    return list(found.values())


def heard(outcome: Outcome) -> list[tuple[str, str]]:
    return [(one["label"], one["status"]) for one in rounds(outcome)[-1]["validators"]]


@pytest.mark.req("BMAD-6.3.1", "BMAD-FR47c", "BMAD-E6.3", "BMAD-6.2.1", "BMAD-6.2.5", "BMAD-FR47a", "BMAD-E6.2")
def test_when_all_six_are_heard_it_proceeds_with_their_results_in_their_order(tmp_path: Path) -> None:
    root = builder(tmp_path)
    late: dict[str, list[Act]] = {label: [float(60 - 10 * n)] for n, label in enumerate(LABELS)}
    outcome = build(root, Maker(root), Validators(late))
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds >= 60, "it waits for the last one"
    assert rounds(outcome)[-1]["handling"] == PROCEED
    assert heard(outcome) == [(label, "passed") for label in LABELS], "the first to come in was the last"


@pytest.mark.req("BMAD-6.3.2", "BMAD-FR47c", "BMAD-E6.3")
@pytest.mark.parametrize("lost", [("08c",), ("08b", "08e")])
def test_when_one_or_two_fail_they_are_tried_again_one_after_the_other(tmp_path: Path, lost: Sequence[str]) -> None:
    root = builder(tmp_path)
    validators = Validators(failing(*lost))
    outcome = build(root, Maker(root), validators)
    assert outcome.state.outcome == "COMPLETED"
    assert together(validators) == [list(LABELS), *([one] for one in lost)]
    assert heard(outcome) == [(label, "passed") for label in LABELS]
    assert rounds(outcome)[-1]["handling"] == RETRY_FAILED


@pytest.mark.req("BMAD-6.3.3", "BMAD-FR47c", "BMAD-E6.3")
@pytest.mark.parametrize("lost", [("08a", "08b", "08c"), ("08a", "08b", "08c", "08d")])
def test_when_three_or_four_fail_all_are_tried_again_at_once(tmp_path: Path, lost: Sequence[str]) -> None:
    root = builder(tmp_path)
    validators = Validators(failing(*lost))
    outcome = build(root, Maker(root), validators)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert together(validators) == [list(LABELS), list(LABELS)]
    assert rounds(outcome)[-1]["handling"] == RETRY_ALL


@pytest.mark.req("BMAD-6.3.3", "BMAD-E6.3")
def test_when_they_still_fail_after_that_a_human_is_asked_and_what_was_heard_is_kept(tmp_path: Path) -> None:
    root = builder(tmp_path)
    validators = Validators({"08a": [DIES], "08b": [BABBLES], "08c": [SLEEPS], "08d": [finds("minor"), DIES]})
    outcome = build(root, Maker(root), validators)
    assert outcome.ending.kind == "parked" and validators.attempts == dict.fromkeys(LABELS, 2)
    (asked,) = outcome.desk.asked.values()
    assert asked.kind == "escalation" and "08a plan traceability" in asked.text and "barrier_timeout" in asked.text
    assert dict(heard(outcome))["08d"] == "issues", "what it found the first time is not lost"
    assert [label for label, status in heard(outcome) if status == "failed"] == ["08a", "08b", "08c"]
    assert rounds(outcome)[-1]["verdict"] == "blocked"


def test_when_nobody_can_be_heard_in_the_end_a_human_is_told_so(tmp_path: Path) -> None:
    root = builder(tmp_path)
    validators = Validators({label: [DIES] for label in LABELS})
    outcome = build(root, Maker(root), validators)
    assert outcome.ending.kind == "parked" and validators.attempts == dict.fromkeys(LABELS, 2)
    (asked,) = outcome.desk.asked.values()
    assert "could not be done" in asked.text and not rounds(outcome)


def test_a_human_who_says_retry_has_them_all_asked_again(tmp_path: Path) -> None:
    root = builder(tmp_path)
    validators = Validators({label: [DIES, DIES, PASSED] for label in LABELS[:4]})
    outcome = build(root, Maker(root), validators, desk=MemoryDesk(answers=lambda asking: "retry"))
    assert outcome.state.outcome == "COMPLETED" and len(outcome.desk.asked) == 1
    assert [one["verdict"] for one in rounds(outcome)] == ["blocked", "approve"]


@pytest.mark.req("BMAD-6.3.4", "BMAD-FR47c", "BMAD-E6.3")
def test_when_only_one_is_heard_its_result_is_the_context_of_the_others_second_try(tmp_path: Path) -> None:
    root = builder(tmp_path)
    only = finds("minor", field="agent.menu", summary="the menu is nearly right")
    validators = Validators({**failing("08a", "08b", "08c", "08e", "08f"), "08d": [only]})
    outcome = build(root, Maker(root), validators)
    assert outcome.state.outcome == "COMPLETED"
    others = [label for label in LABELS if label != "08d"]
    assert together(validators) == [list(LABELS), *([one] for one in others)]
    for label in others:
        first, second = validators.prompts[label]
        assert "nearly right" not in first and "nearly right" in second and "agent.menu.0" in second
    assert rounds(outcome)[-1]["handling"] == WITH_CONTEXT


@pytest.mark.req("BMAD-6.3.5", "BMAD-6.3.6", "BMAD-FR47c", "BMAD-E6.3")
def test_when_none_is_heard_all_are_done_one_after_the_other_with_the_same_output(tmp_path: Path) -> None:
    root = builder(tmp_path / "sequential")
    parallel = build(builder(tmp_path / "parallel"), Maker(tmp_path / "parallel"), Validators())
    validators = Validators(failing(*LABELS))
    outcome = build(root, Maker(root), validators)
    assert outcome.state.outcome == "COMPLETED"
    assert together(validators) == [list(LABELS), *([one] for one in LABELS)]
    assert rounds(outcome)[-1]["handling"] == SEQUENTIAL
    mine, theirs = rounds(outcome)[-1], rounds(parallel)[-1]
    assert mine["validators"] == theirs["validators"] and mine.keys() == theirs.keys()
    same = [key for key in mine if key not in ("at", "handling")]
    assert {key: mine[key] for key in same} == {key: theirs[key] for key in same}


@pytest.mark.req("BMAD-6.2.4", "BMAD-E6.2")
def test_after_120_seconds_the_barrier_ends_what_was_heard_is_kept_and_the_others_are_tried_again(
    tmp_path: Path,
) -> None:
    root = builder(tmp_path)
    validators = Validators({"08b": [SLEEPS, 30.0]})
    outcome = build(root, Maker(root), validators)
    assert outcome.state.outcome == "COMPLETED"
    assert (rounds(outcome)[-1]["error"], rounds(outcome)[-1]["handling"]) == ("barrier_timeout", RETRY_FAILED)
    assert validators.began[-1] == ("08b", WAIT) and validators.attempts["08a"] == 1
    assert 150 <= outcome.seconds < 155 and not validators.at_work


def test_how_long_the_barrier_waits_is_a_setting(tmp_path: Path) -> None:
    root = builder(tmp_path)
    outcome = build(root, Maker(root), Validators({"08b": [SLEEPS, 5.0]}), limits=Limits(sync_wait=20.0))
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds < 30


class Held:
    """A lock that somebody else holds, for the first so many acquisitions or for ever."""

    def __init__(self, refusals: float) -> None:
        self.left = refusals
        self.held = False
        self.asked = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.asked += 1
        self.left -= 1
        self.held = self.left < 0
        return self.held

    def release(self) -> None:
        self.held = False


@pytest.mark.req("BMAD-6.2.3", "BMAD-FR47b", "BMAD-E6.2")
def test_where_no_result_can_be_put_down_the_barrier_breaks_and_they_are_asked_one_by_one(tmp_path: Path) -> None:
    root = builder(tmp_path)
    lock = Held(float("inf"))
    examination = ParallelBmbValidation(lambda parties: SynchronizationBarrier(parties, lock=lock))
    validators = Validators()
    outcome = build(root, Maker(root), validators, examinations=(examination,))
    assert outcome.state.outcome == "COMPLETED"
    assert (rounds(outcome)[-1]["error"], rounds(outcome)[-1]["handling"]) == ("sync_timeout", SEQUENTIAL)
    assert not lock.held and not validators.at_work
    # 10 s of work, twice 5 s for the lock, then one by one.
    assert together(validators)[1] == ["08a"] and validators.began[6][1] == pytest.approx(20, abs=0.1)


def test_fewer_than_six_are_treated_by_the_same_shares() -> None:
    rows = {
        6: [SEQUENTIAL, WITH_CONTEXT, RETRY_ALL, RETRY_ALL, RETRY_FAILED, RETRY_FAILED, PROCEED],
        5: [SEQUENTIAL, WITH_CONTEXT, RETRY_ALL, RETRY_ALL, RETRY_FAILED, PROCEED],
        4: [SEQUENTIAL, WITH_CONTEXT, RETRY_ALL, RETRY_FAILED, PROCEED],
        3: [SEQUENTIAL, WITH_CONTEXT, RETRY_FAILED, PROCEED],
        2: [SEQUENTIAL, WITH_CONTEXT, PROCEED],
        1: [SEQUENTIAL, PROCEED],
        0: [PROCEED],
    }
    for of, expected in rows.items():
        assert [VALIDATION.way(heard, of) for heard in range(of + 1)] == expected


one_act = st.one_of(
    st.sampled_from([PASSED, DIES, BABBLES, SLEEPS, finds("minor"), Turn("timeout"), Turn("killed"), "", "{]"]),
    st.floats(0.5, 300.0),
)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(acts=st.lists(st.lists(one_act, min_size=1, max_size=3), min_size=6, max_size=6), sidecar=st.booleans())
def test_whatever_they_do_there_is_a_verdict_or_a_question_in_bounded_time_and_nothing_is_lost(
    acts: list[list[Act]], sidecar: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = builder(Path(directory))
        validators = Validators(dict(zip(LABELS, acts, strict=True)))
        outcome = build(root, Maker(root, sidecar=sidecar), validators)
    assert outcome.ending.kind in ("completed", "parked"), outcome.ending
    needed = list(LABELS if sidecar else LABELS[:5])
    # What nobody has looked at is no round.
    results = heard(outcome) if rounds(outcome) else [(label, "failed") for label in needed]
    assert len(rounds(outcome)) <= 1 and [label for label, _ in results] == needed
    # Nobody in this play finds what would have to be fixed: it is approved, or somebody was not heard.
    unheard = [label for label, status in results if status == "failed"]
    assert (outcome.ending.kind == "parked") == bool(unheard)
    # At once, and at most each of them alone once more; a human is waited for at the end.
    assert outcome.seconds <= WAIT * (1 + len(needed)) + (Limits().selection if unheard else 0) + 1
    # Twice, and whose program crashes begins once more by itself each time.
    assert all(4 >= number >= 1 for number in validators.attempts.values()) and not validators.at_work
    assert not [label for label, given in zip(needed, acts, strict=False) if given == [PASSED] and label in unheard]


def test_a_provider_without_capacity_is_waited_for_and_only_the_others_are_asked_again(tmp_path: Path) -> None:
    root = builder(tmp_path)
    full = Turn("capacity", "", None, "the limit is reached", retry_at=1_795_003_600.0)
    desk = MemoryDesk()
    validators = Validators({"08b": [full], "08d": [full]})
    outcome = build(root, Maker(root), validators, desk=desk)
    assert (outcome.ending.kind, outcome.ending.retry_at) == ("capacity", 1_795_003_600.0)
    assert set(validators.attempts.values()) == {1} and not desk.asked, "nobody is tried again before that"
    assert desk.saved is not None
    second = Validators()
    outcome = build(root, Maker(root), second, desk=desk, state=WorkflowState.from_dict(desk.saved.as_dict()))
    assert outcome.state.outcome == "COMPLETED" and sorted(second.attempts) == ["08b", "08d"]
    assert heard(outcome) == [(label, "passed") for label in LABELS]
