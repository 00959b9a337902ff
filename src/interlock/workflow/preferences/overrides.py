"""Tier overrides: what was said about care, kept for a session, and what of it is in force (FR48–FR50, BMAD-7.1, 7.2).

What is in force is resolved for each value by itself (the tier, the batch size, the confidence): the strongest of those
who *name* it counts.

    inline modifier > explicit tier > profile > specific settings > natural language > the project

An explicit tier names the tier and its batch size, a profile what stands in it, a setting itself, a hint the tier and
its batch size. So `batch_size: 2` changes the batch of the project's own tier, and not that of one that was said; and
`confidence: 85`, which no tier names, counts beside any. An inline modifier is about one operation and is gone with it.

The document of a session holds what was said last of each kind, `{kind: {value, text, by, at}}`; a run has one of its
own for what was said at its beginning. Of the same kind the later one counts.

Profiles: named ways of being careful, in one table, and those that a project adds (BMAD-7.1.3).

    profiles:                          # in interlock.workflows.yaml
      night: {tier: 1, batch_size: 10, confidence: 85}

What a profile does not name stays as the project's tier has it. The names of the table are taken.

What a message says about how careful a workflow should be (FR48, BMAD-7.1).

A whole message, or each part of it, has to say it and nothing else: "be careful" is a wish, "be careful with the names
of the tables" is work. Only an inline modifier stands anywhere: `[thorough]`, `[quick]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.errors import InterlockError, InvalidRequest
from interlock.model.json import Json
from interlock.workflow.engine.adaptive_settings import BATCH, CONFIDENCE, PROJECT, TIER, UNKNOWN_TIER, Care, batch_size
from interlock.workflow.preferences import hints, safety
from interlock.workflow.preferences.hints import plain, wish
from interlock.workflow.state.document import WorkflowState

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


KEY = "overrides"
"""Where the document of a session keeps them."""
LEVELS = (1, 2, 3, 4)
"""Tiers that differ in what they do; 0 does as 1."""

Said = Mapping[str, Any]


def resolved(
    tier: int | None,
    said: Said,
    *,
    own: Mapping[str, Profile] | None = None,
    operation: str | None = None,
    own_tier: int | None = None,
) -> Care:
    """What is in force for a project of that tier (None: unknown, which is 2). `own` are the project's profiles;
    `operation` is the inline modifier of what is being done; `own_tier` is what the project looks like, where `tier`
    was asked for."""
    project = UNKNOWN_TIER if tier is None else min(max(tier, 0), 4)
    named: list[tuple[str, str, Mapping[str, int | None]]] = []  # the strongest first: who, in which words, what
    if operation is not None and operation in PROFILES:
        named.append((INLINE, f"[{operation}]", _names(PROFILES[operation])))
    if TIER in said:
        named.append((TIER, str(said[TIER]["text"]), _names(Profile("", int(said[TIER]["value"])))))
    # A profile that has gone from the project's file since it was named changes nothing.
    word = str(said[PROFILE]["value"]) if PROFILE in said else ""
    profile = PROFILES.get(word) or (own or {}).get(word)
    if profile is not None:
        named.append((PROFILE, str(said[PROFILE]["text"]), _names(profile)))
    for name, one in (said.get(SETTING) or {}).items():
        named.append((SETTING, str(one["text"]), {name: one["value"]}))
    if HINT in said:
        named.append((HINT, str(said[HINT]["text"]), _names(Profile("", shifted(project, int(said[HINT]["value"]))))))
    named.append((PROJECT, f"tier {project}", _names(Profile("", project))))
    values: dict[str, int | None] = {}
    sources: dict[str, Mapping[str, str]] = {}
    for name in (TIER, BATCH, CONFIDENCE):
        who = next((one for one in named if name in one[2]), None)
        if who is not None:
            values[name], sources[name] = who[2][name], {"method": who[0], "text": who[1]}
    lasting = next(int(names[TIER] or 0) for method, _, names in named if method != INLINE and TIER in names)
    return Care(values, sources, max(project, own_tier or 0, lasting), profile.name if profile else None)


def _names(profile: Profile) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    if profile.tier is not None:
        found = {TIER: profile.tier, BATCH: batch_size(profile.tier)}
    if profile.batch_named:
        found[BATCH] = profile.batch
    return found if profile.confidence is None else {**found, CONFIDENCE: profile.confidence}


def in_force(state: WorkflowState, shared: Said, own: Mapping[str, Profile]) -> Care:
    """What is in force for a run at the step it is at; `shared` is what was said in its session."""
    plan = state.plan
    about = (inline_of(one, state.workflow_id, state.current_step) for one in (shared, plan.said))
    operation = next((word for word in about if word), None)
    return resolved(plan.tier, layered(plan.said, shared), own=own, operation=operation, own_tier=plan.own_tier)


def shifted(tier: int, by: int) -> int:
    """The tier that does so many levels more (up) or less carefully; it stays where there is none."""
    if by <= 0 and tier < LEVELS[0]:
        return tier
    place = LEVELS.index(max(tier, LEVELS[0])) + by
    return LEVELS[min(max(place, 0), len(LEVELS) - 1)]


def apply(document: Json, said: Sequence[Override], *, at: str, by: str) -> None:
    """Keep in a session's document what was said; inline modifiers are kept by whoever knows the operation."""
    kept: Json = document.setdefault(KEY, {})
    for one in said:
        entry = {"value": one.name if one.kind == PROFILE else one.value, "text": one.text, "by": by, "at": at}
        if one.kind in (TIER, PROFILE, HINT):
            kept[one.kind] = entry
        elif one.kind == SETTING:
            kept[SETTING] = {**kept.get(SETTING, {}), one.name: entry}
        elif one.kind == CLEAR and one.name in (BATCH, CONFIDENCE):
            kept[SETTING] = {name: given for name, given in kept.get(SETTING, {}).items() if name != one.name}
        elif one.kind == CLEAR:
            for kind in (one.name,) if one.name else (TIER, PROFILE, SETTING, HINT, INLINE):
                kept.pop(kind, None)


def apply_inline(document: Json, run: str, word: str, step: object, *, at: str, by: str) -> None:
    """Keep that an inline modifier is about that step of that run."""
    kept: Json = document.setdefault(KEY, {})
    entry = {"value": word, "step": step, "text": f"[{word}]", "by": by, "at": at}
    kept[INLINE] = {**kept.get(INLINE, {}), run: entry}


def inline_of(said: Said, run: str, step: object) -> str | None:
    """The inline modifier that is about this step of this run, or about all of the run."""
    found = (said.get(INLINE) or {}).get(run)
    if not found:
        return None
    return str(found["value"]) if found.get("step") in (None, step) else None


def layered(first: Said | None, second: Said | None) -> Json:
    """Two documents as one: of the same kind the later one counts, of two at the same time the second."""
    whole: Json = dict(first or {})
    for kind, entry in (second or {}).items():
        if kind in (SETTING, INLINE):
            whole[kind] = layered(whole.get(kind), entry)
        elif kind not in whole or str(entry.get("at", "")) >= str(whole[kind].get("at", "")):
            whole[kind] = entry
    return whole


def check(said: Sequence[Override], own: Mapping[str, Profile]) -> None:
    """Raises:
    InvalidRequest: a profile is named that there is not.
    """
    for one in said:
        if one.kind == PROFILE:
            find(one.name, own)


def unheard(said: Sequence[Override], care: Care) -> str:
    """What was just said and does not count now, since something stronger names the same; "" where all of it does."""
    left = []
    counting = {one["text"] for one in care.sources.values()}
    for one in said:
        if one.kind in (TIER, PROFILE, SETTING, HINT) and one.text not in counting:
            source = care.sources[one.name if one.kind == SETTING else TIER]
            left.append(f"{one.text!r} is kept, and does not count while {source['text']!r} does")
    return "; ".join(left)
