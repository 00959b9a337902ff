"""Calls that last, as durable tasks (the extension `io.modelcontextprotocol/tasks` of 2026-07-28).

A client that knows the extension is answered with a task, and asks for it whenever it likes, also after the server was
started anew: its id is that of the ledger's task, which keeps all there is to know. A question for a person is not
handed to the client (docs/decisions/0610): such a task is `working`, and says who is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from interlock.errors import InterlockError
from interlock.model.json import Json
from interlock.model.task import FINAL, Task
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.threads import in_thread
from interlock.surfaces.mcp.tool import as_text, camel

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 1000
"""How often a client should ask, in milliseconds."""
WORKING = "working"
ENDED = {"done": "completed", "deadletter": "completed", "cancelled": "cancelled", "deleted": "cancelled"}
"""The extension's word for each state in which a call is over. What has failed for good is a call that was completed
and whose result is an error; a person is asked whether to retry it."""
DONE: Json = {"resultType": "complete"}

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class AboutTask(RequestParams):
    """What a request about a task says."""

    task_id: str


class AnswersToTask(AboutTask):
    """Answers to what a task asked its client."""

    input_responses: Json = Field(default_factory=dict)


def declared(context: Context) -> bool:
    """Whether the client of this request takes tasks; the older revision of the protocol has another kind."""
    capabilities = context.session.client_capabilities
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and EXTENSION in ((capabilities and capabilities.extensions) or {})


class DurableTasks:
    """Tells of a team's tasks, and cancels them, for one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begun(self, task: str) -> Json:
        """Return the answer to a call that began this task. Blocks."""
        return {**_told(self._connection.team.task(task)), "resultType": "task"}

    async def get(self, context: Context, params: AboutTask) -> Json:
        """`tasks/get`: the task, with its result once it has ended. Raises MCPError where there is no such task."""
        self._check(context, params)
        return await self._of(params.task_id, lambda found: {**DONE, **_told(found), **self._result(found)})

    async def update(self, context: Context, params: AnswersToTask) -> Json:
        """`tasks/update`: no task of ours asks its client anything, so there is nothing that this answers."""
        self._check(context, params)
        return await self._of(params.task_id, lambda found: DONE)

    async def cancel(self, context: Context, params: AboutTask) -> Json:
        """`tasks/cancel`: of one that has ended it changes nothing. Raises MCPError where it may not be cancelled."""
        self._check(context, params)
        return await self._of(params.task_id, self._cancel)

    def _check(self, context: Context, params: AboutTask) -> None:
        """Refuse a client that does not take tasks, or whose header names another one than its request."""
        if not declared(context):
            needed: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs the capability {EXTENSION}.", needed)
        headers = getattr(context.request, "headers", {})
        named = headers.get(MCP_NAME_HEADER)
        if named is not None and decode_header_value(named) != params.task_id:
            raise MCPError(HEADER_MISMATCH, f"The header {MCP_NAME_HEADER} names another task than the request.")

    async def _of(self, id: str, answer: Callable[[Task], T]) -> T:
        def look() -> T:
            try:
                self._connection.settle()
                return answer(self._connection.team.task(id))
            except InterlockError as refusal:
                raise MCPError(INVALID_PARAMS, refusal.message, camel(refusal.as_dict())) from refusal

        return await in_thread(look)

    def _result(self, task: Task) -> Json:
        if ENDED.get(task.state) != "completed":
            return {}
        team = self._connection.team
        try:
            left = team.workflow_run(task.workflow) if task.workflow else task
        except InterlockError as fault:
            return {
                "status": "failed",
                "error": {"code": INTERNAL_ERROR, "message": fault.message, "data": camel(fault.as_dict())},
            }
        content = [{"type": "text", "text": as_text(left)}]
        return {"result": {**DONE, "content": content, "isError": task.state not in FINAL}}

    def _cancel(self, task: Task) -> Json:
        team = self._connection.team
        if task.state not in ENDED:
            if task.workflow:
                team.cancel_workflow(task.workflow)
            else:
                team.cancel(task.id)
        return DONE


def _told(task: Task) -> Json:
    asked = f"A person is asked: {task.question['text']}" if task.question else None
    said = asked or task.why or task.output
    return {
        "taskId": task.id,
        "status": ENDED.get(task.state, WORKING),
        **({"statusMessage": said} if said else {}),
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
        "ttlMs": None,  # As long as the ledger keeps it.
        "pollIntervalMs": POLL_MS,
    }
