"""Checkpoints in the frontmatter of a run's output documents (BMAD-3.6.4, FR62); never in a step file (decision 35).

Only the key `checkpoints` is written. Every other line stays as it is, byte for byte: comments, order, unknown keys,
the way `stepsCompleted` is written, line ends. Pure: from text to text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.workflow.definition.frontmatter import FENCE, parse

KEY = "checkpoints"
FIELDS = ("step_id", "timestamp", "reason", "can_rollback", "state_snapshot")
SNAPSHOT = ("state", "current_step", "completed_steps")
"""What of a state a document shows; the whole snapshot is in the ledger."""


def with_checkpoints(text: str, checkpoints: Iterable[Mapping[str, Any]]) -> str | None:
    """`text` with these checkpoints in its frontmatter, which is made where there is none; null where its frontmatter
    cannot be read, or not be written to line by line: such a document is left alone."""
    end = "\r\n" if "\r\n" in text else "\n"
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).split(end)
    block = [f"{KEY}:", *(f"  - {_line(one)}" for one in checkpoints)]
    if len(block) == 1:
        block = [f"{KEY}: []"]
    if lines[0].rstrip() != FENCE:
        return mark + end.join([FENCE, *block, FENCE, "", *lines])
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), None)
    if close is None:
        return None
    before, fault = parse("\n".join(lines[1:close]), 2)
    if fault is not None:
        return None
    settings = _replaced(lines[1:close], block)
    after, fault = parse("\n".join(settings), 2)
    others = {name: value for name, value in before.items() if name != KEY}
    if fault is not None or {name: value for name, value in after.items() if name != KEY} != others:
        return None  # A mapping in one line, or something else that lines cannot be put into.
    return mark + end.join([lines[0], *settings, *lines[close:]])


def checkpoints_of(text: str) -> list[Any]:
    """The checkpoints a document's frontmatter lists."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return []
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), 0)
    found = parse("\n".join(lines[1:close]), 2)[0].get(KEY)
    return found if isinstance(found, list) else []


def _replaced(lines: Sequence[str], block: Sequence[str]) -> list[str]:
    """The settings with our block in the place of the old one, or at the end."""
    start = next((n for n, line in enumerate(lines) if line.startswith((f"{KEY}:", f'"{KEY}":'))), None)
    if start is None:
        return [*lines, *block]
    stop = start + 1
    while stop < len(lines) and lines[stop].startswith((" ", "\t", "-")):
        stop += 1
    return [*lines[:start], *block, *lines[stop:]]


def _line(checkpoint: Mapping[str, Any]) -> str:
    """One checkpoint as a line: JSON is YAML."""
    shown = {name: checkpoint[name] for name in FIELDS if name in checkpoint}
    snapshot = shown.get("state_snapshot")
    if isinstance(snapshot, Mapping):
        shown["state_snapshot"] = {name: snapshot[name] for name in SNAPSHOT if name in snapshot}
    return json.dumps(shown, ensure_ascii=False)
