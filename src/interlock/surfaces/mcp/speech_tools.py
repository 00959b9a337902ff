"""`report` and `handoff`: AOF/1 without the envelope."""

from __future__ import annotations

import time
from typing import Any

from interlock.clock import iso
from interlock.errors import InvalidRequest, MessageRefused
from interlock.model.names import LEAD
from interlock.surfaces.mcp.shapes import camel
from interlock.surfaces.mcp.tool import Call, Schema, Tool, choice, flag, number, text, texts

DAY = 86_400.0

TESTS: Schema = {
    "type": "object",
    "properties": {name: number(0, 1_000_000) for name in ("total", "passed", "failed")},
    "additionalProperties": False,
}


def _report(call: Call) -> dict[str, Any]:
    ends = call.given("outcome", "summary_ref", "deliverables", "tests")
    steps = call.given("status", "progress")
    said = call.given("blockers", "notes")
    if "outcome" in ends:
        if steps:
            raise InvalidRequest(
                "A report ends the work with outcome, or tells how it goes with status and progress; not both.",
                field=next(iter(steps)),
            )
        return _say(call, "completion.report", {**ends, **said})
    if ends:
        raise InvalidRequest(f"{next(iter(ends))} belongs to a report with an outcome.", field="outcome")
    return _say(call, "status.update", {"task_id": ..., **steps, **said})


def _handoff(call: Call) -> dict[str, Any]:
    if "accept" in call.arguments:
        kind = "handoff.accepted" if call["accept"] else "handoff.rejected"
        return _say(call, kind, {"task_id": ..., "accepted": call["accept"], **call.given("reason")})
    for name in ("parent_task_id", "to_agent"):
        if name not in call.arguments:
            raise InvalidRequest(f"handoff needs {name}, or accept to answer one.", field=name)
    payload = {
        "task_id": ...,
        "parent_task_id": call.connection.team.task(call["parent_task_id"]).id,
        "from_agent": call.connection.member,
        "to_agent": call["to_agent"],
        "due_by": call.get("due_by", iso(time.time() + DAY)),
        **call.given("acceptance_criteria", "expected_outputs", "context_refs", "constraints"),
    }
    return _say(call, "handoff.request", payload)


def _say(call: Call, type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Put `payload` into an envelope and send it; `...` in it stands for the id of the task."""
    team = call.connection.team
    task = team.task(call["task_id"]).id
    answer = team.protocol(
        {
            "protocol": "aof",
            "version": 1,
            "type": type,
            "taskId": task,
            "fromAgent": call.connection.member,
            "toAgent": call.get("to_agent", LEAD),
            "sentAt": iso(time.time()),
            "payload": camel({name: task if value is ... else value for name, value in payload.items()}),
        }
    )
    if not answer["accepted"]:
        faults = answer.get("errors", [])
        raise MessageRefused(
            str(answer["reason"]), "; ".join(fault["message"] for fault in faults), task_id=task, errors=faults
        )
    return answer


TOOLS = (
    Tool(
        "report",
        "Report on your task: with outcome that you end it, else your progress. Plain work needs only task_complete.",
        _report,
        {
            "task_id": text(),
            "outcome": choice("done", "blocked", "needs_review", "partial"),
            "status": choice("in-progress", "blocked", "review"),
            "progress": text(),
            "summary_ref": text("File with your summary"),
            "deliverables": texts("Files you made"),
            "tests": TESTS,
            "blockers": texts("What stops you; questions last"),
            "notes": text(),
        },
        required=("task_id",),
    ),
    Tool(
        "handoff",
        "Hand a subtask to another member, or answer one handed to you with accept.",
        _handoff,
        {
            "task_id": text("The subtask"),
            "parent_task_id": text("Your own task"),
            "to_agent": text(),
            "acceptance_criteria": texts(),
            "expected_outputs": texts(),
            "context_refs": texts(),
            "constraints": texts(),
            "due_by": text("ISO 8601; default in a day"),
            "accept": flag(),
            "reason": text("Why you do not accept"),
        },
        required=("task_id",),
    ),
)
