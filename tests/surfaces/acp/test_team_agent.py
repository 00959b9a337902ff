"""`interlock acp`: a team as one agent of an editor, driven as a real process by the official client library."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest
from acp.exceptions import RequestError

from tests.agents.acting import acp_command
from tests.behaviours.driving import QUICK, Place, running
from tests.surfaces.acp.editor import PATIENCE, Editor, editing, until
from tests.surfaces.http.harness import Server

DONE = {"call": "task_complete", "with": {"task_id": "{task}", "summary": "It is painted."}}


def ask(title: str, **answers: Any) -> dict[str, Any]:
    return {"ask": {"title": title, "kind": "execute", "command": title}, **answers}


def staged(place: Place, **script: Any) -> None:
    """The team `crew`, whose member bob plays the script."""
    team = place.home.create_team("crew", workdir=str(place.work))
    team.spawn("bob", agent="acp", command=acp_command(place.path, **script))
    team.configure(QUICK)


def in_editor(
    place: Place, act: Callable[[Editor], Awaitable[None]], *, choose: Callable[[str], str | None] = lambda title: None
) -> None:
    async def main() -> None:
        async with editing("--team", "crew", choose=choose, INTERLOCK_HOME=place.home.path) as editor:
            await act(editor)

    anyio.run(main)


@contextmanager
def at_work(place: Place) -> Iterator[None]:
    """Somebody does the team's tasks."""
    with place.runner(endless=True):
        anyio.run(until, lambda: bool(place.team.status().workers))
        yield


def statuses(plan: dict[str, Any], words: str) -> list[str]:
    return [one["status"] for one in plan["entries"] if words in one["content"]]


async def refused(call: Awaitable[Any]) -> tuple[int, str]:
    """The code of JSON-RPC and Interlock's own."""
    with pytest.raises(RequestError) as caught:
        await call
    return caught.value.code, caught.value.data["error"]


@pytest.mark.long
def test_a_prompt_is_a_chat_message_told_while_a_member_does_it_and_a_permission_is_a_question(place: Place) -> None:
    staged(place, turns=[[{"say": "Looking for paint.\n"}, ask("paint it", allowed=[DONE])]])

    async def act(editor: Editor) -> None:
        session = await editor.open(place.work)
        assert await editor.prompt(session, "Paint the shed") == "end_turn"
        plans = editor.told(session, "plan")
        assert statuses(plans[0], "Paint the shed") in (["pending"], ["in_progress"])
        assert statuses(plans[-1], "Paint the shed") == ["completed"]
        (call,) = editor.told(session, "tool_call")
        assert (call["title"], call["status"], call["rawInput"]["member"]) == ("Paint the shed", "in_progress", "bob")
        (end,) = editor.told(session, "tool_call_update")
        assert (end["toolCallId"], end["status"]) == (call["toolCallId"], "completed")
        thoughts = editor.said(session, "agent_thought_chunk")
        assert "Looking for paint." in thoughts and "tried again" not in thoughts
        assert editor.said(session) == "It is painted."
        choices = [("allow", "allow_once"), ("always", "allow_always"), ("refuse", "reject_once")]
        assert editor.asked == [("May bob do this: paint it?", choices)]
        (task,) = place.home.group_tasks(session, project="crew")
        assert task.body == "Paint the shed" and task.created_by == "human"
        (question,) = place.team.conversation(task.id)
        assert (question.answer, question.answered_by, question.answered_face) == ("allow", "human", "acp")

    with at_work(place):
        in_editor(place, act, choose=lambda title: "allow")


@pytest.mark.long
def test_a_question_in_words_is_answered_by_the_next_message(place: Place) -> None:
    staged(place, turns=[[DONE]])
    bob = place.team.acting("bob", session="s-1")

    async def act(editor: Editor) -> None:
        session = await editor.open(place.work)
        assert await editor.prompt(session, "Paint the shed") == "end_turn"
        assert "no worker is running (`interlock up`" in editor.said(session)
        (task,) = place.home.group_tasks(session, project="crew")
        bob.claim(task.id)
        bob.ask(task.id, "In which colour?")
        await until(lambda: "In which colour?" in editor.said(session))
        assert await editor.prompt(session, "Red") == "end_turn"
        bob.claim(task.id)
        bob.complete(task.id, summary="It is red.")
        await until(lambda: editor.said(session).endswith("It is red."))
        (question,) = place.team.conversation(task.id)
        assert (question.answer, question.answered_by) == ("Red", "human")
        assert [one.id for one in place.home.group_tasks(session, project="crew")] == [task.id]

    in_editor(place, act)


@pytest.mark.long
def test_a_review_is_sent_back_in_words_and_then_approved_by_choice(place: Place) -> None:
    staged(place, turns=[[{"touch": str(place.work / "begun")}, {"wait": str(place.work / "go")}, DONE], [DONE]])
    verdicts = ["changes", "approve"]

    async def act(editor: Editor) -> None:
        session = await editor.open(place.work)
        async with anyio.create_task_group() as turns:
            turns.start_soon(editor.prompt, session, "Paint the shed")
            await until((place.work / "begun").exists)
            (task,) = place.home.group_tasks(session)
            place.team.update(task.id, review="human")
            (place.work / "go").touch()
        assert "Your next message here is taken as `changes: …`" in editor.said(session)
        assert await editor.prompt(session, "Two coats") == "end_turn"
        assert [options for _, options in editor.asked] == [[("approve", "allow_once"), ("changes", "reject_once")]] * 2
        assert [one["status"] for one in editor.told(session, "tool_call_update")] == ["failed", "completed"]
        assert place.team.task(task.id).state == "done"
        assert [one.answer for one in place.team.conversation(task.id)] == ["changes: Two coats", "approve"]

    with at_work(place):
        in_editor(place, act, choose=lambda title: verdicts.pop(0))


@pytest.mark.long
def test_cancel_ends_the_turn_and_the_work(place: Place) -> None:
    staged(place, turns=[[{"run": ["sh", "-c", "echo $PPID >> agent.pid"]}, {"hang": True}]])

    async def act(editor: Editor) -> None:
        session = await editor.open(place.work)
        reasons: list[str] = []
        async with anyio.create_task_group() as turns:

            async def turn() -> None:
                reasons.append(await editor.prompt(session, "Paint the shed"))

            turns.start_soon(turn)
            await until(lambda: bool(place.lines("agent.pid")))
            await until(lambda: bool(editor.told(session, "tool_call")))
            await editor.connection.cancel(session_id=session)
        assert reasons == ["cancelled"]
        (task,) = place.home.group_tasks(session, project="crew")
        assert task.state == "cancelled"
        assert [one["status"] for one in editor.told(session, "tool_call_update")] == ["failed"]

    with at_work(place):
        in_editor(place, act)
        anyio.run(until, lambda: not running(int(place.lines("agent.pid")[0])))


@pytest.mark.long
def test_cancel_while_a_question_is_put_withdraws_it_and_the_next_prompt_is_a_new_one(place: Place) -> None:
    staged(place, turns=[[ask("paint it", allowed=[DONE])]], when=[{"match": "door", "do": [DONE]}])

    async def act(editor: Editor) -> None:
        editor.held = anyio.Event()
        session = await editor.open(place.work)
        prompt = [acp.text_block("Paint the shed")]
        under_way = asyncio.ensure_future(editor.connection.prompt(session_id=session, prompt=prompt))
        await until(lambda: bool(editor.asked))
        await editor.connection.cancel(session_id=session)
        editor.held.set()
        with anyio.fail_after(PATIENCE):
            assert (await under_way).stop_reason == "cancelled"
        assert not place.team.questions()
        assert await editor.prompt(session, "Paint the door") == "end_turn"
        assert editor.said(session) == "It is painted."
        assert [one.state for one in place.home.group_tasks(session)] == ["cancelled", "done"]

    with at_work(place):
        in_editor(place, act)


def test_a_prompt_to_a_paused_team_says_so(place: Place) -> None:
    staged(place)
    place.team.pause()

    async def act(editor: Editor) -> None:
        session = await editor.open(place.work)
        assert await editor.prompt(session, "Paint the shed") == "end_turn"
        assert "This has not begun: the team is paused" in editor.said(session)

    in_editor(place, act)


@pytest.mark.long
@pytest.mark.parametrize("killed", ["client", "agent"])
def test_a_client_or_an_agent_that_is_killed_loses_nothing(place: Place, killed: str) -> None:
    staged(place, turns=[[{"touch": str(place.work / "begun")}, {"wait": str(place.work / "go")}, DONE]])
    found: list[str] = []

    async def first(editor: Editor) -> None:
        session = await editor.open(place.work)
        found.append(session)
        prompt = [acp.text_block("Paint the shed")]
        under_way = asyncio.ensure_future(editor.connection.prompt(session_id=session, prompt=prompt))
        await until((place.work / "begun").exists)
        if killed == "agent":
            editor.process.kill()
        else:
            editor.process.stdin.close()  # What the system does with the pipe of a client that is gone.
        with anyio.fail_after(PATIENCE):
            assert await editor.process.wait() == (-signal.SIGKILL if killed == "agent" else 0)
        with pytest.raises(ConnectionError):
            await under_way

    async def second(editor: Editor) -> None:
        listed = await editor.connection.list_sessions(cwd=str(place.work))
        assert [(one.session_id, one.title) for one in listed.sessions] == [(found[0], "Paint the shed")]
        await editor.connection.load_session(cwd=str(place.work), session_id=found[0], mcp_servers=[])
        assert editor.said(found[0], "user_message_chunk") == "Paint the shed"
        assert [one["status"] for one in editor.told(found[0], "tool_call")] == ["in_progress"]
        (place.work / "go").touch()
        await until(lambda: "It is painted." in editor.said(found[0]))
        assert [one["status"] for one in editor.told(found[0], "tool_call_update")] == ["completed"]

    async def third(editor: Editor) -> None:
        await editor.connection.load_session(cwd=str(place.work), session_id=found[0], mcp_servers=[])
        assert editor.said(found[0], "user_message_chunk") == "Paint the shed"
        assert editor.said(found[0]) == "It is painted."

    with at_work(place):
        for act in (first, second, third):
            in_editor(place, act)


@pytest.mark.long
def test_what_cannot_be_done_is_an_error_with_both_codes(place: Place) -> None:
    staged(place, turns=[[{"touch": str(place.work / "begun")}, {"wait": str(place.work / "go")}, DONE]])

    async def act(editor: Editor) -> None:
        connection, session = editor.connection, await editor.open(place.work)
        image = acp.image_block("aGk=", "image/png")
        assert await refused(connection.prompt(session_id=session, prompt=[image])) == (-32602, "invalid_request")
        assert await refused(connection.prompt(session_id=session, prompt=[])) == (-32602, "invalid_request")
        text = [acp.text_block("Paint the shed")]
        long = [acp.text_block("x" * 1_000_000)]
        assert (await refused(connection.prompt(session_id=session, prompt=long)))[0] == -32602
        assert await refused(connection.prompt(session_id="none", prompt=text)) == (-32002, "group_not_found")
        again = partial(connection.load_session, cwd=str(place.work), mcp_servers=[])
        assert await refused(again(session_id="none")) == (-32002, "group_not_found")
        assert not place.home.task_groups("crew")[1], "nothing was half-written"
        async with anyio.create_task_group() as turns:
            turns.start_soon(editor.prompt, session, "Paint the shed")
            await until((place.work / "begun").exists)
            assert await refused(connection.prompt(session_id=session, prompt=text)) == (-32010, "conflict")
            assert await refused(again(session_id=session)) == (-32010, "conflict")
            (place.work / "go").touch()

    with at_work(place):
        in_editor(place, act)


def test_the_team_is_that_of_the_directory_which_the_editor_names(place: Place, tmp_path: Path) -> None:
    staged(place, turns=[[DONE]])
    other = tmp_path / "other"
    other.mkdir()
    place.home.create_team("others", workdir=str(other))

    async def main() -> None:
        async with editing(INTERLOCK_HOME=place.home.path) as editor:
            session = await editor.open(other)
            await editor.prompt(session, "Paint the shed")
            assert place.home.group_tasks(session)[0].project_id == "others"
            assert (await refused(editor.open(tmp_path)))[1] == "team_not_found"

    anyio.run(main)


def test_lines_that_are_no_messages_are_refused_and_endless_ones_end_the_connection(place: Place) -> None:
    staged(place)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    given = f"nonsense\n[]\n\n{json.dumps(hello)}\n" + "x" * 5_000_000
    ran = subprocess.run(
        [sys.executable, "-m", "interlock", "acp", "--team", "crew"], input=given, capture_output=True, text=True,
        env={**os.environ, "INTERLOCK_HOME": place.home.path}, timeout=PATIENCE, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert sorted(one["error"]["code"] for one in answers if "error" in one) == [-32700, -32600]
    assert "closing" in ran.stderr


def test_a_run_cannot_lead_the_team_by_it(place: Place) -> None:
    place.stage({"one": {"run": "interlock acp --team crew < /dev/null", "retries": 0}})
    place.drive()
    assert place.states() == {"one": "deadletter"}
    assert "lead a team from an editor" in place.log("one")


@pytest.mark.long
def test_a_home_elsewhere_is_led_as_well_but_its_guarded_questions_are_answered_there(
    tmp_path: Path, place: Place
) -> None:
    staged(place, turns=[[ask("paint it", allowed=[DONE])]])
    server = Server(Path(place.home.path))
    there = {
        "INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens.admin(), "INTERLOCK_HOME": str(tmp_path / "own"),
    }  # fmt: skip

    async def main() -> None:
        async with editing("--team", "crew", choose=lambda title: "allow", **there) as editor:
            session = await editor.open(place.work)
            assert await editor.prompt(session, "Paint the shed") == "end_turn"
            assert "guards the workspace" in editor.said(session)
            (question,) = place.team.questions()
            place.team.reply(question.task_id, "allow", question=question.id)
            await until(lambda: place.home.group_tasks(session)[0].state == "done")
            await editor.connection.load_session(cwd=str(place.work), session_id=session, mcp_servers=[])
            await until(lambda: editor.said(session).endswith("It is painted."))

    try:
        anyio.run(main)
    finally:
        server.close()
