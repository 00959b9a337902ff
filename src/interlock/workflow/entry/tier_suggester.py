"""Tier Suggester: how much method a project needs, from the words that describe it (BMAD-2a.4, FR5, decision 32).

Words match whole and in any case, the plural too; the longest phrase first, each once, so that "complex system" is
one hit and not three. The tier with more than half of the hits wins; without one, the tier with most hits, the higher
on a tie, and the confidence is low. An existing code base then moves the suggestion (`adjusted`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.workflow.entry.project_type import Survey

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


def tier_of(tier: int | None) -> int:
    """The tier to work by, 0 to 4, where `tier` is what is known of it."""
    return DEFAULT_TIER if tier is None else min(max(tier, 0), 4)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A tier of 0 to 4 with the words that speak for it."""

    tier: int
    matched_keywords: tuple[str, ...]
    confidence: str
    hits: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    adjusted_from: int | None = None
    reason: str = ""

    def as_dict(self) -> Json:
        """The shape that `interlock analyze tier` shows."""
        return {
            **fields_of(self, ("tier", "confidence", "reason")),
            "title": TITLES[self.tier],
            "matched_keywords": list(self.matched_keywords),
            "hits": {str(tier): list(words) for tier, words in self.hits.items()},
            **({} if self.adjusted_from is None else {"adjusted_from": self.adjusted_from}),
        }


def suggest(
    description: str, survey: Survey | None = None, keywords: Mapping[int, Sequence[str]] = KEYWORDS
) -> Suggestion:
    """The tier that `description` asks for; `survey` is what was found in the project's directory."""
    hits = _hits(description, keywords)
    suggestion = Suggestion(DEFAULT_TIER, (), "low", reason="no keyword of any tier: medium by default")
    if total := sum(len(words) for words in hits.values()):
        tier = max(hits, key=lambda one: (len(hits[one]), one))
        share = len(hits[tier]) / total
        confidence = "low" if share <= 0.5 else "high" if len(hits[tier]) > 1 else "medium"
        reason = f"{len(hits[tier])} of {total} keyword{'' if total == 1 else 's'} speak for tier {tier}"
        suggestion = Suggestion(tier, hits[tier], confidence, hits, reason=reason)
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
    reason = f"{suggestion.reason}; {size} move it from {suggestion.tier} to {tier}"
    return replace(suggestion, tier=tier, adjusted_from=suggestion.tier, reason=reason)


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
