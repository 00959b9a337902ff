"""What a task changed in a worktree of its own, and what merging it into a branch of the person's would do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from interlock.errors import InterlockError
from interlock.model.task import Task
from interlock.processes.output import plain
from interlock.surfaces.web.views.task import story, waits_to_be_merged
from interlock.surfaces.web.visit import Visit

LINES, WIDTH, STAT = 3000, 500, 200
"""So many lines of a patch are shown, so much of each, and so many files; `interlock diff` has all of it."""
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
"""Characters that make a line read otherwise than it is compiled."""


def title(visit: Visit) -> str:
    """The task's subject."""
    return f"Changes · {story(visit)['task'].subject}"


def changes(visit: Visit) -> dict[str, Any]:
    """The patch with the files it is about, and the merge as it would be."""
    task: Task = story(visit)["task"]
    refused, patch, files = None, "", ""
    try:
        files = visit.team.diff(task.id, stat=True)["diff"]
        patch = visit.team.diff(task.id)["diff"]
    except InterlockError as error:
        refused = error.message
    lines = patch.splitlines()
    return {
        "task": task,
        "refused": refused,
        "files": [_bare(one) for one in files.splitlines()[:STAT]],
        "lines": list(_marked(lines[:LINES])),
        "more": max(0, len(lines) - LINES),
        "waits": waits_to_be_merged(task),
        **_merge(visit, task),
    }


def _merge(visit: Visit, task: Task) -> dict[str, Any]:
    """What the merge would do, for who may have it done."""
    if not (visit.may_act and waits_to_be_merged(task)):
        return {"merge": None, "why_not": None}
    try:
        return {"merge": visit.acting.merge([task.id], dry_run=True), "why_not": None}
    except InterlockError as error:
        return {"merge": None, "why_not": error.message}


def _marked(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each line with what it is: file, place, added, removed, or as it was."""
    head = True
    for line in lines:
        if line.startswith("diff --git "):
            head = True
        elif line.startswith("@@"):
            head = False
        if head:
            kind = "file" if line.startswith("diff --git ") else "head"
        else:
            kind = {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "same")
        yield kind, _bare(line)


def _bare(line: str) -> str:
    found = plain(TURNING.sub(lambda one: f"\\u{ord(one[0]):04x}", line))
    return found if len(found) <= WIDTH else found[: WIDTH - 1] + "…"
