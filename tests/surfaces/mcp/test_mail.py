"""Mail through MCP: sent, waited for, and noted as delivered only when the answer was written."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import anyio
import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.mcp.harness import command, connected, environment
from tests.waiting import until

pytestmark = pytest.mark.anyio
LARGE = "x" * 100_000
PATIENCE = 60.0
"""More than a pipe holds, so that a server whose client does not read stops in the middle of its answer."""


@pytest.mark.req("TEAM-3.1", "TEAM-3.2", "TEAM-3.3", "TEAM-5.3", "CORE-FR-004", "CORE-FR-006")
async def test_messages_between_two_servers(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        sent = await ada.ask("send_message", recipient="bob", content="Found a bug", summary="bug")
        assert (sent["sender"], sent["to"], sent["type"], sent["read"]) == ("ada", "bob", "message", False)
        with open(os.path.join(team.directory, "inbox", "bob", "messages.jsonl"), encoding="utf-8") as file:
            assert json.loads(file.read())["content"] == "Found a bug"
        reached = await ada.ask("send_message", type="broadcast", content="Hear me")
        assert reached == {"delivered": ["lead", "bob"], "notDelivered": []}

        answer = await bob.call("task_list")
        assert answer.news == "2 unread messages — call read_inbox"
        answer = await bob.call("read_inbox")
        assert answer.news is None and not answer.value["timedOut"]
        found = [(message["type"], message["content"], message["redelivered"]) for message in answer.value["messages"]]
        assert found == [("message", "Found a bug", False), ("broadcast", "Hear me", False)]
        assert (await bob.call("task_list")).news is None
        assert await bob.ask("read_inbox") == {"messages": [], "timedOut": False}
        assert not os.path.exists(os.path.join(team.directory, "inbox", "bob", "messages.jsonl"))
        assert [message.stage for message in team.history(member="bob", limit=10)] == ["acknowledged"] * 2

        refusal = await ada.refused("send_message", recipient="bbo", content="x")
        assert (refusal["error"], refusal["suggestion"]) == ("recipient_not_found", "bob")
        assert "recipient is required" in (await ada.refused("send_message", content="x"))["message"]
        assert (
            "takes no recipient"
            in (await ada.refused("send_message", type="broadcast", recipient="bob", content="x"))["message"]
        )
        assert (await ada.refused("send_message", recipient="bob"))["error"] == "invalid_request"
        refusal = await ada.refused("send_message", recipient="bob", content="ä" * 51_201)
        assert refusal["error"] == "message_too_large" and "size limit" in refusal["message"]


async def test_a_message_sent_again_under_the_same_id_arrives_once(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        for _ in range(2):
            await ada.ask("send_message", recipient="bob", content="to you", client_id="c1")
            await ada.ask("send_message", type="broadcast", content="to all", client_id="c2")
    assert [message.content for message in team.history(member="bob")] == ["to you", "to all"]


@pytest.mark.req("CORE-FR-007", "CORE-FR-008")
async def test_a_poll_wakes_across_processes_and_stalls_no_other_call(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        assert await bob.ask("poll_inbox", timeout_ms=0) == {"messages": [], "timedOut": True}
        began = time.monotonic()
        assert (await bob.ask("poll_inbox", timeout_ms=300))["timedOut"]
        assert time.monotonic() - began >= 0.3
        got: list[Any] = []

        async def poll() -> None:
            got.append(await bob.ask("poll_inbox", timeout_ms=60_000))

        async with anyio.create_task_group() as group:
            group.start_soon(poll)
            for _ in range(5):
                await bob.ask("task_list")
            assert not got
            await ada.ask("send_message", recipient="bob", content="wake up")
        assert [message["content"] for message in got[0]["messages"]] == ["wake up"] and not got[0]["timedOut"]


async def test_a_poll_that_its_client_gives_up_keeps_no_mail(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        with anyio.move_on_after(0.2):
            await ada.ask("poll_inbox", timeout_ms=3000)
        team.send("lead", to="ada", content="late")
        with anyio.fail_after(PATIENCE):
            messages = []
            while not messages:
                messages = (await ada.ask("poll_inbox", timeout_ms=5000))["messages"]
        assert [message["content"] for message in messages] == ["late"]
        await ada.ask("task_list")
        assert team.history(member="ada", limit=1)[0].stage in ("delivered", "acknowledged")


async def test_a_poll_that_was_cancelled_takes_no_mail_that_comes_after_it(home: Home, team: Team) -> None:
    """Else the next call found nothing, and the one after it a message that nobody had seen marked as redelivered."""
    ada = Raw(home.path, "ada")
    ada.call(2, "poll_inbox", timeout_ms=60_000)
    ada.call(3, "task_list")
    assert ada.answer()["id"] == 3
    ada.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    ada.call(4, "task_list")
    assert ada.answer()["id"] == 4
    team.send("lead", to="ada", content="late")
    ada.call(5, "read_inbox")
    found = json.loads(ada.answer()["result"]["content"][0]["text"])["messages"]
    assert [(message["content"], message["redelivered"]) for message in found] == [("late", False)]
    ada.close()


@pytest.mark.long
@pytest.mark.req("CORE-FR-006")
@pytest.mark.parametrize("tool", ["read_inbox", "poll_inbox"])
async def test_a_cancellation_that_crosses_the_answer_gives_its_mail_back(home: Home, team: Team, tool: str) -> None:
    """The client cancelled before it read the answer that was on its way, and so looks at nothing in it."""
    team.send("lead", to="ada", content="late")
    ada = Raw(home.path, "ada")
    ada.call(2, tool)
    wait_for_stage(team, "ada", "delivered")
    ada.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    ada.call(3, "read_inbox")
    assert ada.answer()["id"] == 2
    answer = ada.answer()
    again = json.loads(answer["result"]["content"][0]["text"])["messages"]
    assert answer["id"] == 3 and [(message["content"], message["redelivered"]) for message in again] == [("late", True)]
    # What was gone on from has been seen: nothing that is said of its call later takes it back.
    ada.call(4, "read_inbox")
    ada.answer()
    for odd in (3, 2, 99, None, [3]):
        ada.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": odd}})
    ada.call(5, "read_inbox")
    assert json.loads(ada.answer()["result"]["content"][0]["text"])["messages"] == []
    ada.close()
    assert team.history(member="ada", limit=1)[0].stage == "acknowledged"


class Raw:
    """A client of our own, which can stop reading."""

    def __init__(self, home: str, member: str) -> None:
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(command(home, member), stdin=pipe, stdout=pipe, env=environment())
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        self.ask(1, "initialize", hello)
        self.answer()
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, id: int, method: str, params: dict[str, Any]) -> None:
        self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def call(self, id: int, tool: str, **arguments: Any) -> None:
        self.ask(id, "tools/call", {"name": tool, "arguments": arguments})

    def say(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message).encode() + b"\n")
        self.server.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.server.stdout is not None
        found: dict[str, Any] = json.loads(self.server.stdout.readline())
        return found

    def close(self) -> None:
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.close()
        self.server.stdout.close()
        assert self.server.wait(PATIENCE) == 0


def wait_for_stage(team: Team, member: str, stage: str) -> None:
    until(lambda: team.history(member=member, limit=1)[0].stage == stage)


@pytest.mark.long
@pytest.mark.req("CORE-EC.5")
async def test_mail_of_a_server_that_is_killed_while_it_answers_is_offered_again(home: Home, team: Team) -> None:
    team.send("lead", to="ada", content=LARGE)
    raw = Raw(home.path, "ada")
    raw.call(2, "read_inbox")
    wait_for_stage(team, "ada", "offered")
    raw.server.kill()
    raw.server.wait()
    assert raw.server.stdin is not None and raw.server.stdout is not None
    raw.server.stdin.close()
    raw.server.stdout.close()
    assert team.history(member="ada", limit=1)[0].stage == "offered"
    async with connected(home.path, "ada") as ada:
        [message] = (await ada.ask("read_inbox"))["messages"]
        assert message["content"] == LARGE and message["redelivered"]


@pytest.mark.req("CORE-EC.5")
def test_mail_whose_reader_goes_away_in_the_middle_is_given_back(home: Home, team: Team) -> None:
    team.send("lead", to="ada", content=LARGE)
    raw = Raw(home.path, "ada")
    raw.call(2, "read_inbox")
    wait_for_stage(team, "ada", "offered")
    assert raw.server.stdout is not None and raw.server.stdin is not None
    raw.server.stdout.close()
    assert raw.server.wait(PATIENCE) == 0  # though its stdin is still open
    raw.server.stdin.close()
    assert team.history(member="ada", limit=1)[0].stage == "stored"
    [message] = team.acting("ada").read()
    assert message.redelivered


def test_mail_is_delivered_only_once_it_was_read_from_the_pipe(home: Home, team: Team) -> None:
    team.send("lead", to="ada", content=LARGE)
    raw = Raw(home.path, "ada")
    raw.call(2, "read_inbox")
    wait_for_stage(team, "ada", "offered")
    text = raw.answer()["result"]["content"][0]["text"]
    assert json.loads(text)["messages"][0]["content"] == LARGE
    raw.call(3, "task_list")
    after = raw.answer()["result"]
    assert len(after["content"]) == 1, "no news of mail that was just read"
    assert team.history(member="ada", limit=1)[0].stage == "delivered"
    raw.close()


def test_a_server_ends_promptly_and_ends_its_session_though_a_poll_waits(home: Home, team: Team) -> None:
    raw = Raw(home.path, "ada")
    raw.call(2, "send_message", recipient="bob", content="hello")
    raw.answer()
    raw.call(3, "poll_inbox", timeout_ms=60_000)
    raw.call(4, "task_list")
    raw.answer()
    began = time.monotonic()
    assert raw.server.stdin is not None
    raw.server.stdin.close()
    assert json.loads(raw.answer()["result"]["content"][0]["text"]) == {"messages": [], "timedOut": True}
    assert raw.server.wait(PATIENCE) == 0
    assert time.monotonic() - began < 50, "the poll alone would wait for a minute"
    assert raw.server.stdout is not None
    raw.server.stdout.close()
    assert team.events()[0][-1].type == "session.ended"


def test_calls_under_way_are_answered_when_stdin_ends(home: Home, team: Team) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    create = {"subject": "x"}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(
            {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "task_create", "arguments": create}}
            for n in range(2, 7)
        ),
    ]  # fmt: skip
    faulty = [
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "task_create", "arguments": {"subject": "\ud800"}},
        },
        {"jsonrpc": "2.0", "id": 8},
        {"jsonrpc": "1.0", "id": "nine", "method": "ping"},
        {"jsonrpc": "1.0", "id": True, "method": "ping"},
    ]
    lines += faulty
    asked = b"not json\n\n" + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    ended = subprocess.run(
        command(home.path, "ada", session="given"), input=asked, capture_output=True, env=environment(), timeout=100
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {answer["id"] for answer in answers if "result" in answer} == {1, 2, 3, 4, 5, 6}
    refused = [(answer["id"], answer["error"]["code"]) for answer in answers if "error" in answer]
    assert refused == [(None, -32700), *((id, -32600) for id in (7, 8, "nine", None))]
    assert len(team.tasks()) == 5
    began = [event.payload["session"] for event in team.events()[0] if event.type == "session.began"]
    assert began[-1] == "given" and not any(event.type == "session.ended" for event in team.events()[0])
