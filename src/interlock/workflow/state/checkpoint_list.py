"""Checkpoints in the frontmatter of a run's output documents (BMAD-3.6.4, FR62); never in a step file (decision 35).

Only the key `checkpoints` is written. Every other line stays as it is, byte for byte: comments, order, unknown keys,
the way `stepsCompleted` is written, line ends. Pure: from text to text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from interlock.workflow.package.files import FENCE, parse
from interlock.workflow.state.document import CheckpointRow

KEY = "checkpoints"


def with_checkpoints(text: str, checkpoints: Iterable[CheckpointRow] | None) -> str | None:
    """`text` with these checkpoints in its frontmatter, of each step the last, or with None without any; it is made
    where there is none. Null where it cannot be read, or not be written to line by line: such a document is left alone.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).split(end)
    block = []
    for one in {one["step_id"]: one for one in checkpoints or ()}.values():
        # No longer than FR62 asks for; the whole snapshot is in the checkpoint's commit.
        snapshot = one.get("state_snapshot")
        done = snapshot.get("completed_steps") if isinstance(snapshot, Mapping) else []
        step, at, may = map(json.dumps, (one.get("step_id"), one.get("timestamp"), one.get("can_rollback")))
        shown = f"step_id: {step}, timestamp: {at}, can_rollback: {may}"
        block.append(f"  - {{{shown}, state_snapshot: {{completed_steps: {json.dumps(done)}}}}}")
    block = [] if checkpoints is None else [f"{KEY}:", *block] if block else [f"{KEY}: []"]
    if lines[0].rstrip() != FENCE:
        return text if checkpoints is None else mark + end.join([FENCE, *block, FENCE, "", *lines])
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), None)
    if close is None:
        return None
    # A short list in its place shows that lines can be put there; reading the whole one costs more than a step does.
    found, fault = parse("\n".join(_replaced(lines[1:close], [f"{KEY}: []"])), 2)
    if fault is not None or found.get(KEY) != []:
        return None  # A mapping in one line, or something else that lines cannot be put into.
    settings = _replaced(lines[1:close], block)
    if checkpoints is None and not settings and lines[1:close]:
        return mark + end.join(lines[close + 1 + (lines[close + 1 : close + 2] == [""]) :])
    return mark + end.join([lines[0], *settings, *lines[close:]])


def without_list(text: str) -> str:
    """`text` without the list, for those who read its other settings."""
    lines = text.split("\n")
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), 1)
    return "\n".join([lines[0], *_replaced(lines[1:close], []), *lines[close:]]) if lines[0].rstrip() == FENCE else text


def _replaced(lines: Sequence[str], block: Sequence[str]) -> list[str]:
    """The settings with our block in the place of the old one, or at the end."""
    start = next((n for n, line in enumerate(lines) if line.startswith((f"{KEY}:", f'"{KEY}":'))), None)
    if start is None:
        return [*lines, *block]
    stop = start + 1
    while stop < len(lines) and lines[stop].startswith((" ", "\t", "-")):
        stop += 1
    return [*lines[:start], *block, *lines[stop:]]
