"""Validate, edit, validate again: counted, and stopped where it leads nowhere (stories 5.9 and 5.10)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.engine.loop_back_handler import (
    MAX_ITERATIONS,
    MAX_SAME_ERROR_RETRIES,
    MAX_VALIDATION_ITERATIONS,
    OSCILLATION,
    PERSISTENT,
    Error,
    Judgement,
    Loop,
    advised,
    attempts,
    signature,
    validated,
)


def run(*validations: list[Error]) -> tuple[Loop, list[Judgement]]:
    loop, judgements = Loop(), []
    for errors in validations:
        loop, judgement = validated(loop, errors)
        judgements.append(judgement)
    return loop, judgements


@pytest.mark.req("BMAD-E5.6", "BMAD-FR25")
def test_the_limits_are_those_of_the_specification() -> None:
    assert (MAX_VALIDATION_ITERATIONS, MAX_SAME_ERROR_RETRIES) == (10, 3)


def test_a_loop_begins_at_zero_and_an_iteration_ends_with_the_validation_after_an_edit() -> None:
    assert Loop().status() == {
        "current_iteration": 0, "max_iterations": 10, "errors_by_iteration": {}, "same_error_count": 0,
    }  # fmt: skip
    loop, (first, second, third) = run(["a"], ["b"], [])
    assert [first.iterated, second.iterated, third.iterated] == [False, True, True]
    assert loop.current_iteration == 2 and third.action == "passed"
    assert loop.errors_by_iteration == {"0": ["a"], "1": ["b"], "2": []}


def test_a_validation_that_passes_with_nothing_open_is_no_iteration() -> None:
    loop, _ = run([], [], ["a"], [], [])
    assert loop.current_iteration == 1


def test_the_same_error_is_counted_beside_the_iterations() -> None:
    assert [run(*[["a"]] * n)[0].same_error_count for n in (1, 2)] == [1, 2]
    loop, _ = run(["a"], ["b"], ["b", "c"])
    assert (loop.current_iteration, loop.same_error_count) == (2, 2)


def test_an_error_that_stays_three_times_is_persistent_also_among_others() -> None:
    _, judgements = run(["a", "b"], ["c", "a"], ["A  "])
    assert [one.action for one in judgements] == ["edit", "edit", "escalate"]
    assert judgements[-1].error == PERSISTENT and judgements[-1].details["errors"] == ["A"]
    assert "iteration 1: c; a" in judgements[-1].details["attempts"]


def test_an_error_that_comes_back_is_an_oscillation() -> None:
    _, judgements = run(["a"], ["b"], ["a"], ["b"], ["a"])
    assert [one.action for one in judgements] == ["edit"] * 4 + ["escalate"]
    assert judgements[-1].error == OSCILLATION and judgements[-1].details["pattern"] == "A, B, A, B, A"


def test_three_times_in_six_iterations_is_none() -> None:
    _, judgements = run(["a"], ["b"], ["c"], ["a"], ["d"], ["a"])
    assert judgements[-1].action == "edit"


def test_ten_iterations_end_the_run_and_the_ninth_is_warned_of() -> None:
    loop, judgements = run(*([f"error {chr(97 + number)}"] for number in range(11)))
    assert [one.action for one in judgements] == ["edit"] * 10 + ["end"]
    assert judgements[-1].error == MAX_ITERATIONS and loop.current_iteration == 10
    warned = [number for number, one in enumerate(judgements) if one.warning]
    assert warned == [8] and "iteration 9 of 10 begins" in str(judgements[8].warning)
    assert judgements[-1].details["attempts"].count("\n") == 10


def test_an_error_is_known_again_by_what_does_not_vary() -> None:
    assert signature("Failed at 10:01:02 after 3 ms") == signature("failed at 11:59:59  after 81 ms")
    here, there = {"title": "No test", "location": "a.py:3"}, {"title": "no test", "location": "a.py:81-90"}
    assert signature(here) == signature(there) != signature({**here, "location": "b.py:3"})


def test_what_a_human_says_begins_the_search_for_loops_anew_but_not_the_count() -> None:
    loop, _ = run(["a"], ["a"])
    loop, judgement = validated(advised(loop), ["a"])
    assert judgement.action == "edit" and (loop.current_iteration, loop.same_error_count) == (2, 1)


Errors = st.lists(st.sampled_from("abcdef") | st.text(max_size=20), max_size=4)


@given(st.lists(Errors, max_size=40), st.sets(st.integers(0, 40)))
def test_whatever_is_found_a_loop_ends_and_can_be_kept(validations: list[list[str]], helped: set[int]) -> None:
    loop = Loop()
    edits = 0
    for number, errors in enumerate(validations):
        loop, judgement = validated(loop, errors)
        assert Loop.of(json.loads(json.dumps(loop.as_dict()))).as_dict() == loop.as_dict()
        assert attempts(loop) is not None and loop.current_iteration <= MAX_VALIDATION_ITERATIONS
        assert (judgement.error is None) == (judgement.action in ("passed", "edit"))
        edits += judgement.action == "edit"
        if judgement.action == "end" or (judgement.action == "escalate" and number not in helped):
            break
        if judgement.action == "escalate":
            loop = advised(loop)
    assert edits <= MAX_VALIDATION_ITERATIONS


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=3))
def test_what_never_changes_is_put_to_a_human_at_the_third_time(errors: list[str]) -> None:
    _, judgements = run(errors, errors, errors)
    assert [one.action for one in judgements] == ["edit", "edit", "escalate"]
