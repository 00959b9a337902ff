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
from typing import Any

from interlock.model.json import Json
from interlock.workflow.engine.adaptive_settings import BATCH, CONFIDENCE, PROJECT, TIER, Care
from interlock.workflow.engine.checkpoint_pace import batch_size
from interlock.workflow.entry.tier_suggester import tier_of
from interlock.workflow.preferences.profiles import PROFILES, Profile, find
from interlock.workflow.preferences.wishes import CLEAR, HINT, INLINE, PROFILE, SETTING, Override
from interlock.workflow.state.document import WorkflowState

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
    project = tier_of(tier)
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
    named.append((PROJECT, f"tier {project}", OF_TIERS[project]))
    values: dict[str, int | None] = {}
    sources: dict[str, Mapping[str, str]] = {}
    for name in (TIER, BATCH, CONFIDENCE):
        for method, text, names in named:
            if name in names:
                values[name], sources[name] = names[name], {"method": method, "text": text}
                break
    lasting = [int(names[TIER] or 0) for method, _, names in named if method != INLINE and TIER in names]
    return Care(values, sources, max(project, own_tier or 0, lasting[0]), profile.name if profile else None)


def _names(profile: Profile) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    if profile.tier is not None:
        found = {TIER: profile.tier, BATCH: batch_size(profile.tier)}
    if profile.batch_named:
        found[BATCH] = profile.batch
    return found if profile.confidence is None else {**found, CONFIDENCE: profile.confidence}


OF_TIERS = tuple(_names(Profile("", tier)) for tier in range(5))


def in_force(state: WorkflowState, shared: Said, own: Mapping[str, Profile]) -> Care:
    """What is in force for a run at the step it is at; `shared` is what was said in its session."""
    plan = state.plan
    said, operation = layered(plan.said, shared), None
    if INLINE in said:
        here = state.workflow_id, state.current_step
        operation = inline_of(shared, *here) or inline_of(plan.said, *here) or None
    return resolved(plan.tier, said, own=own, operation=operation, own_tier=plan.own_tier)


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
