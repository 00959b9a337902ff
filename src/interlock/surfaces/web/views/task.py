"""One task: its question, its conversation, what its runs said, what belongs to it, and its review."""

from __future__ import annotations

from interlock.errors import InterlockError, RunNotFound
from interlock.model.json import Json
from interlock.model.task import Task
from interlock.model.views import OutputLines, TaskStory
from interlock.surfaces.web.event_text import QUIET, lengths
from interlock.surfaces.web.graph_layout import around, picture
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.patch import FILES, files_of
from interlock.surfaces.web.prose import gist
from interlock.surfaces.web.task_actions import actions_for
from interlock.surfaces.web.views.project import plain_members

BASELINES_LOOKED_AT = 200
"""Checks on trees before the work among which that of a task is looked for."""
PATCH_BYTES = 2 * 1024**2
"""So much of a patch is looked at for the page of changes."""
TAIL_LINES, LOG_LINES = 200, 1000
"""So many lines of a run's output are shown on the task's page, and on one page of its log."""


def story(page: PageContext) -> TaskStory:
    """Return `Team.story` of the address's task; read once for all regions of the page."""
    return page.once("story", lambda: page.team.story(page.params["task"]))


def title(page: PageContext) -> str:
    return story(page).task.subject


def log_title(page: PageContext) -> str:
    return f"Log · {title(page)}"


def review_title(page: PageContext) -> str:
    return f"Review · {title(page)}"


def waits_to_be_merged(task: Task) -> bool:
    """Return whether its work is done, and in no branch of the person's that Interlock knows of."""
    known = task.worktree or {}
    return task.state == "done" and bool(known.get("head")) and not known.get("delivered")


def head(page: PageContext) -> Json:
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


def question(page: PageContext) -> Json:
    """The open question, one of them where several wait."""
    found = story(page)
    waiting = [one for one in found.questions if one.state == "open"]
    return {"task": found.task, "question": waiting[0] if waiting else None, "more": len(waiting) - 1}


def talk(page: PageContext) -> Json:
    """What was said about it, in order: the order itself, questions and answers, the Work Log, the result."""
    found = story(page)
    task = found.task
    said: list[Json] = [{"kind": "log", "at": at, "who": author, "text": text} for at, author, text in found.log]
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


def output(page: PageContext) -> Json:
    """The end of what its newest run printed, or of an older one (`?run=2`)."""
    return _printed(page, TAIL_LINES, None)


def log(page: PageContext) -> Json:
    """A page of what a run printed: its end, from a line on (`?line=120`), or from where words are (`?find=error`)."""
    find = page.query.get("find", "").strip()[:200]
    printed = _printed(page, LOG_LINES, page.number("line"), find or None)
    return {**printed, "find": find, "runs": [run.number for run in story(page).runs], "page_lines": LOG_LINES}


def _printed(page: PageContext, most: int, first: int | None, find: str | None = None) -> Json:
    task, runs, run = story(page).task, story(page).runs, page.number("run")
    last = runs[-1] if runs else None
    # What a person or a joined window does by hand is printed nowhere here.
    live = last is not None and last.runner is not None
    try:
        found = page.team.output_lines(task.id, run, first=first, find=find, most=most)
        live = True
    except RunNotFound:
        found = OutputLines(run or (last.number if last else 0), 1, [], 0, 0, None)
    live = live and last is not None and last.number == found.run and task.state == "in-progress"
    return {"task": task, "output": found, "live": live}


def work(page: PageContext) -> Json:
    """Its runs and its evidence."""
    found = story(page)
    runs = list(reversed(found.runs))
    spent = any(run.cost_usd is not None or run.unmetered or any(run.tokens) for run in runs)
    return {"task": found.task, "runs": runs, "spent": spent, "files": page.team.artifacts(found.task.id)}


def facts(page: PageContext) -> Json:
    """What was decided about it, what it waits for and what waits for it."""
    found = story(page)
    metadata = {key: gist(str(value), 200) for key, value in found.task.metadata.items()}
    return {"task": found.task, "blockers": found.blockers, "dependents": found.dependents, "metadata": metadata}


def near(page: PageContext) -> Json:
    """Its place in the graph, as a picture of what is near."""
    found = story(page)
    task = found.task
    drawn = None
    if found.blockers or found.dependents:
        tasks, edges = page.team.graph()
        close = around(task.id, edges, steps=2, most=24)
        kept = [edge for edge in edges if edge[0] in close and edge[1] in close]
        drawn = picture([one for one in tasks if one.id in close], kept, focus=task.id, across=700)
    return {"picture": drawn, "here": task.id}


def history(page: PageContext) -> Json:
    """What happened to it, newest first."""
    events = story(page).events
    everything = page.query.get("all") == "yes"
    return {
        "events": [event for event in reversed(events) if everything or event.type not in QUIET],
        "lengths": lengths(events),
        "quiet": 0 if everything else sum(event.type in QUIET for event in events),
        "show_task": False,
    }


def about(page: PageContext) -> Json:
    """What was asked for and what its author says of it, with its check."""
    found = story(page)
    words = [text for _, author, text in found.log if author == found.task.owner]
    return {
        "task": found.task,
        "said": found.task.output or (words[-1] if words else ""),
        "before": _printed_before(page, found.task),
    }


def _printed_before(page: PageContext, task: Task) -> str | None:
    """Return the end of what the task's check printed on the tree before the work, where that is among the latest."""
    tree = (task.worktree or {}).get("tree")
    if tree is None or task.verify is None:
        return None
    ran = page.team.latest(types=("verify.before",), limit=BASELINES_LOOKED_AT)
    known = (one.payload for one in ran if (one.payload["tree"], one.payload["command"]) == (tree, task.verify))
    return next((found for one in known if (found := one.get("tail"))), None)


def changes(page: PageContext) -> Json:
    """The patch, file by file."""
    task = story(page).task
    refused, patch, cut = None, "", False
    try:
        found = page.team.diff(task.id, most=PATCH_BYTES)
        patch, cut = found.diff, found.next is not None
    except InterlockError as error:
        refused = error.message
    files = files_of(patch)
    return {
        "task": task,
        "refused": refused,
        "cut": cut,
        "files": files[:FILES],
        "left_out": len(files) - len(files[:FILES]),
        "added": sum(one.added for one in files),
        "removed": sum(one.removed for one in files),
    }


def decide(page: PageContext) -> Json:
    """The question with its answers or the merge into a branch of the person's, and the review that comes next."""
    task = story(page).task
    waits = waits_to_be_merged(task)
    merge = why_not = None
    if page.may_act and waits:
        try:
            merge = page.acting.merge([task.id], dry_run=True)
        except InterlockError as error:
            why_not = error.message
    others = reviews(page, task.id)
    return {
        **question(page),
        "waits": waits,
        "merge": merge,
        "why_not": why_not,
        "next": others[0] if others else None,
        "left": len(others),
    }


def reviews(page: PageContext, here: str) -> list[str]:
    """Return the tasks whose review waits for a person, those after `here` first."""
    found = [one.task_id for one in page.team.questions() if one.kind == "review"]
    at = found.index(here) if here in found else -1
    return [id for id in found[at + 1 :] + found[: max(at, 0)] if id != here]
