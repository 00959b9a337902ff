"""Runs of workflows: how far each is, who reviews and discusses the work, what is in force, and what can be done."""

from __future__ import annotations

import time
from contextlib import suppress

from interlock.errors import InterlockError, TaskNotFound
from interlock.model import progress
from interlock.model.json import Json
from interlock.model.task import Task
from interlock.model.workflow import GATE, NOT_THE_RUNS, evidence_of, place_of
from interlock.surfaces.web.page_context import PageContext
from interlock.surfaces.web.views import reviews
from interlock.surfaces.web.views.task import story

RUNS_SHOWN = 20
SHOWN = 12
STEP_MARKS = {
    "pending": "backlog",
    "in_progress": "in-progress",
    "completed": "done",
    "skipped": "cancelled",
    "failed": "deadletter",
    "rolled_back": "cancelled",
}
"""Which signal a step shows."""
SUBAGENT_MARKS = {"working": "in-progress", "completed": "done", "interrupted": "backlog", "cancelled": "cancelled"}
HOOK_MARKS = {"ok": "done", "refused": "review", "failed": "deadletter", "cancelled": "cancelled"}
VALUE_NAMES = {"tier": "Tier", "batch_size": "Batch size", "confidence": "Confidence"}
VALUE_SOURCES = {"project": "the project’s own", "domain": "the domain"}
"""Who names a value, where it is not simply said."""
OTHER_MEMORIES = ("serena_command", "serena_url")
"""Settings that name a program or server whose memories are read beside ours."""


def runs(page: PageContext) -> Json:
    """The project's runs, the newest first."""
    found = page.team.workflow_runs()
    return {"runs": [shown(one) for one in found[:RUNS_SHOWN]], "more": max(0, len(found) - RUNS_SHOWN)}


def of_task(page: PageContext) -> Json:
    """The run that carries out the address's task, with every decision; none where it is not a workflow."""
    task = story(page).task
    found = page.team.workflow_runs() if task.type == "WORKFLOW" else []
    run = next((one for one in found if one.get("task_id") == task.id), None)
    if run is None:
        return {"run": None}
    return {"run": {**shown(run), "decisions": page.team.workflow_decisions(run["workflow_id"])}}


def run_of(page: PageContext) -> Json:
    """Return the run of the address; read once for all regions of the page.

    Raises:
        WorkflowNotFound: there is none.
    """
    return page.once("run", lambda: page.team.workflow_run(page.params["run"]))


def task_of(page: PageContext) -> Task | None:
    """Return the task that carries out the run, unless it is gone."""

    def read() -> Task | None:
        with suppress(TaskNotFound):
            return page.team.task(run_of(page)["task_id"]) if run_of(page)["task_id"] else None
        return None

    return page.once("run's task", read)


def shown(run: Json) -> Json:
    """Return a run as its macro wants it: its steps in order, each with its loop and what reviewed it."""
    steps = run.get("steps") or {}
    ordered = [steps[key] for id in run.get("plan_of_steps") or () if (key := f"step_{id}") in steps]
    planned = {str(one.get("id")) for one in ordered}
    met = [*ordered, *(one for one in steps.values() if str(one.get("id")) not in planned)]
    known = {str(one.get("id")) for one in met}
    left = (run.get("progress") or {}).get("remaining_steps", ()) if not run.get("outcome") else ()
    met += [{"id": one["step"], "name": one["name"]} for one in left if str(one["step"]) not in known]
    reviewed = {
        f"{GATE}{name}": reviews.examination(name, kept) for name, kept in (run.get("examinations") or {}).items()
    }
    # What was said about care and counts now; the project's own tier is not worth a line.
    in_force = [(name, one) for name, one in (run.get("in_force") or {}).items() if one["method"] != "project"]
    return {
        **run,
        "steps": [
            {
                "mark": STEP_MARKS.get(str(one.get("status")), "backlog"),
                "loop": reviews.loop((run.get("loops") or {}).get(f"step_{one.get('id')}", {})),
                "gate": str(one.get("id")).startswith(GATE),
                "rests_on": evidence_of(one),
                "examination": reviewed.get(str(one.get("id"))),
                **one,
            }
            for one in met
        ],
        "decisions": run.get("decisions") or [],
        "said_about": ", ".join(f"{name.replace('_', ' ')} {one['value']} ({one['text']})" for name, one in in_force),
        "live": progress.live(run, time.time()),
    }


def place(run: Json, step: object) -> str:
    """Return how a step is called where it is spoken of: `step 3`, and a review by its name."""
    return place_of(step, (run["steps"].get(f"step_{step}") or {}).get("name"))


def title(page: PageContext) -> str:
    return f"{run_of(page)['skill']} · {page.project}"


def head(page: PageContext) -> Json:
    """Where it stands, with its buttons."""
    run, task = run_of(page), task_of(page)
    over = task is None or task.state in ("done", "deadletter", "cancelled", "deleted")
    ended = run["state"] == "TERMINAL"
    undone = [one for one in run["rollbacks"] if not one.get("undone")]
    return {
        "run": shown(run),
        "task": task,
        "asks": bool(run.get("waiting")),
        "resumes": run["outcome"] == "FAILED" or (not ended and over),
        "cancels": not ended,
        "rolls_back": bool(run["checkpoints"]),
        "undoes": bool(undone) and undone[-1].get("kind", "rollback") == "rollback",
    }


def question(page: PageContext) -> Json:
    """The open question of its task."""
    task = task_of(page)
    waiting = [one for one in page.team.questions() if one.task_id == task.id] if task is not None else []
    return {"task": task, "question": waiting[0] if waiting else None, "more": len(waiting) - 1}


def steps(page: PageContext) -> Json:
    return {"run": shown(run_of(page))}


def party(page: PageContext) -> Json:
    """The discussion under way, or the last one."""
    run = run_of(page)
    held = reviews.discussion(run["party"])
    return {"party": held, "place": place(run, held["step"]) if held and held["step"] is not None else ""}


def say(page: PageContext) -> Json:
    """The box for wishes and feedback."""
    return {"run": run_of(page)}


def decisions(page: PageContext) -> Json:
    run = run_of(page)
    return {"decisions": page.team.workflow_decisions(run["workflow_id"]) or run["decisions"]}


def around(page: PageContext) -> Json:
    """What is in force, which subagents are at work, what hooks did, what was learned and written."""
    run = run_of(page)
    values = []
    for name, one in (run.get("in_force") or {}).items():
        source = VALUE_SOURCES.get(one["method"])
        label = VALUE_NAMES.get(name, name.replace("_", " ").capitalize())
        values.append(
            {"name": label, "value": one["value"], "said": "" if source else one["text"], "why": source or ""}
        )
    values.append({"name": "Progress", "value": run.get("progress_mode"), "said": "", "why": ""})
    subagents = [{"mark": SUBAGENT_MARKS.get(one["status"], "deadletter"), **one} for one in run["subagents"]]
    working = [one for one in subagents if one["status"] == "working" and not run["outcome"]]
    over = [one for one in reversed(subagents) if one not in working]
    return {
        "run": run,
        "in_force": values,
        "subagents": {"working": working, "over": over[:SHOWN], "more": max(0, len(over) - SHOWN)},
        "hooks": _hooks(run, (run["hooks"] or {}).get("steps", {})),
        "learned": [
            {**one, "place": place(run, one["step"]) if one.get("step") is not None else ""} for one in run["learned"]
        ],
        "documents": run["documents"],
        "misaligned": run["misaligned"],
    }


def _hooks(run: Json, steps: Json) -> Json:
    last = [
        {
            "place": place(run, key.removeprefix("step_")),
            "mark": HOOK_MARKS.get(one.get("status", ""), "deadletter"),
            "said": one.get("reason") or one.get("message") or "",
            **{name: one.get(name) for name in ("event", "command", "status", "seconds", "critical")},
        }
        for key, kept in steps.items()
        for one in kept.get("last", ())
    ]
    ran, failed = (sum(int(kept.get(name, 0)) for kept in steps.values()) for name in ("runs", "failed"))
    return {"ran": ran, "failed": failed, "last": list(reversed(last))[:SHOWN]}


def preferences(page: PageContext) -> Json:
    """What was learned of the project's people, the newest first.

    A memory behind another server may take its time, and a page must not: there it is only said how to ask.
    """
    run, setting = run_of(page), page.team.setting
    elsewhere = setting("memory")[0] == "forgetful" or any(setting(one)[0] for one in OTHER_MEMORIES)
    known: list[Json] = []
    if not elsewhere:
        with suppress(InterlockError):  # Its workflow is not installed any more: nothing is in force for it.
            known = page.team.learned_preferences(run["workflow_id"])
    known.sort(key=lambda one: str(one.get("at") or ""), reverse=True)
    return {"preferences": known[:SHOWN], "more": max(0, len(known) - SHOWN), "elsewhere": elsewhere, "run": run}


def rollback(page: PageContext) -> Json:
    """The checkpoints, and with `?to=STEP` what going back to that one would do."""
    run = run_of(page)
    to, plan, refused = page.query.get("to"), None, None
    if to:
        try:
            plan = page.team.rollback_workflow(run["workflow_id"], to=to, dry_run=True)
        except InterlockError as error:
            refused = error.message
    checkpoints = page.team.workflow_checkpoints(run["workflow_id"])
    for one in checkpoints:
        one["place"] = place(run, one["step_id"])
    if plan is not None:
        plan["places"] = [place(run, one) for one in plan["rolled_back"]]
        plan["others"] = [one for one in plan["asked"] if one["why"] == NOT_THE_RUNS]
        plan["asked"] = [one for one in plan["asked"] if one["why"] != NOT_THE_RUNS]
        plan["place"] = place(run, plan["checkpoint"]["step_id"])
    return {"run": run, "checkpoints": checkpoints, "to": to, "plan": plan, "refused": refused}
