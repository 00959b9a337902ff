"""One task: its question, its conversation, what its runs said, what they changed, and what belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from interlock.errors import InterlockError, RunNotFound
from interlock.model.report import OutputEnd, TaskStory
from interlock.model.task import Task
from interlock.model.text import plain
from interlock.surfaces.web.event_text import QUIET
from interlock.surfaces.web.graph_layout import around, picture
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.prose import gist
from interlock.surfaces.web.task_actions import actions_for
from interlock.surfaces.web.views.project import plain_members

TAIL_BYTES = 24_000
"""So much of a run's output is shown; `interlock logs` has all of it."""
LINES, WIDTH, STAT = 3000, 500, 200
"""So many lines of a patch are shown, so much of each, and so many files; `interlock diff` has all of it."""
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
"""Characters that make a line read otherwise than it is compiled."""


def story(page: PageContext) -> TaskStory:
    """Return `Team.story` of the address's task; read once for all regions of the page."""
    return page.once("story", lambda: page.team.story(page.params["task"]))


def title(page: PageContext) -> str:
    return story(page).task.subject


def changes_title(page: PageContext) -> str:
    return f"Changes · {title(page)}"


def waits_to_be_merged(task: Task) -> bool:
    """Return whether its work is done, and in no branch of the person's that Interlock knows of."""
    known = task.worktree or {}
    return task.state == "done" and bool(known.get("head")) and not known.get("delivered")


def head(page: PageContext) -> dict[str, Any]:
    """What it is and where it stands, with its buttons."""
    found = story(page)
    task = found.task
    return {
        "task": task,
        "moves": actions_for(task, page.me),
        "members": plain_members(page.team),
        "parent": found.parent,
        "waits": waits_to_be_merged(task),
    }


def question(page: PageContext) -> dict[str, Any]:
    """The open question, one of them where several wait."""
    found = story(page)
    waiting = [one for one in found.questions if one.state == "open"]
    return {"task": found.task, "question": waiting[0] if waiting else None, "more": len(waiting) - 1}


def talk(page: PageContext) -> dict[str, Any]:
    """What was said about it, in order: the order itself, questions and answers, the Work Log, the result."""
    found = story(page)
    task = found.task
    said: list[dict[str, Any]] = [
        {"kind": "log", "at": at, "who": author, "text": text} for at, author, text in found.log
    ]
    for one in found.questions:
        said.append({"kind": "question", "at": one.asked_at, "who": one.asked_by, "text": one.text, "question": one})
        if one.state == "answered":
            said.append(
                {"kind": "answer", "at": one.answered_at, "who": one.answered_by, "text": one.answer, "question": one}
            )
    said.sort(key=lambda one: str(one["at"]))
    last = next((one["text"] for one in reversed(said) if one["kind"] == "log"), None)
    return {
        "task": task,
        "said": said,
        # A summary is logged too; said twice it would only be longer.
        "output": task.output if task.output and task.output != last and task.question is None else None,
        "handoff": found.handoff,
    }


def output(page: PageContext) -> dict[str, Any]:
    """The end of what its newest run printed, or of an older one (`?run=2`)."""
    task = story(page).task
    try:
        found = page.team.output_end(task.id, page.number("run"), most=TAIL_BYTES)
    except RunNotFound:
        found = OutputEnd(page.number("run") or 0, "", 0)
    return {"task": task, "output": found, "live": task.state == "in-progress"}


def work(page: PageContext) -> dict[str, Any]:
    """Its runs and its evidence."""
    found = story(page)
    runs = list(reversed(found.runs))
    spent = any(run.cost_usd is not None or run.unmetered or any(run.tokens) for run in runs)
    return {"task": found.task, "runs": runs, "spent": spent, "files": page.team.artifacts(found.task.id)}


def facts(page: PageContext) -> dict[str, Any]:
    """What was decided about it, what it waits for and what waits for it."""
    found = story(page)
    metadata = {key: gist(str(value), 200) for key, value in found.task.metadata.items()}
    return {"task": found.task, "blockers": found.blockers, "dependents": found.dependents, "metadata": metadata}


def near(page: PageContext) -> dict[str, Any]:
    """Its place in the graph, as a picture of what is near."""
    found = story(page)
    task = found.task
    drawn = None
    if found.blockers or found.dependents:
        tasks, edges = page.team.graph()
        close = around(task.id, edges)
        kept = [edge for edge in edges if edge[0] in close and edge[1] in close]
        drawn = picture([one for one in tasks if one.id in close], kept, focus=task.id, across=700)
    return {"picture": drawn, "here": task.id}


def history(page: PageContext) -> dict[str, Any]:
    """What happened to it, newest first."""
    events = story(page).events
    everything = page.query.get("all") == "yes"
    return {
        "events": [event for event in reversed(events) if everything or event.type not in QUIET],
        "quiet": 0 if everything else sum(event.type in QUIET for event in events),
        "show_task": False,
    }


def changes(page: PageContext) -> dict[str, Any]:
    """The patch with the files it is about, and what merging it into a branch of the person's would do."""
    task = story(page).task
    waits = waits_to_be_merged(task)
    refused = merge = why_not = None
    patch = files = ""
    try:
        files = page.team.diff(task.id, stat=True).diff
        patch = page.team.diff(task.id).diff
    except InterlockError as error:
        refused = error.message
    if page.may_act and waits:
        try:
            merge = page.acting.merge([task.id], dry_run=True)
        except InterlockError as error:
            why_not = error.message
    lines = patch.splitlines()
    return {
        "task": task,
        "refused": refused,
        "files": [_shown(one) for one in files.splitlines()[:STAT]],
        "lines": list(marked(lines[:LINES])),
        "more": max(0, len(lines) - LINES),
        "waits": waits,
        "merge": merge,
        "why_not": why_not,
    }


def marked(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each line of a patch with what it is: file, head, place, added, removed, or same."""
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
        yield kind, _shown(line)


def _shown(line: str) -> str:
    found = plain(TURNING.sub(lambda one: f"\\u{ord(one[0]):04x}", line))
    return found if len(found) <= WIDTH else found[: WIDTH - 1] + "…"
