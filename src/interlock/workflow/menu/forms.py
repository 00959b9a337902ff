"""The forms of menu that real workflows use again and again; one of them gives 30 points (decision 29)."""

from __future__ import annotations

from interlock.workflow.menu import labels
from interlock.workflow.menu.recognition import ASKS, ENDS, Menu

APC = "advanced_party_continue"
ELICITATION = "elicitation_methods"
PARTY = "party_mode"
NUMBERED = "numbered_choice"
YES_NO = "yes_no"
LONE = "lone_continue"
LETTERED = "lettered_choice"
UNKNOWN = "unknown"


def form_of(menu: Menu) -> str:
    """The form's name, or `unknown`."""
    keys = {key.lower() for key in menu.keys}
    meanings = {labels.meaning(option.label) for option in menu.options}
    if menu.shape == "asked":
        return YES_NO
    if {"r", "x"} <= keys and any(key.isdigit() for key in keys):
        return ELICITATION
    if len(menu.options) == 1:
        return PARTY if "party" in menu.options[0].label.lower() else LONE
    if len(meanings & {labels.ELICITATION, labels.PARTY, labels.CONTINUE}) > 1 or {"a", "p", "c"} <= keys:
        return APC
    if menu.shape == "numbered" or all(key.isdigit() for key in keys):
        return NUMBERED if menu.prompt or menu.shape == "numbered" else UNKNOWN
    if menu.prompt and (ASKS.search(menu.prompt) or ENDS.search(menu.prompt)):
        return LETTERED
    return UNKNOWN
