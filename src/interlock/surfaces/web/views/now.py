"""What needs a person now, what runs, what is next; and the navigation, which counts it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.app.team import Team
from interlock.core.reports.needs import folded
from interlock.core.reports.now import in_words
from interlock.errors import TaskNotFound
from interlock.model.question import Question
from interlock.surfaces.web.moves import moves
from interlock.surfaces.web.visit import Visit

FAILED = {"escalation": "deadletter"}
"""The need that a question of that kind stands for, where it is not called by its kind."""
SHOWN = 40
"""Needs of one project that are shown at once; more are counted."""


def nav(visit: Visit) -> dict[str, Any]:
    """The projects with how many things in each need a person."""
    found = [visit.glance(name) for name in visit.teams]
    here = next((one for one in found if one["name"] == visit.project), None)
    return {"projects": found, "needs": sum(one["needs"] for one in found), "here": here}


def needs_everywhere(visit: Visit) -> dict[str, Any]:
    """What needs a person, of all projects."""
    groups = [_group(visit.named(status["team"]), status, visit.me) for status in visit.statuses if _anything(status)]
    return {"groups": groups, "show_project": True, "any_projects": bool(visit.teams)}


def needs_here(visit: Visit) -> dict[str, Any]:
    """What needs a person, of one project."""
    groups = [_group(visit.team, visit.status, visit.me)] if _anything(visit.status) else []
    return {"groups": groups, "show_project": False, "any_projects": True}


def projects(visit: Visit) -> dict[str, Any]:
    """Every project in a line."""
    return {"projects": [{**status, **progress(status["counts"])} for status in visit.statuses]}


def doing(visit: Visit) -> dict[str, Any]:
    """What runs and what is next, of one project."""
    status = visit.status
    told = {need["task_id"] for need in status["needs_me"]}
    return {
        "status": status,
        "waiting": [task for task in status["waiting"] if task["task_id"] not in told],
        **progress(status["counts"]),
    }


def progress(counts: dict[str, int]) -> dict[str, Any]:
    """How far a project is: `{total, done, share}`; what was called off does not count."""
    total = sum(number for state, number in counts.items() if state not in ("deleted", "cancelled"))
    done = counts.get("done", 0)
    return {"total": total, "done": done, "share": round(100 * done / total) if total else 0}


def _anything(status: dict[str, Any]) -> bool:
    return bool(status["needs_me"] or status.get("unable"))


def _group(team: Team, status: dict[str, Any], me: str) -> dict[str, Any]:
    needs = _needs(team, status, me)
    return {
        "project": team.name,
        "needs": needs[:SHOWN],
        "more": len(needs) - SHOWN,
        "unable": [in_words(one) for one in status["unable"]],
        "members": [member.name for member in team.members() if member.role == "member"],
    }


def _needs(team: Team, status: dict[str, Any], me: str) -> list[dict[str, Any]]:
    """Questions with what it takes to answer them first, then the rest with its buttons."""
    questions: dict[str, list[Question]] = {}
    for one in team.questions():
        questions.setdefault(one.task_id, []).append(one)
    found: list[dict[str, Any]] = []
    for need in folded(status["needs_me"]):
        asked = questions.get(need["task_id"])
        question = asked.pop(0) if asked and need["kind"] in (asked[0].kind, FAILED.get(asked[0].kind)) else None
        entry = {**need, "question": question, "task": None, "moves": [], "on": None}
        if len(found) < SHOWN:
            try:
                entry["task"] = team.task(need["task_id"])
            except TaskNotFound:
                continue  # Deleted between two looks.
            entry["moves"] = _useful(need["kind"], moves(entry["task"], me))
            if need["kind"] == "broken":
                entry["on"] = next((id for id in entry["task"].blocked_by if id in need["text"]), None)
        found.append(entry)
    return sorted(found, key=lambda one: one["question"] is None)


def _useful(kind: str, found: Iterable[Any]) -> list[Any]:
    """The buttons that end a need of that kind."""
    wanted = {
        "review": ("approve", "reject"),
        "blocked": ("unblock", "cancel"),
        "deadletter": ("retry", "assign", "cancel"),
        "unclaimable": ("assign", "claim"),
        "stopped": ("assign",),
        "held": ("complete", "release"),
        "broken": ("cancel",),
    }.get(kind, ())
    return sorted((move for move in found if move.verb in wanted), key=lambda move: wanted.index(move.verb))
