"""What nobody can switch off: the final approval and the detection of stalls (FR50, BMAD-7.2, BMAD-E7.11).

A wish to do so is recognised in words ("skip final approval"), as a setting (`stall_detection: off`), in a profile and
in the configuration of a workflow, and refused with `safety_override_blocked`. That it is refused is a courtesy:
nothing in the engine reads such a setting, so that what slips through changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from interlock.workflow.errors import SafetyOverrideBlocked
from interlock.workflow.preferences.hints import plain, wish

FINAL_APPROVAL, STALL_DETECTION, LOOP_DETECTION = "final approval", "stall detection", "loop detection"
SAFETY = "the safety of a run"

WHY = {
    FINAL_APPROVAL: "a human confirms what its author, or the size of the project, wants confirmed at the end",
    STALL_DETECTION: "an agent that repeats itself would go on for ever, at your cost",
    LOOP_DETECTION: "a run that loops would never end",
    SAFETY: "it is what lets a run go on without being watched",
}

_FINAL = (
    r"(?:(?:final|last|pre[- ]?final|closing|end)[\s_-]+(?:human\s+)?"
    r"(?:approvals?|reviews?|checkpoints?|validations?|confirmations?|sign[- ]?offs?|checks?|gates?)|"
    r"approvals?|sign[- ]?offs?|(?:human\s+)?oversight(?:\s+pauses?)?)"
)
_LOOK = r"(?:[\s_-]*(?:detections?|detectors?|checks?|checking|handling|guards?|protections?))"
TARGETS: tuple[tuple[str, str], ...] = (
    (FINAL_APPROVAL, _FINAL),
    (STALL_DETECTION, rf"(?:detection\s+of\s+stalls|detecting\s+stalls|stalls?{_LOOK})"),
    (LOOP_DETECTION, rf"(?:detection\s+of\s+(?:infinite\s+)?loops|(?:infinite[\s_-]*)?loops?{_LOOK})"),
    (SAFETY, r"(?:all\s+)?(?:safety(?:[\s_-]*(?:checks?|behaviou?rs?|features?|rails?|limits?))?|safeguards?)"),
)
_AWAY = (
    r"skip(?:ping)?|disabl(?:e|ing)|bypass(?:ing)?|ignor(?:e|ing)|suppress|circumvent|omit|avoid|drop|remove|override|"
    r"deactivate|turn\s+off|switch\s+off|shut\s+off|get\s+rid\s+of|do\s+without|go\s+without|stop|no(?:\s+need\s+for)?|"
    r"without|forget(?:\s+about)?|auto[- ]?(?:approve|confirm|accept)|leave\s+out|"
    r"(?:(?:i|we)\s+)?(?:do\s+not|don'?t|never|stop|no\s+need\s+to)\s+(?:do(?:ing)?|need|requir(?:e|ing)|want|us(?:e|ing)|run(?:ning)?|"
    r"bother\s+with|ask(?:ing)?(?:\s+me)?\s+for|wait(?:ing)?\s+for|show(?:ing)?)"
)
_ALL = r"(?:(?:the|any|all|every|my|your|its|this|that|those|further|more)\s+)*"
_OFF = r"(?:off|false|no|none|never|skip(?:ped)?|disabled?|bypass(?:ed)?|automatic|auto|0)"

_WISHES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, wish(pattern))
    for name, target in TARGETS
    for pattern in (
        rf"(?:{_AWAY})\s+{_ALL}{target}",
        rf"(?:turn|switch|shut)\s+{_ALL}{target}\s+off",
        rf"(?:set\s+)?{_ALL}{target}\s*(?:[:=]|\s+to|\s+is)?\s*{_OFF}",
        rf"{_ALL}{target}\s+(?:is|are)\s+(?:not\s+(?:needed|necessary|required)|unnecessary|superfluous)",
    )
) + tuple(
    (FINAL_APPROVAL, wish(pattern))
    for pattern in (
        r"(?:auto[- ]?)?(?:approve|accept|confirm)\s+(?:everything|anything|it\s+all|all\s+of\s+it|all)"
        r"(?:\s+(?:automatically|yourself|by\s+yourself|for\s+me|without\s+(?:asking|me)(?:\s+me)?))?",
        r"(?:finish|complete|close|end)(?:\s+(?:it|this|the\s+(?:run|workflow)))?\s+without\s+(?:my\s+)?(?:approval|"
        r"confirmation|review|asking(?:\s+me)?)",
        r"you\s+may\s+approve\s+(?:it|everything|the\s+(?:result|end))\s+yourself",
    )
)

# The names a setting may have. Compared without case, and with "-" and " " as "_".
SETTINGS: Mapping[str, str] = {
    name: what
    for what, names in (
        (FINAL_APPROVAL, "final_approval final_review final_checkpoint final_validation final_confirmation approval "
         "pre_final_review prefinal_review require_approval human_approval sign_off"),
        (STALL_DETECTION, "stall_detection stall_detector stall_check stall_handling detect_stalls"),
        (LOOP_DETECTION, "loop_detection infinite_loop_detection loop_check detect_loops"),
        (SAFETY, "safety safety_checks safety_behavior safety_critical safeguards"),
    )
    for name in names.split()
}  # fmt: skip
NEGATIVE = ("skip_", "disable_", "bypass_", "no_", "ignore_", "without_", "auto_")
OFF = frozenset(("off", "false", "no", "none", "never", "skip", "skipped", "disabled", "disable", "bypass", "0", "auto",
                 "automatic", "optional"))  # fmt: skip


def attempt(text: str) -> str | None:
    """What these words want to switch off, of what nobody can; None where they want nothing of the kind."""
    said = plain(text)
    return next((name for name, pattern in _WISHES if pattern.fullmatch(said)), None)


def attempt_setting(name: object, value: object) -> str | None:
    """The same for a setting with its value. What is set to on, which it is anyway, is no attempt."""
    key = re.sub(r"[\s-]+", "_", str(name).strip().lower())
    if isinstance(value, Mapping):
        found = SETTINGS.get(key)
        off = found is not None and any(
            str(one).lower() in ("enabled", "required", "active") and _off(x) for one, x in value.items()
        )
        return found if off else next(iter(in_settings(value)), None)
    for prefix in NEGATIVE:
        if key.startswith(prefix) and key.removeprefix(prefix) in SETTINGS:
            return None if value in (None, "") or _off(value) else SETTINGS[key.removeprefix(prefix)]
    return SETTINGS[key] if key in SETTINGS and _off(value) else None


def in_settings(settings: Mapping[str, object]) -> list[str]:
    """What settings want to switch off, each once, also those within others."""
    found = [attempt_setting(name, value) for name, value in settings.items()]
    return list(dict.fromkeys(filter(None, found)))


def refusal(what: str, said: str, where: str = "") -> SafetyOverrideBlocked:
    """The error for such an attempt; `where` is the place it stands at, if it was not said."""
    place = f"{where} wants to change" if where else "That would switch off"
    left = f"Take it out of {where}." if where else "What can be changed: the tier, a profile, batch_size, confidence."
    return SafetyOverrideBlocked(
        f"{place} {what}, and safety behaviour cannot be bypassed by anything anybody says or configures: {WHY[what]}. "
        f"{left}",
        what=what,
        said=said[:200],
    )


def _off(value: object) -> bool:
    return value is False or str(value).strip().lower() in OFF
