"""An agent that repeats itself in a turn that never ends is found by what it calls, not by how long it takes."""

from __future__ import annotations

import sys
import textwrap
from itertools import count

import anyio
import anyio.lowlevel
import pytest

from interlock.agents.scripted import Say
from interlock.agents.session import Opening, Update
from tests.agents.acting import PROGRAM
from tests.behaviours.driving import Place
from tests.behaviours.lasting import driven, events, play, settled
from tests.behaviours.test_lasting import finish
from tests.waiting import until

numbers = count()


def call(say: Say, title: str, input: str, output: str = "", status: str = "completed") -> None:
    """One tool call, as an ACP session tells it."""
    told = {"id": f"call-{next(numbers)}", "title": title, "kind": "read", "status": status, "input": input}
    say.update(Update("tool", title, {**told, "output": output} if output else told))


def staged(place: Place, bob: object, how: str, **task: object) -> None:
    place.stage({"one": {"subject": "One", **task}}, play(place, {"bob": bob}))  # type: ignore[dict-item]
    place.team.configure({"repeated_calls": 20, "when_repeating": how})


async def in_circles(say: Say) -> None:
    """Read the same two files for ever, with the same two results."""
    say.update(Update("usage", "", {"turns": 1, "input_tokens": 9000, "cost_usd": 0.5}))
    while True:
        call(say, "Read a.txt", "a", "one")
        call(say, "Read b.txt", "b", "two")
        await anyio.lowlevel.checkpoint()


def test_it_is_interrupted_and_told_what_it_repeats(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            await in_circles(say)
        return await finish(place, opening)

    staged(place, bob, "nudge")
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    (stuck,) = events(place, "run.stuck")
    evidence = stuck.payload["evidence"]
    assert stuck.payload["action"] == "reminded" and (evidence["calls"], evidence["new"]) == (20, 0)
    assert set(evidence["repeated"]) == {"Read a.txt", "Read b.txt"}
    assert (evidence["spent"]["input_tokens"], evidence["spent"]["cost_usd"]) == (9000, 0.5)
    (told,) = [one for one in place.team.report().incidents if one.outcome == "got nowhere, and was told so"]
    assert "9,000 tokens" in str(told.reason) and "0.50 USD" in str(told.reason)
    assert "last 20 tool calls" in prompts[1] and "Read a.txt" in prompts[1]


def test_what_goes_on_repeating_itself_fails_and_is_tried_again(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        await in_circles(say)
        return ""

    staged(place, bob, "nudge", retries=0)
    place.drive()
    assert place.states() == {"one": "deadletter"}
    assert [one.payload["action"] for one in events(place, "run.stuck")] == ["reminded", "ended"]
    assert "repeats itself" in str(place.task("one").output) and "0.50 USD" in str(place.task("one").output)
    (need,) = place.needs("deadletter") + place.needs("escalation")
    assert "repeats itself" in need.text


def test_it_gets_a_new_session_where_the_setting_says_so(place: Place) -> None:
    sessions: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        sessions.append(opening.session_id)
        if len(sessions) == 1:
            await in_circles(say)
        return await finish(place, opening)

    staged(place, bob, "session")
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert len(set(sessions)) == 2 and [run.outcome for run in place.team.runs("one")] == ["failed", "done"]
    assert [one.payload["action"] for one in events(place, "run.stuck")] == ["ended"]


def test_a_person_is_asked_where_the_setting_says_so_and_the_answer_is_its_next_prompt(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            await in_circles(say)
        return await finish(place, opening)

    staged(place, bob, "question")
    with driven(place) as runner:
        settled(place, "one", "awaiting-response")
        until(lambda: bool(place.team.questions()))
        (asked,) = place.team.questions()
        assert "repeats itself" in asked.text and "9,000 tokens" in asked.text and "Read a.txt" in asked.text
        place.team.reply("one", "look at c.txt instead")
        settled(place, "one", "done")
        runner.ended()
    assert "look at c.txt instead" in prompts[1] and place.task("one").failures == 0


def test_long_silence_waiting_and_work_that_finds_something_new_are_left_alone(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        for number in range(40):  # It polls a build, whose output grows: that is work.
            call(say, "tail build.log", "tail", f"line {number}")
        for number in range(40):  # It reads file after file, all empty.
            call(say, f"Read {number}", f"file {number}", "empty")
        for _ in range(19):
            call(say, "Read a.txt", "a", "one")
        await anyio.wait_all_tasks_blocked()  # It thinks: nothing is called.
        return await finish(place, opening)

    staged(place, bob, "session")
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert not events(place, "run.stuck") and place.team.runs("one")[0].outcome == "done"


def test_it_can_be_switched_off(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        for _ in range(200):
            call(say, "Read a.txt", "a", "one")
        await anyio.wait_all_tasks_blocked()
        return await finish(place, opening)

    staged(place, bob, "session")
    place.team.configure({"repeated_calls": 0})
    assert place.drive() == "finished" and not events(place, "run.stuck")


@pytest.mark.long
def test_a_real_program_that_runs_the_same_command_for_ever_is_found_though_the_times_differ(place: Place) -> None:
    play = """
    async def play(turn, prompt):
        if "You were interrupted" in prompt:
            await turn.call("task_complete", {"task_id": turn.known["task"], "summary": "at last"})
            return
        while True:
            await turn.run(["sh", "-c", "date +%H:%M:%S; echo 1 failed in 0.$$s"])
    """
    script = place.path / "circles.py"
    script.write_text(textwrap.dedent(play))
    place.stage({"one": {"subject": "One"}}, {"bob": {"agent": {"acp": [sys.executable, str(PROGRAM), str(script)]}}})
    place.team.configure({"repeated_calls": 10})
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    (stuck,) = events(place, "run.stuck")
    assert stuck.payload["action"] == "reminded" and stuck.payload["evidence"]["calls"] == 10


async def refused(say: Say, number: int) -> None:
    """A call that the program refuses before it tells it: only its own log has it."""
    say.update(Update("error", f"03:22:{number:02} ERROR router: apply_patch: cannot read a.txt ({number})"))
    say.update(Update("error", "note: set RUST_BACKTRACE to see more"))
    say.update(Update("text", "I try that again."))
    await anyio.lowlevel.checkpoint()


def test_calls_that_its_program_refuses_unseen_are_found_by_its_own_log(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        for number in count():
            if len(prompts) > 1:
                return await finish(place, opening)
            await refused(say, number)
        return ""

    staged(place, bob, "nudge")
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    (stuck,) = events(place, "run.stuck")
    assert stuck.payload["evidence"]["calls"] == 20 and "cannot read a.txt" in prompts[1]


def test_a_program_that_complains_while_something_is_done_is_left_alone(place: Place) -> None:
    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        call(say, "run the tests", "tests", status="in_progress")
        for number in range(60):  # One long call is under way.
            await refused(say, number)
        for number in range(60):  # Its log is full of errors, and it does something each time.
            call(say, f"Read {number}", f"file {number}")
            await refused(say, number)
        return await finish(place, opening)

    staged(place, bob, "session")
    assert place.drive() == "finished" and not events(place, "run.stuck")
