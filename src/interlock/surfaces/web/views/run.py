"""One run of a workflow: how far it is, who examines and discusses the work, what is in force, and what can be done."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from interlock.errors import InterlockError, TaskNotFound
from interlock.surfaces.web.views import examined, workflows
from interlock.surfaces.web.visit import Visit
from interlock.workflow.state.rollback_plan import UNKNOWN

NAMES = {"tier": "Tier", "batch_size": "Batch size", "confidence": "Confidence"}
METHODS = {
    "project": "the project’s own",
    "profile": "a profile",
    "domain": "the domain",
    "inline": "said for this operation",
}
"""Who names a value, where it is not simply said."""
ASKED = ("serena_command", "serena_url")
"""Settings that name a program or server whose memories are read beside ours."""
AT_WORK, SHOWN = "working", 12
SUBAGENTS = {"working": "in-progress", "completed": "done", "interrupted": "backlog", "cancelled": "cancelled"}
HOOKS = {"ok": "done", "refused": "review", "failed": "deadletter", "cancelled": "cancelled"}


def found(visit: Visit) -> dict[str, Any]:
    """The run of the address; read once for all regions of the page. Raises WorkflowNotFound."""
    return visit.once("run", lambda: visit.team.workflow_run(visit.params["run"]))


def title(visit: Visit) -> str:
    """What the browser's tab says."""
    return f"{found(visit)['skill']} · {visit.project}"


def head(visit: Visit) -> dict[str, Any]:
    """Where it stands, with its buttons."""
    run = found(visit)
    task = _task(visit)
    over = task is None or task.state in ("done", "deadletter", "cancelled", "deleted")
    ended = run["state"] == "TERMINAL"
    undone = [one for one in run["rollbacks"] if not one.get("undone")]
    return {
        "run": workflows.shown(run),
        "task": task,
        "asks": bool(run.get("waiting")),
        "resumes": run["outcome"] == "FAILED" or (not ended and over),
        "cancels": not ended,
        "rolls_back": bool(run["checkpoints"]),
        "undoes": bool(undone) and undone[-1].get("kind", "rollback") == "rollback",
    }


def question(visit: Visit) -> dict[str, Any]:
    """The open question of its task."""
    run = found(visit)
    task = _task(visit)
    waiting = [one for one in visit.team.questions() if one.task_id == run["task_id"]] if task is not None else []
    return {"task": task, "question": waiting[0] if waiting else None, "more": len(waiting) - 1}


def steps(visit: Visit) -> dict[str, Any]:
    """Its steps with what was examined and how often; what the builder's validators and reviewers are at."""
    return {"run": workflows.shown(found(visit))}


def party(visit: Visit) -> dict[str, Any]:
    """The discussion under way, or the last one."""
    run = found(visit)
    held = examined.discussion(run["party"])
    return {"party": held, "place": workflows.place(run, held["step"]) if held and held["step"] is not None else ""}


def say(visit: Visit) -> dict[str, Any]:
    """The box for wishes and feedback."""
    return {"run": found(visit)}


def decisions(visit: Visit) -> dict[str, Any]:
    """What was decided and why."""
    run = found(visit)
    return {"decisions": visit.team.workflow_decisions(run["workflow_id"]) or run["decisions"]}


def around(visit: Visit) -> dict[str, Any]:
    """What is in force, who is at work beside the agent, what hooks did, what was learned and written."""
    run = found(visit)
    return {
        "run": run,
        "in_force": _in_force(run),
        "subagents": _subagents(run),
        "hooks": _hooks(run),
        "learned": [
            {**one, "place": workflows.place(run, one["step"]) if one.get("step") is not None else ""}
            for one in run["learned"]
        ],
        "documents": run["documents"],
        "misaligned": run["misaligned"],
    }


def preferences(visit: Visit) -> dict[str, Any]:
    """What was learned of the project's people, the newest first. A memory behind another server may take its time, and
    a page must not: there it is only said how to ask."""
    run = found(visit)
    elsewhere = visit.team.setting("memory")[0] == "forgetful" or any(visit.team.setting(one)[0] for one in ASKED)
    known: list[dict[str, Any]] = []
    if not elsewhere:
        with suppress(InterlockError):  # Its workflow is not installed any more: nothing is in force for it.
            known = visit.team.learned_preferences(run["workflow_id"])
    known.sort(key=lambda one: str(one.get("at") or ""), reverse=True)
    return {"preferences": known[:SHOWN], "more": max(0, len(known) - SHOWN), "elsewhere": elsewhere, "run": run}


def rollback(visit: Visit) -> dict[str, Any]:
    """The checkpoints, and with `?to=STEP` what going back to that one would do."""
    run = found(visit)
    to, plan, refused = visit.query.get("to"), None, None
    if to:
        try:
            plan = visit.team.rollback_workflow(run["workflow_id"], to=to, dry_run=True)
        except InterlockError as error:
            refused = error.message
    checkpoints = visit.team.workflow_checkpoints(run["workflow_id"])
    for one in checkpoints:
        one["place"] = workflows.place(run, one["step_id"])
    if plan is not None:
        plan["places"] = [workflows.place(run, one) for one in plan["rolled_back"]]
        plan["others"] = [one for one in plan["asked"] if one["why"] == UNKNOWN]
        plan["asked"] = [one for one in plan["asked"] if one["why"] != UNKNOWN]
        plan["place"] = workflows.place(run, plan["checkpoint"]["step_id"])
    return {"run": run, "checkpoints": checkpoints, "to": to, "plan": plan, "refused": refused}


def _task(visit: Visit) -> Any:
    """The task that carries it out, null where it is gone."""
    id = found(visit)["task_id"]

    def read() -> Any:
        try:
            return visit.team.task(id) if id else None
        except TaskNotFound:
            return None

    return visit.once("run's task", read)


def _in_force(run: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [
        {
            "name": NAMES.get(name, name.replace("_", " ").capitalize()),
            "value": one["value"],
            "said": one["text"] if one["method"] not in ("project", "domain") else "",
            "why": METHODS.get(one["method"], "") if one["method"] in ("project", "domain") else "",
        }
        for name, one in (run.get("in_force") or {}).items()
    ]
    return [*rows, {"name": "Progress", "value": run.get("progress_mode"), "said": "", "why": ""}]


def _subagents(run: dict[str, Any]) -> dict[str, Any]:
    known = [{"mark": SUBAGENTS.get(one["status"], "deadletter"), **one} for one in run["subagents"]]
    working = [one for one in known if one["status"] == AT_WORK and not run["outcome"]]
    over = [one for one in reversed(known) if one not in working]
    return {"working": working, "over": over[:SHOWN], "more": max(0, len(over) - SHOWN)}


def _hooks(run: dict[str, Any]) -> dict[str, Any]:
    steps = (run["hooks"] or {}).get("steps", {})
    last = [
        {
            "place": workflows.place(run, key.removeprefix("step_")),
            "mark": HOOKS.get(one.get("status", ""), "deadletter"),
            "said": one.get("reason") or one.get("message") or "",
            **{name: one.get(name) for name in ("event", "command", "status", "seconds", "critical")},
        }
        for key, kept in steps.items()
        for one in kept.get("last", ())
    ]
    ran, failed = (sum(int(kept.get(name, 0)) for kept in steps.values()) for name in ("runs", "failed"))
    return {"ran": ran, "failed": failed, "last": list(reversed(last))[:SHOWN]}
