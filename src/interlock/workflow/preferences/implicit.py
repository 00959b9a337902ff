"""Implicit feedback: what a person does says what they want (Story 7.9, FR65). Pure: from choices to what they mean.

    the engine chose A, and at once the human chooses B  ──> not A here, and B
    an option was offered three times and never taken    ──> it is shown after the others, and never hidden
    five recommendations of a kind were taken as they were ──> the next are taken without asking

The last is how we read "the confidence threshold for that decision type is increased" (decision page 0171).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.workflow.menus import forms, meanings
from interlock.workflow.preferences.patterns import IMPLICIT, NEGATIVE, POSITIVE, Choice, Feedback, Pattern

SKIPS = 3
ACCEPTS = 5
USUAL, INCREASED = 60, 85
"""The confidence of a choice among several ways on (decision 28), and what acceptance raises it to."""


def decision_type(recommended: str) -> str:
    """The kind of decision that recommending that label is."""
    return f"menu:{meanings.meaning(recommended)}"


def corrected(automatic: Pattern, chosen: Pattern, at: str) -> tuple[Feedback, Feedback] | None:
    """Against what was chosen automatically and for what the human chose instead; null where both are the same choice,
    or are not about the same situation."""
    if automatic.situation != chosen.situation or automatic.choice == chosen.choice:
        return None
    text = f"chosen instead of {automatic.said}"
    return (
        Feedback(NEGATIVE, f"{chosen.said} was chosen instead", automatic, IMPLICIT, at),
        Feedback(POSITIVE, text, chosen, IMPLICIT, at),
    )


def automatic_before(
    decisions: Sequence[Mapping[str, Any]], rollbacks: Iterable[Mapping[str, Any]], situation: str
) -> Pattern | None:
    """What the engine chose by itself the last time in that situation, where a human's other choice would correct it:
    it was rolled back, or nothing else was chosen since.

    An option that opens a nested mode is no answer that could be corrected at once: its menu comes back by design.
    """
    last = _last(decisions, situation)
    pattern = Pattern.of(last.get("pattern")) if last is not None and last.get("by") == "engine" else None
    if last is None or pattern is None:
        return None
    if taken_back(decisions, rollbacks, situation):
        return pattern
    since = decisions[list(decisions).index(last) + 1 :]
    if any(one.get("kind") in ("menu", "question", "next_step") for one in since) or forms.opens(pattern.choice):
        return None
    return pattern


def taken_back(decisions: Sequence[Mapping[str, Any]], rollbacks: Iterable[Mapping[str, Any]], situation: str) -> bool:
    """Whether a human has at once rolled back what the engine chose in that situation: it was the last that it chose
    before the rollback, and nobody has chosen there since."""
    back = [one for one in rollbacks if one.get("kind", "rollback") == "rollback" and not one.get("undone")]
    if not back:
        return False
    moment = str(back[-1].get("at", ""))
    before = [one for one in decisions if Pattern.of(one.get("pattern")) and str(one.get("at", "")) <= moment]
    if not before or before[-1] is not _last(decisions, situation):
        return False
    return bool(before[-1].get("by") == "engine")


def skips(choices: Iterable[Choice], situation: str) -> dict[str, int]:
    """How often each option of a menu was offered to a human and not taken, since it was taken last."""
    counts: dict[str, int] = {}
    for one in choices:
        if one.situation != situation:
            continue
        for label in one.offered:
            counts[label] = 0 if label == one.chosen else counts.get(label, 0) + 1
    return counts


def deprioritised(choices: Iterable[Choice], situation: str) -> frozenset[str]:
    """The options of a menu that come last from now on."""
    return frozenset(label for label, count in skips(choices, situation).items() if count >= SKIPS)


def accepts(choices: Iterable[Choice], skill: str) -> dict[str, int]:
    """How many recommendations of each kind were taken in a row, as they were, in that workflow."""
    counts: dict[str, int] = {}
    for one in choices:
        if one.skill == skill and one.recommended is not None and one.type:
            counts[one.type] = counts.get(one.type, 0) + 1 if one.chosen == one.recommended else 0
    return counts


def confidence_threshold(choices: Iterable[Choice], skill: str, type: str) -> int:
    """The confidence of decisions of that kind, 0 to 100."""
    return INCREASED if accepts(choices, skill).get(type, 0) >= ACCEPTS else USUAL


def _last(decisions: Sequence[Mapping[str, Any]], situation: str) -> Mapping[str, Any] | None:
    """The last decision about that situation."""
    for one in reversed(decisions):
        pattern = Pattern.of(one.get("pattern"))
        if pattern is not None and pattern.situation == situation:
            found: Mapping[str, Any] = one
            return found
    return None
