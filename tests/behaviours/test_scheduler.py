"""Runs that fell silent: found by their lease, and taken up by what they left behind (AOF TASK-061)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock, iso
from interlock.errors import InterlockError
from interlock.runner.scheduler import PollReport
from tests.behaviours.speech import claimed, completion, head, hops, since
from tests.behaviours.test_dropped_files import drop, result

TTL = 300.0

RECLAIMED = [("in-progress", "ready")]


def beating(team: Team, **fields: Any) -> str:
    """The id of a task that ada holds and has shown a heartbeat for."""
    task = claimed(team, **fields)
    team.heartbeat(task, by="ada")
    return task


def artifact(team: Team, task: str, name: str = "run.json") -> Any:
    """What a file of the task's run says."""
    return json.loads((Path(team.directory) / "runs" / task / name).read_text())


def types(answer: PollReport) -> list[str]:
    """The types of the actions of a poll."""
    return [action.type for action in answer.actions]


def reasons(team: Team, seq: int) -> list[str]:
    """Why tasks changed their state after `seq`."""
    return [event.payload["reason"] for event in since(team, seq, "task.transitioned")]


@pytest.mark.req("AOF-61.01", "AOF-61.12")
def test_a_run_past_its_lease_is_stale(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed)
    drop(timed, task, {"expiresAt": iso(clock.now() - 300)}, name="run_heartbeat.json", at=clock.now())
    before = head(timed)
    answer = timed.poll()
    [action] = answer.actions
    assert (action.type, action.task_id) == ("stale_heartbeat", task)
    assert hops(timed, before) == RECLAIMED


@pytest.mark.req("AOF-61.02")
def test_a_run_within_its_lease_is_not(timed: Team, clock: ManualClock) -> None:
    first, second = beating(timed), claimed(timed)
    drop(timed, second, {"expiresAt": iso(clock.now() + TTL)}, name="run_heartbeat.json", at=clock.now())
    clock.advance(TTL - 0.001)
    assert timed.poll() == PollReport([], 0)
    timed.heartbeat(first, by="ada")
    clock.advance(0.001)
    assert [action.task_id for action in timed.poll().actions] == [second], "a lease ends when it says"
    assert timed.task(first).state == "in-progress"


@pytest.mark.req("AOF-61.03")
def test_who_never_showed_a_heartbeat_may_think_as_long_as_it_likes(timed: Team, clock: ManualClock) -> None:
    claimed(timed)
    before = head(timed)
    clock.advance(30 * 86400)
    assert timed.poll() == PollReport([], 0) and since(timed, before) == []


@pytest.mark.req("AOF-61.04")
def test_a_stale_run_without_a_result_gives_its_task_back(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    before = head(timed)
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"]
    assert timed.task(task).state == "ready" and timed.task(task).owner is None
    assert hops(timed, before) == RECLAIMED and reasons(timed, before) == ["stale_heartbeat_reclaim"]
    [recovered] = since(timed, before, "task.recovered")
    assert recovered.payload["evidence"]["judged"] == "silent" and recovered.payload["run"] == f"{task}.1"


@pytest.mark.req("AOF-61.05", "AOF-61.06")
@pytest.mark.parametrize("outcome", ["partial", "needs_review"])
def test_a_stale_run_that_has_done_part_goes_to_review(timed: Team, clock: ManualClock, outcome: str) -> None:
    task = beating(timed, review="none")
    drop(timed, task, result(outcome, notes="half"), at=clock.now())
    before = head(timed)
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"]
    assert hops(timed, before) == [("in-progress", "review")] and outcome in reasons(timed, before)[0]
    assert artifact(timed, task)["metadata"].get("expiredAt") is None and timed.questions()


@pytest.mark.req("AOF-61.07")
def test_a_stale_run_that_was_blocked_is_blocked_by_what_it_says(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    drop(timed, task, result("blocked", blockers=["Dependency not ready", "no key"]), at=clock.now())
    before = head(timed)
    clock.advance(TTL)
    timed.poll()
    assert hops(timed, before) == [("in-progress", "blocked")]
    assert "Dependency not ready" in reasons(timed, before)[0] and "no key" in reasons(timed, before)[0]
    assert timed.runs(task)[0].ended_at is not None, "nobody is at it any more"


@pytest.mark.req("AOF-61.08")
@pytest.mark.parametrize("fields", [{"review": "none"}, {"metadata": {"reviewRequired": False}}])
def test_a_stale_run_that_was_done_completes_its_task(timed: Team, clock: ManualClock, fields: dict[str, Any]) -> None:
    task = beating(timed, **fields)
    drop(timed, task, result("done"), at=clock.now())
    before = head(timed)
    clock.advance(TTL)
    timed.poll()
    assert hops(timed, before) == [("in-progress", "review"), ("review", "done")]


@pytest.mark.req("AOF-61.09")
@pytest.mark.parametrize("fields", [{}, {"review": "human"}, {"metadata": {"reviewRequired": True}}])
def test_a_stale_run_that_was_done_waits_for_its_review(
    timed: Team, clock: ManualClock, fields: dict[str, Any]
) -> None:
    task = beating(timed, **fields)
    drop(timed, task, result("done"), at=clock.now())
    before = head(timed)
    clock.advance(TTL)
    timed.poll()
    assert hops(timed, before) == [("in-progress", "review")]


def test_what_a_stale_run_calls_done_is_verified(timed: Team, clock: ManualClock) -> None:
    passing, failing = (beating(timed, review="none", verify=command) for command in ("true", "false"))
    for task in (passing, failing):
        drop(timed, task, result("done"), at=clock.now())
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat", "stale_heartbeat", "verify", "verify"]
    assert (timed.task(passing).state, timed.task(failing).state) == ("done", "in-progress")
    assert timed.poll().actions == [], "its author may be about to come back"
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"] and timed.task(failing).state == "ready"


@pytest.mark.req("AOF-61.10", "AOF-61.11")
def test_the_file_of_a_run_that_was_reclaimed_says_so(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    assert artifact(timed, task)["status"] == "running"
    clock.advance(TTL)
    timed.poll()
    run = artifact(timed, task)
    assert run["status"] == "failed"
    assert run["metadata"]["expiredAt"] == iso(clock.now())
    assert run["metadata"]["expiredReason"] == "stale_heartbeat"
    clock.advance(60)
    timed.claim(task, by="bob")
    assert artifact(timed, task, "attempts/1/run.json") == run


@pytest.mark.req("AOF-61.12")
def test_a_dry_run_says_the_same_and_changes_nothing(timed: Team, clock: ManualClock) -> None:
    task, dropped = beating(timed), claimed(timed)
    clock.advance(TTL)
    expired = {"expiresAt": iso(clock.now() - 1)}
    path = drop(timed, dropped, expired, name="run_heartbeat.json", at=clock.now())
    before = head(timed)
    dry = timed.poll(dry_run=True)
    assert dry == timed.poll(dry_run=True) and dry.actions_executed == 0
    assert since(timed, before) == [] and json.loads(path.read_text()) == expired
    assert timed.task(task).state == timed.task(dropped).state == "in-progress"
    assert timed.poll().actions == dry.actions


@pytest.mark.req("AOF-61.13")
def test_a_stale_heartbeat_is_done_and_not_counted(timed: Team, clock: ManualClock) -> None:
    timed.configure({"claim_ttl": 100})
    beating(timed)
    by_hand = claimed(timed)
    clock.advance(TTL)
    before = head(timed)
    answer = timed.poll()
    assert sorted(types(answer)) == ["expire_lease", "stale_heartbeat"] and answer.actions_executed == 1
    [event] = since(timed, before, "scheduler.poll")
    assert event.payload == {"actions": {"expire_lease": 1, "stale_heartbeat": 1}, "executed": 1}
    assert "lease_expired_reclaim" in reasons(timed, before) and timed.task(by_hand).state == "ready"


@pytest.mark.req("AOF-61.14")
def test_each_stale_run_goes_its_own_way(timed: Team, clock: ManualClock) -> None:
    states = {"done": "done", "partial": "review", "needs_review": "review", "blocked": "blocked", None: "ready"}
    tasks = {outcome: beating(timed, review="none") for outcome in states}
    for outcome, task in tasks.items():
        if outcome is not None:
            drop(timed, task, result(outcome, notes="as far as I came"), at=clock.now())
    clock.advance(TTL)
    assert len(timed.poll().actions) == 5
    assert {outcome: timed.task(task).state for outcome, task in tasks.items()} == states


@pytest.mark.req("AOF-principles")
def test_polling_again_or_by_somebody_else_does_nothing_more(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    clock.advance(TTL)
    timed.poll()
    before = head(timed)
    for other in (timed, timed.acting("ada"), timed.acting("bob", session="s")):
        assert other.poll() == PollReport([], 0)
    assert since(timed, before) == [] and timed.task(task).attempt == 1


def test_a_poll_in_a_quiet_team_leaves_no_trace(timed: Team) -> None:
    timed.create_task("Write")
    blocked = claimed(timed)
    timed.block(blocked, reason="no key", by="ada")
    timed.create_task("Test", blocked_by=[blocked])
    before = head(timed)
    assert timed.poll() == timed.poll(dry_run=True) == PollReport([], 0)
    assert since(timed, before) == []


def test_what_waits_for_somebody_is_left_alone(timed: Team, clock: ManualClock) -> None:
    stopped, reviewed, retried = beating(timed), beating(timed, review="human"), beating(timed)
    timed.block(stopped, reason="no key", by="ada")
    timed.complete(reviewed, by="ada")
    clock.advance(TTL)
    timed.poll()
    clock.advance(0.5)
    states = {task: timed.task(task).state for task in (stopped, reviewed, retried)}
    assert list(states.values()) == ["blocked", "review", "ready"]
    clock.advance(86400)
    assert timed.poll().actions == []
    assert {task: timed.task(task).state for task in states} == states


def test_a_run_that_goes_on_after_it_waited_has_its_lease_anew(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    timed.block(task, reason="no key", by="ada")
    clock.advance(10 * TTL)
    timed.unblock(task, by="ada")
    assert timed.poll().actions == []
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"]


def test_what_is_stale_too_often_goes_to_deadletter_with_its_cause(timed: Team, clock: ManualClock) -> None:
    timed.configure({"retries": 1})
    task = beating(timed)
    for state in ("ready", "deadletter"):
        clock.advance(TTL)
        assert types(timed.poll()) == ["stale_heartbeat"] and timed.task(task).state == state
        if state == "ready":
            clock.advance(60)
            timed.claim(task, by="ada")
            timed.heartbeat(task, by="ada")
    output = timed.task(task).output
    assert output is not None and "no sign of life" in output
    assert artifact(timed, task)["metadata"]["expiredReason"] == "stale_heartbeat"
    assert any("deadletter" in message.content for message in timed.read("lead"))


@pytest.mark.req("AOF-61.04")
def test_a_run_that_was_reclaimed_speaks_no_more(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    clock.advance(TTL)
    timed.poll()
    late = timed.protocol(completion(task, "done", run=f"{task}.1"), by="ada")
    assert (late.accepted, late.reason) == (False, "stale_run")
    clock.advance(60)
    timed.claim(task, by="bob")
    for outcome in ("done", "blocked"):
        assert not timed.protocol(completion(task, outcome, run=f"{task}.1"), by="ada").accepted
    with pytest.raises(InterlockError):
        timed.heartbeat(task, by="ada")
    drop(timed, task, result("done", agentId="ada"), at=clock.now())
    timed.heartbeat(task, by="bob")
    clock.advance(TTL)
    timed.poll()
    assert timed.task(task).state == "ready", "the file was the former owner's"


def test_a_result_that_was_applied_is_not_applied_again(timed: Team, clock: ManualClock) -> None:
    task = beating(timed, verify="false", review="none")
    timed.protocol(completion(task, "done"), by="ada")
    assert timed.task(task).state == "in-progress", "its verify failed"
    clock.advance(TTL)
    before = head(timed)
    timed.poll()
    assert timed.task(task).state == "ready" and since(timed, before, "verify.started") == []


def test_a_claim_by_hand_lasts_as_long_as_the_team_says(timed: Team, clock: ManualClock) -> None:
    timed.configure({"claim_ttl": 3600})
    task = claimed(timed)
    clock.advance(3599)
    assert timed.poll().actions == []
    timed.heartbeat(task, by="ada")
    clock.advance(TTL - 1)
    assert timed.poll().actions == []
    clock.advance(1)
    assert types(timed.poll()) == ["stale_heartbeat"], "who has shown one heartbeat is expected to show more"
    assert any(f"{task} was taken from" in message.content for message in timed.read("ada"))


def test_a_shutdown_request_that_nobody_answers_ends(timed: Team, clock: ManualClock) -> None:
    timed.request_shutdown("ada")
    assert timed.poll().actions == []
    clock.advance(timed.setting("shutdown_timeout")[0])
    answer = timed.poll()
    assert types(answer) == ["expire_request"] and answer.actions[0].task_id is None
    assert timed.poll().actions == []


@pytest.mark.req("AOF-X.01")
def test_a_result_that_was_reported_and_dropped_moves_its_task_once(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    before = head(timed)
    timed.protocol(completion(task, "partial", notes="half"), by="ada")
    drop(timed, task, result("partial", notes="half"), at=clock.now())
    clock.advance(TTL)
    assert timed.poll().actions == [] and timed.protocol(completion(task, "partial", notes="half"), by="ada")
    assert hops(timed, before) == [("in-progress", "review")]


@pytest.mark.req("AOF-X.05")
def test_a_summary_that_is_missing_does_not_hold_up_what_a_stale_run_left(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    drop(timed, task, result("partial", summaryRef="outputs/summary.md"), at=clock.now())
    before = head(timed)
    clock.advance(TTL)
    timed.poll()
    assert timed.task(task).state == "review"
    [warning] = since(timed, before, "protocol.message.warning")
    assert warning.payload["reason"] == "summary_file_not_found"


@pytest.mark.req("AOF-X.04")
def test_a_result_for_a_task_that_is_done_moves_nothing(timed: Team, clock: ManualClock) -> None:
    task = beating(timed, review="none")
    timed.complete(task, by="ada")
    drop(timed, task, result("partial"), at=clock.now())
    before = head(timed)
    clock.advance(TTL)
    assert timed.poll().actions == [] and timed.task(task).state == "done"
    assert hops(timed, before) == []
