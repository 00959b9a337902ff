"""Which lines of a Markdown text are said, and which only shown: code, quotations, comments.

A CommonMark parser finds the blocks, because fences nest, have four backticks, and are left open (in one real package
27 fences open inside another). Only its block stage runs: inline text is not needed and costs most of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from interlock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

SAID = 3000  # characters of one earlier turn that a new session is shown
TEXT = "text"
CODE = "code_block"
QUOTE = "blockquote"
COMMENT = "html_block"

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
TICKS = re.compile(r"`+")
QUOTED = re.compile(r"^[ ]{0,3}>")
HIDDEN = re.compile(r"^\s*<(?:!--|pre\b|code\b|samp\b|details\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """One line: its text, what it stands in, and whether a heading starts here."""

    text: str
    kind: str = TEXT
    heading: bool = False


def lines(text: str) -> list[Line]:
    """Every line of `text` with what it stands in. Terminal escapes are removed."""
    clean = ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
    # The parser sees the line ends that CommonMark knows; so must we.
    found = clean.split("\n")
    kinds = [TEXT] * len(found)
    headings = [False] * len(found)
    for token in _parser().parse(clean):
        if token.map is None:
            continue
        start, end = token.map[0], min(token.map[1], len(found))
        if token.type in ("fence", "code_block"):
            _mark(kinds, range(start, end), CODE)
        elif token.type == "html_block" and HIDDEN.match(found[start]):
            _mark(kinds, range(start, end), COMMENT)
        elif token.type == "blockquote_open":
            # A paragraph goes on without the mark ("lazily"); to a reader that line is no longer quoted. Where the
            # quotation begins, the mark may stand behind that of a list item: `- > quoted`.
            # One within a list item stands deeper than three spaces.
            kept = (n for n in range(start, end) if n == start or QUOTED.match(found[n].lstrip(" ")))
            _mark(kinds, kept, QUOTE)
        elif token.type == "heading_open" and token.markup.startswith("#"):
            headings[start] = True
    return [Line(one, kind, heading) for one, kind, heading in zip(found, kinds, headings, strict=True)]


def said(text: str) -> str:
    """`text` with everything that is only shown left out; the number of lines stays."""
    return "\n".join(line.text if line.kind == TEXT else "" for line in lines(text))


def tail(text: str, limit: int) -> str:
    """At most the last `limit` characters of `text`, from the start of a line."""
    if len(text) <= limit:
        return text
    return text[-limit:].partition("\n")[2]


def following(all_lines: Sequence[Line], last: int) -> int:
    """How many lines with text come after line number `last`."""
    return sum(bool(line.text.strip()) for line in all_lines[last + 1 :])


def code_spans(text: str) -> list[tuple[int, int, int]]:
    """The code spans of one paragraph: (start, end, length of the backticks on each side).

    A run of backticks is closed by the next run of the same length, as in CommonMark. Takes linear time, which a
    pattern with a back reference does not.
    """
    if "`" not in text:
        return []
    runs = [(found.start(), found.end()) for found in TICKS.finditer(text)]
    later: dict[int, list[int]] = {}
    for number, (start, end) in enumerate(runs):
        later.setdefault(end - start, []).append(number)
    for numbers in later.values():
        numbers.reverse()
    spans, number = [], 0
    while number < len(runs):
        start, end = runs[number]
        same = later[end - start]
        while same and same[-1] <= number:
            same.pop()
        if not same:
            number += 1
            continue
        closing = same[-1]
        spans.append((start, runs[closing][1], end - start))
        number = closing + 1
    return spans


def _mark(kinds: list[str], numbers: Iterable[int], kind: str) -> None:
    for number in numbers:
        if kinds[number] == TEXT:
            kinds[number] = kind


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def quoted(text: str) -> str:
    """`text` as a Markdown quotation."""
    return "\n".join(f"> {line}" for line in text.strip().splitlines())


def history(transcript: Sequence[Mapping[str, str]], title: str = "What was said in this step so far") -> str:
    """What was said before, for a session that does not know it."""
    if not transcript:
        return ""
    lines = [f"## {title}"]
    for one in transcript:
        if one.get("sent"):
            lines.append(f"Interlock:\n{quoted(tail(one['sent'], SAID))}")
        if one.get("said"):
            lines.append(f"You:\n{quoted(tail(one['said'], SAID))}")
    return "\n\n".join(lines)
