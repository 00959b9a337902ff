"""MCP over HTTP, spoken by the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from httpx2 import AsyncClient
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CancelledNotification, CancelledNotificationParams

from tests.surfaces.http.harness import PATIENCE, Client, Server
from tests.surfaces.mcp.harness import Agent
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@asynccontextmanager
async def agent(server: Server, secret: str, **headers: str) -> AsyncIterator[Agent]:
    sent = {"authorization": f"Bearer {secret}", **{key.replace("_", "-"): value for key, value in headers.items()}}
    async with (
        AsyncClient(headers=sent, timeout=PATIENCE) as http,
        streamable_http_client(f"{server.url}/mcp", http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield Agent(session)


def secret_of(server: Server, name: str, team: str) -> str:
    return server.tokens.create(name, role="worker", team=team)[1]


def kinds(answer: dict[str, Any]) -> list[str]:
    return [event["type"] for event in answer["events"]]


def test_a_member_works_over_http_with_its_own_token_and_sees_its_own_tools(server: Server, team: str) -> None:
    server.client().post(f"/api/teams/{team}/tasks", {"subject": "Write the parser"})

    async def work() -> None:
        async with agent(server, secret_of(server, "bob", team)) as bob:
            tools = [tool.name for tool in (await bob.session.list_tools()).tools]
            assert "task_claim" in tools and "teammate_spawn" not in tools
            assert (await bob.ask("team_status"))["you"]["name"] == "bob"
            task = await bob.ask("task_claim")
            assert task["owner"] == "bob"
            assert (await bob.ask("task_complete", task_id=task["id"], summary="done"))["state"] == "done"
            refusal = await bob.refused("teammate_spawn", name="eva")
            assert refusal["error"] in ("forbidden", "invalid_request")

    anyio.run(work)
    done = server.client().get(f"/api/teams/{team}/events")["events"]
    assert {event["actor"] for event in done if event["type"] == "task.completed"} == {"bob"}


def test_mail_counts_as_delivered_once_its_answer_was_written(server: Server, team: str, admin: Client) -> None:
    async def work() -> None:
        async with agent(server, secret_of(server, "bob", team)) as bob, anyio.create_task_group() as group:

            async def write() -> None:
                await anyio.to_thread.run_sync(
                    lambda: admin.post(f"/api/teams/{team}/messages", {"to": "bob", "content": "hello"})
                )

            group.start_soon(write)
            found = await bob.ask("poll_inbox", timeout_ms=60_000)
            assert [message["content"] for message in found["messages"]] == ["hello"]

    anyio.run(work)

    events = f"/api/teams/{team}/events"
    until(lambda: "message.delivered" in kinds(admin.get(events)))  # Noted once the answer was written.
    assert "message.requeued" not in kinds(admin.get(events))


def test_who_polls_with_a_token_that_is_revoked_is_handed_nothing(server: Server, team: str, admin: Client) -> None:
    token, secret = server.tokens.create("bob", role="worker", team=team)
    began = admin.get(f"/api/teams/{team}/events")["next"]

    def revoke() -> None:
        until(lambda: "session.began" in kinds(admin.get(f"/api/teams/{team}/events?after={began}")))
        server.tokens.revoke(token.id)
        admin.post(f"/api/teams/{team}/messages", {"to": "bob", "content": "for bob alone"})

    async def work() -> None:
        async with agent(server, secret) as bob, anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, revoke)
            assert (await bob.refused("poll_inbox", timeout_ms=60_000))["error"] == "unauthorized"

    anyio.run(work)
    shown = admin.get(f"/api/teams/{team}/messages?member=bob")["messages"]
    assert [(message["content"], message["stage"]) for message in shown] == [("for bob alone", "stored")]


@pytest.mark.req("CORE-FR-006")
@pytest.mark.parametrize("tool", ["read_inbox", "poll_inbox"])
def test_a_cancellation_that_crosses_the_answer_gives_its_mail_back(
    server: Server, team: str, admin: Client, tool: str
) -> None:
    """The client cancelled before it read the answer that was on its way, and so looks at nothing in it."""
    admin.post(f"/api/teams/{team}/messages", {"to": "bob", "content": "late"})

    async def work() -> None:
        async with agent(server, secret_of(server, "bob", team)) as bob, agent(server, secret_of(server, "bob", team)):
            assert len((await bob.ask(tool))["messages"]) == 1
            for request in range(10):
                given_up = CancelledNotificationParams(request_id=request, reason="took too long")
                await bob.session.send_notification(CancelledNotification(params=given_up))
            again = (await bob.ask("read_inbox"))["messages"]
            assert [(message["content"], message["redelivered"]) for message in again] == [("late", True)]
            assert (await bob.ask("read_inbox"))["messages"] == []

    anyio.run(work)
    kinds = [event["type"] for event in admin.get(f"/api/teams/{team}/events")["events"]]
    assert kinds.count("message.requeued") == 1


def test_a_poll_that_its_client_gives_up_keeps_no_mail(server: Server, team: str, admin: Client) -> None:
    async def work() -> None:
        async with agent(server, secret_of(server, "bob", team)) as bob:
            with anyio.move_on_after(0.2):
                await bob.ask("poll_inbox", timeout_ms=60_000)
            await anyio.to_thread.run_sync(
                lambda: admin.post(f"/api/teams/{team}/messages", {"to": "bob", "content": "late"})
            )
            found = []
            with anyio.fail_after(60):
                while not found:
                    found = (await bob.ask("poll_inbox", timeout_ms=5000))["messages"]
            assert [message["content"] for message in found] == ["late"]

    anyio.run(work)


def test_a_person_names_the_team_and_may_do_what_the_lead_may(server: Server, team: str) -> None:
    async def work() -> None:
        secret = server.tokens.create("eva", role="operator")[1]
        async with agent(server, secret, interlock_team=team) as eva:
            assert "teammate_spawn" in [tool.name for tool in (await eva.session.list_tools()).tools]
            assert (await eva.ask("team_status"))["you"]["name"] == "eva"

    anyio.run(work)


def test_a_token_allows_over_mcp_what_it_allows_elsewhere(server: Server, team: str, tmp_path: Path) -> None:
    """Only an admin makes members and teams, and names places on the machine of the home; the lead makes members."""
    tokens = {role: server.tokens.create("petra", role=role)[1] for role in ("operator", "admin")}

    async def ask() -> None:
        async with agent(server, tokens["operator"], interlock_team=team) as petra:
            for tool, words in (
                ("teammate_spawn", {"name": "eva"}),
                ("team_create", {"team_name": "other"}),
                ("run_workflow", {"skill": "plan", "workdir": str(tmp_path)}),
            ):
                refusal = await petra.refused(tool, **words)
                assert refusal["error"] == "forbidden" and "the role operator" in refusal["message"], refusal
            assert (await petra.refused("run_workflow", skill="plan"))["error"] != "forbidden"
        async with agent(server, secret_of(server, "lead", team)) as lead:
            assert (await lead.ask("teammate_spawn", name="fay"))["name"] == "fay"
            assert (await lead.refused("team_create", team_name="other"))["error"] == "forbidden"
        async with agent(server, tokens["admin"], interlock_team=team) as petra:
            assert (await petra.ask("teammate_spawn", name="eva"))["name"] == "eva"

    anyio.run(ask)
    assert server.client().refused("GET", "/api/teams/other/tasks")[0] == 404


def test_where_there_is_one_team_it_is_the_one_that_is_meant(start: Callable[..., Server]) -> None:
    server = start()
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "team_status", "arguments": {}},
    }  # fmt: skip
    admin = server.client(accept="application/json, text/event-stream")
    assert admin.refused("POST", "/mcp", hello) == (400, "invalid_request")
    admin.post("/api/teams", {"name": "alone"})

    async def work() -> None:
        async with agent(server, server.tokens.admin()) as human:
            assert (await human.ask("team_status"))["name"] == "alone"

    anyio.run(work)


def test_nobody_comes_in_without_a_token_or_into_another_team(server: Server, team: str, admin: Client) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    accept = {"accept": "application/json, text/event-stream"}
    assert server.stranger().refused("POST", "/mcp", hello, headers=accept) == (401, "unauthorized")
    viewer = server.person("vic", "viewer")
    assert viewer.refused("POST", "/mcp", hello, headers=accept) == (403, "forbidden")
    admin.post("/api/teams", {"name": f"{team}-too"})
    assert admin.refused("POST", "/mcp", hello, headers=accept) == (400, "invalid_request")
    bob = server.member("bob", team)
    assert bob.refused("POST", "/mcp", hello, headers={**accept, "interlock-team": "other"}) == (403, "forbidden")
    assert bob.refused("POST", "/mcp", hello, headers={**accept, "interlock-member": "lead"}) == (403, "forbidden")


def test_a_session_of_one_token_is_not_there_for_another(server: Server, team: str, admin: Client) -> None:
    admin.post(f"/api/teams/{team}/members", {"name": "cleo"})
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    accept = {"accept": "application/json, text/event-stream"}
    bob, cleo = server.member("bob", team), server.member("cleo", team)
    opened = bob.call("POST", "/mcp", hello, headers=accept)
    assert opened.status == 200
    session = opened.headers["mcp-session-id"]
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    said = {**accept, "mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
    assert cleo.call("POST", "/mcp", listing, headers=said).status == 404
    assert bob.call("POST", "/mcp", listing, headers=said).status == 200
