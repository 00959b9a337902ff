"""What a turn of the agent means for the run: done, a menu, a question, a halt, an error, or nothing to go by.

A pure function of what was said, the tools that were used and the step at hand, so that every decision can be replayed.
What the agent said by a tool of the run counts (`closing_line.worded`); else the closing line, where there is one
(decision 33: the last word of an output counts); without it the text is read as a person would.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.workflow import markdown
from interlock.workflow.agents.watch import SILENT, Heard
from interlock.workflow.engine.closing_line import (
    BLOCKED,
    COMPLETED,
    FAILED,
    FINISHED,
    OVER,
    SKIPPED,
    WAITING,
    Closing,
    read_closing,
    worded,
)
from interlock.workflow.menus.menu_participation_engine import Participation, participate
from interlock.workflow.menus.recognition import ASKS
from interlock.workflow.menus.selection import Situation
from interlock.workflow.package.step import Step

MENU, QUESTION = "menu", "question"
ERROR, CAPACITY, CANCELLED = "error", "capacity", "cancelled"
EMPTY, UNCLEAR = "empty", "unclear"

QUESTION_LINES = 8
LAST_WORDS = 200
QUESTION_TEXT = 4000  # characters of what was said that a question shows
HALT = re.compile(r"^[^\w\n]*HALT\b(?!-)|\bHALT(?:ED|ING)?\s*[:–—-]\s*\S", re.MULTILINE)
GOING_ON = re.compile(
    r"(?:(?:shall|should|may|can|do you want me to|would you like me to|want me to|are you ready (?:for me )?to"
    r"|ready to|is it (?:ok|okay|fine) (?:for me )?to|ok to|okay to)\s+(?:i\s+|we\s+)?(?:now\s+)?)?"
    r"(?:go on|continue|proceed|move on|carry on|keep going|go ahead)(?:\s+(?:now|with|to)\b[^?]{0,80})?\W*\?",
    re.IGNORECASE,
)
MORE = re.compile(r"\b(?:or|delet|overwrit|remov|deploy|publish|push|merg|release|drop|apply|accept)", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """What the turn means. `text` is what is asked, said last, or wrong; `next` the step that the agent names."""

    kind: str
    text: str = ""
    closing: Closing = field(default_factory=lambda: Closing(""))
    participation: Participation | None = None
    next: str | None = None
    entered: str | None = None

    @property
    def structured(self) -> bool:
        """Whether it came by a tool of the run, not in words."""
        return self.closing.structured


def read(heard: Heard, step: Step, situation: Situation, onward: Sequence[str] = ()) -> Reading:
    """What `heard` means while `step` is run. `onward` are the paths of the steps that may follow it."""
    if heard.stop != "end":
        kind = heard.stop if heard.stop in (CAPACITY, CANCELLED, SILENT) else ERROR
        words = {
            "failed": "the agent ended with an error",
            "killed": "the agent was killed",
            "timeout": "the agent's turn took longer than its absolute limit",
            SILENT: "the agent was silent for too long and was ended",
            CAPACITY: "the agent's provider has no capacity left",
            CANCELLED: "the turn was cancelled",
        }
        said = words.get(heard.stop, heard.stop)
        why = heard.detail or (_last_line(heard.output) if heard.stop in ("failed", "killed") else "")
        return Reading(kind, f"{said}: {why}" if why else said, Closing(heard.output))
    closing = read_closing(heard.output)
    if heard.word is not None:
        closing = worded(closing.text, heard.word)
    entered = went_on(heard.paths, step.path, onward)
    reading = _spoken(closing, step, situation, heard.answered)
    if reading.kind == EMPTY and heard.paths:
        reading = Reading(UNCLEAR, "", closing)
    return Reading(reading.kind, reading.text, closing, reading.participation, closing.next, entered)


def _spoken(closing: Closing, step: Step, situation: Situation, answered: bool) -> Reading:
    if closing.step in OVER:
        return Reading(closing.step if closing.step in (SKIPPED, FINISHED) else COMPLETED, closing=closing)
    if closing.step == FAILED:
        return Reading(ERROR, closing.reason or _last(closing.text), closing)
    if closing.step == BLOCKED:
        return Reading(BLOCKED, _question(closing), closing)
    found = participate(closing.text, step.text, situation)
    if found.selection is not None:
        return Reading(MENU, _last(closing.text), closing, found)
    if closing.step == WAITING:
        return Reading(QUESTION, _question(closing), closing)
    if not closing.text.strip():
        return Reading(EMPTY, "", closing)
    if HALT.search("\n".join(closing.text.rstrip().splitlines()[-QUESTION_LINES:])):
        return Reading(BLOCKED, _question(closing), closing)
    if asks(closing.text):
        return Reading(QUESTION, _question(closing), closing)
    # A way on was chosen, and what the agent did about it is all it had to do.
    return Reading(COMPLETED if answered and closing.other is None else UNCLEAR, _last(closing.text), closing)


def asks(text: str) -> bool:
    """Whether a text ends in a question: one of its last lines asks, outside code and quotations."""
    said = [line.strip(" *_\"'”") for line in markdown.said(markdown.tail(text, 20_000)).splitlines()]
    last = [line for line in said if line][-QUESTION_LINES:]
    if not last:
        return False
    if any(line.endswith(("?", "?)")) for line in last[-3:]):
        return True
    return any(ASKS.search(line) and line.endswith(("?", ":", "?)")) for line in last[-2:])


def asks_to_go_on(text: str) -> bool:
    """Whether all that a text asks is whether to go on ("Shall I continue?"), with nothing that cannot be undone."""
    said = [line.strip(" *_\"'”") for line in markdown.said(markdown.tail(text, 20_000)).splitlines()]
    last = [line for line in said if line][-QUESTION_LINES:]
    asked = [one for line in last for one in re.findall(r"[^.!?]*\?", line)]
    if len(asked) != 1 or not last[-1].endswith(("?", "?)")):
        return False
    return GOING_ON.match(asked[0].lstrip(" *_>-\"'")) is not None and MORE.search(asked[0]) is None


def went_on(paths: Sequence[str], current: str, onward: Sequence[str]) -> str | None:
    """The step that the agent began by itself: the last of its tools' files that is one of the steps that follow."""
    for path in reversed(paths):
        for one in onward:
            if one != current and (path == one or path.endswith("/" + one)):
                return one
    return None


def named(reference: str, paths: Sequence[str]) -> str | None:
    """The path among `paths` that an agent means by `reference`: a path, a file's name, or the end of one."""
    wanted = reference.strip().strip("`'\"").replace("\\", "/")
    for path in paths:
        if wanted == path or wanted.endswith("/" + path):
            return path
    stem = posixpath.basename(wanted).removesuffix(".md").lower()
    return next((path for path in paths if posixpath.basename(path).removesuffix(".md").lower() == stem), None)


def _question(closing: Closing) -> str:
    return closing.reason if closing.reason and len(closing.text) < 3 else _last(closing.text) or closing.reason or ""


def _last(text: str) -> str:
    return markdown.tail(text, QUESTION_TEXT).strip()


def _last_line(text: str) -> str:
    """What a program said before it died, which is most often why."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:LAST_WORDS]
