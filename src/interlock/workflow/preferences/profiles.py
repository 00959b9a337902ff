"""Profiles: named ways of being careful, in one table, and those that a project adds (BMAD-7.1.3).

    profiles:                          # in interlock.workflows.yaml
      night: {tier: 1, batch_size: 10, confidence: 85}

What a profile does not name stays as the project's tier has it. The names of the table are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.workflow.preferences import safety

ALL: None = None
"""A batch without a limit."""
TIERS = range(5)
LARGEST_BATCH = 100
CONFIDENCES = (50, 100)
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
PROFILES_KEY = "profiles"
CONFIDENCE_WORDS = ("confidence", "confidence_threshold", "min_confidence", "automatic")
BATCH_WORDS = ("batch_size", "batch")
WITHOUT_LIMIT = ("all", "any", "none", "unlimited")


@dataclass(frozen=True)
class Profile:
    """What it names: the tier, how many steps run before a checkpoint (`batch` counts where `batch_named`; None is all
    of them), and from which confidence on a menu is answered without a human."""

    name: str
    tier: int | None = None
    batch: int | None = ALL
    batch_named: bool = False
    confidence: int | None = None
    about: str = ""


PROFILES: Mapping[str, Profile] = {
    one.name: one
    for one in (
        Profile("cautious", tier=3, confidence=90, about="a checkpoint after three steps, and more menus put to you"),
        Profile("thorough", tier=4, confidence=95, about="a checkpoint after each step, and most menus put to you"),
        Profile("balanced", tier=2, confidence=80, about="a checkpoint after five steps"),
        Profile("aggressive", tier=1, confidence=60, about="no checkpoints; of several ways on one is taken"),
        Profile("quick", tier=0, confidence=60, about="like aggressive, in the lightest tier"),
    )
}


def read(settings: Mapping[str, Any] | object) -> dict[str, Profile]:
    """The profiles of a project beside the table's; `settings` is what stands under `profiles`.

    Raises:
        InvalidRequest: one is none; the message says which, and why.
        SafetyOverrideBlocked: one wants to switch off what nobody can.
    """
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise InvalidRequest(
            "`profiles` must be names with their settings, such as `night: {tier: 1}`.", field=PROFILES_KEY
        )
    return {name: _one(name, value) for name, value in ((str(key), value) for key, value in settings.items())}


def find(name: str, own: Mapping[str, Profile]) -> Profile:
    """The profile of that name, the table's first.

    Raises:
        InvalidRequest: there is none; the message lists those there are.
    """
    found = PROFILES.get(name) or own.get(name)
    if found is None:
        there = ", ".join([*PROFILES, *sorted(own)])
        raise InvalidRequest(f"There is no profile {name!r}. There are: {there}.", field="profile", profiles=there)
    return found


def batch_of(value: object) -> int | None:
    """A batch size as it was said; None is without a limit.

    Raises:
        InvalidRequest: it is none.
    """
    word = str(value).strip().lower()
    if word in WITHOUT_LIMIT:
        return ALL
    number = _whole(word)
    if number is None or not 1 <= number <= LARGEST_BATCH:
        raise InvalidRequest(
            f"batch_size is 1 to {LARGEST_BATCH}, or all, not {str(value)[:40]!r}: so many steps run before a "
            "checkpoint.",
            field="batch_size",
        )
    return number


def confidence_of(value: object) -> int:
    """A confidence as it was said.

    Raises:
        InvalidRequest: it is none; below 50 a human is always asked.
    """
    number = _whole(str(value).strip().rstrip("%").strip())
    low, high = CONFIDENCES
    if number is None or not low <= number <= high:
        raise InvalidRequest(
            f"confidence is {low} to {high}, not {str(value)[:40]!r}: from there on a menu is answered without you. "
            f"What is less certain than {low} is always put to you.",
            field="confidence",
        )
    return number


def tier_of(value: object) -> int:
    """A tier as it was said.

    Raises:
        InvalidRequest: it is none.
    """
    number = _whole(str(value).strip())
    if number is None or number not in TIERS:
        raise InvalidRequest(f"The tier is a number from 0 to 4, not {str(value)[:40]!r}.", field="tier")
    return number


def _one(name: str, value: object) -> Profile:
    where = f"the profile {name!r}"
    if not NAME.fullmatch(name) or name in PROFILES:
        why = "that name is taken" if name in PROFILES else "a name is small letters, digits, - and _"
        raise InvalidRequest(f"{where} cannot be used: {why}.", field=PROFILES_KEY)
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{where} must be settings, such as {{tier: 1, batch_size: 10}}.", field=PROFILES_KEY)
    tier, batch, named, confidence, about = None, ALL, False, None, ""
    for key, given in value.items():
        word = str(key).strip().lower().replace("-", "_")
        wanted = safety.attempt_setting(word, given) or safety.attempt(f"{word.replace('_', ' ')}: {given}")
        if wanted is not None:
            raise safety.refusal(wanted, f"{key}: {given}", where)
        if word == "tier":
            tier = tier_of(given)
        elif word in BATCH_WORDS:
            batch, named = batch_of(given), True
        elif word in CONFIDENCE_WORDS:
            confidence = confidence_of(given)
        elif word == "about":
            about = str(given)[:200]
        else:
            raise InvalidRequest(
                f"{where} has a setting {word!r}; there are tier, batch_size, confidence.", field=PROFILES_KEY
            )
    return Profile(name, tier, batch, named, confidence, about)


def _whole(word: str) -> int | None:
    return int(word) if re.fullmatch(r"\d{1,6}", word) else None
