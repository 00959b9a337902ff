"""Tasks: create, list, claim, update, complete; report and hand over in AOF/1; ask a human about one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Unpack

from pydantic import BaseModel, Field

from interlock.app.team import Team
from interlock.clock import iso
from interlock.errors import InterlockError, InvalidRequest, MessageRefused
from interlock.model.json import Json
from interlock.model.names import LEAD
from interlock.model.task import FINAL, HELD, PRIORITIES, STATES, STATUS, Task, TaskSpec
from interlock.surfaces.mcp.tool import HIDDEN, STRICT, McpTool, OneOf, ToolCall, camel, given

LISTED = 100
ALWAYS_LISTED = (
    "id", "subject", "state", "status", "owner", "assignee", "type", "priority", "blocked_by", "blocks", "warnings",
    "created_at", "updated_at", "claimed_at", "completed_at",
)  # fmt: skip
NEVER_LISTED = ("body", "output", "context", "evidence", "metadata", "run", "changed")
DAY = 86_400.0

TaskId = Annotated[str | None, "default: the one you hold"]
Priority = Annotated[str, OneOf(PRIORITIES)]
Count = Annotated[int | None, Field(ge=0, le=1_000_000)]


class TestCounts(BaseModel):
    model_config = STRICT

    total: Count = None
    passed: Count = None
    failed: Count = None


def task_create(
    call: ToolCall,
    *,
    subject: Annotated[str, "One line"],
    description: Annotated[str | None, "Same as body"] = None,
    data: Annotated[Json | None, HIDDEN] = None,
    active_form: Annotated[str | None, HIDDEN] = None,
    **fields: Unpack[TaskSpec],
) -> Task:
    """Add a task to the team's list. It is claimable once everything in blocked_by is completed."""
    if description is not None:
        if "body" in fields:
            raise InvalidRequest("body and description are the same thing; give one of them.", field="description")
        fields["body"] = description
    if data is not None or active_form is not None:
        fields["metadata"] = {**(data or {}), **given(activeForm=active_form)}
    return call.connection.team.create_task(subject, **fields)


def task_list(
    call: ToolCall,
    *,
    status: Annotated[str, OneOf(tuple(dict.fromkeys((*STATUS.values(), *STATES))))] | None = None,
    owner: Annotated[str | None, "Member that holds it"] = None,
    ready: bool | None = None,
    id: Annotated[str | None, "Id, or its unique end such as 003"] = None,
    limit: Annotated[int | None, Field(ge=1, le=1000), f"default {LISTED}"] = None,
    include_completed: Annotated[bool | None, HIDDEN] = None,
) -> Json:
    """List tasks, oldest first. `ready` gives those one can claim now, most urgent first. With `id`: that task whole,
    with body, output, workLog and runs."""
    team = call.connection.team
    if id is not None:
        task = team.task(id)
        return {
            **task.as_dict(),
            "work_log": [{"at": at, "author": author, "text": line} for at, author, line in team.work_log(task.id)],
            "runs": team.runs(task.id),
        }
    limit = limit or LISTED
    if include_completed is False and status is None:
        found = [task for task in team.tasks(owner=owner, ready=bool(ready)) if task.state not in FINAL][: limit + 1]
    else:
        found = team.tasks(status=status, owner=owner, ready=bool(ready), limit=limit + 1)
    answer: Json = {"tasks": [_brief(task) for task in found[:limit]]}
    if len(found) > limit:
        answer["more"] = f"Only the first {limit} are listed: narrow by status, owner or ready, or raise limit."
    return answer


def _brief(task: Task) -> Json:
    """Return a task for a list: without its long texts, and without fields that are empty for most tasks."""
    worktree = {name: value for name, value in (task.worktree or {}).items() if name != "changes"}
    return {
        name: value
        for name, value in {**task.as_dict(), "worktree": worktree}.items()
        if name in ALWAYS_LISTED or (name not in NEVER_LISTED and value not in (None, [], {}, 0))
    }


def task_claim(
    call: ToolCall,
    *,
    task_id: str | None = None,
    force: Annotated[bool | None, "Claim it despite open blockers, with a warning"] = None,
    take_over: Annotated[bool | None, "Take it over from an earlier session of yours"] = None,
    worktree: Annotated[
        bool | None, "Get a git worktree for it, where the team has isolation: work in worktree.directory"
    ] = None,
) -> Task | Json:
    """Take a task before you work on it; without task_id, the most urgent ready one. Then do the work and end with
    task_complete, or give it back with task_update(release=true). Refused while it has open blockers (blockedBy) or
    somebody else holds it."""
    team = call.connection.team
    if task_id is not None:
        task = team.claim(task_id, force=bool(force), take_over=bool(take_over))
    elif force or take_over:
        raise InvalidRequest("force and take_over need a task_id.", field="task_id")
    elif (found := team.next_task()) is not None:
        task = found
    else:
        return {"task": None, "message": "No task is ready for you. poll_inbox waits for news."}
    if worktree:
        try:
            task = team.worktree(task.id)
        except InterlockError as error:
            error.details["claimed"] = task.id  # The claim stands.
            raise
    return task


CHANGES: dict[str, Callable[[Team, str, Any, Json], Task]] = {
    "release": lambda team, id, value, reason: team.release(id, **reason),
    "reject": lambda team, id, value, reason: team.reject(id, reason=value),
    "block": lambda team, id, value, reason: team.block(id, reason=value),
    "unblock": lambda team, id, value, reason: team.unblock(id),
    "assign": lambda team, id, value, reason: team.assign(id, to=value or None),
    "retry": lambda team, id, value, reason: team.retry(id),
    "cancel": lambda team, id, value, reason: team.cancel(id, **reason)[0],
    "delete": lambda team, id, value, reason: team.delete(id),
    "add_blocked_by": lambda team, id, value, reason: _change_edges(team, id, value, remove=False),
    "remove_blocked_by": lambda team, id, value, reason: _change_edges(team, id, value, remove=True),
}
"""What `task_update` can do beside edits, in the order of its faults: (team, task id, value, reason)."""


def task_update(
    call: ToolCall,
    *,
    task_id: TaskId = None,
    status: Annotated[str, OneOf(("pending", "in_progress", "completed"))] | None = None,
    subject: str | None = None,
    body: str | None = None,
    priority: Priority | None = None,
    log: Annotated[str | None, "Line for its work log: progress, findings"] = None,
    add_blocked_by: Annotated[list[str] | None, "Wait for these tasks"] = None,
    remove_blocked_by: Annotated[list[str] | None, "No longer wait for these"] = None,
    release: Annotated[bool | None, "Give it back"] = None,
    block: Annotated[str | None, "Stop: why you cannot continue"] = None,
    unblock: Annotated[bool | None, "Clear its block"] = None,
    reject: Annotated[str | None, "As reviewer: what must change"] = None,
    assign: Annotated[str | None, "Reserve it for a member; empty: for nobody"] = None,
    retry: Annotated[bool | None, "Another chance after it failed"] = None,
    cancel: Annotated[bool | None, "Call it off"] = None,
    delete: Annotated[bool | None, "Remove it from the list"] = None,
    reason: Annotated[str | None, "Why, for release or cancel"] = None,
) -> Task:
    """Change a task, one change a call. Edits (status, subject, body, priority, log) may be combined; status goes
    forward only: pending, in_progress, completed."""
    # Each change is a transaction of its own, and half of a call must never stand alone.
    edits = given(status=status, subject=subject, body=body, priority=priority, log=log)
    changes = given(
        release=release, reject=reject, block=block, unblock=unblock, assign=assign, retry=retry, cancel=cancel,
        delete=delete, add_blocked_by=add_blocked_by, remove_blocked_by=remove_blocked_by,
    )  # fmt: skip
    for name, value in changes.items():
        if value is False:
            raise InvalidRequest(f"{name}=false asks for nothing; leave it out.", field=name)
    asked = [*changes, *(["/".join(edits)] if edits else [])]
    if len(asked) != 1:
        several = f"Call it once for each of: {', '.join(asked)}." if asked else "Name the change you want."
        raise InvalidRequest(f"task_update makes one change a call. {several}", field=asked[1] if asked else "task_id")
    if reason is not None and asked not in (["release"], ["cancel"]):
        raise InvalidRequest("reason belongs to release or cancel; block and reject take it as value.", field="reason")
    team, task_id = call.connection.team, _own(call, task_id)
    if edits:
        return team.update(task_id, **edits)
    [(name, value)] = changes.items()
    return CHANGES[name](team, task_id, value, given(reason=reason))


def _change_edges(team: Team, id: str, blockers: list[str], *, remove: bool) -> Task:
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
    return task


def task_complete(
    call: ToolCall,
    *,
    task_id: TaskId = None,
    summary: Annotated[str | None, "What you did, and where it is"] = None,
    announce: Annotated[bool | None, HIDDEN] = None,
) -> Task:
    """Report your task as finished. Tasks that waited for it become claimable. Its verify command, if any, runs first:
    look at status in the answer (completed, or in_progress with findings or a review to come). As the reviewer of a
    task: approve it. Next: task_claim."""
    return call.connection.team.complete(_own(call, task_id), summary=summary)


def report(
    call: ToolCall,
    *,
    task_id: str,
    outcome: Annotated[str, OneOf(("done", "blocked", "needs_review", "partial"))] | None = None,
    status: Annotated[str, OneOf(("in-progress", "blocked", "review"))] | None = None,
    progress: str | None = None,
    summary_ref: Annotated[str | None, "File with your summary"] = None,
    deliverables: Annotated[list[str] | None, "Files you made"] = None,
    tests: TestCounts | None = None,
    blockers: Annotated[list[str] | None, "What stops you; questions last"] = None,
    notes: str | None = None,
) -> Json:
    """Report on your task: with outcome that you end it, else your progress. Plain work needs only task_complete."""
    ends = given(outcome=outcome, summary_ref=summary_ref, deliverables=deliverables, tests=tests)
    steps = given(status=status, progress=progress)
    said = given(blockers=blockers, notes=notes)
    if outcome is not None:
        if steps:
            raise InvalidRequest(
                "A report ends the work with outcome, or tells how it goes with status and progress; not both.",
                field=next(iter(steps)),
            )
        return _send(call, "completion.report", task_id, {**ends, **said})
    if ends:
        raise InvalidRequest(f"{next(iter(ends))} belongs to a report with an outcome.", field="outcome")
    return _send(call, "status.update", task_id, {"task_id": ..., **steps, **said})


def handoff(
    call: ToolCall,
    *,
    task_id: Annotated[str, "The subtask"],
    parent_task_id: Annotated[str | None, "Your own task"] = None,
    to_agent: str | None = None,
    acceptance_criteria: list[str] | None = None,
    expected_outputs: list[str] | None = None,
    context_refs: list[str] | None = None,
    constraints: list[str] | None = None,
    due_by: Annotated[str | None, "ISO 8601; default in a day"] = None,
    accept: bool | None = None,
    reason: Annotated[str | None, "Why you do not accept"] = None,
) -> Json:
    """Hand a subtask to another member, or answer one handed to you with accept."""
    if accept is not None:
        kind = "handoff.accepted" if accept else "handoff.rejected"
        payload = {"task_id": ..., "accepted": accept, **given(reason=reason)}
        return _send(call, kind, task_id, payload, to_agent or LEAD)
    if parent_task_id is None or to_agent is None:
        missing = "to_agent" if parent_task_id is not None else "parent_task_id"
        raise InvalidRequest(f"handoff needs {missing}, or accept to answer one.", field=missing)
    payload = {
        "task_id": ...,
        "parent_task_id": call.connection.team.task(parent_task_id).id,
        "from_agent": call.connection.member,
        "to_agent": to_agent,
        "due_by": due_by or iso(time.time() + DAY),
        **given(
            acceptance_criteria=acceptance_criteria, expected_outputs=expected_outputs, context_refs=context_refs,
            constraints=constraints,
        ),
    }  # fmt: skip
    return _send(call, "handoff.request", task_id, payload, to_agent)


def _send(call: ToolCall, type: str, task_id: str, payload: Json, to_agent: str = LEAD) -> Json:
    """Put `payload` into an AOF/1 envelope and send it; `...` in it stands for the id of the task."""
    team = call.connection.team
    task = team.task(task_id).id
    answer = team.protocol(
        {
            "protocol": "aof",
            "version": 1,
            "type": type,
            "taskId": task,
            "fromAgent": call.connection.member,
            "toAgent": to_agent,
            "sentAt": iso(time.time()),
            "payload": camel({name: task if value is ... else value for name, value in payload.items()}),
        }
    )
    if not answer.accepted:
        faults = [fault.as_dict() for fault in answer.errors]
        raise MessageRefused(
            str(answer.reason), "; ".join(fault["message"] for fault in faults), task_id=task, errors=faults
        )
    return answer.as_dict()


def ask_human(
    call: ToolCall,
    *,
    question: Annotated[str, "One question"],
    task_id: TaskId = None,
    options: Annotated[list[str] | None, "Answers to choose from"] = None,
    default: Annotated[str | None, "What you do if nobody answers; only if it can be undone"] = None,
    context: Annotated[str | None, "What one must know to answer"] = None,
) -> Json:
    """Ask a human a question about a task. Answers {questionId} at once; end your turn or go on with other work: the
    answer comes as your next prompt or in your inbox."""
    asked = call.connection.team.ask(
        _own(call, task_id),
        question,
        options=options or (),
        default=default,
        context=context,
        reversible=default is not None,
    )
    return {"question_id": asked.id, "task_id": asked.task_id}


def _own(call: ToolCall, task_id: str | None) -> str:
    """Return that id, or that of the one task which the member holds.

    Raises:
        InvalidRequest: it holds none, or several.
    """
    if task_id is not None:
        return task_id
    team, member = call.connection.team, call.connection.member
    held = [task.id for task in team.tasks(owner=member) if task.state in HELD - {"review"}]
    if len(held) != 1:
        many = f"You hold {', '.join(held)}: say which with task_id."
        raise InvalidRequest(many if held else "You hold no task: name one with task_id.", field="task_id")
    return held[0]


TASK_TOOLS = (
    McpTool(task_create),
    McpTool(task_list, reads=True),
    McpTool(task_claim),
    McpTool(task_update, ends=True, driven=("task_id", "block", "release", "reason")),
    McpTool(task_complete, ends=True, driven=("task_id", "summary")),
)
REPORT_TOOLS = (McpTool(report), McpTool(handoff), McpTool(ask_human, ends=True, driven=("question", "options")))
