"""How carefully a workflow is automated, by tier, module and domain (BMAD-2a.6, 2a.7, FR37–FR39).

The settings are a value, computed again at each decision from those then in force, so that a change counts at the next
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.agents.models import CLASSES
from interlock.workflow.engine.checkpoint_pace import batch_size
from interlock.workflow.engine.confidence_calculator import ConfidenceThresholds
from interlock.workflow.entry.tier_suggester import DEFAULT_TIER, tier_of
from interlock.workflow.menus import escalation

TIER, BATCH, CONFIDENCE, PROJECT = "tier", "batch_size", "confidence", "project"


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
        return bool({one["method"] for one in self.sources.values()} - {PROJECT})

    def as_dict(self) -> Json:
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
        by = {name: "the project's" if one["method"] == PROJECT else repr(one["text"]) for name, one in found.items()}
        return ", ".join(f"{names[name]} {one['value']} ({by[name]})" for name, one in found.items())


REGULATED = {
    **dict.fromkeys(("healthcare", "medical", "health"), ("privacy_review", "safety_review", "audit_trail")),
    **dict.fromkeys(("finance", "fintech", "banking"), ("security_review", "compliance_review", "audit_trail")),
}
MOST_REGULATED = batch_size(DEFAULT_TIER) or 1
"""The largest batch in such a domain."""


@dataclass(frozen=True, slots=True)
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
    confidence: ConfidenceThresholds
    automatic_from: float = 80.0
    bmb: escalation.Thresholds | None = None
    gates: tuple[str, ...] = ()
    domain: str | None = None
    module: str | None = None
    max_model: str | None = None
    safety_tier: int = DEFAULT_TIER


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
    own = tier_of(tier)
    known = care.tier if care is not None else own
    given = thresholds if isinstance(thresholds, Mapping) else {}
    default = ConfidenceThresholds()
    settings = AdaptiveSettings(
        tier=known,
        batch=care.values[BATCH] if care is not None else batch_size(known),
        automation="aggressive" if known < 2 else "balanced" if known == 2 else "conservative",
        checkpoints="minimal" if known < 2 else "regular" if known == 2 else "frequent",
        confidence=ConfidenceThresholds(_number(given, "high", default.high), _number(given, "medium", default.medium)),
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
        settings = replace(settings, bmb=escalation.Thresholds.of(given))
    gates = REGULATED.get((domain or "").strip().lower(), ())
    if gates and (settings.batch is None or settings.batch > MOST_REGULATED):
        # Nothing runs through unseen in a regulated domain, whatever anybody says.
        settings = replace(settings, batch=MOST_REGULATED, checkpoints="regular")
    return replace(settings, gates=gates)


def _number(given: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = given.get(name)
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 100
    return float(value) if usable and value is not None else otherwise
