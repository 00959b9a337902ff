"""One task: its question, its conversation, what its runs said, and everything that belongs to it."""

from __future__ import annotations

import os
from typing import Any

from interlock.app.team import Team
from interlock.errors import RunNotFound
from interlock.model.task import Task
from interlock.surfaces.web.moves import moves
from interlock.surfaces.web.prose import gist
from interlock.surfaces.web.sentences import QUIET
from interlock.surfaces.web.tracks import around, picture
from interlock.surfaces.web.visit import Visit

TAIL_BYTES = 24_000
"""So much of a run's output is shown; `interlock logs` has all of it."""


def story(visit: Visit) -> dict[str, Any]:
    """`Team.story` of the address's task; read once for all regions of the page."""
    return visit.once("story", lambda: visit.team.story(visit.params["task"]))


def title(visit: Visit) -> str:
    """The task's subject."""
    return str(story(visit)["task"].subject)


def waits_to_be_merged(task: Task) -> bool:
    """Whether its work is done, and in no branch of the person's that Interlock knows of."""
    known = task.worktree or {}
    return task.state == "done" and bool(known.get("head")) and not known.get("delivered")


def head(visit: Visit) -> dict[str, Any]:
    """What it is and where it stands, with its buttons."""
    found = story(visit)
    task: Task = found["task"]
    return {
        "task": task,
        "moves": moves(task, visit.me),
        "members": [member.name for member in visit.team.members() if member.role == "member"],
        "parent": found["parent"],
        "waits": waits_to_be_merged(task),
    }


def question(visit: Visit) -> dict[str, Any]:
    """The open question, one of them where several wait."""
    found = story(visit)
    waiting = [one for one in found["questions"] if one.state == "open"]
    return {"task": found["task"], "question": waiting[0] if waiting else None, "more": len(waiting) - 1}


def talk(visit: Visit) -> dict[str, Any]:
    """What was said about it, in order: the order itself, questions and answers, the Work Log, the result."""
    found = story(visit)
    task: Task = found["task"]
    said: list[dict[str, Any]] = [
        {"kind": "log", "at": at, "who": author, "text": text} for at, author, text in found["log"]
    ]
    for one in found["questions"]:
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
        "handoff": found["handoff"],
    }


def output(visit: Visit) -> dict[str, Any]:
    """The end of what its newest run printed, or of an older one (`?run=2`)."""
    found = story(visit)
    task: Task = found["task"]
    text, number, size = _tail(visit.team, task.id, visit.number("run"))
    return {"task": task, "text": text, "run": number, "size": size, "live": task.state == "in-progress"}


def work(visit: Visit) -> dict[str, Any]:
    """Its runs and its evidence."""
    found = story(visit)
    runs = list(reversed(found["runs"]))
    spent = any(run.cost_usd is not None or run.unmetered or any(run.tokens) for run in runs)
    files = visit.team.artifacts(found["task"].id)
    return {"task": found["task"], "runs": runs, "spent": spent, "files": files}


def facts(visit: Visit) -> dict[str, Any]:
    """What was decided about it, what it waits for and what waits for it."""
    found = story(visit)
    task: Task = found["task"]
    return {
        "task": task,
        "blockers": found["blockers"],
        "dependents": found["dependents"],
        "metadata": {key: gist(str(value), 200) for key, value in task.metadata.items()},
    }


def near(visit: Visit) -> dict[str, Any]:
    """Its place in the graph, as a picture of what is near."""
    found = story(visit)
    task: Task = found["task"]
    drawn = None
    if found["blockers"] or found["dependents"]:
        tasks, edges = visit.team.graph()
        close = around(task.id, edges)
        kept = [edge for edge in edges if edge[0] in close and edge[1] in close]
        drawn = picture([one for one in tasks if one.id in close], kept, focus=task.id, across=700)
    return {"picture": drawn, "here": task.id}


def history(visit: Visit) -> dict[str, Any]:
    """What happened to it, newest first."""
    events = story(visit)["events"]
    everything = visit.query.get("all") == "yes"
    return {
        "events": [event for event in reversed(events) if everything or event.type not in QUIET],
        "quiet": 0 if everything else sum(event.type in QUIET for event in events),
        "show_task": False,
    }


def _tail(team: Team, task: str, run: int | None) -> tuple[str, int, int]:
    try:
        path, number = team.output(task, run)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except (RunNotFound, OSError):
        return "", run or 0, 0
    return (text.partition("\n")[2] if size > TAIL_BYTES else text), number, size
