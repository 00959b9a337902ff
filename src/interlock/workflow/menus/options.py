"""Options as they are written in one line: `[A] Label [P] Label`, `[C]ontinue`, `Approve [a], Edit [e]`, `(y/n/edit)`.

Reading is by shape only; whether the line is a menu is decided in `recognition.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow import markdown

KEY = r"[A-Za-z]{1,2}|\d{1,2}"
MARKER = re.compile(rf"(?<![\w\]])\[({KEY})[\])](?!\()")
LEADING = re.compile(rf"^\[({KEY}|[A-Z][a-z]{{2,9}})[\])](?!\()\s*(.*)$")
LISTED = re.compile(r"^(\d{1,2}|[A-Za-z])[.)]\s+(\S.*)$")
BULLET = re.compile(r"^[-*+•–]\s+")
CHECKBOX = re.compile(r"^(?:[-*+]|\d{1,3}[.)])\s+\[[ xX]\](?!\()")
NUMBERED = re.compile(r"^\d{1,2}[.)]\s+(?=[*_`]*\[(?:[A-Za-z]{1,2}|\d{1,2})\])")
SEPARATOR = re.compile(r"^\s*(?:[,/|;?:.]|or\b|and\b|$)")
LONGEST = 2000  # characters of a line that may hold options
TRIM = " \t\u00a0,;/|·•\"“”'*_"
WORDS = {
    word.lower(): word
    for word in "Yes No Edit Other Skip Continue Exit Quit Cancel Retry Abort Approve Reject Accept All None".split()
} | {"y": "Yes", "n": "No", "e": "Edit", "a": "All"}
ASKED = re.compile(r"[\[(]\s*((?:[A-Za-z]+|\d{1,2})(?:\s*/\s*(?:[A-Za-z]+|\d{1,2}))+)\s*[\])]")
RANGE = re.compile(
    r"[\[(](?:enter |choose |select )?\d{1,2}\s*(?:-|–|/|,| or |to)[\d\s/,–or-]*\d{1,2}[\])]", re.IGNORECASE
)


@dataclass(frozen=True)
class Option:
    """What may be answered (`key`, as written) and what it says."""

    key: str
    label: str

    def as_dict(self) -> dict[str, str]:
        """The shape in which it is shown."""
        return {"key": self.key, "label": self.label}


@dataclass(frozen=True)
class PlainLine:
    """A line without its decoration. `code`: all of it stood in backticks; `bulleted`: it was a list item."""

    text: str
    code: bool = False
    bulleted: bool = False
    checkbox: bool = False


def undecorated(line: str) -> PlainLine:
    """`line` without indentation, bullet, emphasis, quotation marks and code that hides brackets."""
    text = line.strip()
    if len(text) > LONGEST:
        return PlainLine("")
    checkbox = CHECKBOX.match(text) is not None
    bulleted = BULLET.match(text) is not None
    text = NUMBERED.sub("", BULLET.sub("", text.strip("|").strip(), count=1), count=1)
    spans = markdown.code_spans(text)
    if spans and (spans[0][0], spans[0][1]) == (0, len(text)):
        ticks = spans[0][2]
        return PlainLine(_plain(text[ticks:-ticks]), True, bulleted, checkbox)
    return PlainLine(_plain(_without_spans(text, spans)), False, bulleted, checkbox)


def _without_spans(text: str, spans: Sequence[tuple[int, int, int]]) -> str:
    """`text` with code as plain text, and blanks for code that holds brackets."""
    parts, done = [], 0
    for start, end, ticks in spans:
        inside = text[start + ticks : end - ticks]
        shown = "[" not in inside or MARKER.fullmatch(inside)  # `[C]` Continue
        parts += [text[done:start], inside if shown else " " * len(inside)]
        done = end
    return "".join([*parts, text[done:]])


def _plain(text: str) -> str:
    return text.replace("**", "").replace("__", "").strip().strip('"“”').strip()


def inline(text: str) -> tuple[str, tuple[Option, ...]]:
    """The options within one line and the text before the first; no options where a marker has no label."""
    markers = list(MARKER.finditer(text))
    if not markers:
        return text, ()
    if len(markers) > 1 and all(map(SEPARATOR.match, [text[one.end() :] for one in markers])):
        return _key_last(text, markers)
    options = []
    for marker, following in zip(markers, [*markers[1:], None], strict=True):
        said = label(marker[1], text[marker.end() : following.start() if following else len(text)])
        if not said:
            return text, ()
        options.append(Option(marker[1], said))
    return text[: markers[0].start()].strip(), tuple(options)


def label(key: str, rest: str) -> str:
    """What follows a marker, trimmed; `[C]reate` is Create."""
    glued = rest[:1].islower() and key.isalpha()
    text = rest.strip(TRIM)
    text = re.sub(r"[\s,/|]+(?:or|and)$", "", text).strip(TRIM)
    text = re.sub(r"^[-–—]\s+", "", text).rstrip(" ?:")
    return f"{key}{text}" if glued else text


def _key_last(text: str, markers: list[re.Match[str]]) -> tuple[str, tuple[Option, ...]]:
    """`Continue [c] or Edit [e]?`: the label stands before the key."""
    options: list[Option] = []
    start, prefix = 0, ""
    for marker in markers:
        before = text[start : marker.start()]
        words = re.split(r"[,/|;?!.]|\bor\b|\band\b|:", before)
        if not options:
            prefix = before[: len(before) - len(words[-1])].strip()
        options.append(Option(marker[1], words[-1].strip(TRIM)))
        start = marker.end()
    good = all(option.label and len(option.label.split()) <= 4 for option in options)
    return (prefix, tuple(options)) if good else (text, ())


def asked(text: str) -> tuple[str, tuple[Option, ...]]:
    """The options of a `(y/n)` at the end of a line, with the question before it."""
    found = list(ASKED.finditer(text))
    if not found or text[found[-1].end() :].strip(' :?.>*_"') or not text[: found[-1].start()].strip():
        return text, ()
    keys = [key.strip() for key in found[-1][1].split("/")]
    if any(key.isdigit() for key in keys) or not all(key.lower() in WORDS for key in keys):
        return text, ()
    return text[: found[-1].start()].strip(), tuple(Option(key, WORDS[key.lower()]) for key in keys)
