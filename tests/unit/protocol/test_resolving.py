"""Where a report of an outcome takes a task, as a pure function."""

from __future__ import annotations

import pytest

from interlock.model.task import STATES, Task
from interlock.protocol.envelope import OUTCOMES
from interlock.protocol.handlers import resolve_completion_transitions, review_required
from interlock.protocol.message import may_go


def task(state: str = "in-progress", review: str | None = None, required: bool | None = None) -> Task:
    fields = dict.fromkeys(Task.__slots__)
    fields.update(state=state, review=review, review_required=required)
    return Task(**fields)  # type: ignore[arg-type]


@pytest.mark.req("AOF-59.10")
def test_done_goes_to_review_where_review_is_required() -> None:
    assert resolve_completion_transitions(task(required=True), "done") == ["review"]
    assert resolve_completion_transitions(task(), "done") == ["review"]


@pytest.mark.req("AOF-59.11")
def test_done_goes_through_review_where_it_is_not() -> None:
    assert resolve_completion_transitions(task(required=False), "done") == ["review", "done"]


@pytest.mark.req("AOF-59.12")
def test_blocked_goes_to_blocked() -> None:
    assert resolve_completion_transitions(task(), "blocked") == ["blocked"]


@pytest.mark.req("AOF-59.13")
@pytest.mark.parametrize("review", [None, "none", "human"])
def test_needs_review_goes_to_review_whatever_the_task_says(review: str | None) -> None:
    assert resolve_completion_transitions(task(review=review), "needs_review") == ["review"]


@pytest.mark.req("AOF-59.14")
@pytest.mark.parametrize("review", [None, "none", "human"])
def test_partial_goes_to_review_whatever_the_task_says(review: str | None) -> None:
    assert resolve_completion_transitions(task(review=review), "partial") == ["review"]


@pytest.mark.req("AOF-59.15")
@pytest.mark.parametrize(
    ("state", "outcome"),
    [("review", "partial"), ("review", "needs_review"), ("review", "done"), ("blocked", "blocked")],
)
def test_nothing_is_left_to_do_in_the_target_state(state: str, outcome: str) -> None:
    assert resolve_completion_transitions(task(state), outcome) == []


def test_done_without_review_goes_the_rest_of_the_way() -> None:
    assert resolve_completion_transitions(task("review", "none"), "done") == ["done"]
    assert resolve_completion_transitions(task("done", "none"), "done") == []


@pytest.mark.parametrize(
    ("review", "word", "required"),
    [
        (None, None, True),
        (None, False, False),
        (None, True, True),
        ("none", None, False),
        ("none", True, False),
        ("human", False, True),
        ("ada", None, True),
    ],
)
def test_the_task_s_own_review_beats_the_word_of_aof(review: str | None, word: bool | None, required: bool) -> None:
    assert review_required(task(review=review, required=word)) is required


def test_every_path_ends_where_the_outcome_says() -> None:
    for state in STATES:
        for outcome in OUTCOMES:
            for review in (None, "none", "human"):
                path = resolve_completion_transitions(task(state, review), outcome)
                end = path[-1] if path else state
                assert end in ("blocked", "review", "done")
                if state in ("done", "cancelled", "deleted"):
                    assert not path or not may_go(state, path)
