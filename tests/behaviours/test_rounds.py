"""What a wrong report costs: one lie a round, an unchanged tree no second check, a check that cannot start nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.scripted import Say
from interlock.agents.session import Opening
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.lasting import events, play
from tests.behaviours.test_lasting import finish

COUNTED = "echo + >> {log}; test -s right"


def counted(place: Place) -> str:
    """A check that counts how often it is run, outside of the directory that it looks at."""
    return COUNTED.format(log=place.path / "checks")


def checks(place: Place) -> int:
    """How often it was run."""
    log: Path = place.path / "checks"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_one_lie_costs_one_round_and_its_author_is_not_told_that_it_has_not_reported(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        if len(prompts) == 2:
            (place.work / "right").write_text("it is")
        return await finish(place, opening)

    place.stage({"one": {"subject": "One", "verify": counted(place)}}, play(place, {"bob": bob}))
    assert place.drive() == "finished"
    task = place.task("one")
    assert (task.state, task.rounds, checks(place), len(prompts)) == ("done", 1, 2, 2)
    assert "its check failed" in prompts[1] and not any("you have not reported" in prompt for prompt in prompts)
    (done,) = place.team.report().done
    assert (done.failed_checks, done.attempts, done.runs) == (1, 1, 1)


def test_the_same_lie_about_an_unchanged_tree_costs_a_round_and_no_check(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        return await finish(place, opening)

    place.stage({"one": {"subject": "One", "verify": counted(place)}}, play(place, {"bob": bob}))
    place.drive()
    task = place.task("one")
    assert (task.state, task.rounds, checks(place)) == ("deadletter", 3, 1)
    assert "Nothing has changed since" in str(task.output)
    assert [event.payload["passed"] for event in events(place, "verify.finished")] == [False] * 3


def test_who_ends_its_turn_after_a_lie_without_a_change_is_not_checked_again(place: Place) -> None:
    prompts: list[str] = []

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        prompts.append(prompt)
        return await finish(place, opening) if len(prompts) == 1 else "I think it is fine."

    place.stage({"one": {"subject": "One", "verify": counted(place)}}, play(place, {"bob": bob}))
    place.drive()
    assert (place.task("one").state, checks(place)) == ("deadletter", 1)
    assert not any("you have not reported" in prompt for prompt in prompts)


def test_what_an_installation_changed_is_a_change(place: Place) -> None:
    count = 0

    async def bob(prompt: str, say: Say, opening: Opening) -> str:
        nonlocal count
        count += 1
        (place.work / "node_modules").mkdir(exist_ok=True)
        (place.work / "node_modules" / f"tool{count}").write_text("")
        return await finish(place, opening)

    verify = f"echo + >> {place.path / 'checks'}; test -e node_modules/tool2"
    place.stage({"one": {"subject": "One", "verify": verify}}, play(place, {"bob": bob}))
    place.drive()
    assert (place.task("one").state, checks(place)) == ("done", 2)


def test_a_check_that_cannot_start_costs_its_author_nothing_and_asks_at_once(place: Place) -> None:
    check = place.work / "check.sh"
    check.write_text("exit 0\n")
    place.stage({"one": {"run": "echo + >> work", "verify": "./check.sh"}})
    place.drive()
    task = place.task("one")
    assert (task.state, task.rounds, task.failures, place.lines("work")) == ("review", 0, 0, ["+"])
    (need,) = place.needs("review")
    assert "could not start: The program './check.sh' is not executable: `chmod +x check.sh`" in need.text.replace(
        f"{place.work}/", ""
    )
    assert "None" not in need.text and task.question is not None and "retry" in task.question["options"]
    check.write_text("#!/bin/sh\ntest -s work\n")
    check.chmod(0o755)
    place.team.reply("one", "retry")
    done = place.task("one")
    assert (done.state, place.lines("work")) == ("done", ["+"])
    assert place.team.report().done[0].proof == "exit code 0" or done.check is not None
    assert place.team.report().done[0].verified


def test_work_whose_check_cannot_start_may_be_approved_and_is_not_called_verified(place: Place) -> None:
    (place.work / "check").write_text("#!/no/such/interpreter\n")
    (place.work / "check").chmod(0o755)
    place.stage({"one": {"subject": "One", "verify": "./check"}}, {"bob": place.program("bob", "say('done')")})
    place.drive()
    (need,) = place.needs("review")
    assert "The interpreter '/no/such/interpreter', which the first line of './check' names, was not found" in need.text
    place.team.reply("one", "approve")
    (done,) = place.team.report().done
    assert (done.proof, done.verified) == ("approved by human", False)


@pytest.mark.parametrize("kind", ["command", "agent"])
def test_a_program_that_cannot_start_is_not_tried_again_and_asks_one_question(place: Place, kind: str) -> None:
    script = place.work / "deploy.sh"
    script.write_text("#!/bin/sh\n")
    if kind == "command":
        place.stage({"one": {"run": "./deploy.sh"}}, {"ada": SHELL})
    else:
        place.stage({"one": {"subject": "One"}}, {"bob": {"agent": {"command": [str(script)]}}})
    place.drive()
    task = place.task("one")
    assert (task.state, task.failures, len(place.team.runs("one"))) == ("deadletter", 0, 1)
    assert "could not start" in str(task.output) and "chmod +x" in str(task.output)
    assert len(place.team.status().needs_me) == 1
    script.chmod(0o755)
    place.team.reply("one", "retry")
    assert place.drive() == "finished" and place.task("one").state == "done"
