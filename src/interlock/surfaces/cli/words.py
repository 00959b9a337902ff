"""How answers look to people: states in colour, and tables aligned by what is seen, cut to the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TextIO

import click

from interlock.errors import InvalidRequest
from interlock.model.text import ago, block, clean, clock, count, ids, size, span, spent

__all__ = [
    "ago", "block", "clean", "clock", "count", "cut", "faint", "fields", "ids", "priority", "size", "span", "spent",
    "state", "strong", "table", "terminal_width", "width",
]  # fmt: skip

STATE_STYLE: dict[str, dict[str, object]] = {
    "backlog": {"dim": True},
    "ready": {"fg": "cyan"},
    "in-progress": {"fg": "yellow"},
    "awaiting-response": {"fg": "magenta", "bold": True},
    "blocked": {"fg": "red"},
    "review": {"fg": "magenta"},
    "done": {"fg": "green"},
    "deadletter": {"fg": "red", "bold": True},
    "cancelled": {"dim": True},
    "deleted": {"dim": True},
    "working": {"fg": "yellow"},
    "idle": {"dim": True},
}
PRIORITY_STYLE: dict[str, dict[str, object]] = {
    "critical": {"fg": "red", "bold": True},
    "high": {"fg": "red"},
    "low": {"dim": True},
}
GAP = "  "
UNITS = {"m": 60, "h": 3_600, "d": 86_400}
NARROWEST = 12
ID = r"(?:(?<![\w/.-])|(?<=\[1m))TASK-\d{4}-(\d{2}-\d{2}-\d{3,})(?: (\[[\w.-]+\]))?(?![\w/]|[.-]\w)"
"""A task id in a text, with its key; none that is part of a path or a branch."""
NO_WIDTH = ("Mn", "Me", "Cf")
"""Categories of characters that take no column: combining accents, variation selectors, joiners."""


def state(word: str) -> str:
    return click.style(word, **STATE_STYLE.get(word, {}))  # type: ignore[arg-type]


def seconds(text: str, field: str) -> float:
    """A length of time as people give it: `90m`, `12h`, `2d`. Raises InvalidRequest."""
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 7:
        return float(int(number) * UNITS[unit])
    raise InvalidRequest(f"{text!r} is no length of time. Use 90m, 12h or 30d.", field=field)


def priority(word: str) -> str:
    """A priority in its colour; empty for the normal one."""
    return click.style(word, **PRIORITY_STYLE.get(word, {})) if word != "normal" else ""  # type: ignore[arg-type]


def strong(text: str) -> str:
    return click.style(text, bold=True)


def faint(text: str) -> str:
    return click.style(text, dim=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], shrink: int = -1) -> list[str]:
    """The lines of a table. Columns that are empty in every row are left out.

    Args:
        head: the column titles.
        rows: one text per column; it may carry styles.
        shrink: the column that is cut where the terminal is too narrow; its texts carry no style.
    """
    shrink %= len(head)
    kept = [place for place in range(len(head)) if place == shrink or any(row[place] for row in rows)]
    widths = {place: max(width(head[place]), *(width(row[place]) for row in rows), 0) for place in kept}
    room = terminal_width()
    if room is not None:
        rows = [[shortened(cell) for cell in row] for row in rows]
        widths = {place: max(width(head[place]), *(width(row[place]) for row in rows), 0) for place in kept}
        others = sum(widths[place] + len(GAP) for place in kept if place != shrink)
        widths[shrink] = min(widths[shrink], max(room - others, NARROWEST))
    lines: list[str] = []
    for row in [[strong(title) for title in head], *rows]:
        cells = list(row)
        if lines:
            cells[shrink] = cut(cells[shrink], widths[shrink])
        lines.append(GAP.join(cells[place] + " " * (widths[place] - width(cells[place])) for place in kept).rstrip())
    return lines


def fields(pairs: Sequence[tuple[str, str | None]]) -> list[str]:
    """Names and values below each other, values aligned; what has none is left out."""
    shown = [(name, value) for name, value in pairs if value]
    longest = max((len(name) for name, _ in shown), default=0)
    return [f"{faint(name.ljust(longest))}  {value}" for name, value in shown]


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that `stream` (stdout) is; `None` where it is none and nothing needs cutting."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None


def shortened(text: str) -> str:
    """Text whose task ids are as short as commands take them: the key of a plan, else the id without its year."""
    return re.sub(ID, lambda found: found[2] or found[1], text)


def fitted(line: str, room: int) -> str:
    """A line for a terminal of that width: with short ids, and broken between words where it is too long.

    A command stays whole, so that it can be copied: the terminal breaks it."""
    line = shortened(line)
    start = len(plain := click.unstyle(line)) - len(plain.lstrip())
    if width(line) <= room or re.match(r"(answer: )?interlock ", plain[start:]):
        return line
    rows, row = [], line[: len(line) - len(line.lstrip(" "))]
    for word in line[len(row) :].split(" "):
        if row.strip() and width(row) + width(word) > room:
            rows.append(row.rstrip())
            row = " " * (start + 2)
        row += f"{word} "
    return "\n".join([*rows, row.rstrip()])


def on_screen() -> int | None:
    """How many entries of each part of a report are shown: all where stdout is no terminal."""
    return 10 if sys.stdout.isatty() else None


def cut(text: str, columns: int) -> str:
    """Text in at most so many columns, with `…` where something is missing."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for character in text:
        used += width(character)
        if used > columns - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def width(text: str) -> int:
    """How many columns a text takes: styles and what combines take none, East Asian characters and emoji two."""
    plain = click.unstyle(text) if "\x1b" in text else text
    if plain.isascii():
        return len(plain)
    from unicodedata import category, east_asian_width

    return sum(0 if category(c) in NO_WIDTH else 2 if east_asian_width(c) in "WF" else 1 for c in plain)
