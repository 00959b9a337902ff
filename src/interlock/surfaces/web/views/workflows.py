"""Runs of workflows, with their steps, and what the engine decided and why."""

from __future__ import annotations

import time
from typing import Any

from interlock.surfaces.web.views import examined
from interlock.surfaces.web.views.task import story
from interlock.surfaces.web.visit import Visit
from interlock.workflow.preferences import progress_display
from interlock.workflow.state.document import GATE, place_of

SHOWN = 20
MARKS = {
    "pending": "backlog",
    "in_progress": "in-progress",
    "completed": "done",
    "skipped": "cancelled",
    "failed": "deadletter",
    "rolled_back": "cancelled",
}
"""Which signal a step shows."""


def runs(visit: Visit) -> dict[str, Any]:
    """The project's runs, the newest first."""
    found = visit.team.workflow_runs()
    return {"runs": [shown(one) for one in found[:SHOWN]], "more": max(0, len(found) - SHOWN)}


def of_task(visit: Visit) -> dict[str, Any]:
    """The run that carries out the address's task, with every decision; none where it is no workflow."""
    task = story(visit)["task"]
    found = visit.team.workflow_runs() if task.type == "WORKFLOW" else []
    run = next((one for one in found if one.get("task_id") == task.id), None)
    if run is None:
        return {"run": None}
    return {"run": {**shown(run), "decisions": visit.team.workflow_decisions(run["workflow_id"])}}


def shown(run: dict[str, Any]) -> dict[str, Any]:
    """A run as its macro wants it: its steps in order, each with its loop and what examined it."""
    steps = run.get("steps") or {}
    ordered = [steps[key] for id in run.get("plan_of_steps") or () if (key := f"step_{id}") in steps]
    planned = {str(one.get("id")) for one in ordered}
    met = [*ordered, *(one for one in steps.values() if str(one.get("id")) not in planned)]
    known = {str(one.get("id")) for one in met}
    left = (run.get("progress") or {}).get("remaining_steps", ()) if not run.get("outcome") else ()
    met += [{"id": one["step"], "name": one["name"]} for one in left if str(one["step"]) not in known]
    examinations = {
        f"{GATE}{name}": examined.examination(name, kept) for name, kept in (run.get("examinations") or {}).items()
    }
    return {
        **run,
        "steps": [
            {
                "mark": MARKS.get(str(one.get("status")), "backlog"),
                "loop": examined.loop((run.get("loops") or {}).get(f"step_{one.get('id')}", {})),
                "gate": str(one.get("id")).startswith(GATE),
                "examination": examinations.get(str(one.get("id"))),
                **one,
            }
            for one in met
        ],
        "decisions": run.get("decisions") or [],
        "said_about": ", ".join(_named(run)),
        "live": _live(run),
    }


def place(run: dict[str, Any], step: object) -> str:
    """How a step is called where it is spoken of: `step 3`, and an examination by its name."""
    return place_of(step, (run["steps"].get(f"step_{step}") or {}).get("name"))


def _live(run: dict[str, Any]) -> str | None:
    return progress_display.live(run, time.time())


def _named(run: dict[str, Any]) -> list[str]:
    """What was said about care and counts now; nothing where the project's own tier does."""
    return [
        f"{name.replace('_', ' ')} {one['value']} ({one['text']})"
        for name, one in (run.get("in_force") or {}).items()
        if one["method"] != "project"
    ]
