"""Tier Suggester: how much method a project needs, from the words that describe it (BMAD-2a.4, FR5, decision 32).

Words match whole and in any case, the plural too; the longest phrase first, each once, so that "complex system" is
one hit and not three. The tier with more than half of the hits wins; without one, the tier with most hits, the higher
on a tie, and the confidence is low. An existing code base then moves the suggestion (`adjusted`).

How carefully a workflow is automated, by tier, module and domain (BMAD-2a.6, 2a.7, FR37–FR39).

A value, computed again at each decision from the settings then in force, so that a change counts at the next one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.workflow.agents.assignment import CLASSES
from interlock.workflow.engine import confidence_calculator
from interlock.workflow.engine.checkpoint_pace import UNKNOWN_TIER, batch_size
from interlock.workflow.entry.project_type import Survey
from interlock.workflow.menus import menu_participation_engine
from interlock.workflow.preferences.overrides import BATCH, CONFIDENCE, Care

TITLES = ("Single Atomic Change", "Small Feature", "Medium Project", "Complex System", "Enterprise Scale")
DEFAULT_TIER = 2
KEYWORDS: Mapping[int, Sequence[str]] = {
    0: ("fix", "bug", "typo", "patch", "hotfix", "small change", "quick update"),
    1: ("simple", "basic", "small feature", "add", "minor", "small", "tiny"),
    2: ("dashboard", "several features", "admin panel", "medium", "multiple features"),
    3: ("platform", "integration", "complex", "complex system", "system", "architecture", "microservice"),
    4: ("enterprise", "multi-tenant", "multiple products", "ecosystem", "scale", "enterprise scale"),
}
LARGE_FILES, SMALL_FILES = 500, 50
LARGE_COMPONENTS = 10


@dataclass(frozen=True)
class Suggestion:
    """A tier of 0 to 4 with the words that speak for it."""

    tier: int
    matched_keywords: tuple[str, ...]
    confidence: str
    hits: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    adjusted_from: int | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze tier` shows."""
        shown: dict[str, Any] = {
            "tier": self.tier,
            "title": TITLES[self.tier],
            "matched_keywords": list(self.matched_keywords),
            "confidence": self.confidence,
            "hits": {str(tier): list(words) for tier, words in self.hits.items()},
            "reason": self.reason,
        }
        if self.adjusted_from is not None:
            shown["adjusted_from"] = self.adjusted_from
        return shown


def suggest(
    description: str, survey: Survey | None = None, keywords: Mapping[int, Sequence[str]] = KEYWORDS
) -> Suggestion:
    """The tier that `description` asks for; `survey` is what was found in the project's directory."""
    hits = _hits(description, keywords)
    total = sum(len(words) for words in hits.values())
    if not total:
        suggestion = Suggestion(DEFAULT_TIER, (), "low", {}, None, "no keyword of any tier: medium by default")
    else:
        tier = max(hits, key=lambda one: (len(hits[one]), one))
        share = len(hits[tier]) / total
        confidence = "low" if share <= 0.5 else "high" if len(hits[tier]) > 1 else "medium"
        reason = f"{len(hits[tier])} of {total} keyword{'' if total == 1 else 's'} speak for tier {tier}"
        suggestion = Suggestion(tier, hits[tier], confidence, hits, None, reason)
    return adjusted(suggestion, survey) if survey else suggestion


def adjusted(suggestion: Suggestion, survey: Survey) -> Suggestion:
    """The suggestion for work in a code base of that size.

    500 source files or 10 components raise it by one: a feature touches more there. A single atomic change stays one.
    Without a keyword, the size is all there is: under 50 source files it is a small feature.
    """
    large = survey.source_files >= LARGE_FILES or len(survey.components) >= LARGE_COMPONENTS
    size = f"{survey.source_files} source files in {len(survey.components)} components"
    tier = suggestion.tier
    if not survey.source_files:
        return suggestion
    if large and (tier > 0 or not suggestion.matched_keywords):
        tier = min(4, tier + 1)
    elif not suggestion.matched_keywords and survey.source_files < SMALL_FILES:
        tier = 1
    if tier == suggestion.tier:
        return suggestion
    return Suggestion(
        tier,
        suggestion.matched_keywords,
        suggestion.confidence,
        suggestion.hits,
        suggestion.tier,
        f"{suggestion.reason}; {size} move it from {suggestion.tier} to {tier}",
    )


def from_levels(levels: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """The keywords of a package's own `project-levels.yaml`, with ours beside them; unreadable ones are left out."""
    hints = levels.get("detection_hints")
    theirs = hints.get("keywords") if isinstance(hints, Mapping) else None
    theirs = theirs if isinstance(theirs, Mapping) else {}
    merged = {}
    for tier, ours in KEYWORDS.items():
        listed = theirs.get(f"level_{tier}")
        words = [str(one).lower() for one in listed] if isinstance(listed, list) else []
        merged[tier] = tuple(dict.fromkeys((*ours, *words)))
    return merged


def _hits(description: str, keywords: Mapping[int, Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """The keywords in `description` by tier, ascending. What one phrase has matched no other may match again."""
    left = re.sub(r"\s+", " ", description.lower())
    found: dict[int, list[str]] = {}
    phrases = sorted(
        ((word.lower(), tier) for tier, words in keywords.items() for word in words), key=lambda one: -len(one[0])
    )
    for phrase, tier in phrases:
        pattern = re.compile(rf"(?<![\w-]){re.escape(phrase)}(?:s|es)?(?![\w-])")
        if pattern.search(left):
            found.setdefault(tier, []).append(phrase)
            left = pattern.sub(" \x00 ", left)
    return {tier: tuple(sorted(words)) for tier, words in sorted(found.items())}


REGULATED = {
    **dict.fromkeys(("healthcare", "medical", "health"), ("privacy_review", "safety_review", "audit_trail")),
    **dict.fromkeys(("finance", "fintech", "banking"), ("security_review", "compliance_review", "audit_trail")),
}


@dataclass(frozen=True)
class AdaptiveSettings:
    """What is in force for one decision.

    `batch`: continues before a checkpoint, None for all. `automation`: aggressive, balanced or conservative. `gates`:
    the further validations of a regulated domain. `bmb`: the builder's thresholds, None outside that module.
    `safety_tier` is what safety-critical behaviour goes by (the pre-final review): the higher of the project's own tier
    and the one that was asked for, so that no override takes it away (FR50).
    `max_model`: the largest class of model that subagents get, None where the workflow sets none.
    """

    tier: int
    batch: int | None
    automation: str
    checkpoints: str
    confidence: confidence_calculator.Thresholds
    automatic_from: float = 80.0
    bmb: menu_participation_engine.Thresholds | None = None
    gates: tuple[str, ...] = ()
    domain: str | None = None
    module: str | None = None
    max_model: str | None = None
    safety_tier: int = UNKNOWN_TIER


def adapt(
    tier: int | None,
    *,
    module: str | None = None,
    domain: str | None = None,
    thresholds: object = None,
    care: Care | None = None,
) -> AdaptiveSettings:
    """The settings for a project of that tier (None: unknown, which is 2); `thresholds` is the workflow's own, `care`
    what a human has said about it, which counts more than both."""
    own = UNKNOWN_TIER if tier is None else min(max(tier, 0), 4)
    known = care.tier if care is not None else own
    given = thresholds if isinstance(thresholds, Mapping) else {}
    default = confidence_calculator.Thresholds()
    settings = AdaptiveSettings(
        tier=known,
        batch=care.values[BATCH] if care is not None else batch_size(known),
        automation="aggressive" if known < 2 else "balanced" if known == 2 else "conservative",
        checkpoints="minimal" if known < 2 else "regular" if known == 2 else "frequent",
        confidence=confidence_calculator.Thresholds(
            _number(given, "high", default.high), _number(given, "medium", default.medium)
        ),
        automatic_from=_number(given, "automatic", 80.0),
        domain=domain,
        module=module,
        safety_tier=max(own, care.lasting_tier) if care is not None else own,
        max_model=given["max_model"] if given.get("max_model") in CLASSES else None,
    )
    confidence = care.values.get(CONFIDENCE) if care is not None else None
    if confidence is not None:
        settings = replace(settings, automatic_from=float(confidence))
    if module == "bmb":
        settings = replace(settings, bmb=menu_participation_engine.Thresholds.of(given))
    gates = REGULATED.get((domain or "").strip().lower(), ())
    most = batch_size(UNKNOWN_TIER)
    if gates and most is not None and (settings.batch is None or settings.batch > most):
        # Nothing runs through unseen in a regulated domain, whatever anybody says.
        settings = replace(settings, batch=most, checkpoints="regular")
    return replace(settings, gates=gates)


def _number(given: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = given.get(name)
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 100
    return float(value) if usable and value is not None else otherwise
