"""Menus within menus: Party Mode and Advanced Elicitation show their own, and return to the one that called them.

(BMAD-2b.4.) After either, the same menu comes back and is answered again (decision 29). A fourth level is more than
any real workflow has: then a human navigates.

What was chosen in which menu, oldest first, at most 100 (BMAD-2b.5, FR12). Continues in a row take one entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from interlock.workflow.menus import options, recognition
from interlock.workflow.menus.recognition import Menu

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
    return {options.PARTY: PARTY, options.ELICITATION: ELICITATION}.get(options.meaning(label))


def belongs_to(menu: Menu) -> str | None:
    """Which nested mode shows such a menu; None for a menu of the workflow itself."""
    return {recognition.PARTY: PARTY, recognition.ELICITATION: ELICITATION}.get(recognition.form_of(menu))


LIMIT = 100


@dataclass(frozen=True)
class Entry:
    """One selection. `timestamp` is ISO 8601 UTC, `confidence` 0 to 100, `count` how many equal ones it stands for;
    `decision_source` is what it came from: engine, human, or learned_preference."""

    timestamp: str
    menu_id: str
    selection: str
    confidence: int
    reason: str = ""
    automatic: bool = True
    count: int = 1
    decision_source: str = "engine"


@dataclass(frozen=True)
class History:
    """The selections so far."""

    entries: tuple[Entry, ...] = ()

    def add(self, entry: Entry) -> History:
        """With one more entry; the oldest goes when there are more than 100."""
        return History((*self.entries, entry)[-LIMIT:])

    def batch(self, entry: Entry) -> History:
        """With one more continue of a batch, which is added to the entry of the continue before it (BMAD-2b.6.6)."""
        last = self.entries[-1] if self.entries else None
        same = last is not None and (last.selection, last.decision_source) == (entry.selection, entry.decision_source)
        if last and same and last.automatic and entry.automatic:
            merged = replace(entry, count=last.count + entry.count, confidence=min(last.confidence, entry.confidence))
            return History((*self.entries[:-1], merged))
        return self.add(entry)

    def as_list(self) -> list[dict[str, Any]]:
        """The shape in which a workflow's state keeps it."""
        return [asdict(entry) for entry in self.entries]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> History:
        """The history that `as_list` wrote."""
        return cls(tuple(Entry(**row) for row in rows)[-LIMIT:])
