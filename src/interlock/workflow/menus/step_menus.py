"""The menus that a step's own text tells the agent to show, and which option leads to the next step.

A step writes them as `Display: "**Select an Option:** [A] … [C] Continue"`, as lines within a quotation, or in a fence;
below it says what each option does (`- IF C: … execute {nextStepFile}`). That is the ground truth for an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from interlock.workflow import markdown
from interlock.workflow.markdown import Line
from interlock.workflow.menus import meanings
from interlock.workflow.menus.recognition import Menu, candidates

DISPLAY = re.compile(r"^(\s*(?:[-*]\s+)?)(?:\**+Display\**+\s*+:?\**+\s*+)(?=[\"“`*\[])", re.IGNORECASE)
HANDLED = re.compile(
    r"^\s*(?:[-*]\s+)?(?:#{2,6}\s+)?\**(?:IF|WHEN)\s+(?:the user (?:selects|chooses)\s+)?"
    r"['\"`\[]*([A-Za-z0-9]{1,2})\b['\"`\]]*\s*(?:\([^)]*\)|selected)?\s*\**:",
    re.IGNORECASE,
)
LEADS_ON = re.compile(
    r"\{(?:nextStep\w*|skipToStepFile|alternateNextStepFile)\}"
    r"|\b(?:load|execute|proceed to|continue to|move to|begin)\b[^\n]{0,80}(?:\bstep[-_ ]?\d|[ev]-\d|\bnext step\b)",
    re.IGNORECASE,
)
RETURNS = re.compile(
    r"\b(?:redisplay|return to|re-?display|show (?:the )?menu|advancedElicitationTask|partyModeWorkflow)\b"
)


@lru_cache(64)
def menus_of(step: str) -> tuple[Menu, ...]:
    """Every menu in the text of a step, wherever it stands."""
    lines = [Line(_shown(line.text), line.kind, line.heading) for line in markdown.lines(step)]
    return tuple(menu for menu in candidates(lines) if not menu.objection)


def _shown(line: str) -> str:
    """A line of instructions as the agent will say it."""
    shown = DISPLAY.sub(r"\1", line)
    if shown != line:
        shown = shown.strip().strip("`").strip()
    return shown


def same(one: Menu, other: Menu) -> bool:
    """Whether two menus offer the same: equal keys in the same order, and labels that begin alike."""
    if one.options == other.options:
        return True
    if [key.lower() for key in one.keys] != [key.lower() for key in other.keys]:
        return False
    return all(_alike(a.label, b.label) for a, b in zip(one.options, other.options, strict=True))


def _alike(one: str, other: str) -> bool:
    first, second = meanings.head(one).lower(), meanings.head(other).lower()
    if not first or not second or "{" in first or "{" in second or "[" in first or "[" in second:
        return True  # filled in when it is shown
    return first.startswith(second) or second.startswith(first) or SequenceMatcher(None, first, second).ratio() >= 0.7


@lru_cache(64)
def ways_on(step: str) -> tuple[str, ...]:
    """The keys after which the step says to load the next one, in lower case; empty where it does not say."""
    found: list[str] = []
    lines = step.splitlines()
    for number, line in enumerate(lines):
        handled = HANDLED.match(line)
        if handled and LEADS_ON.search(_handling(lines, number)):
            found.append(handled[1].lower())
    return tuple(dict.fromkeys(found))


def way_on(step: str) -> str | None:
    """The one key that leads on, or None where several do, or none."""
    keys = ways_on(step)
    return keys[0] if len(keys) == 1 else None


def _handling(lines: Sequence[str], number: int) -> str:
    """What is said to be done: the rest of the line, and under a heading the lines up to the next one."""
    text = [lines[number]]
    if lines[number].lstrip().startswith("#"):
        for line in lines[number + 1 : number + 12]:
            if line.startswith("#") or HANDLED.match(line):
                break
            text.append(line)
    return "\n".join(line for line in text if not RETURNS.search(line))
