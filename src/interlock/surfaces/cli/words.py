"""How things read to people: states in colour, times as "3m ago", text that cannot play tricks on the terminal."""

from __future__ import annotations

import time

import click

from interlock.clock import seconds

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
UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def state(word: str) -> str:
    """A state of a task or member, in its colour."""
    return click.style(word, **STATE_STYLE.get(word, {}))  # type: ignore[arg-type]


def priority(word: str) -> str:
    """A priority, in its colour."""
    return click.style(word, **PRIORITY_STYLE.get(word, {}))  # type: ignore[arg-type]


def strong(text: str) -> str:
    """A heading."""
    return click.style(text, bold=True)


def faint(text: str) -> str:
    """What is there for reference only."""
    return click.style(text, dim=True)


def ago(at: str | None, now: float | None = None) -> str:
    """An ISO 8601 time as the time that has passed since: "3m ago"."""
    if at is None:
        return ""
    try:
        passed = (time.time() if now is None else now) - seconds(at)
    except ValueError:
        return at
    if passed < -60:
        return f"in {span(-passed)}"
    return "just now" if passed < 5 else f"{span(passed)} ago"


def span(length: float) -> str:
    """Seconds as the largest unit that fits: "42s", "3m", "2h", "5d"."""
    for size, unit in UNITS:
        if length >= size:
            return f"{int(length // size)}{unit}"
    return f"{length:.1f}s" if 0 < length < 10 else f"{int(length)}s"


def clean(text: object) -> str:
    """Text on one line, without the characters that steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in str(text)).strip()


def block(text: str, indent: str = "  ") -> list[str]:
    """Text of several lines, indented, without the characters that steer a terminal."""
    return [indent + "".join(c if c.isprintable() or c == "\t" else " " for c in line) for line in text.splitlines()]


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 task", "2 tasks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ids(found: list[str]) -> str:
    """Task ids as people type them: the last part of each, where that tells them apart."""
    short = [one.rpartition("-")[2] for one in found]
    return ", ".join(short if len(set(short)) == len(short) else found)
