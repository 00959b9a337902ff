"""Whether a text ends in a menu, with a score out of 100 and the guards against false ones (BMAD-2b.1, decision 29).

    structure 30 · position 20 · number of options 20 · known form 30          a menu from 70

What stands in code, a quotation or an example is shown and not asked, so it never counts. The one exception is a
signal of its own: that the text equals a menu of the step being run (`Detection.step_menu`), as some real steps show
theirs in a fence; without the step there is no such signal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow import markdown
from interlock.workflow.markdown import Line
from interlock.workflow.menus import forms
from interlock.workflow.menus.options import Option, undecorated
from interlock.workflow.menus.recognition import Menu, candidates
from interlock.workflow.menus.step_menus import same

STRUCTURE, POSITION, OPTIONS, KNOWN_FORM = 30, 20, 20, 30
THRESHOLD = 70
TEXT = 100_000  # characters looked at, from the end: a menu is the last thing said
NEAR, FAR, STALE = 2, 6, 15  # lines of text that may follow a menu

EXAMPLE = re.compile(
    r"^\W*(?:for )?(?:examples?|instance|sample|e\.g\.|such as)\b[^.!?]{0,60}$"
    r"|(?:\b(?:examples?|sample)\b|\be\.g\.)[^.!?]{0,60}:\W*$"
    r"|^\W*(?:for )?(?:examples?|sample|e\.g\.)\W*[:,]",
    re.IGNORECASE,
)


# Said in a paragraph of its own it is about the next one only if it announces it.
ANNOUNCED = re.compile(
    r"^\W*(?:for )?(?:examples?|sample)(?:\s+[\w /-]{1,40})?\W*$"
    r"|(?:\b(?:examples?|sample)\b|\be\.g\.)[^.!?]{0,60}:\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Detection:
    """What was found. `confidence` is 0 to 100; `step_menu` is the menu that equals one of the step's, anywhere."""

    menu: Menu | None
    confidence: int
    score_breakdown: dict[str, int]
    guards: tuple[str, ...] = ()
    form: str = forms.UNKNOWN
    step_menu: Menu | None = None
    candidates: tuple[Menu, ...] = field(default=(), repr=False)

    @property
    def detected(self) -> bool:
        """Whether the text asks for a choice."""
        return self.menu is not None

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of the menu that was detected."""
        return self.menu.options if self.menu else ()

    @property
    def certainty(self) -> int:
        """The detection's part in answering: 100 when the step's own text names this menu (decision 28)."""
        return 100 if self.step_menu else self.confidence if self.menu else 0

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze menu` shows."""
        return {
            "menu_detected": self.detected,
            "confidence": self.confidence,
            "options": [option.as_dict() for option in self.options],
            "score_breakdown": dict(self.score_breakdown),
            "guards": list(self.guards),
        }


def detect(text: str, expected: Sequence[Menu] = ()) -> Detection:
    """The menu that `text` ends in. `expected` are the menus of the step being run (`step_menus.menus_of`)."""
    lines = markdown.lines(markdown.tail(text, TEXT))
    found = candidates(lines)
    guards: list[str] = []
    best: tuple[int, Menu, dict[str, int]] | None = None
    for menu in found:
        guard = _guard(menu, lines)
        if guard:
            guards.append(guard)
            continue
        breakdown = score(menu, lines)
        total = sum(breakdown.values())
        # The last one that is a menu: those before it have been answered.
        if best is None or total >= min(best[0], THRESHOLD):
            best = (total, menu, breakdown)
    step_menu = _step_menu(found, lines, expected)
    unique = tuple(dict.fromkeys(guards))
    if best is None or best[0] < THRESHOLD:
        nothing = dict.fromkeys(("structural_markers", "position", "option_count", "known_form"), 0)
        return Detection(None, best[0] if best else 0, best[2] if best else nothing, unique, step_menu=step_menu)
    total, menu, breakdown = best
    return Detection(menu, total, breakdown, unique, forms.form_of(menu), step_menu, tuple(found))


def score(menu: Menu, lines: Sequence[Line]) -> dict[str, int]:
    """The four parts of a menu's score."""
    after = markdown.following(lines, menu.last)
    return {
        "structural_markers": STRUCTURE,
        "position": POSITION if after <= NEAR else POSITION // 2 if after <= FAR else 0,
        "option_count": OPTIONS if len(menu.options) > 1 else 0,
        "known_form": KNOWN_FORM if forms.form_of(menu) != forms.UNKNOWN else 0,
    }


def _guard(menu: Menu, lines: Sequence[Line]) -> str | None:
    """What speaks against a candidate, by name; None when nothing does."""
    if menu.objection:
        return menu.objection
    kinds = {lines[number].kind for number in range(menu.first, menu.last + 1)} - {markdown.TEXT}
    if kinds:
        return min(kinds)
    if all(undecorated(lines[number].text).code for number in range(menu.first, menu.last + 1)):
        return "inline_code"
    if _is_example(menu, lines):
        return "example"
    if markdown.following(lines, menu.last) > STALE:
        return "not_at_end"
    return None


def _is_example(menu: Menu, lines: Sequence[Line]) -> bool:
    """Whether the menu's line, the text just above, or the heading it stands under calls it an example."""
    if EXAMPLE.search(_words(menu.prompt)) or EXAMPLE.search(_words(lines[menu.first].text.partition("[")[0])):
        return True
    apart, seen = False, False
    for number in range(menu.first - 1, -1, -1):
        text = _words(lines[number].text)
        if lines[number].heading:
            return EXAMPLE.search(text) is not None
        if not text:
            # One paragraph above is looked at; what stands further up speaks of something else.
            apart, seen = True, seen or (apart and number + 1 < menu.first - 1)
        elif not apart and EXAMPLE.search(text):
            return True
        elif apart and not seen:
            if ANNOUNCED.search(text):
                return True
            seen = True
    return False


def _words(text: str) -> str:
    return text.replace("*", "").replace("_", "").replace("#", "").strip()


def _step_menu(found: Sequence[Menu], lines: Sequence[Line], expected: Sequence[Menu]) -> Menu | None:
    """The last candidate, if it equals a menu of the step and nothing of weight follows it."""
    for menu in reversed(found):
        if markdown.following(lines, menu.last) > NEAR:
            return None
        if any(same(menu, one) for one in expected):
            return menu
    return None
