"""Which model a piece of work gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.agents.assignment import KINDS
from interlock.workflow.agents.models import CLASSES, COMPLEXITIES, HAIKU, OPUS, SONNET, class_of, select
from interlock.workflow.engine import confidence_calculator


@pytest.mark.parametrize(
    ("kind", "complexity", "tier", "chosen"),
    [
        ("validation", "simple", 0, HAIKU),
        ("validation", "simple", 1, HAIKU),
        ("analysis", "complex", 3, OPUS),
        ("analysis", "complex", 4, OPUS),
        ("implementation", "standard", 2, SONNET),
        ("implementation", "simple", 0, SONNET),
        ("implementation", "complex", 0, OPUS),
        ("implementation", "standard", 4, OPUS),
        ("code_review", "standard", 2, SONNET),
        ("creative", "standard", None, SONNET),
        ("karaoke", "standard", 1, SONNET),
    ],
)
def test_the_model_follows_from_kind_complexity_and_tier(
    kind: str, complexity: str, tier: int | None, chosen: str
) -> None:
    assert select(kind, complexity, tier).cls == chosen


kinds = st.sampled_from([*KINDS, "another"])
tiers = st.one_of(st.none(), st.integers(0, 4))


@given(kinds, st.sampled_from(COMPLEXITIES), tiers, st.sampled_from(CLASSES))
def test_nothing_is_larger_than_the_largest_that_is_allowed(kind: str, complexity: str, tier: int, most: str) -> None:
    free, capped = select(kind, complexity, tier), select(kind, complexity, tier, most)
    assert CLASSES.index(capped.cls) == min(CLASSES.index(free.cls), CLASSES.index(most))
    assert capped.wanted == free.cls and ("max_model" in capped.why) == (capped.cls != free.cls)
    assert capped.signal <= free.signal


@given(kinds, tiers)
def test_more_complex_work_never_gets_a_smaller_model_and_code_never_the_smallest(kind: str, tier: int | None) -> None:
    sizes = [CLASSES.index(select(kind, complexity, tier).cls) for complexity in COMPLEXITIES]
    assert sizes == sorted(sizes)
    assert kind != "implementation" or sizes[0] >= CLASSES.index(SONNET)


def test_a_program_calls_the_classes_as_it_likes_and_otherwise_takes_its_default() -> None:
    names = {"haiku": "small-1", "opus": "large-9"}
    assert select("validation", "simple", 0, models=names).name == "small-1"
    assert select("implementation", models=names).name is None
    assert class_of("large-9", names) == OPUS and class_of("claude-sonnet-4", {}) == SONNET
    assert class_of("gpt-5", {}) is None and class_of(None, names) is None


def test_what_model_it_was_is_a_signal_of_its_own_weight() -> None:
    largest, held_down = select("analysis", "complex", 4), select("analysis", "complex", 4, "haiku")
    assert (largest.signal, held_down.signal) == (100.0, 20.0)
    score = confidence_calculator.calculate({"validation_verdict": 80, "model_selection": held_down.signal}, 1)
    assert score.breakdown["signals"]["model_selection"]["weight"] > 0 and score.score < 80
