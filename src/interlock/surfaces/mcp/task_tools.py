"""Tasks: create, list, claim, update, complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.app.team import Team
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.task import PRIORITIES, STATES, STATUS, TYPES, Task
from interlock.surfaces.mcp.shapes import brief
from interlock.surfaces.mcp.tool import Call, Tool, choice, flag, number, text, texts

LISTED = 100
MOST_LISTED = 1000


def _create(call: Call) -> dict[str, Any]:
    if "body" in call.arguments and "description" in call.arguments:
        raise InvalidRequest("body and description are the same thing; give one of them.", field="description")
    task = call.connection.team.create_task(
        call["subject"],
        body=call.get("body", call.get("description", "")),
        **call.given("type", "priority", "assignee", "blocked_by", "review", "verify"),
    )
    return task.as_dict()


def _list(call: Call) -> dict[str, Any]:
    team = call.connection.team
    if "id" in call.arguments:
        return _whole(team, call["id"])
    limit = call.get("limit", LISTED)
    found = team.tasks(**call.given("status", "owner", "ready"), limit=limit + 1)
    answer: dict[str, Any] = {"tasks": [brief(task) for task in found[:limit]]}
    if len(found) > limit:
        answer["more"] = f"Only the first {limit} are listed: narrow by status, owner or ready, or raise limit."
    return answer


def _whole(team: Team, reference: str) -> dict[str, Any]:
    task = team.task(reference)
    return {
        **task.as_dict(),
        "work_log": [{"at": at, "author": author, "text": line} for at, author, line in team.work_log(task.id)],
        "runs": [run.as_dict() for run in team.runs(task.id)],
    }


def _claim(call: Call) -> dict[str, Any]:
    team = call.connection.team
    if "task_id" in call.arguments:
        return _placed(call, team.claim(call["task_id"], **call.given("force", "take_over")))
    if call.get("force") or call.get("take_over"):
        raise InvalidRequest("force and take_over need a task_id.", field="task_id")
    task = team.next_task()
    if task is None:
        return {"task": None, "message": "No task is ready for you. poll_inbox waits for news."}
    return _placed(call, task)


def _placed(call: Call, task: Task) -> dict[str, Any]:
    """The task that was claimed, in a worktree where that was asked for. The claim stands whatever becomes of it."""
    if call.get("worktree"):
        try:
            task = call.connection.team.worktree(task.id)
        except InterlockError as error:
            error.details["claimed"] = task.id
            raise
    return task.as_dict()


def _complete(call: Call) -> dict[str, Any]:
    return call.connection.team.complete(call["task_id"], **call.given("summary")).as_dict()


EDITS = ("status", "subject", "body", "priority", "log")
EDGES = ("add_blocked_by", "remove_blocked_by")

VERBS: dict[str, Callable[[Team, str, Call], Any]] = {
    "release": lambda team, id, call: team.release(id, **call.given("reason")),
    "reject": lambda team, id, call: team.reject(id, reason=call["reject"]),
    "block": lambda team, id, call: team.block(id, reason=call["block"]),
    "unblock": lambda team, id, call: team.unblock(id),
    "assign": lambda team, id, call: team.assign(id, to=call["assign"] or None),
    "retry": lambda team, id, call: team.retry(id),
    "cancel": lambda team, id, call: team.cancel(id, **call.given("reason"))[0],
    "delete": lambda team, id, call: team.delete(id),
}


def _update(call: Call) -> dict[str, Any]:
    """One change a call: each is a transaction of its own, and half of a call must never stand alone."""
    team, id = call.connection.team, call["task_id"]
    for name in VERBS:
        if call.get(name) is False:
            raise InvalidRequest(f"{name}=false asks for nothing; leave it out.", field=name)
    verbs = [name for name in VERBS if name in call.arguments]
    edges = [name for name in EDGES if name in call.arguments]
    edits = call.given(*EDITS)
    asked = [*verbs, *edges, *(["/".join(edits)] if edits else [])]
    if len(asked) != 1:
        several = f"Call it once for each of: {', '.join(asked)}." if asked else "Name the change you want."
        raise InvalidRequest(f"task_update makes one change a call. {several}", field=asked[1] if asked else "task_id")
    if "reason" in call.arguments and verbs not in (["release"], ["cancel"]):
        raise InvalidRequest("reason belongs to release or cancel; block and reject take it as value.", field="reason")
    if edits:
        return team.update(id, **edits).as_dict()
    if verbs:
        changed: dict[str, Any] = VERBS[verbs[0]](team, id, call).as_dict()
        return changed
    return _change_edges(team, id, call[edges[0]], remove=edges[0] == "remove_blocked_by")


def _change_edges(team: Team, id: str, blockers: list[str], *, remove: bool) -> dict[str, Any]:
    done: list[str] = []
    task = team.task(id)
    try:
        for blocker in [team.task(reference).id for reference in blockers]:
            task = team.depend(id, on=blocker, remove=remove)
            done.append(blocker)
    except InterlockError as error:
        if done:
            error.details["changed"] = done
        raise
    return task.as_dict()


TOOLS = (
    Tool(
        "task_create",
        "Add a task to the team's list. It is claimable once everything in blocked_by is completed.",
        _create,
        {
            "subject": text("One line"),
            "body": text("What to do and when it counts as done"),
            "description": text("Same as body"),
            "priority": choice(*PRIORITIES),
            "type": choice(*TYPES),
            "assignee": text("The only member that may claim it"),
            "blocked_by": texts("Ids of tasks to wait for"),
            "review": text("Who must approve: none, human or a member"),
            "verify": text("Lead only: command that must succeed before it is completed"),
        },
        required=("subject",),
    ),
    Tool(
        "task_list",
        "List tasks, oldest first. `ready` gives those one can claim now, most urgent first. With `id`: that task "
        "whole, with body, output, workLog and runs.",
        _list,
        {
            "status": choice(*dict.fromkeys((*STATUS.values(), *STATES))),
            "owner": text("Member that holds it"),
            "ready": flag(),
            "id": text("Id, or its unique end such as 003"),
            "limit": number(1, MOST_LISTED, f"default {LISTED}"),
        },
        reads=True,
    ),
    Tool(
        "task_claim",
        "Take a task before you work on it; without task_id, the most urgent ready one. Then do the work and end with "
        "task_complete, or give it back with task_update(release=true). Refused while it has open blockers (blockedBy) "
        "or somebody else holds it.",
        _claim,
        {
            "task_id": text(),
            "force": flag("Claim it despite open blockers, with a warning"),
            "take_over": flag("Take it over from an earlier session of yours"),
            "worktree": flag("Get a git worktree for it, where the team has isolation: work in worktree.directory"),
        },
    ),
    Tool(
        "task_update",
        "Change a task, one change a call. Edits (status, subject, body, priority, log) may be combined; status goes "
        "forward only: pending, in_progress, completed.",
        _update,
        {
            "task_id": text(),
            "status": choice("pending", "in_progress", "completed"),
            "subject": text(),
            "body": text(),
            "priority": choice(*PRIORITIES),
            "log": text("Line for its work log: progress, findings"),
            "add_blocked_by": texts("Wait for these tasks"),
            "remove_blocked_by": texts("No longer wait for these"),
            "release": flag("Give it back"),
            "block": text("Stop: why you cannot go on"),
            "unblock": flag("The reason is gone"),
            "reject": text("As reviewer: what must change"),
            "assign": text("Reserve it for a member; empty: for nobody"),
            "retry": flag("Another chance after it failed"),
            "cancel": flag("Call it off"),
            "delete": flag("Remove it from the list"),
            "reason": text("Why, for release or cancel"),
        },
        required=("task_id",),
    ),
    Tool(
        "task_complete",
        "Report your task as finished; tasks that waited for it become claimable. Its verify command, if any, runs "
        "first: look at status in the answer (completed, or in_progress with findings or a review to come). As the "
        "reviewer of a task: approve it. Next: task_claim.",
        _complete,
        {"task_id": text(), "summary": text("What you did, and where it is")},
        required=("task_id",),
    ),
)
