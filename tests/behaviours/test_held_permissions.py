"""A permission question holds its session, also that of the only agent, and what a refusal is told as."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import forked
from tests.agents.acting import acp_member, recorded
from tests.behaviours.driving import Place, pids
from tests.behaviours.lasting import events
from tests.forked import Forked
from tests.waiting import until

PID = {"run": ["sh", "-c", "echo $PPID >> agent.pid"]}
REPORT = {"call": "task_complete", "with": {"task_id": "{task}", "summary": "by our own tool"}}
REFUSED_AS_CODEX_DOES = [{"stop": "cancelled"}]


def asks(title: str, **answers: Any) -> dict[str, Any]:
    return {"ask": {"title": title, "kind": "execute", "command": title}, **answers}


@contextmanager
def run(place: Place, *arguments: str) -> Iterator[Forked]:
    """`interlock run plan.yaml`, without a terminal."""
    home = {"INTERLOCK_HOME": place.home.path}
    process = Forked(forked.interlock, "run", "plan.yaml", *arguments, directory=place.path, environment=home)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ends(process: Forked, code: int) -> None:
    """It ends by itself, with that exit code."""
    said = process.communicate(120)
    assert process.returncode == code, said


@pytest.mark.long
def test_the_question_of_the_only_agent_is_held_and_its_answer_continues_the_turn(place: Place) -> None:
    bob = acp_member(place.path, turns=[[PID, asks("make", allowed=[PID, REPORT])]])
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    with run(place) as process:
        until(lambda: bool(place.team.questions()))
        (question,) = place.team.questions()
        assert question.held and process.poll() is None
        place.team.reply("one", "allow", question=question.id)
        ends(process, 0)
    assert place.states() == {"one": "done"} and len(place.team.runs("one")) == 1
    assert len(set(pids(place, "agent.pid"))) == 1 and len(recorded(place.path, "prompt")) == 1


@pytest.mark.long
def test_a_run_waits_no_longer_than_hold_time_and_parks_the_question(place: Place) -> None:
    bob = acp_member(place.path, turns=[[asks("make", allowed=[REPORT])]])
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    place.team.configure({"hold_time": 0.2})
    with run(place) as process:
        ends(process, 1)
    (question,) = place.team.questions()
    assert not question.held and place.task("one").state == "awaiting-response"
    place.team.reply("one", "allow", question=question.id)
    with run(place) as process:
        ends(process, 0)
    assert place.states() == {"one": "done"} and len(place.team.runs("one")) == 2


@pytest.mark.long
def test_unattended_is_refused_at_once_and_the_agent_knew_what_it_may_do(place: Place) -> None:
    bob = acp_member(place.path, turns=[[asks("make", refused=[REPORT])]])
    place.stage({"one": {"subject": "One"}}, {"bob": {**bob, "permissions": "workspace"}})
    place.team.configure({"allowed_commands": "pytest\ngit status"})
    with run(place, "--unattended") as process:
        ends(process, 0)
    (prompt,) = recorded(place.path, "prompt")
    assert "nobody is awake to be asked" in prompt["text"]
    assert "commands that begin with `pytest`, `git status`" in prompt["text"]
    assert not events(place, "permission.asked")


@pytest.mark.long
def test_a_program_that_ends_its_turn_at_a_refusal_goes_on_knowing_why(place: Place) -> None:
    """As Codex does, which offers no other refusal; twice, which used to fail the attempt."""
    refused = asks("make", refused=REFUSED_AS_CODEX_DOES)
    bob = acp_member(place.path, turns=[[refused], [refused], [REPORT]])
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": {**bob, "permissions": "unattended"}})
    assert place.drive() == "finished" and place.states() == {"one": "done"}, place.said
    _first, second, third = recorded(place.path, "prompt")
    for prompt in (second, third):
        assert "- make (it is more than editing)" in prompt["text"]
        assert "nobody is awake to be asked" in prompt["text"] and "reading and changing files" in prompt["text"]
        assert "you have not reported" not in prompt["text"]
    assert len(place.team.runs("one")) == 1 and not events(place, "run.reminded")


@pytest.mark.long
def test_a_person_who_refuses_is_named_as_the_reason(place: Place) -> None:
    bob = acp_member(place.path, turns=[[asks("make", refused=REFUSED_AS_CODEX_DOES)], [REPORT]])
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": bob})
    with run(place) as process:
        until(lambda: bool(place.team.questions()))
        place.team.reply("one", "refuse", question=place.team.questions()[0].id)
        ends(process, 0)
    told = recorded(place.path, "prompt")[1]["text"]
    assert "- make (the person who was asked said no)" in told and "The rest is asked of a person" in told


def test_who_asks_for_the_same_again_and_again_is_not_told_for_ever(place: Place) -> None:
    times = 8
    refused = asks("make", refused=REFUSED_AS_CODEX_DOES)
    bob = acp_member(place.path, turns=[[refused]] * times)
    place.stage({"one": {"subject": "One", "retries": 0}}, {"bob": {**bob, "permissions": "unattended"}})
    assert place.drive() == "finished" and place.states() == {"one": "deadletter"}
    assert len(recorded(place.path, "prompt")) < times
