"""The words of the command line: states and headings in colour, and what `interlock.model.text` has."""

from __future__ import annotations

import click

from interlock.model.text import ago, block, clean, count, ids, size, span, spent

__all__ = [
    "ago", "block", "clean", "count", "faint", "ids", "priority", "size", "span", "spent", "state", "strong",
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
