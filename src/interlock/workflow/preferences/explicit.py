"""Explicit feedback: what a person says about the last thing a run did, or wants remembered (Story 7.8, FR63).

Only a whole message counts: "good choice" within a sentence is conversation, and no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.preferences.patterns import NEGATIVE, POSITIVE, PREFERENCE, Feedback, Pattern

LONGEST = 1000  # characters of a preference
ABOUT = frozenset({"menu", "question", "recovery"})
"""The kinds of decisions that feedback is about."""

_AGAIN = r"(?:\s+(?:again|any\s?more|ever again|next time))"
_THAT = r"(?:\s+(?:that|this|it|so))?"
WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?:please,?\s+)?(?:{pattern})(?:,?\s+please)?[\s.!]*", re.IGNORECASE))
    for kind, pattern in (
        (NEGATIVE, rf"(?:do\s?n[o']?t|do not|never)(?: ever)?\s+(?:do|choose|pick|select){_THAT}{_AGAIN}"),
        (NEGATIVE, rf"never\s+(?:do|choose|pick|select)\s+(?:that|this|it){_AGAIN}?"),
        (NEGATIVE, r"(?:that was (?:a |the )?)?(?:bad|wrong|poor|not a good) (?:choice|decision|call)"),
        (
            POSITIVE,
            r"(?:(?:that was|that's) (?:a |the )?)?(?:very )?(?:good|great|nice|excellent|right|perfect) "
            r"(?:choice|decision|call|pick|selection)",
        ),
        (POSITIVE, r"(?:always )?(?:do|choose|pick) (?:that|this|it) (?:again|next time|every time)"),
        (POSITIVE, r"keep doing (?:that|this|it)"),
    )
)
_REMEMBER = re.compile(
    r"\s*(?:please,?\s+)?(?:remember|note|save|keep)\s+(?:this|my|the following|that|a)?\s*(?:preference)s?\s*"
    r"(?::|[-–—]|,?\s+that\b)\s*(\S.*?)\s*|"
    r"\s*(?:my\s+)?preference\s*:\s*(\S.*?)\s*|\s*(?:please,?\s+)?remember\s*:\s*(\S.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Said:
    """Feedback as it was said; `text` is the preference itself, else the message."""

    kind: str
    text: str


def understood(message: str) -> Said | None:
    """The feedback that a message is, null where it is something else."""
    text = " ".join(message.replace("’", "'").split()).strip('"“” ')
    found = _REMEMBER.fullmatch(text)
    if found is not None:
        preference = next(group for group in found.groups() if group)
        return Said(PREFERENCE, preference.strip('"“” '))
    return next((Said(kind, text) for kind, pattern in WORDS if pattern.fullmatch(text)), None)


def last_action(decisions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last thing that a run did by itself and could do otherwise: its last decision about a menu, a question or a
    fix. What a human chose is theirs, and no matter for feedback."""
    own = [one for one in decisions if one.get("kind") in ABOUT and one.get("by") != "human"]
    return next((one for one in reversed(own) if Pattern.of(one.get("pattern")) is not None), None)


def feedback(said: Said, decisions: Iterable[Mapping[str, Any]], at: str) -> Feedback | None:
    """The feedback, with what it is about; null where there is nothing yet that it could be about."""
    if said.kind == PREFERENCE:
        return Feedback(PREFERENCE, said.text[:LONGEST], at=at)
    action = last_action(decisions)
    pattern = Pattern.of(action.get("pattern")) if action is not None else None
    return Feedback(said.kind, said.text, pattern, at=at) if pattern is not None else None


def noted(given: Feedback) -> str:
    """What was understood, said back."""
    if given.pattern is None:
        return f"Noted for every workflow of this project: {given.text}"
    return f"Noted: at {where(given.pattern)} {wish(given)}."


def where(pattern: Pattern) -> str:
    """The step, as a person knows it."""
    name = pattern.step_name or pattern.step
    return name if name.lower().startswith("step") else f"step {name}"


def wish(given: Feedback) -> str:
    """What feedback about a choice asks for."""
    pattern = given.pattern
    assert pattern is not None
    if given.kind == NEGATIVE:
        return {
            "menu": f"I will not choose {pattern.said} again",
            "question": f"I will not answer “{pattern.said}” by myself again, but ask you",
            "fix": f"I will not try {pattern.said} again",
        }[pattern.kind]
    return {
        "menu": f"{pattern.said} was right, and I will choose it again",
        "question": f"“{pattern.said}” was answered well, and will be so again",
        "fix": f"{pattern.said} was right, and will be tried again",
    }[pattern.kind]
