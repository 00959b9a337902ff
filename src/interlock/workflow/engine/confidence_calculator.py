"""Confidence Calculator: how far the result of a step can be trusted, from up to five signals (BMAD-2b.11, FR19e–j).

It judges results. Which menu may be answered has a rule of its own (`menus.menu_participation_engine`).

Order of the calculation (decision 27): the weighted average over the signals present; where they differ by more than
30, the average weighted by priority too; the cap for a single source; the tier's adjustment; 0 to 100, one decimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass

WEIGHTS = {"validation_verdict": 35.0, "memory_match": 25.0, "reviewer_agreement": 25.0, "party_mode": 15.0}
MODEL = "model_selection"
MODEL_WEIGHT = 10.0  # of 110: with it, every weight is scaled by 100/110
PRIORITIES = {
    "validation_verdict": 1.5,
    "memory_match": 1.25,
    "reviewer_agreement": 1.0,
    "party_mode": 0.75,
    MODEL: 1.0,
}
CONFLICT = 30.0
SINGLE_SOURCE_CAP = 60.0
NO_SIGNAL = 25.0
FAILED = 30.0
TIER_ADJUSTMENT = (0.0, 0.0, -5.0, -10.0, -15.0)


@dataclass(frozen=True)
class ConfidenceThresholds:
    """From which score a confidence is High, and from which Medium. A workflow may set its own (BMAD-2a.7)."""

    high: float = 70.0
    medium: float = 40.0

    def classify(self, score: float) -> str:
        """High, Medium or Low."""
        return "High" if score >= self.high else "Medium" if score >= self.medium else "Low"


@dataclass(frozen=True)
class Confidence:
    """A score of 0 to 100 with its class, and how it came about."""

    score: float
    classification: str
    breakdown: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    message: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze confidence` shows."""
        shown: dict[str, Any] = {
            "score": self.score,
            "classification": self.classification,
            "breakdown": dict(self.breakdown),
        }
        if self.error:
            shown |= {"error": self.error, "message": self.message}
        return shown


def calculate(signals: object, tier: object = None, thresholds: ConfidenceThresholds | None = None) -> Confidence:
    """The confidence that `signals` give: a mapping of names in `WEIGHTS` (and `model_selection`) to 0–100 or None.

    `tier` is 0–4; None adjusts nothing. A signal that is no number, or none of 0–100, gives the fallback of 30.
    """
    limits = thresholds or ConfidenceThresholds()
    try:
        present = _present(signals)
        adjustment = _adjustment(tier)
    except (TypeError, ValueError) as error:
        nothing = {"method": "fallback", "signals": {}}
        return Confidence(FAILED, limits.classify(FAILED), nothing, "calculation_failed", str(error))
    if not present:
        return Confidence(NO_SIGNAL, limits.classify(NO_SIGNAL), {"method": "default", "signals": {}})
    weights = weights_for(present)
    spread = max(present.values()) - min(present.values())
    conflict = spread > CONFLICT
    if conflict:
        weights = {name: weight * PRIORITIES[name] for name, weight in weights.items()}
    total = sum(weights.values())
    average = sum(value * weights[name] for name, value in present.items()) / total
    capped = len(present) == 1 and average > SINGLE_SOURCE_CAP
    score = round(min(100.0, max(0.0, (SINGLE_SOURCE_CAP if capped else average) + adjustment)), 1)
    breakdown = {
        "method": "priority_weighted" if conflict else "weighted_average",
        "signals": {
            name: {
                "value": value,
                "weight": round(weights[name], 2),
                "points": round(value * weights[name] / total, 1),
            }
            for name, value in present.items()
        },
        "spread": round(spread, 1),
        "average": round(average, 1),
        "single_source_cap": capped,
        "tier_adjustment": adjustment,
    }
    return Confidence(score, limits.classify(score), breakdown)


def weights_for(present: Mapping[str, float]) -> dict[str, float]:
    """The weight of each signal present; all are scaled when model selection takes part."""
    if MODEL not in present:
        return {name: WEIGHTS[name] for name in present}
    return {name: (MODEL_WEIGHT if name == MODEL else WEIGHTS[name]) * 100 / 110 for name in present}


def _present(signals: object) -> dict[str, float]:
    if signals is None:
        return {}
    if not isinstance(signals, Mapping):
        raise TypeError("signals must be an object of names and numbers")
    unknown = sorted(str(name) for name in signals if name not in PRIORITIES)
    if unknown:
        raise ValueError(f"unknown signal {unknown[0]!r}; known are {', '.join(PRIORITIES)}")
    return {name: _within(name, signals[name]) for name in PRIORITIES if name in signals and signals[name] is not None}


def _within(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number from 0 to 100, not {value!r}")
    if not 0 <= value <= 100:  # not true of NaN either
        raise ValueError(f"{name} must be from 0 to 100, not {value!r}")
    return float(value)


def _adjustment(tier: object) -> float:
    if tier is None:
        return 0.0
    if isinstance(tier, float) and tier.is_integer():
        tier = int(tier)  # 2.0 is a whole number to JSON
    if isinstance(tier, bool) or not isinstance(tier, int):
        raise TypeError(f"tier must be a whole number from 0 to 4, not {tier!r}")
    if not 0 <= tier <= 4:
        raise ValueError(f"tier must be from 0 to 4, not {tier}")
    return TIER_ADJUSTMENT[tier]
