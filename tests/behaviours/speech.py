"""AOF/1 messages as agents send them, and what a team wrote down about them."""

from __future__ import annotations

from typing import Any

from interlock.app.team import Team
from interlock.model.event import Event


def message(type: str, task: str, payload: dict[str, Any], *, by: str = "ada", **fields: Any) -> dict[str, Any]:
    """An envelope."""
    return {
        "protocol": "aof",
        "version": 1,
        "type": type,
        "taskId": task,
        "fromAgent": by,
        "toAgent": "lead",
        "sentAt": "2026-02-10T10:00:00.000Z",
        "payload": payload,
        **fields,
    }


def completion(task: str, outcome: str, *, by: str = "ada", run: str | None = None, **payload: Any) -> dict[str, Any]:
    """A `completion.report`."""
    more = {} if run is None else {"runId": run}
    return message("completion.report", task, {"outcome": outcome, **payload}, by=by, **more)


def update(task: str, *, by: str = "ada", **payload: Any) -> dict[str, Any]:
    """A `status.update`."""
    return message("status.update", task, {"taskId": task, "agentId": by, **payload}, by=by)


def handoff(parent: str, child: str, to: str, *, by: str = "ada", **payload: Any) -> dict[str, Any]:
    """A `handoff.request`."""
    required = {
        "taskId": child, "parentTaskId": parent, "fromAgent": by, "toAgent": to, "dueBy": "2026-02-11T12:00:00.000Z"
    }  # fmt: skip
    return message("handoff.request", child, {**required, **payload}, by=by, toAgent=to)


def ack(child: str, accepted: bool, *, by: str, **payload: Any) -> dict[str, Any]:
    """A `handoff.accepted` or `handoff.rejected`."""
    kind = "handoff.accepted" if accepted else "handoff.rejected"
    return message(kind, child, {"taskId": child, "accepted": accepted, **payload}, by=by)


def head(team: Team) -> int:
    """Where the history stands."""
    return team.events()[1]


def since(team: Team, seq: int, *types: str) -> list[Event]:
    """What was written down after `seq`, of these types or all."""
    return [event for event in team.events(seq)[0] if not types or event.type in types]


def hops(team: Team, seq: int) -> list[tuple[str, str]]:
    """The changes of state after `seq`."""
    return [(e.payload["from"], e.payload["to"]) for e in since(team, seq, "task.transitioned")]


def claimed(team: Team, by: str = "ada", **fields: Any) -> str:
    """The id of a new task that `by` holds."""
    task = team.create_task(fields.pop("subject", "Write the parser"), **fields)
    return team.claim(task.id, by=by).id
