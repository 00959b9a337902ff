"""A team as an agent of A2A: the SDK's own client against `interlock up`."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interlock.app.team import Team
from tests.surfaces.http.harness import PATIENCE, Server

pytest.importorskip("a2a", reason="a2a-sdk is not installed: `make setup`")

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import get_artifact_text, get_message_text, new_raw_message, new_text_message
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors

COMPLETED, WORKING = pb.TASK_STATE_COMPLETED, pb.TASK_STATE_WORKING
Body = Callable[[Any], Awaitable[None]]


def address(server: Server, team: str = "crew") -> str:
    return f"{server.url}/a2a/{team}"


@asynccontextmanager
async def talking(server: Server, *, streaming: bool = False, secret: str | None = None) -> AsyncIterator[Any]:
    """The SDK's client, which has read the card of the team."""
    token = server.tokens.admin() if secret is None else secret
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE) as http:
        card = await A2ACardResolver(http, address(server)).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)


def talk(server: Server, body: Body, **more: Any) -> None:
    async def within() -> None:
        async with talking(server, **more) as client:
            await body(client)

    asyncio.run(within())


def request(text: str, **more: Any) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=new_text_message(text, role=pb.ROLE_USER, **more))


async def send(client: Any, text: str, **more: Any) -> pb.Task:
    """The task that a message without streaming comes to."""
    (answer,) = [one async for one in client.send_message(request(text, **more))]
    task: pb.Task = answer.task
    return task


def call(server: Server, method: str, params: Any, secret: str | None = None, **headers: str) -> Any:
    """One request as JSON-RPC, without the SDK."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return server.client(secret).call("POST", "/a2a/crew", body, {"a2a-version": "1.0", **headers})


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


def test_the_card_of_a_team_says_how_it_is_called(server: Server) -> None:
    card = server.client().get("/a2a/crew/.well-known/agent-card.json")
    assert {one["url"] for one in card["supportedInterfaces"]} == {address(server)}
    assert card["capabilities"] == {"streaming": True, "pushNotifications": False, "extendedAgentCard": False}
    assert card["security"] == [{"token": []}]
    assert server.client().get("/.well-known/agent-card.json") == card
    assert server.stranger().refused("GET", "/a2a/crew/.well-known/agent-card.json") == (401, "unauthorized")
    assert server.client().refused("GET", "/a2a/none/.well-known/agent-card.json") == (404, "team_not_found")


def test_a_message_becomes_a_task_and_the_answer_is_its_report(server: Server, team: Team) -> None:
    async def body(client: Any) -> None:
        task = await send(client, "Paint the fence")
        assert task.status.state == COMPLETED
        (report,) = task.artifacts
        assert get_artifact_text(report) == "It is painted."
        ours = team.task(task.id)
        assert (ours.body, ours.group_id, ours.created_by) == ("Paint the fence", task.context_id, "human")
        again = await send(client, "Paint the gate", context_id=task.context_id)
        assert again.context_id == task.context_id and again.id != task.id
        listed = await client.list_tasks(pb.ListTasksRequest(context_id=task.context_id, page_size=1))
        assert [one.id for one in listed.tasks] == [again.id] and listed.total_size == 2
        rest = await client.list_tasks(
            pb.ListTasksRequest(context_id=task.context_id, page_token=listed.next_page_token, status=COMPLETED)
        )
        assert [one.id for one in rest.tasks] == [task.id] and not rest.next_page_token
        assert not (await client.get_task(pb.GetTaskRequest(id=task.id, history_length=0))).history

    talk(server, body)


def test_a_message_whose_answer_was_lost_is_sent_again_and_done_once(server: Server, team: Team) -> None:
    sent = said("echo again", messageId=str(uuid4()), contextId="talk")
    first, second = (call(server, "SendMessage", sent).json["result"]["task"]["id"] for _ in range(2))
    assert first == second
    other = call(server, "SendMessage", said("echo again", messageId=str(uuid4()), contextId="talk"))
    assert other.json["result"]["task"]["id"] != first


def test_a_stream_tells_of_each_state_and_of_the_report(server: Server) -> None:
    async def body(client: Any) -> None:
        events = [one async for one in client.send_message(request("Paint the roof"))]
        first, kinds = events[0].task, [one.WhichOneof("payload") for one in events]
        assert first.status.state in (pb.TASK_STATE_SUBMITTED, WORKING) and "artifact_update" in kinds
        assert events[-1].status_update.status.state == COMPLETED
        assert kinds.count("task") == 1
        with pytest.raises(errors.UnsupportedOperationError):
            await anext(client.subscribe(pb.SubscribeToTaskRequest(id=first.id)))

    talk(server, body, streaming=True)


def test_what_the_agent_asks_is_answered_by_the_next_message_of_its_task(server: Server, team: Team) -> None:
    async def body(client: Any) -> None:
        asked = await send(client, "Paint the shed")
        assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
        assert get_message_text(asked.status.message) == "In which colour?"
        with pytest.raises(errors.InvalidParamsError):
            await send(client, "blue", task_id=asked.id, context_id="another")
        done = await send(client, "blue", task_id=asked.id)
        assert (done.id, done.status.state) == (asked.id, COMPLETED)
        spoken = [get_message_text(one) for one in done.history]
        assert spoken == ["Paint the shed", "In which colour?", "blue"]
        (question,) = team.conversation(asked.id)
        assert (question.answer, question.answered_by) == ("blue", "human")
        with pytest.raises(errors.UnsupportedOperationError):
            await send(client, "red", task_id=asked.id)

    talk(server, body)


def test_a_task_is_cancelled_while_its_agent_works(server: Server, team: Team) -> None:
    async def body(client: Any) -> None:
        states, asked = [], False
        async for event in client.send_message(request("Paint for ever")):
            if event.HasField("task"):
                task = event.task
            states.append((event.task if event.HasField("task") else event.status_update).status.state)
            if states[-1] == WORKING and not asked:
                asked = True
                cancelled = await client.cancel_task(pb.CancelTaskRequest(id=task.id))
                assert cancelled.status.state == pb.TASK_STATE_CANCELED
        assert states[-1] == pb.TASK_STATE_CANCELED
        assert team.task(task.id).state == "cancelled"
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task.id))

    talk(server, body, streaming=True)


def test_a_permission_is_not_given_over_a2a(server: Server, team: Team) -> None:
    async def body(client: Any) -> None:
        wanted = request("Paint nothing")
        wanted.configuration.return_immediately = True
        (made,) = [one async for one in client.send_message(wanted)]
        assert made.task.status.state in (pb.TASK_STATE_SUBMITTED, WORKING, COMPLETED)
        task = team.create_task("Ask first", assignee="human")
        team.claim(task.id)
        team.ask(task.id, "May I?", kind="permission", options=["yes", "no"])
        found = await client.get_task(pb.GetTaskRequest(id=task.id))
        assert found.status.state == pb.TASK_STATE_AUTH_REQUIRED
        refused = call(server, "SendMessage", said("yes", taskId=task.id)).json["error"]
        assert refused["data"][0]["metadata"]["error"] == "forbidden"
        assert team.questions()[0].state == "open"
        team.cancel(task.id)

    talk(server, body)


def test_a_task_that_fails_is_failed(server: Server, team: Team) -> None:
    async def body(client: Any) -> None:
        task = await send(client, "Paint the impossible")
        assert task.status.state == pb.TASK_STATE_FAILED
        assert "no paint" in get_message_text(task.status.message)
        team.cancel(task.id)

    talk(server, body)


def test_only_who_may_is_heard(server: Server, team: Team) -> None:
    before = len(team.tasks())
    hello = said("Paint the house")
    assert call(server, "SendMessage", hello, "wrong").status == 401
    assert call(server, "SendMessage", hello, origin="http://elsewhere.example").status == 403
    viewer = server.tokens.create("vera", role="viewer")[1]
    assert call(server, "SendMessage", hello, viewer).json["error"] == "forbidden"
    assert call(server, "message/send", hello, viewer).json["error"] == "forbidden"
    assert call(server, "ListTasks", {}, viewer).json["result"]["totalSize"] == before
    member = server.tokens.create("ann", role="worker", team="crew")[1]
    assert call(server, "SendMessage", hello, member).json["error"] == "forbidden"
    assert len(team.tasks()) == before


@pytest.mark.parametrize(
    ("method", "params", "code", "reason"),
    [
        ("GetTask", {"id": "none"}, -32001, "task_not_found"),
        ("CancelTask", {"id": "none"}, -32001, "task_not_found"),
        ("SendMessage", said("hi", taskId="none"), -32001, "task_not_found"),
        ("SendMessage", said("x" * 20_000), -32602, "invalid_request"),
        ("SendMessage", said(" "), -32602, "invalid_request"),
        ("SendMessage", said("hi", contextId="../x"), -32602, "invalid_request"),
        ("SendMessage", {"message": {"role": "ROLE_USER"}}, -32602, None),
        ("ListTasks", {"pageSize": 0}, -32602, None),
        ("ListTasks", {"pageToken": "-1"}, -32602, None),
        ("GetExtendedAgentCard", {}, -32007, None),
        ("ListTaskPushNotificationConfigs", {"taskId": "none"}, -32003, None),
        ("Paint", {}, -32601, None),
        ("GetTask", [], -32602, None),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_code(
    server: Server, team: Team, method: str, params: Any, code: int, reason: str | None
) -> None:
    before = len(team.tasks())
    error = call(server, method, params).json["error"]
    assert error["code"] == code, error
    if reason is not None:
        assert error["data"][0]["metadata"]["error"] == reason, error
    assert len(team.tasks()) == before


def test_too_much_and_what_is_no_text_is_refused(server: Server) -> None:
    assert call(server, "SendMessage", said("x" * 5_000_000)).json["error"] == "request_too_large"
    assert server.client().call("POST", "/a2a/crew", b"{").json["error"]["code"] == -32700

    async def body(client: Any) -> None:
        picture = pb.SendMessageRequest(message=new_raw_message(b"x", "image/png", role=pb.ROLE_USER))
        with pytest.raises(errors.ContentTypeNotSupportedError):
            [one async for one in client.send_message(picture)]

    talk(server, body)


def test_a2a_lint_has_nothing_to_say(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    linter = pytest.importorskip("a2a_lint.cli", reason="a2a-lint is not installed: `make setup`")
    # It knows no tokens.
    headers = {"authorization": f"Bearer {server.tokens.admin()}"}
    monkeypatch.setattr(httpx, "AsyncClient", functools.partial(httpx.AsyncClient, headers=headers))
    findings, _ = asyncio.run(linter.lint(address(server), True, PATIENCE))
    assert [one for one in findings if one["level"] != "info"] == []


@pytest.mark.long
def test_it_is_off_by_default(bare: Path) -> None:
    server = Server(bare)
    try:
        assert server.client().refused("GET", "/.well-known/agent-card.json") == (404, "not_found")
    finally:
        server.close()


@pytest.mark.long
def test_without_its_package_the_server_says_what_it_needs(bare: Path) -> None:
    without = "import sys; sys.modules['a2a'] = None; from interlock.surfaces.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", without, "--home", str(bare), "--json", "up", "--port", "0"],
        env={**os.environ, "INTERLOCK_A2A": "true"}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    said = json.loads(found.stdout or found.stderr)
    assert found.returncode and said["error"] == "invalid_request" and said["field"] == "a2a"
    assert "interlock-agents[a2a]" in said["message"]
