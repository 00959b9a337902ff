"""The team through MCP: who sees what, creating, spawning, shutting down, and errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.mcp.harness import command, connected, environment, started

pytestmark = pytest.mark.anyio


@pytest.mark.req("TEAM-1.1", "TEAM-1.2", "TEAM-1.3", "TEAM-1.4", "TEAM-1.names", "TEAM-5.1")
async def test_a_lead_makes_its_team_over_the_connection(home: Home) -> None:
    async with connected(home.path, "lead", team="alpha-squad") as lead:
        assert len((await lead.session.list_tools()).tools) == 16
        refusal = await lead.refused("task_create", subject="too early")
        assert refusal["error"] == "team_not_found" and "team_create" in refusal["message"]
        for name in ("invalid name!", "../../../etc/passwd", "", "x" * 51):
            refusal = await lead.refused("team_create", team_name=name)
            assert refusal["error"] == "invalid_team_name" and "alphanumeric" in refusal["message"]
        assert home.teams() == []

        made = await lead.ask("team_create", team_name="alpha-squad", claim_policy="soft")
        directory = os.path.join(home.path, "teams", "alpha-squad")
        assert {"config.json", "ledger.db"} <= set(os.listdir(directory))
        assert (made["leadSessionKey"], made["currentTeam"]) == ("agent:main:main", "alpha-squad")
        assert [(member["name"], member["role"]) for member in made["members"]] == [("lead", "lead")]
        assert made["settings"] == {"claim_policy": "soft"}
        assert (await lead.refused("team_create", team_name="alpha-squad"))["error"] == "team_exists"

        member = await lead.ask("teammate_spawn", name="researcher", agent_id="r1", type="reader")
        assert member["sessionKey"].startswith("agent:r1:teammate:") and member["type"] == "reader"
        assert (await lead.refused("teammate_spawn", name="researcher"))["error"] == "member_exists"
        assert (await lead.ask("task_create", subject="Read"))["id"]

        other = await lead.ask("team_create", team_name="beta")
        assert other["currentTeam"] == "alpha-squad" and home.teams() == ["alpha-squad", "beta"]
        status = await lead.ask("team_status")
        assert (status["name"], status["you"]["leads"], status["taskCounts"]) == ("alpha-squad", True, {"ready": 1})


async def test_a_plain_member_neither_sees_nor_may_call_what_is_for_the_lead(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        names = {tool.name for tool in (await ada.session.list_tools()).tools}
        assert len(names) == 12 and "teammate_spawn" not in names
        refusal = await ada.refused("teammate_spawn", name="eve")
        assert refusal["error"] == "forbidden" and "send_message" in refusal["message"]
        refusal = await ada.refused("claim_task")
        assert refusal["error"] == "invalid_request" and "Did you mean task_claim?" in refusal["message"]
        refusal = await ada.refused("task_claim", taskid="003")
        assert refusal["error"] == "invalid_request" and "task_id" in refusal["message"]
        refusal = await ada.refused("ask_human", question="Why?")
        assert refusal["error"] == "invalid_request" and "You hold no task" in refusal["message"]
        assert (await ada.refused("ask_human"))["error"] == "invalid_request"
        status = await ada.ask("team_status")
        assert status["you"]["name"] == "ada" and status["you"]["session"].startswith("mcp:")
        assert {member["name"] for member in status["members"]} == {"lead", "ada", "bob"}


@pytest.mark.long
@pytest.mark.req("TEAM-1.6", "TEAM-3.6", "TEAM-3.7", "CORE-P2.1", "CORE-P2.2")
async def test_a_lead_asks_for_shutdown_and_members_answer(home: Home, team: Team) -> None:
    async with (
        connected(home.path, "lead") as lead,
        connected(home.path, "ada") as ada,
        connected(home.path, "bob") as bob,
    ):
        asked = (await lead.ask("team_shutdown", reason="All done"))["requests"]
        assert [request["subject"] for request in asked] == ["ada", "bob"]
        [message] = (await ada.ask("poll_inbox", timeout_ms=5000))["messages"]
        assert (message["type"], message["requestId"]) == ("shutdown_request", asked[0]["id"])
        assert (await ada.refused("send_message", type="shutdown_response"))["error"] == "invalid_request"
        granted = await ada.ask("send_message", type="shutdown_response", approve=True)
        assert granted["state"] == "granted"
        rejected = await bob.ask("send_message", type="shutdown_rejected", content="Not done yet")
        assert (rejected["state"], rejected["answers"]["bob"]["reason"]) == ("rejected", "Not done yet")
        answers = (await lead.ask("read_inbox"))["messages"]
        assert [(answer["sender"], answer["approve"]) for answer in answers] == [("ada", True), ("bob", False)]
        again = await lead.ask("team_shutdown", member="bob")
        assert again["asked"] == ["bob"]
        own = await ada.ask("send_message", type="shutdown_request", reason="Tired")
        assert (own["subject"], own["asked"]) == ("ada", ["lead"])
        status = await ada.ask("team_status")
        assert {request["subject"] for request in status["shutdownRequests"]} == {"ada", "bob"}


async def test_the_command_line_starts_a_server_in_the_session_of_its_environment(home: Home, team: Team) -> None:
    words = [
        sys.executable,
        "-m",
        "interlock.surfaces.cli",
        "mcp",
        "--home",
        home.path,
        "--team",
        "alpha",
        "--as",
        "ada",
    ]
    async with started(words, INTERLOCK_SESSION="run-7") as ada:
        assert (await ada.ask("team_status"))["you"] == {"name": "ada", "leads": False, "session": "run-7"}


async def test_a_human_may_do_what_the_lead_may(home: Home, team: Team) -> None:
    async with connected(home.path, "human") as human:
        assert len((await human.session.list_tools()).tools) == 16
        assert (await human.ask("teammate_spawn", name="eve"))["name"] == "eve"


@pytest.mark.parametrize(
    ("name", "member", "error"), [("alpha", "eve", "MemberNotFound"), ("gamma", "ada", "TeamNotFound")]
)
def test_a_server_for_nobody_ends_at_once_and_says_why(
    home: Home, team: Team, name: str, member: str, error: str
) -> None:
    ended = subprocess.run(
        command(home.path, member, team=name),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=60,
    )
    assert ended.returncode != 0 and error in ended.stderr.decode() and not ended.stdout
