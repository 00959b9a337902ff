"""What a message says about how careful a workflow should be (FR48, BMAD-7.1).

A whole message, or each part of it, has to say it and nothing else: "be careful" is a wish, "be careful with the names
of the tables" is work. Only an inline modifier stands anywhere: `[thorough]`, `[quick]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.errors import InterlockError, InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine.adaptive_settings import BATCH, CONFIDENCE, TIER
from interlock.workflow.preferences import hints, safety
from interlock.workflow.preferences.hints import plain, wish
from interlock.workflow.preferences.profiles import (
    BATCH_WORDS,
    CONFIDENCE_WORDS,
    PROFILES,
    batch_of,
    confidence_of,
    tier_of,
)

PROFILE, SETTING, HINT, INLINE, CLEAR = "profile", "setting", "hint", "inline", "clear"
LONGEST = 160
"""Characters of a message that says nothing else."""

_INLINE = re.compile(r"(?<![\w\]!`])\[(thorough|quick)\](?![(\[:\w`])", re.IGNORECASE)
_TICKS = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


@dataclass(frozen=True)
class Override:
    """One thing that was said. `kind` is tier, profile, setting, hint, inline or clear; `name` the setting, the profile
    or what is cleared; `value` the tier, the setting's value (None: all), or by how many levels a hint shifts (up is
    more careful). `precise`: it can hardly mean anything else than this."""

    kind: str
    name: str
    value: int | None
    text: str
    precise: bool = True


@dataclass(frozen=True)
class Blocked:
    """It was understood, and is refused: `error` says why, and what would be possible."""

    error: InterlockError
    text: str

    @property
    def code(self) -> str:
        """`safety_override_blocked`, or `invalid_request` for a tier, profile or value that there is not."""
        return self.error.code


Understood = tuple[Override, ...] | Blocked | None

_USE = (
    r"(?:(?:use|set|switch\s+to|change\s+to|go\s+to|apply|take|run\s+(?:at|in|with)|with|in|at|make\s+it)\s+"
    r"(?:the\s+|a\s+)?)?"
)
_TIER = wish(rf"{_USE}tier\s*(?:[:=]|to|level)?\s*(?P<tier>[\w.+-]+)")
_PROFILE = wish(rf"{_USE}profile\s*(?:[:=]|to)?\s*(?P<name>[\w-]+)")
_NAMED_PROFILE = wish(
    r"(?:use|switch\s+to|change\s+to|go\s+to|apply|take|with)\s+(?:the\s+|a\s+)?(?P<name>[\w-]+)\s+profile"
)
_NAMES = (*BATCH_WORDS, *CONFIDENCE_WORDS)
_WRITTEN = "|".join(one.replace("_", r"[\s_-]+") for one in sorted(_NAMES, key=len, reverse=True))
_SETTING = wish(
    rf"(?:set\s+)?(?:the\s+)?(?P<name>{_WRITTEN})\s*(?:[:=]|\s+to\s+|\s+of\s+|\s+is\s+|\s+)\s*"
    r"(?P<value>[\w.%+-]+(?:\s*%)?)"
)
_CLEAR = wish(
    r"(?:clear|reset|remove|drop|forget|undo|cancel)\s+(?:all\s+|the\s+|my\s+|all\s+the\s+)?"
    r"(?P<what>overrides?|tier|profile|settings?|hints?)(?:\s+overrides?)?|no\s+overrides?|"
    r"(?:go\s+)?back\s+to\s+(?:the\s+)?(?:defaults?|normal)|use\s+the\s+defaults?|the\s+defaults?|"
    r"overrides?\s*[:=]\s*(?:none|clear|off|reset)"
)
_DEFAULTS = ("auto", "automatic", "default", "none", "reset", "off")
_PARTS = re.compile(r"\s*(?:[;\n]|,(?!\s*(?:please|thanks?|from\s+now\s+on)\b)|\.\s|\band\b)\s*", re.IGNORECASE)


def understood(text: str) -> Understood:
    """What a message says about care; None where it is about something else.

    Several things may be said at once, parted by `,`, `;`, `and` or lines. Is one of them refused, all are.
    """
    message = " ".join(text.split()) if "\n" not in text.strip() else text.strip()
    if not message or len(message) > LONGEST:
        return None
    word, bare = inline(message)
    if word is not None and not bare:
        return (Override(INLINE, word, None, message),)
    whole = _one_wish(message)
    if whole is not None:
        return whole if isinstance(whole, Blocked) else (whole,)
    parts = [one for one in _PARTS.split(message) if one.strip(" .!")]
    if len(parts) < 2:
        return None
    found = [_one_wish(part) for part in parts]
    if any(one is None for one in found):
        return None
    refused = next((one for one in found if isinstance(one, Blocked)), None)
    return refused or tuple(one for one in found if isinstance(one, Override))


def inline(text: str) -> tuple[str | None, str]:
    """(the last inline modifier, the text without any): `[thorough]` or `[quick]`, but in code and links."""
    spans = [match.span() for match in _TICKS.finditer(text)]
    found = [one for one in _INLINE.finditer(text) if not any(a <= one.start() < b for a, b in spans)]
    if not found:
        return None, text
    left = text
    for one in reversed(found):
        before, after = left[: one.start()].rstrip(" \t"), left[one.end() :].lstrip(" \t")
        glue = " " if before and after and not before.endswith("\n") and not after.startswith("\n") else ""
        left = f"{before}{glue}{after}"
    return found[-1][1].lower(), left.strip()


def _one_wish(text: str) -> Override | Blocked | None:
    said = plain(text)
    wanted = safety.attempt(said) or _setting_attempt(said)
    if wanted is not None:
        return Blocked(safety.refusal(wanted, said), said)
    try:
        return next(_readings(said), None)
    except InvalidRequest as error:
        return Blocked(error, said)


def _readings(said: str) -> Iterator[Override]:
    cleared = _CLEAR.fullmatch(said)
    if cleared:
        what = (cleared["what"] or "").lower().rstrip("s")
        yield Override(CLEAR, what if what in (TIER, PROFILE, SETTING, HINT) else "", None, said)
    tier = _TIER.fullmatch(said)
    if tier:
        word = tier["tier"].lower()
        if word in _DEFAULTS:
            yield Override(CLEAR, TIER, None, said)
        elif re.fullmatch(r"[-+]?\d+(?:\.\d+)?", word):
            yield Override(TIER, TIER, tier_of(word), said)
    setting = _SETTING.fullmatch(said)
    if setting:
        name = re.sub(r"[\s-]+", "_", setting["name"].lower())
        name = BATCH if name in BATCH_WORDS else CONFIDENCE
        if setting["value"].lower() in (*_DEFAULTS[:3], "reset"):
            yield Override(CLEAR, name, None, said)
        elif re.match(r"[-+]?\d|all\b|none\b|any\b|unlimited\b", setting["value"], re.IGNORECASE):
            value = batch_of(setting["value"]) if name == BATCH else confidence_of(setting["value"])
            yield Override(SETTING, name, value, said)
    profile = _PROFILE.fullmatch(said) or _NAMED_PROFILE.fullmatch(said)
    if profile:
        word = profile["name"].lower()
        explicit = re.search(r"profile\s*[:=]", said, re.IGNORECASE) is not None
        if word in _DEFAULTS:
            yield Override(CLEAR, PROFILE, None, said)
        yield Override(PROFILE, word, None, said, precise=explicit or word in PROFILES)
    by = hints.shift(said)
    if by is not None:
        yield Override(HINT, "careful" if by > 0 else "fewer_interruptions", by, said, precise=False)


def _setting_attempt(said: str) -> str | None:
    name, sign, value = said.partition(":") if ":" in said else said.partition("=")
    return safety.attempt_setting(name, value.strip()) if sign else None
