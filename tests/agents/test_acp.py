"""Sessions with a real child process that speaks ACP."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from interlock.agents.acp.agent import AcpAgent, LaunchSpec
from interlock.agents.acp.session import AcpSession
from interlock.agents.capacity import Limit
from interlock.agents.session import Permission, Turn, Update
from interlock.errors import AgentError, CannotStart, InvalidRequest, NoCapacity
from tests.agents.conftest import Stage, allow, echo_server
from tests.waiting import until

# What is said and done


def test_words_are_updates_a_line_each_and_the_output_of_the_turn(stage: Stage) -> None:
    script = [[{"think": "let me see"}, {"say": "hel"}, {"say": "lo\nwor"}, {"say": "ld"}, {"tool": {"title": "T"}},
               {"say": "after"}]]  # fmt: skip
    turn = stage.prompt("hi", agent=stage.agent(turns=script))
    assert turn == Turn("end", "hello\nworld\nafter\n")
    assert stage.heard("text") == ["hello", "world", "after"] and stage.heard("thought") == ["let me see"]
    assert [update.kind for update in stage.updates] == ["thought", "text", "text", "tool", "text", "usage"]
    assert stage.log.read_text() == "hello\nworld\nafter\n"
    assert [one["text"] for one in stage.got("prompt")] == ["hi"]


def test_tool_calls_are_told_with_what_they_touch_and_how_they_stand(stage: Stage) -> None:
    stage.prompt("go", agent=stage.agent(turns=[[{"write": {"path": "a/b.txt", "text": "x"}}]]))
    begun, ended = (update.data for update in stage.updates if update.kind == "tool")
    assert begun["title"] == "Write a/b.txt" and begun["kind"] == "edit" and begun["status"] == "in_progress"
    assert begun["paths"] == [str(stage.work / "a/b.txt")]
    assert ended == {**begun, "status": "completed"}
    assert (stage.work / "a/b.txt").read_text() == "x"


def test_what_was_spent_is_told_as_a_difference(stage: Stage) -> None:
    turns = [[{"usage": {"input": 10, "output": 2, "total_cost": 0.5}}], [{"usage": {"total_cost": 0.75}}]]
    stage.prompt("one", "two", agent=stage.agent(turns=turns))
    spent = [dict(update.data) for update in stage.updates if update.kind == "usage"]
    assert spent == [{"cost_usd": 0.5}, {"turns": 1, "input_tokens": 10, "output_tokens": 2}, {"cost_usd": 0.25},
                     {"turns": 1}]  # fmt: skip


def test_several_prompts_go_to_one_session_of_one_process(stage: Stage) -> None:
    turns = stage.prompt("one", "two", agent=stage.agent(turns=[[{"say": "{prompt}: first"}], [{"say": "{prompt}"}]]))
    assert [turn.output for turn in turns] == ["one: first\n", "two\n"]
    assert len({one["pid"] for one in stage.got("prompt")}) == 1


def test_secrets_are_blanked_wherever_they_come_out(stage: Stage) -> None:
    secret = "hunter22"
    script = [[{"say": "pass hun"}, {"say": "ter22 end"}, {"think": secret}, {"stderr": f"err {secret}"},
               {"tool": {"title": f"echo {secret}", "paths": [f"/x/{secret}"]}},
               {"ask": {"title": f"use {secret}", "paths": [f"/{secret}"], "text": secret}},
               {"error": {"message": f"bad {secret}"}}]]  # fmt: skip
    turn = stage.prompt("go", agent=stage.agent(turns=script), secrets=(secret,), permit=stage.permitting(allow))
    assert turn.stop == "failed" and "***" in str(turn.detail)
    assert secret not in str([stage.updates, stage.asked, turn, stage.log.read_text()])
    assert "***" in stage.asked[0].title and "err ***" in stage.log.read_text()


@pytest.mark.long
def test_a_flood_stays_in_bounds_and_can_be_stopped(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"flood": 20_000, "text": "spam"}]])
    turn = stage.prompt("go", agent=agent, output_bytes=1000)
    assert turn.stop == "end" and len(turn.output) <= 1100 and "bytes cut" in turn.output
    assert len(stage.heard("text")) == 20_000


def test_what_a_program_prints_beside_the_protocol_is_logged_and_harms_nothing(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"raw": "hello, I am a banner"}, {"raw": "[1]"}, {"say": "ok"}]])
    turn = stage.prompt("go", agent=agent)
    assert turn == Turn("end", "ok\n")
    assert "I am a banner" in stage.log.read_text()


# What it is given


@pytest.mark.long
def test_our_mcp_server_is_handed_over_with_its_environment(stage: Stage) -> None:
    script = [[{"call": "shout", "with": {"text": "hey"}}, {"say": "{result}"}]]
    turn = stage.prompt("go", agent=stage.agent(turns=script), mcp=(echo_server(stage.path),))
    assert turn.output == "HEY!\n"


def test_files_and_terminals_are_not_offered(stage: Stage) -> None:
    stage.prompt("go", agent=stage.agent())
    offered = stage.got("initialize")[0]["capabilities"]
    assert offered["fs"] == {"readTextFile": False, "writeTextFile": False} and offered["terminal"] is False


@pytest.mark.long
def test_a_model_is_chosen_by_option_argument_or_variable(stage: Stage) -> None:
    stage.prompt("go", agent=stage.agent(models=["small", "big"]), model="Big")
    assert [one["value"] for one in stage.got("option")] == ["big"]
    agent = stage.agent({"model_variable": "THE_MODEL"}, turns=[[{"say": "{env.THE_MODEL}"}]])
    assert stage.prompt("go", agent=agent, model="x").output == "x\n"
    with pytest.raises(CannotStart, match=r"no model 'huge'\. It offers: small, big"):
        stage.prompt("go", agent=stage.agent(models=["small", "big"]), model="huge")
    with pytest.raises(CannotStart, match="leave out `model`"):
        stage.prompt("go", agent=stage.agent(), model="any")


def test_the_first_mode_that_is_offered_is_chosen_and_without_one_it_cannot_start(stage: Stage) -> None:
    stage.prompt("go", agent=stage.agent({"modes": ("write", "auto")}, modes=["ask", "auto"]))
    assert [one["mode"] for one in stage.got("mode")] == ["auto"]
    stage.prompt("go", agent=stage.agent({"modes": ("ask",)}, modes=["ask", "auto"]))
    assert [one["mode"] for one in stage.got("mode")] == ["auto"], "it is in that mode"
    with pytest.raises(CannotStart, match="no mode 'plan' or 'look', only ask, auto"):
        stage.prompt("go", agent=stage.agent({"modes": ("plan", "look")}, modes=["ask", "auto"]))


# Permissions


def test_a_permission_request_is_put_to_permit_and_answered(stage: Stage) -> None:
    asking = {"ask": {"title": "Edit a", "kind": "edit", "paths": ["a.txt"]}, "allowed": [{"say": "may: {answer}"}],
              "refused": [{"say": "may not: {answer}"}]}  # fmt: skip
    agent = stage.agent(turns=[[asking]])
    assert stage.prompt("go", agent=agent, permit=stage.permitting(allow)).output == "may: allow\n"
    assert stage.prompt("go", agent=agent).output == "may not: reject\n"
    first = stage.asked[0]
    assert (first.title, first.kind, first.paths) == ("Edit a", "edit", (str(stage.work / "a.txt"),))
    assert [choice.kind for choice in first.choices] == ["allow_once", "allow_always", "reject_once"]
    assert stage.asked[0].id != stage.asked[1].id


def test_nothing_is_allowed_by_an_answer_that_was_not_offered(stage: Stage) -> None:
    async def nonsense(permission: Permission) -> str | None:
        return "everything"

    agent = stage.agent(turns=[[{"ask": {"title": "Edit"}, "allowed": [{"say": "allowed"}]}]])
    assert stage.prompt("go", agent=agent, permit=nonsense) == Turn("cancelled")


@pytest.mark.long
def test_time_spent_waiting_for_an_answer_is_not_the_agents(stage: Stage) -> None:
    async def slowly(permission: Permission) -> str | None:
        begun = time.monotonic()
        await anyio.to_thread.run_sync(until, lambda: time.monotonic() > begun + 11)
        return "allow"

    agent = stage.agent(turns=[[{"ask": {"title": "Edit"}, "allowed": [{"say": "allowed"}]}]])
    assert stage.prompt("go", agent=agent, permit=slowly, time_limit=10.0).output == "allowed\n"


def test_a_cancel_withdraws_the_question(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"ask": {"title": "Edit"}, "allowed": [{"say": "allowed"}]}], [{"say": "next"}]])

    async def act(session: AcpSession) -> Any:
        return await session.prompt("go", stage.updates.append), await session.prompt("on", stage.updates.append)

    held: list[AcpSession] = []

    async def for_ever(permission: Permission) -> str | None:
        await held[0].cancel()
        await anyio.sleep_forever()
        return None

    async def remember(session: AcpSession) -> Any:
        held.append(session)
        return await act(session)

    assert stage.play(remember, agent, permit=for_ever) == (Turn("cancelled"), Turn("end", "next\n"))


# Ends


def cancelling(stage: Stage) -> Any:
    """Prompt, and cancel once the agent has begun to speak."""

    async def act(session: AcpSession) -> Any:
        begun = anyio.Event()

        def hear(update: Update) -> None:
            stage.updates.append(update)
            begun.set()

        async def stop() -> None:
            await begun.wait()
            await session.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            first = await session.prompt("go", hear)
        return first, session.lasting

    return act


def test_a_cancelled_turn_leaves_the_session_to_go_on_with(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"say": "working\n"}, {"hang": True}]])
    assert stage.play(cancelling(stage), agent) == (Turn("cancelled", "working\n"), True)


def test_an_agent_that_does_not_hear_is_ended(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"say": "working\n"}, {"hang": "deaf"}]])
    assert stage.play(cancelling(stage), agent, stop_grace=0.3) == (Turn("cancelled", "working\n"), False)


def test_a_turn_ends_at_its_time_limit(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"hang": True}]])
    turn = stage.prompt("go", agent=agent, time_limit=0.5)
    assert turn.stop == "timeout" and turn.detail == "its time was up"


@pytest.mark.parametrize(("crash", "stop", "code"), [("kill", "killed", -9), (7, "failed", 7)])
def test_a_program_that_dies_ends_the_turn(stage: Stage, crash: Any, stop: str, code: int) -> None:
    agent = stage.agent(turns=[[{"say": "begun"}, {"stderr": "out of memory"}, {"crash": crash}]])
    turn = stage.prompt("go", agent=agent)
    assert (turn.stop, turn.exit_code, turn.output) == (stop, code, "begun\n")
    assert str(turn.detail).endswith("in the middle of the turn; the last it printed: out of memory")


def test_an_adapter_that_ends_well_since_its_program_was_killed_is_no_good_end(stage: Stage) -> None:
    turn = stage.prompt("go", agent=stage.agent(turns=[[{"crash": 0}]]))
    assert (turn.stop, turn.detail) == ("failed", "its program ended in the middle of the turn")


def test_a_dead_program_is_noticed_though_its_child_holds_the_pipe_open(stage: Stage) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(300)"]
    turn = stage.prompt("go", agent=stage.agent(turns=[[{"child": sleeper}, {"crash": 1}]]))
    assert (turn.stop, turn.exit_code) == ("failed", 1)


def test_what_it_started_is_ended_with_it_also_outside_its_group(stage: Stage) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(300)"]
    turns = [[{"child": sleeper}, {"child": sleeper, "session": True}]]
    assert stage.prompt("go", agent=stage.agent(turns=turns)).stop == "end"
    assert len(stage.got("child")) == 2  # and the stage looks that they are gone


def test_a_prompt_after_the_end_says_so(stage: Stage) -> None:
    async def act(session: AcpSession) -> Any:
        first = await session.prompt("go", stage.updates.append)
        second = await session.prompt("go", stage.updates.append)
        await session.close()
        with pytest.raises(InvalidRequest, match="is closed"):
            await session.prompt("go", stage.updates.append)
        return first.stop, second.stop, session.lasting

    assert stage.play(act, stage.agent(turns=[[{"crash": 1}]])) == ("failed", "failed", False)


def test_a_refusal_is_a_failed_turn_and_a_reached_limit_an_ended_one(stage: Stage) -> None:
    agent = stage.agent(turns=[[{"stop": "refusal"}], [{"stop": "max_tokens"}]])
    refused, cut = stage.prompt("one", "two", agent=agent)
    assert refused.stop == "failed" and "refused" in refused.detail
    assert cut.stop == "end" and "limit of tokens" in cut.detail


def test_what_a_listener_raises_ends_the_turn_and_is_raised(stage: Stage) -> None:
    def deaf(update: Update) -> None:
        raise ZeroDivisionError("a bug")

    async def act(session: AcpSession) -> None:
        with pytest.raises(ZeroDivisionError):
            await session.prompt("go", deaf)

    stage.play(act, stage.agent(turns=[[{"say": "a\n"}, {"hang": True}]]))


def test_a_cancelled_caller_leaves_nothing_running(stage: Stage) -> None:
    async def act(session: AcpSession) -> None:
        with anyio.move_on_after(0.3):
            await session.prompt("go", stage.updates.append)

    stage.play(act, stage.agent(turns=[[{"hang": "deaf"}]]), stop_grace=0.3)


# Capacity

LIMITS = {"limits": (Limit("usage limit", after=900), Limit("log in", login=True), Limit("sorry, .* full", whole=True))}


def test_a_usage_limit_is_no_failure(stage: Stage) -> None:
    agent = stage.agent(LIMITS, turns=[[{"limit": "You've hit your usage limit. Try again in 2 hours."}],
                                       [{"limit": "usage limit"}], [{"limit": "please log in"}],
                                       [{"say": "sorry, all full"}],
                                       [{"say": "the usage limit is 5, all full"}]])  # fmt: skip
    before = time.time()
    told, silent, login, polite, talk = stage.prompt(*"abcde", agent=agent)
    assert told.stop == silent.stop == login.stop == polite.stop == "capacity" and talk.stop == "end"
    assert 7200 <= told.retry_at - before < 7260 and 900 <= silent.retry_at - before < 960
    assert login.retry_at is None and "usage limit" in told.detail


def test_an_agent_that_is_not_logged_in_says_what_to_do(stage: Stage) -> None:
    with pytest.raises(NoCapacity, match="Run `actor login`"):
        stage.prompt("go", agent=stage.agent({"login": "Run `actor login`."}, start="login"))


# Beginnings


@pytest.mark.long
def test_a_session_is_loaded_or_resumed_by_its_id(stage: Stage) -> None:
    for can in (["load"], ["resume"]):
        agent = stage.agent(state=str(stage.path / "state"), can=can, turns=[[{"say": "{session}"}]])
        id = stage.prompt("one", agent=agent).output.strip()
        stage.updates.clear()
        assert stage.prompt("two", agent=agent, resume=id).output.strip() == id
        assert stage.heard("text") == [id]  # and not what is told again of the past


def test_a_session_that_cannot_be_resumed_is_begun_anew(stage: Stage) -> None:
    async def act(session: AcpSession) -> str | None:
        return session.agent_session

    assert stage.play(act, stage.agent(state=str(stage.path / "state")), resume="gone") != "gone"
    assert stage.play(act, stage.agent(), resume="gone") != "gone"


def test_a_program_that_is_missing_or_does_not_start_is_named(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"'no-such-agent'.*npm install it"):
        stage.prompt("go", agent=AcpAgent("actor", LaunchSpec(("no-such-agent",), install="npm install it")))
    with pytest.raises(AgentError, match="does not exist"):
        stage.prompt("go", agent=stage.agent(), workdir=str(tmp_path / "nowhere"))
    with pytest.raises(AgentError, match="the program has a bad day"):
        stage.prompt("go", agent=stage.agent(start="crash"))
    with pytest.raises(AgentError, match="version 7"):
        stage.prompt("go", agent=stage.agent(version=7))


def test_a_program_that_never_opens_a_session_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.agents.acp.agent.START_SECONDS", 3.0)
    with pytest.raises(AgentError, match="no session within 3 seconds"):
        stage.prompt("go", agent=stage.agent(start="hang"))


def test_its_process_is_known_before_its_session_is_open(stage: Stage) -> None:
    seen: list[int] = []
    stage.prompt("go", agent=stage.agent(), on_start=lambda identity: seen.append(identity.pid))
    assert seen == [stage.got("initialize")[0]["parent"]] and os.getpgid(0) != seen[0]  # its supervisor
