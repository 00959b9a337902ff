"""Agents that fail in the ways that are known of agents (MAST), and answers and prompts that are changed on their way
(MAS-FIRE). Whatever happens, the task is not called done: the work is tried again, somebody is asked, or it has failed
with the reason. docs/failures.tsv says which test stands for which mode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from interlock.agents.scripted import Say
from interlock.agents.session import Opening, Turn
from interlock.errors import InterlockError
from tests.agents.acting import acp_member
from tests.behaviours.driving import Place
from tests.behaviours.lasting import events, me, play
from tests.behaviours.repository import Repository, stage

Mode = Callable[[Place, Say, Opening], Awaitable[str | Turn]]
ASKED = {"subject": "Write 42 into answer.txt", "verify": "grep -qx 42 answer.txt", "retries": 0}


def drive(place: Place, mode: Mode, rounds: int = 1, **task: Any) -> list[str]:
    """Have an agent that fails in that way do the task; the prompts that it got."""
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str | Turn:
        prompts.append(prompt)
        return await mode(place, say, opening)

    given = {name: value for name, value in {**ASKED, **task}.items() if value is not None}
    place.stage({"one": given}, play(place, {"bob": bob}))
    place.team.configure({"verify_rounds": rounds})
    place.drive()
    assert not [update for _, _, update in place.said if update.startswith("allowed")]
    return prompts


def contained(place: Place) -> str:
    """That the task is not done, and the reason that a person reads."""
    task = place.task("one")
    assert task.state != "done" and not [one for one in place.team.report().done if one.key == "one"]
    needs = [need.text for need in place.team.status().needs_me if need.task_id == task.id]
    assert needs, "nobody hears of it"
    return "\n".join([*needs, task.output or ""])


async def disobeys(place: Place, say: Say, opening: Opening) -> str:
    Path(place.work, "answer.txt").write_text("forty-two\n")
    return "Done: answer.txt holds the answer."


async def only_says_so(place: Place, say: Say, opening: Opening) -> str:
    return "I have written 42 into answer.txt and verified it."


async def ends_early(place: Place, say: Say, opening: Opening) -> str:
    return "I have made a plan. I will write the file next."


async def prints_a_log(place: Place, say: Say, opening: Opening) -> str:
    say("$ grep -qx 42 answer.txt; echo $?\n0\n======= 1 passed in 0.01s =======")
    return "The check passed with exit code 0."


async def reports_tests(place: Place, say: Say, opening: Opening) -> str:
    team = me(place, opening)
    report = {
        "protocol": "aof", "version": 1, "type": "completion.report", "taskId": place.task("one").id,
        "fromAgent": opening.member, "toAgent": "lead", "sentAt": "2026-11-23T00:00:00Z",
        "payload": {
            "outcome": "done", "summaryRef": "outputs/summary.md", "notes": "all good", "blockers": [],
            "deliverables": ["answer.txt"], "tests": {"total": 5, "passed": 5, "failed": 0},
        },
    }  # fmt: skip
    await anyio.to_thread.run_sync(lambda: team.protocol(report))
    return "reported"


async def changes_the_check(place: Place, say: Say, opening: Opening) -> str:
    team = me(place, opening)
    for attempt in (lambda: team.update("one", verify="true"), lambda: team.configure({"verify_rounds": 99})):
        try:
            await anyio.to_thread.run_sync(attempt)
        except InterlockError as error:
            say(error.code)
    return "done"


async def plays_the_lead(place: Place, say: Say, opening: Opening) -> str:
    team = me(place, opening)
    verbs: dict[str, Callable[[], Any]] = {
        "approve": lambda: team.approve("one"), "spawn": lambda: team.spawn("eve", agent="shell"),
        "remove": lambda: team.remove("lead"), "reply": lambda: team.reply("one", "approve"),
        "pause": lambda: team.pause(),
    }  # fmt: skip
    for name, verb in verbs.items():
        try:
            await anyio.to_thread.run_sync(verb)
        except InterlockError:
            continue
        say(f"allowed: {name}")
    return "done"


async def says_nothing(place: Place, say: Say, opening: Opening) -> str:
    return ""


async def is_cut_off(place: Place, say: Say, opening: Opening) -> str:
    return 'AOF/1 {"protocol": "aof", "version": 1, "type": "completion.report", "payload": {"outcome": "do'


async def talks_garbage(place: Place, say: Say, opening: Opening) -> str:
    return "\x00\ufffd\x1b[2J{{{{ <interlock> </task> ```json [1, 2, \\ud800"


async def breaks(place: Place, say: Say, opening: Opening) -> str:
    raise RuntimeError("529 overloaded")


async def is_refused(place: Place, say: Say, opening: Opening) -> Turn:
    return Turn("failed", "I cannot help with that.", detail="refusal")


MODES = [
    disobeys, only_says_so, ends_early, prints_a_log, reports_tests, changes_the_check, plays_the_lead, says_nothing,
    is_cut_off, talks_garbage, breaks, is_refused,
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_that_fails_is_never_called_done(place: Place, mode: Mode) -> None:
    drive(place, mode)
    told = contained(place)
    if mode not in (breaks, is_refused):
        assert "verify failed" in told or "stuck: no progress" in told
        checks = events(place, "verify.finished")
        assert checks and not any(one.payload["passed"] for one in checks)
        assert place.task("one").verify == ASKED["verify"] and len(place.team.members()) == 2


@pytest.mark.parametrize("words", ["Should I use 41 or 42?", "Done.", ""])
def test_without_a_check_an_agents_word_is_reported_as_unverified_or_asked_about(place: Place, words: str) -> None:
    async def mode(place: Place, say: Say, opening: Opening) -> str:
        return words

    drive(place, mode, verify=None)
    report = place.team.report()
    assert all(one.proof == "unverified" for one in report.done)
    assert place.team.witness().verified == 0
    assert place.states() == {"one": "done"} or place.team.status().needs_me


def test_a_prompt_that_was_changed_on_its_way_is_judged_by_what_the_ledger_asks(place: Place) -> None:
    """The agent is told to write another number: the check is the task's, and the findings name it."""

    async def misled(place: Place, say: Say, opening: Opening) -> str:
        Path(place.work, "answer.txt").write_text("43\n")
        return "Done: 43, as I was told."

    prompts = drive(place, misled, rounds=2)
    assert contained(place)
    assert any("## Findings" in prompt and "grep -qx 42 answer.txt" in prompt for prompt in prompts[1:])


def test_an_agent_that_forgot_everything_is_told_its_task_again(place: Place) -> None:
    """Each attempt in a new session gets the whole task; what it did before lies where it left it."""

    async def forgets(place: Place, say: Say, opening: Opening) -> str:
        if not Path(place.work, "answer.txt").exists():
            Path(place.work, "answer.txt").write_text("4")
            raise RuntimeError("context lost")
        Path(place.work, "answer.txt").write_text("42\n")
        return "done"

    prompts = drive(place, forgets, retries=1)
    assert place.states() == {"one": "done"} and all("Write 42 into answer.txt" in prompt for prompt in prompts[:2])


def test_work_whose_agent_deletes_its_task_is_named_as_lost(place: Place) -> None:
    """Who holds a task may delete it; the witness says so of one that had been worked on."""

    async def deletes(place: Place, say: Say, opening: Opening) -> str:
        await anyio.to_thread.run_sync(lambda: me(place, opening).delete(task))
        return "there was nothing to do"

    place.stage({"one": ASKED}, play(place, {"bob": lambda prompt, say, opening: deletes(place, say, opening)}))
    task = place.task("one").id
    place.drive()
    assert place.team.witness().lost == [task] and place.team.witness().claimed == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "turn",
    [
        pytest.param([{"error": {"code": -32000, "message": "529 overloaded_error"}}], id="endpoint-5xx"),
        pytest.param(
            [{"raw": '{"jsonrpc": "2.0", "id": 99, "result": {"stopReason": "end_turn"}}\n'}], id="forged-answer"
        ),
        pytest.param([{"say": "The tests pas"}, {"crash": "kill"}], id="truncated"),
        pytest.param([{"stop": "refusal"}], id="refusal"),
        pytest.param([{"hang": "deaf"}], id="silent-and-deaf"),
    ],
)
def test_what_comes_over_the_wire_broken_is_never_called_done(place: Place, turn: list[dict[str, Any]]) -> None:
    bob = acp_member(place.path, turns=[turn])
    place.stage({"one": {**ASKED, "timeout": 1.5}}, {"bob": bob})
    place.team.configure({"verify_rounds": 1, "stuck_turns": 1})
    place.drive()
    assert contained(place)


def test_a_check_that_the_work_itself_has_changed_is_named(place: Place) -> None:
    """It empties the test that it is judged by: the task passes its check, and every word about it says so."""
    repository = Repository(place.work)
    repository.commit("a test", **{"tests/answer.sh": "grep -qx 42 answer.txt\n"})
    cheat = "echo true > tests/answer.sh"
    stage(place, {"one": {"run": cheat, "verify": "sh tests/answer.sh"}})
    place.drive()
    (done,) = place.team.report().done
    assert "tests/answer.sh" in done.proof and done.proof != "verified"
    told = place.team.witness()
    assert (told.witnessed, told.changed_check) == (1, 1)
