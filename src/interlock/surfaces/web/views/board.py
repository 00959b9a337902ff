"""The board by state, one state alone, and the dependency graph."""

from __future__ import annotations

from typing import Any

from interlock.model.task import FINAL
from interlock.surfaces.web.moves import moves
from interlock.surfaces.web.tracks import picture
from interlock.surfaces.web.views.now import progress
from interlock.surfaces.web.visit import Visit

COLUMNS = (
    ("awaiting-response", "blocked", "deadletter", "review"),
    ("in-progress",),
    ("ready",),
    ("backlog",),
    ("done", "cancelled"),
)
"""What waits for people first, then the way of the work."""
ALWAYS = ("in-progress", "ready", "done")
"""Columns that stand also when they are empty: a board that changes its shape is hard to read."""
PER_COLUMN = 30
PER_PAGE = 100


def board(visit: Visit) -> dict[str, Any]:
    """Columns of cards, what waits for people first."""
    found = visit.team.board(limit=PER_COLUMN)
    columns = [
        [
            {
                "state": state,
                "count": found["counts"][state],
                "cards": [_card(task, visit.me) for task in found["tasks"][state]],
            }
            for state in states
            if found["counts"][state] or state in ALWAYS
        ]
        for states in COLUMNS
    ]
    columns = [column for column in columns if column]
    return {"columns": columns, "members": _members(visit), **progress(found["counts"])}


def state(visit: Visit) -> dict[str, Any]:
    """All tasks in one state, a page at a time."""
    name = visit.params["state"]
    tasks = visit.team.in_state(name, after=visit.number("after") or 0, limit=PER_PAGE + 1)
    shown = tasks[:PER_PAGE]
    return {
        "state": name,
        "cards": [_card(task, visit.me) for task in shown],
        "members": _members(visit),
        "next": shown[-1].n if len(tasks) > PER_PAGE else None,
    }


def graph(visit: Visit) -> dict[str, Any]:
    """Who waits for whom, as a picture; without what is finished, unless asked."""
    tasks, edges = visit.team.graph()
    everything = visit.query.get("all") == "yes"
    finished = sum(task.state in FINAL for task in tasks)
    hidden = not everything and len(tasks) > 80 and finished > 0
    if hidden:
        tasks = [task for task in tasks if task.state not in FINAL]
    return {"picture": picture(tasks, edges), "hidden": finished if hidden else 0, "total": len(tasks), "here": None}


def _card(task: Any, me: str) -> dict[str, Any]:
    return {"task": task, "moves": moves(task, me)}


def _members(visit: Visit) -> list[str]:
    return [member.name for member in visit.team.members() if member.role == "member"]
