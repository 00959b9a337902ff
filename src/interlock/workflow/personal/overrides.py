"""Tier overrides: what was said about care, kept for a session, and what of it is in force (FR48–FR50, BMAD-7.1, 7.2).

What is in force is resolved for each value by itself (the tier, the batch size, the confidence): the strongest of those
who *name* it counts.

    inline modifier > explicit tier > profile > specific settings > natural language > the project

An explicit tier names the tier and its batch size, a profile what stands in it, a setting itself, a hint the tier and
its batch size. So `batch_size: 2` changes the batch of the project's own tier, and not that of one that was said; and
`confidence: 85`, which no tier names, counts beside any. An inline modifier is about one operation and is gone with it.

The document of a session holds what was said last of each kind, `{kind: {value, text, by, at}}`; a run has one of its
own for what was said at its beginning. Of the same kind the later one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.workflow.control.batching import UNKNOWN_TIER, batch_size
from interlock.workflow.personal import profiles
from interlock.workflow.personal.profiles import Profile
from interlock.workflow.personal.wording import BATCH, CLEAR, CONFIDENCE, HINT, INLINE, PROFILE, SETTING, TIER, Override
from interlock.workflow.state.document import WorkflowState

KEY = "overrides"
"""Where the document of a session keeps them."""
PROJECT = "project"
LEVELS = (1, 2, 3, 4)
"""Tiers that differ in what they do; 0 does as 1."""

Said = Mapping[str, Any]


@dataclass(frozen=True)
class Care:
    """What is in force. `values` has `tier` and `batch_size` (None: all), and `confidence` where somebody names it.
    `sources` says for each who does: `{method, text}`, where the method is inline, tier, profile, setting, hint or
    project. `lasting_tier` is the highest of the project's own tier and the one that counts beyond a single operation:
    what is safety-critical goes by it, and what has to be the same whenever it is asked."""

    values: Mapping[str, int | None]
    sources: Mapping[str, Mapping[str, str]]
    lasting_tier: int
    profile: str | None = None

    @property
    def tier(self) -> int:
        """The tier in force."""
        return int(self.values[TIER] or 0)

    @property
    def overridden(self) -> bool:
        """Whether anything said is in force."""
        return any(one["method"] != PROJECT for one in self.sources.values())

    def as_dict(self) -> dict[str, Any]:
        """The shape every face shows."""
        return {
            name: {"value": "all" if name == BATCH and value is None else value, **self.sources[name]}
            for name, value in self.values.items()
        }

    @property
    def text(self) -> str:
        """One line for people: each value with whoever names it."""
        names = {TIER: "tier", BATCH: "batch size", CONFIDENCE: "confidence"}
        found = self.as_dict()
        return ", ".join(f"{names[name]} {one['value']} ({_by(one)})" for name, one in found.items())


@dataclass
class _Naming:
    method: str
    text: str
    values: dict[str, int | None] = field(default_factory=dict)


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
    named: list[_Naming] = []
    if operation is not None and operation in profiles.PROFILES:
        named.append(_profile(profiles.PROFILES[operation], _Naming(INLINE, f"[{operation}]")))
    if TIER in said:
        named.append(_tier(int(said[TIER]["value"]), _Naming(TIER, str(said[TIER]["text"]))))
    profile = said.get(PROFILE)
    found = _known(str(profile["value"]), own or {}) if profile else None
    if profile and found:
        named.append(_profile(found, _Naming(PROFILE, str(profile["text"]))))
    for name, one in (said.get(SETTING) or {}).items():
        named.append(_Naming(SETTING, str(one["text"]), {name: one["value"]}))
    if HINT in said:
        named.append(_tier(shifted(project, int(said[HINT]["value"])), _Naming(HINT, str(said[HINT]["text"]))))
    named.append(_tier(project, _Naming(PROJECT, f"tier {project}")))
    values: dict[str, int | None] = {}
    sources: dict[str, Mapping[str, str]] = {}
    for name in (TIER, BATCH, CONFIDENCE):
        who = next((one for one in named if name in one.values), None)
        if who is not None:
            values[name], sources[name] = who.values[name], {"method": who.method, "text": who.text}
    lasting = next(int(one.values[TIER] or 0) for one in named if one.method != INLINE and TIER in one.values)
    return Care(values, sources, max(project, own_tier or 0, lasting), found.name if found else None)


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


def apply(document: dict[str, Any], said: Sequence[Override], *, at: str, by: str) -> None:
    """Keep in a session's document what was said; inline modifiers are kept by whoever knows the operation."""
    kept: dict[str, Any] = document.setdefault(KEY, {})
    for one in said:
        entry = {"value": one.name if one.kind == PROFILE else one.value, "text": one.text, "by": by, "at": at}
        if one.kind in (TIER, PROFILE, HINT):
            kept[one.kind] = entry
        elif one.kind == SETTING:
            kept[SETTING] = {**kept.get(SETTING, {}), one.name: entry}
        elif one.kind == CLEAR:
            _clear(kept, one.name)


def apply_inline(document: dict[str, Any], run: str, word: str, step: object, *, at: str, by: str) -> None:
    """Keep that an inline modifier is about that step of that run."""
    kept: dict[str, Any] = document.setdefault(KEY, {})
    entry = {"value": word, "step": step, "text": f"[{word}]", "by": by, "at": at}
    kept[INLINE] = {**kept.get(INLINE, {}), run: entry}


def inline_of(said: Said, run: str, step: object) -> str | None:
    """The inline modifier that is about this step of this run, or about all of the run."""
    found = (said.get(INLINE) or {}).get(run)
    if not found:
        return None
    return str(found["value"]) if found.get("step") in (None, step) else None


def layered(first: Said | None, second: Said | None) -> dict[str, Any]:
    """Two documents as one: of the same kind the later one counts, of two at the same time the second."""
    whole: dict[str, Any] = dict(first or {})
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
            profiles.find(one.name, own)


def unheard(said: Sequence[Override], care: Care) -> str:
    """What was just said and does not count now, since something stronger names the same; "" where all of it does."""
    left = []
    counting = {one["text"] for one in care.sources.values()}
    for one in said:
        if one.kind in (TIER, PROFILE, SETTING, HINT) and one.text not in counting:
            source = care.sources[one.name if one.kind == SETTING else TIER]
            left.append(f"{one.text!r} is kept, and does not count while {source['text']!r} does")
    return "; ".join(left)


def _clear(kept: dict[str, Any], what: str) -> None:
    if what in (BATCH, CONFIDENCE):
        kept[SETTING] = {name: one for name, one in kept.get(SETTING, {}).items() if name != what}
    elif what:
        kept.pop(what, None)
    else:
        for kind in (TIER, PROFILE, SETTING, HINT, INLINE):
            kept.pop(kind, None)


def _known(name: str, own: Mapping[str, Profile]) -> Profile | None:
    # A profile that has gone from the project's file since it was named changes nothing.
    return profiles.PROFILES.get(name) or own.get(name)


def _tier(tier: int, naming: _Naming) -> _Naming:
    naming.values |= {TIER: tier, BATCH: batch_size(tier)}
    return naming


def _profile(profile: Profile, naming: _Naming) -> _Naming:
    if profile.tier is not None:
        _tier(profile.tier, naming)
    if profile.batch_named:
        naming.values[BATCH] = profile.batch
    if profile.confidence is not None:
        naming.values[CONFIDENCE] = profile.confidence
    return naming


def _by(one: Mapping[str, Any]) -> str:
    if one["method"] == PROJECT:
        return "the project's"
    return f"{one['text']!r}"
