"""What a panel comes to by its rule: how many must be heard, and how their verdicts become one."""

from __future__ import annotations

import pytest

from interlock.workflow.engine.examination import APPROVE, BLOCKED, CHANGES, NOT_DONE
from interlock.workflow.panel import DISCUSSION, PRE_FINAL, REVIEW, VALIDATION, VOICES, PanelRule


@pytest.mark.parametrize(
    ("rule", "heard", "of", "comes_to"),
    [
        (REVIEW, 0, 4, NOT_DONE), (REVIEW, 1, 4, None),
        (VALIDATION, 0, 6, NOT_DONE), (VALIDATION, 5, 6, BLOCKED), (VALIDATION, 6, 6, None), (VALIDATION, 0, 0, None),
        (PRE_FINAL, 0, 3, BLOCKED), (PRE_FINAL, 1, 3, BLOCKED), (PRE_FINAL, 2, 5, None),
        (DISCUSSION, 1, 5, NOT_DONE), (DISCUSSION, 2, 5, None), (VOICES, 2, 5, NOT_DONE), (VOICES, 3, 5, None),
    ],
)  # fmt: skip
def test_too_few_who_were_heard_come_to_what_the_rule_says(
    rule: PanelRule, heard: int, of: int, comes_to: str | None
) -> None:
    assert rule.missed(heard, of) == comes_to


@pytest.mark.parametrize(
    ("rule", "said", "verdict"),
    [
        (REVIEW, [APPROVE, APPROVE], APPROVE), (REVIEW, [APPROVE, CHANGES, APPROVE], CHANGES),
        (REVIEW, [CHANGES, BLOCKED, APPROVE], BLOCKED),
        (PRE_FINAL, [APPROVE, APPROVE, BLOCKED], APPROVE), (PRE_FINAL, [APPROVE, BLOCKED], CHANGES),
        (PRE_FINAL, [BLOCKED, BLOCKED, APPROVE], BLOCKED),
        (DISCUSSION, ["A", "A", "A"], "A"), (DISCUSSION, ["A", "A", "B"], ""), (VOICES, ["A", "A", ""], ""),
    ],
)  # fmt: skip
def test_verdicts_become_one_by_the_strictest_the_majority_or_all(
    rule: PanelRule, said: list[str], verdict: str
) -> None:
    assert rule.verdict(said) == verdict
