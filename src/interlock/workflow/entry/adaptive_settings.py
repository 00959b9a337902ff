"""How carefully a workflow is automated, by tier, module and domain (BMAD-2a.6, 2a.7, FR37–FR39).

A value, computed anew at each decision from the settings then in force, so that a change counts at the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from interlock.workflow.agents.model_selection import CLASSES
from interlock.workflow.control import confidence_calculator
from interlock.workflow.control.batching import UNKNOWN_TIER, batch_size
from interlock.workflow.menu import bmb_thresholds
from interlock.workflow.personal.overrides import Care
from interlock.workflow.personal.wording import BATCH, CONFIDENCE

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
    bmb: bmb_thresholds.Thresholds | None = None
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
        settings = replace(settings, bmb=bmb_thresholds.Thresholds.of(given))
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
