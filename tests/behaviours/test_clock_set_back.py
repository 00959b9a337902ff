"""A clock that is set back delays nothing: what waits for a time is dated earlier by as much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock, iso
from interlock.model.event import Event
from interlock.runner.recovery_scan import CLAIM_GRACE
from interlock.runner.scheduler import Scheduler
from tests.behaviours.speech import claimed
from tests.behaviours.test_dropped_files import drop, result
from tests.behaviours.test_scheduler import TTL, beating, types

HOURS = 3 * 3600.0


def noted(team: Team) -> list[Event]:
    return [event for event in team.events()[0] if event.type == "clock.set_back"]


def test_the_next_attempt_comes_when_it_would_have(timed: Team, clock: ManualClock) -> None:
    timed.configure({"retry_delay": 30})
    task = beating(timed)
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"]
    assert timed.next_task(by="bob") is None, "it waits for its next attempt"
    clock.jump(-HOURS)
    assert timed.next_task(by="bob") is None
    clock.advance(31)
    found = timed.next_task(by="bob")
    assert found is not None and found.id == task


def test_a_lease_ends_when_it_would_have(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    clock.advance(TTL / 2)
    clock.jump(-HOURS)
    assert timed.poll().actions == [], "who beat a moment ago keeps its lease"
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"] and timed.task(task).state == "ready"


def test_a_scheduler_that_goes_on_gives_everybody_one_lease_and_no_more(timed: Team, clock: ManualClock) -> None:
    silent, alive = beating(timed), beating(timed)
    scheduler = Scheduler(timed._workspace, interval=TTL / 10)  # type: ignore[attr-defined]
    assert scheduler.poll().actions == []
    clock.jump(-HOURS)
    found = []
    for _ in range(11):
        found += scheduler.poll().actions
        timed.heartbeat(alive, by="ada")
        clock.advance(TTL / 10)
    assert [action.task_id for action in found] == [silent]


def test_what_a_run_lays_down_afterwards_counts(timed: Team, clock: ManualClock) -> None:
    task = beating(timed, review="none")
    clock.jump(-HOURS)
    clock.advance(60)
    drop(timed, task, result("done", notes="all of it"), at=clock.now())
    assert timed.session_end(by="ada")[0].state == "done" and timed.task(task).state == "done"


def test_what_a_program_that_is_gone_held_goes_back_when_it_would_have(timed: Team, clock: ManualClock) -> None:
    ada = timed.acting("ada", session="s1")
    task = ada.claim(timed.create_task("Write").id).id
    ada.end_session()
    clock.jump(-HOURS)
    assert timed.poll().actions == []
    clock.advance(CLAIM_GRACE)
    assert types(timed.poll()) == ["requeue"] and timed.task(task).state == "ready"


def test_a_shutdown_request_and_a_default_come_when_they_would_have(timed: Team, clock: ManualClock) -> None:
    timed.configure({"unattended": True})
    task = claimed(timed)
    timed.ask(task, "Which port?", default="8080", reversible=True, by="ada")
    timed.request_shutdown("bob", by="lead")
    clock.jump(-HOURS)
    assert len(timed.shutdown_requests()) == 1
    clock.advance(901)
    assert sorted(types(timed.poll())) == ["expire_request", "take_default"]
    assert timed.shutdown_requests() == [] and timed.task(task).state == "ready"


def test_it_is_noticed_once_and_the_files_say_the_same(timed: Team, clock: ManualClock) -> None:
    task, bystander = beating(timed), timed.create_task("Test").id
    clock.jump(-HOURS)
    timed.tasks()
    timed.create_task("More")
    timed.poll()
    assert [(event.task_id, event.payload) for event in noted(timed)] == [
        (None, {"seconds": HOURS}), (task, {"seconds": HOURS})
    ]  # fmt: skip
    [run] = timed.runs(task)
    files = Path(timed.directory) / "runs" / task
    said = [json.loads((files / name).read_text()) for name in ("run.json", "run_heartbeat.json")]
    assert (run.started_at, run.expires_at) == (iso(clock.now()), iso(clock.now() + TTL))
    assert (said[0]["startedAt"], said[1]["expiresAt"]) == (run.started_at, run.expires_at)
    assert timed.task(bystander).state == "ready" and timed.doctor().healthy


@pytest.mark.parametrize("jump", [HOURS, -1.0, -2.0])
def test_a_clock_that_goes_on_or_is_corrected_a_little_is_not_set_back(
    timed: Team, clock: ManualClock, jump: float
) -> None:
    beating(timed)
    clock.jump(jump)
    timed.create_task("More")
    assert noted(timed) == []


def test_a_clock_that_is_more_than_two_seconds_behind_is_set_back_and_the_history_says_by_how_much(
    timed: Team, clock: ManualClock
) -> None:
    task = beating(timed)
    clock.jump(-2.0016)
    timed.create_task("More")
    assert {event.payload["seconds"] for event in noted(timed)} == {2.002}
    assert [event.task_id for event in noted(timed)] == [None, task]
