"""Menus within menus: Party Mode and Advanced Elicitation show their own, and return to the one that called them.

(BMAD-2b.4.) After either, the same menu comes back and is answered again (decision 29). A fourth level is more than
any real workflow has: then a human navigates.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.workflow.menu import forms, labels
from interlock.workflow.menu.recognition import Menu

DEEPEST = 3
PARTY, ELICITATION = "party", "elicitation"


@dataclass(frozen=True)
class Frame:
    """One open menu: the step it belongs to, its name, and what it is nested in (None, party or elicitation)."""

    step: str
    menu_id: str
    within: str | None = None


@dataclass(frozen=True)
class MenuStack:
    """The open menus, outermost first."""

    frames: tuple[Frame, ...] = ()

    @property
    def depth(self) -> int:
        """How many menus are open."""
        return len(self.frames)

    @property
    def too_deep(self) -> bool:
        """Whether a human must navigate."""
        return self.depth > DEEPEST

    @property
    def within(self) -> str | None:
        """What the innermost menu is nested in."""
        return self.frames[-1].within if self.frames else None

    def enter(self, frame: Frame) -> MenuStack:
        """With one more menu open."""
        return MenuStack((*self.frames, frame))

    def leave(self) -> MenuStack:
        """With the innermost menu closed: what is left is the parent, as it was."""
        return MenuStack(self.frames[:-1])


def opens(label: str) -> str | None:
    """What choosing that label starts: party, elicitation or nothing."""
    return {labels.PARTY: PARTY, labels.ELICITATION: ELICITATION}.get(labels.meaning(label))


def belongs_to(menu: Menu) -> str | None:
    """Which nested mode shows such a menu; None for a menu of the workflow itself."""
    return {forms.PARTY: PARTY, forms.ELICITATION: ELICITATION}.get(forms.form_of(menu))
