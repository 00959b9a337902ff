"""Durable tasks: a client that takes tasks is answered with one, and polls the ledger's task by its id."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, Result, TextContent
from pydantic import ConfigDict

from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.mcp.harness import command, environment
from tests.workflow.stage import SKILL, project

pytestmark = pytest.mark.anyio
UNKNOWN, NOT_DECLARED = -32602, -32021


class Begun(Result):
    """What a client is answered that takes tasks."""

    result_type: Literal["task"]
    task_id: str
    status: str
    status_message: str | None = None
    ttl_ms: int | None
    poll_interval_ms: int


class Told(Result):
    """What `tasks/get` answers."""

    model_config = ConfigDict(extra="allow")


class About(RequestParams):
    """A request about a task."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[About, str]):
    """`tasks/get`, `tasks/update` or `tasks/cancel`."""


class Tasks(ClientExtension):
    """A client that takes tasks and hands them to whoever called."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> list[ResultClaim[Any]]:
        async def resolve(begun: Begun, context: ClaimContext) -> CallToolResult:
            text = begun.model_dump_json(by_alias=True)
            return CallToolResult(content=[TextContent(type="text", text=text)])

        return [ResultClaim(result_type="task", model=Begun, resolve=resolve)]


class Lead:
    """Who leads, with a program that knows the protocol of 2026."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        (text, *_) = (await self.client.call_tool(tool, arguments)).content
        assert isinstance(text, TextContent)
        return json.loads(text.text)

    async def about(self, method: str, task: str, **more: Any) -> dict[str, Any]:
        request = TaskRequest(method=f"tasks/{method}", params=About(task_id=task, **more))
        told: dict[str, Any] = (await self.client.session.send_request(request, Told)).model_dump(by_alias=True)
        return told

    async def refused(self, method: str, task: str) -> int:
        with pytest.raises(MCPError) as refused:
            await self.about(method, task)
        return int(refused.value.code)


@asynccontextmanager
async def lead(home: Home, *, takes_tasks: bool = True, member: str = "lead") -> AsyncIterator[Lead]:
    words = command(home.path, member)
    server = StdioServerParameters(command=words[0], args=words[1:], env=environment())
    async with Client(stdio_client(server), extensions=[Tasks()] if takes_tasks else None) as client:
        yield Lead(client)


@pytest.fixture
def planned(home: Home, tmp_path: Path) -> Team:
    """A team in a project with a workflow."""
    return home.create_team("alpha", workdir=str(project(tmp_path / "plan-app")))


async def test_a_workflow_is_a_task_that_outlives_its_server(home: Home, planned: Team) -> None:
    async with lead(home) as first:
        begun = await first.call("run_workflow", skill=SKILL, input="A page for a museum")
        assert begun["resultType"] == "task" and begun["status"] == "working" and begun["ttlMs"] is None
        assert planned.task(begun["taskId"]).type == "WORKFLOW"
    async with lead(home) as second:
        told = await second.about("get", begun["taskId"])
        assert told["status"] == "working" and told["resultType"] == "complete" and "result" not in told
        assert told["statusMessage"] == planned.task(begun["taskId"]).why
        assert (await second.about("cancel", begun["taskId"]))["resultType"] == "complete"
        assert (await second.about("get", begun["taskId"]))["status"] == "cancelled"
        assert planned.workflow_run()["outcome"] == "CANCELLED"
        again = await second.about("cancel", begun["taskId"])
        assert again["resultType"] == "complete" and "status" not in again


async def test_who_does_not_take_tasks_is_answered_at_once_and_may_not_ask_for_any(home: Home, planned: Team) -> None:
    async with lead(home, takes_tasks=False) as plain:
        begun = await plain.call("run_workflow", skill=SKILL)
        assert begun["workflowId"] and begun["taskId"]
        for method in ("get", "update", "cancel"):
            assert await plain.refused(method, begun["taskId"]) == NOT_DECLARED


async def test_a_task_ends_with_what_it_left_and_one_that_failed_with_an_error(home: Home, team: Team) -> None:
    team.configure({"verify_rounds": 1})
    done, asked = team.create_task("Done"), team.create_task("Asked")
    failed = team.create_task("Failed", verify="false")
    ada = team.acting("ada", session="by-hand")
    ada.claim(done.id)
    ada.complete(done.id, summary="It is done.")
    ada.claim(failed.id)
    ada.complete(failed.id)
    assert team.task(failed.id).state == "deadletter"
    ada.claim(asked.id)
    ada.ask(asked.id, "Which colour?")
    async with lead(home) as one:
        told = await one.about("get", done.id)
        assert (told["status"], told["result"]["isError"]) == ("completed", False)
        assert json.loads(told["result"]["content"][0]["text"])["id"] == done.id
        told = await one.about("get", failed.id)
        assert (told["status"], told["result"]["isError"]) == ("completed", True)
        # A person is asked, not the client, so an answer of the client's counts for nothing.
        told = await one.about("get", asked.id)
        assert told["status"] == "working" and "Which colour?" in told["statusMessage"]
        await one.about("update", asked.id, input_responses={"any": {"action": "accept"}})
        assert team.task(asked.id).state == "awaiting-response"
        for method in ("get", "update", "cancel"):
            assert await one.refused(method, "TASK-2000-01-01-001") == UNKNOWN


async def test_a_member_may_not_cancel_what_is_not_its_own(home: Home, team: Team) -> None:
    task = team.create_task("Of the team")
    team.acting("bob").claim(task.id)
    async with lead(home, member="ada") as ada:
        assert await ada.refused("cancel", task.id) == UNKNOWN
    assert team.task(task.id).state == "in-progress"
