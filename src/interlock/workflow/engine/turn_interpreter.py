"""What a turn of the agent means for the run: done, a menu, a question, a halt, an error, or nothing to go by.

A pure function of what was said, the tools that were used and the step at hand, so that every decision can be replayed.
What the agent said by a tool of the run counts (`worded`); else the closing line, where there is one (decision 33: the
last word of an output counts); without it the text is read as a person would.

The last line in which an agent says how its turn ended, as the prompt asks it to.

    {"step": "completed", "next": "step-03-success.md", "verdict": "PASS"}

`step` is completed, skipped, waiting, blocked, failed or finished (the whole workflow). Agents forget the line, wrap it
in backticks or a fence, spread it over several, and write it in the middle; only the last one counts, and nothing
depends on it alone. What was decided and learned stands in it too, so it may be long.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.model.json import Json
from interlock.workflow import markdown
from interlock.workflow.agents.pool import SILENT, Heard
from interlock.workflow.markdown import ANSI
from interlock.workflow.menus.menu_participation_engine import Participation, Situation, participate
from interlock.workflow.menus.recognition import ASKS
from interlock.workflow.package.step import Step

COMPLETED, SKIPPED, WAITING, BLOCKED, FAILED, FINISHED = (
    *("completed", "skipped", "waiting"),
    *("blocked", "failed", "finished"),
)
WORDS = (COMPLETED, SKIPPED, WAITING, BLOCKED, FAILED, FINISHED)
OVER = frozenset({COMPLETED, SKIPPED, FINISHED})
LAST_LINES = 6  # of text that are looked at for it
LONGEST = 200_000  # characters of the line; a hundred findings and lessons at their own limits fit
SPREAD, OPENERS = 1000, 50  # lines that it may be spread over, and those of them at which it may begin
LONG = 4000  # characters of a thing that was decided or learned, which memory tells in fewer


@dataclass(frozen=True)
class Closing:
    """What the line says, or the tool that was called instead (`structured`). `text` is what was said without it,
    `step` is None where there was no such line, `option` is what the agent would choose from its menu."""

    text: str
    step: str | None = None
    next: str | None = None
    verdict: str | None = None
    reason: str | None = None
    issues: tuple[str, ...] = ()
    brief_silent: bool = False
    outputs: tuple[str, ...] = ()
    learned: tuple[Json, ...] = ()
    unchanged: str = ""
    evidence: tuple[str, ...] = ()
    option: str | None = None
    structured: bool = False


def read_closing(output: str) -> Closing:
    """The closing line of `output`, if it has one."""
    lines = ANSI.sub("", output).rstrip().splitlines()
    looked = 0
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number].strip()
        if not line or line.startswith("```"):
            continue
        looked += 1
        if looked > LAST_LINES:
            break
        first, found = number, _parsed(line.strip("`* "))
        if found is None and line.strip("`* ").endswith("}"):
            first, found = _spread(lines, number)
        if found is not None:
            kept = [*lines[:first], *lines[number + 1 :]]
            return _closing("\n".join(_unfenced(kept, first)).rstrip(), found)
    return Closing(output.rstrip())


KEYED = re.compile(r"^\W*([A-Za-z0-9]{1,2})\W*[\]:.)]\s*(.+)$")


def worded(text: str, word: Json) -> Closing:
    """What an agent said by a tool, as its closing line. A menu is put in the one form in which it cannot be misread: a
    question and its options, each with its key, numbered where they have none."""
    shown, asked = [str(one).strip() for one in word.get("options") or ()], str(word.get("question") or "").strip()
    if shown:
        keyed = [KEYED.match(one) for one in shown]
        options = [(one[1], one[2]) for one in keyed if one is not None]
        if len(options) < len(shown) or len({key.casefold() for key, _ in options}) < len(shown):
            options = [(str(number), one) for number, one in enumerate(shown, 1)]
        listed = "\n".join(f"[{key}] {label}" for key, label in options)
        text = f"{text}\n\n{asked or 'Please select an option:'}\n\n{listed}".strip()
    elif asked:
        text = asked
    return replace(_closing(text, {"step": COMPLETED, **word}), structured=True)


def _spread(lines: list[str], last: int) -> tuple[int, dict[str, Any] | None]:
    """Where an object that ends in that line begins, and the object, where it says how a step ended."""
    length = openers = 0
    for first in range(last, max(-1, last - SPREAD), -1):
        length += len(lines[first]) + 1
        if length > LONGEST or openers >= OPENERS:
            break
        if lines[first].lstrip("`* ").startswith("{"):
            openers += 1
            found = _parsed("\n".join(lines[first : last + 1]).strip("`* "))
            if found is not None:
                return first, found
    return last, None


def _parsed(line: str) -> dict[str, Any] | None:
    if not (line.startswith("{") and line.endswith("}")) or len(line) > LONGEST:
        return None
    try:
        found = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and str(found.get("step", "")).lower() in WORDS else None


def _unfenced(lines: list[str], place: int) -> list[str]:
    """Without an empty fence where the line stood."""
    before, after = lines[:place], lines[place:]
    if before and after and before[-1].strip().startswith("```") and after[0].strip() == "```":
        return [*before[:-1], *after[1:]]
    return lines


def _closing(text: str, found: dict[str, Any]) -> Closing:
    def word(name: str) -> str | None:
        value = found.get(name)
        return str(value).strip()[:1000] or None if isinstance(value, (str, int)) else None

    def words(name: str) -> tuple[str, ...]:
        value = found.get(name)
        return tuple(str(one)[:1000] for one in value[:100]) if isinstance(value, list) else ()

    def told(name: str) -> tuple[Json, ...]:
        value = found.get(name)
        listed = value[:100] if isinstance(value, list) else ()
        return tuple({"kind": name, **one} if isinstance(one, dict) else {"kind": name, "text": one} for one in listed)

    return Closing(
        text=text,
        step=str(found["step"]).lower(),
        next=word("next"),
        verdict=word("verdict"),
        reason=word("reason"),
        issues=words("issues"),
        brief_silent=str(found.get("brief", "")).lower() == "silent",
        outputs=words("outputs"),
        learned=(*told("decided"), *told("learned")),
        unchanged=word("unchanged") or "",
        evidence=words("evidence"),
        option=word("option"),
    )


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
    return Reading(COMPLETED if answered else UNCLEAR, _last(closing.text), closing)


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
