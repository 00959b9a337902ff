"""Lasting sessions with a real agent program: what a kill of the runner leaves, and what is taken up again."""

from __future__ import annotations

import pytest

from tests.agents.acting import acp_member, recorded
from tests.behaviours.driving import Place, pids, running
from tests.behaviours.lasting import event, events, settled
from tests.waiting import until

pytestmark = pytest.mark.long

PID = {"run": ["sh", "-c", "echo $PPID >> agent.pid"]}
REPORT = {"call": "task_complete", "with": {"task_id": "{task}", "summary": "by our own tool"}}


def test_an_agent_reports_by_our_tools_and_its_session_serves_the_next_task(place: Place) -> None:
    bob = acp_member(place.path, turns=[[PID, REPORT]])
    place.stage({"one": {"subject": "One"}, "two": {"subject": "Two", "blocked_by": ["one"]}}, {"bob": bob})
    assert place.drive() == "finished" and place.states() == {"one": "done", "two": "done"}
    assert place.task("one").output == "by our own tool"
    assert len(set(pids(place, "agent.pid"))) == 1 and len(pids(place, "agent.pid")) == 2
    assert not running(pids(place, "agent.pid")[0])


def test_a_runner_killed_in_mid_turn_leaves_no_orphan_and_the_session_is_resumed(place: Place) -> None:
    first = [PID, {"child": ["sh", "-c", "echo $$ >> child.pid; exec sleep 600"], "session": True}, {"wait": "go"}]
    bob = acp_member(place.path, turns=[first, [PID, REPORT]], state=str(place.path / "state"), can=["load"])
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    sent = place.team.send(to="bob", content="mind the gap")
    with place.runner() as runner:
        place.wait_for("child.pid")
        until(lambda: place.team.runs("one")[0].agent_session is not None)
        event(place, "message.delivered")
        runner.kill()
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    old, new = pids(place, "agent.pid")
    assert not running(old) and not running(new) and not running(pids(place, "child.pid")[0])
    one, two = place.team.runs("one")
    assert one.outcome == "reclaimed" and place.task("one").failures == 0
    assert one.agent_session == two.agent_session is not None and len(recorded(place.path, "load")) == 1
    (message,) = [found for found in place.team.history() if found.id == sent.id]
    assert message.stage == "acknowledged" and message.redelivered


def test_the_session_of_a_member_without_a_task_is_ended_when_its_runner_was_killed(place: Place) -> None:
    bob = acp_member(place.path, turns=[[PID, REPORT], [{"say": "read"}]])
    place.stage({"one": {"subject": "One"}}, {"bob": bob})
    with place.runner(endless=True) as runner:
        settled(place, "one", "done")
        place.team.send(to="bob", content="still there?")
        event(place, "session.prompted", stop="ended")
        (agent,) = set(pids(place, "agent.pid"))
        assert running(agent)
        runner.kill()
    actions = place.team.poll().actions
    assert [one.type for one in actions] == ["close_session"] and not running(agent)
    assert place.team.poll().actions == []
    assert len(events(place, "session.ended")) == 1
