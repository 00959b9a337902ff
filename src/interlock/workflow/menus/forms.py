"""The forms of menu that real workflows use again and again; one of them gives 30 points (decision 29)."""

from __future__ import annotations

from functools import lru_cache

from interlock.workflow.menus import meanings as labels
from interlock.workflow.menus.recognition import ASKS, ENDS, Menu

APC = "advanced_party_continue"
ELICITATION = "elicitation_methods"
PARTY = "party_mode"
NUMBERED = "numbered_choice"
YES_NO = "yes_no"
LONE = "lone_continue"
LETTERED = "lettered_choice"
UNKNOWN = "unknown"


@lru_cache(64)
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


DEEPEST = 3
"""Menus within menus: a fourth level is more than any real workflow has, and a human navigates there (BMAD-2b.4)."""
IN_PARTY, IN_ELICITATION = "party", "elicitation"
"""The modes that show their own menus and then return to the one that called them (decision 29)."""


def opens(label: str) -> str | None:
    """The nested mode that choosing that label starts, None where it starts none."""
    return {labels.PARTY: IN_PARTY, labels.ELICITATION: IN_ELICITATION}.get(labels.meaning(label))


def belongs_to(menu: Menu) -> str | None:
    """Which nested mode shows such a menu; None for a menu of the workflow itself."""
    return {PARTY: IN_PARTY, ELICITATION: IN_ELICITATION}.get(form_of(menu))
