"""Chat: the sessions of a project, and one of them as a conversation."""

from __future__ import annotations

from typing import Any

from interlock.model.task import Task
from interlock.surfaces.web.moves import moves
from interlock.surfaces.web.prose import gist
from interlock.surfaces.web.visit import Visit

PER_PAGE = 20


def sessions(visit: Visit) -> dict[str, Any]:
    """The project's chat sessions, the one with the newest news first."""
    offset = visit.number("offset") or 0
    groups, total = visit.home.task_groups(visit.project, offset=offset, limit=PER_PAGE)
    more = offset + PER_PAGE if offset + PER_PAGE < total else None
    return {"groups": groups, "total": total, "offset": offset, "more": more}


def title(visit: Visit) -> str:
    """What the session began with."""
    tasks = _tasks(visit)
    return gist(tasks[0].subject, 100) if tasks else visit.params["session"]


def thread(visit: Visit) -> dict[str, Any]:
    """What was asked for in one session, and what became of it."""
    tasks = _tasks(visit)
    words = {task["task_id"]: task.get("last_words") for task in visit.status["running"]}
    return {"turns": [_turn(visit, task, words.get(task.id)) for task in tasks]}


def _tasks(visit: Visit) -> list[Task]:
    return visit.once("group", lambda: visit.home.group_tasks(visit.params["session"], project=visit.project))


def _turn(visit: Visit, task: Task, words: str | None) -> dict[str, Any]:
    asked = [one for one in visit.team.questions() if one.task_id == task.id] if task.question else []
    exchanges = visit.team.conversation(task.id)
    return {
        "task": task,
        "words": words,
        "question": asked[0] if asked else None,
        "exchanges": [one for one in exchanges if one.get("answer") is not None],
        "moves": moves(task, visit.me),
    }
