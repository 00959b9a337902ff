"""The timeline of a project, and its report."""

from __future__ import annotations

import time
from typing import Any

from interlock.clock import iso
from interlock.core.reports.needs import folded
from interlock.errors import InterlockError
from interlock.model.event import EVENT_TYPES
from interlock.surfaces.web.sentences import QUIET
from interlock.surfaces.web.visit import Visit

PER_PAGE = 150
TOLD = tuple(sorted(set(EVENT_TYPES) - QUIET))
SINCE = {"1h": "an hour", "12h": "12 hours", "24h": "a day", "7d": "a week", "": "the beginning"}
SECONDS = {"1h": 3600, "12h": 43_200, "24h": 86_400, "7d": 604_800}


def timeline(visit: Visit) -> dict[str, Any]:
    """What happened, newest first, by day."""
    everything = visit.query.get("all") == "yes"
    found = visit.team.latest(before=visit.number("before"), limit=PER_PAGE + 1, types=() if everything else TOLD)
    shown = found[:PER_PAGE]
    days: dict[str, list[Any]] = {}
    for event in shown:
        days.setdefault(event.at[:10], []).append(event)
    subjects: dict[str, str] = {}
    for id in {event.task_id for event in shown if event.task_id}:
        try:
            subjects[id] = visit.team.task(id).subject
        except InterlockError:
            continue  # Its name is only a help.
    return {
        "days": list(days.items()),
        "subjects": subjects,
        "older": shown[-1].seq if len(found) > PER_PAGE else None,
        "everything": everything,
        "show_task": True,
    }


def report(visit: Visit) -> dict[str, Any]:
    """What was done with its evidence, what failed and why, what is left: of one project, or of all."""
    since = visit.query.get("since", "")
    at = _before(SECONDS[since]) if since in SECONDS else None
    names = [visit.project] if visit.project else visit.teams
    found = []
    for name in names:
        try:
            one = visit.named(name).report(at)
            found.append({**one, "needs_me": folded(one["needs_me"])})
        except InterlockError as error:
            found.append({"team": name, **error.as_dict()})
    return {"reports": found, "since": since if since in SINCE else "", "choices": SINCE, "one": bool(visit.project)}


def _before(seconds: int) -> str:
    return iso(time.time() - seconds)
