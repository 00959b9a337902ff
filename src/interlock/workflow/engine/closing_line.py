"""The last line in which an agent says how its turn ended, as the prompt asks it to.

    {"step": "completed", "next": "step-03-success.md", "verdict": "PASS"}

`step` is completed, skipped, waiting, blocked, failed or finished (the whole workflow). Agents forget the line, wrap it
in backticks or a fence, spread it over several, and write it in the middle; only the last one counts, and nothing
depends on it alone. What was decided and learned stands in it too, so it may be long.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.markdown import ANSI

COMPLETED, SKIPPED, WAITING, BLOCKED, FAILED, FINISHED = (
    *("completed", "skipped", "waiting"),
    *("blocked", "failed", "finished"),
)
WORDS = (COMPLETED, SKIPPED, WAITING, BLOCKED, FAILED, FINISHED)
OVER = frozenset({COMPLETED, SKIPPED, FINISHED})
LAST_LINES = 6  # of text that are looked at for it
LONGEST = 200_000  # characters of the line; a hundred findings and lessons at their own limits fit
SPREAD, OPENERS = 1000, 50  # lines that it may be spread over, and those of them at which it may begin
LONGEST_WORD = 60  # characters of a `step` that is none of ours
LONG = 4000  # characters of a thing that was decided or learned, which memory tells in fewer


@dataclass(frozen=True)
class Closing:
    """What the line says, or the tool that was called instead (`structured`). `text` is what was said without it,
    `step` is None where there was no such line, `other` the word of one that says what is none of ours, `option` what
    the agent would choose from its menu."""

    text: str
    step: str | None = None
    other: str | None = None
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
        if found is not None and _step(found) not in WORDS:
            return Closing(output.rstrip(), other=_step(found)[:LONGEST_WORD])
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
    return found if isinstance(found, dict) and _step(found) else None


def _step(found: dict[str, Any]) -> str:
    """The word of an object that says how a step ended; empty for any other object."""
    word = found.get("step")
    return word.strip().lower() if isinstance(word, str) else ""


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
        step=_step(found),
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
