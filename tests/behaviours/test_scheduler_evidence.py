"""What a scheduler takes for dead, stuck or merely silent: processes that are gone, clocks that jump, machines that
slept."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.core.tasks import claim, finish, verify
from interlock.core.unit_of_work import Principal
from interlock.errors import StaleRun
from interlock.model.names import SYSTEM
from interlock.processes import ref
from interlock.runner import verify as checking
from interlock.runner.recovery_scan import CLAIM_GRACE, LivenessProbe
from interlock.runner.scheduler import Scheduler
from tests.behaviours.speech import claimed, head, hops, since
from tests.behaviours.test_dropped_files import drop, result
from tests.behaviours.test_scheduler import TTL, beating, types

INTERVAL = 5.0


@pytest.fixture
def dead() -> str:
    """A process of this machine that has ended, as it stands in the ledger."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        identity = ref.identify(program.pid)
        assert identity is not None and program.stdin is not None
        program.stdin.close()
    return identity.as_text()


def driven(team: Team, runner: str, **fields: Any) -> str:
    """The id of a task whose run `runner` drives for ada."""
    task = team.create_task("Write the parser", **fields)
    with workspace(team).act(Principal("ada", f"run:{runner[-16:]}", process=runner)) as act:
        found = claim.claim_next(act, shell=None, runner=runner)
    assert found is not None and found.id == task.id
    return task.id


def workspace(team: Team) -> Any:
    """The team's workspace."""
    return team._workspace  # type: ignore[attr-defined]


def test_a_run_whose_runner_is_gone_goes_back_at_once_and_uses_nothing_up(timed: Team, dead: str) -> None:
    task = driven(timed, dead)
    before = head(timed)
    answer = timed.poll()
    assert types(answer) == ["requeue"] and answer.actions_executed == 1
    found = timed.task(task)
    assert (found.state, found.attempt) == ("ready", 0)
    [recovered] = since(timed, before, "task.recovered")
    evidence = recovered.payload["evidence"]
    assert (evidence["judged"], evidence["runner"]) == ("dead", "gone")
    assert timed.claim(task, by="bob").state == "in-progress", "there is nothing to wait for"


def test_what_the_agent_of_a_dead_runner_had_put_down_counts(timed: Team, clock: ManualClock, dead: str) -> None:
    task = driven(timed, dead)
    drop(timed, task, result("partial", notes="half"), at=clock.now())
    answer = timed.poll()
    assert types(answer) == ["requeue"] and "partial" in answer.actions[0].reason
    assert (timed.task(task).state, timed.task(task).output) == ("review", "half")


def test_a_blocked_task_stays_blocked_when_its_runner_dies(timed: Team, dead: str) -> None:
    task = driven(timed, dead)
    timed.block(task, reason="no key", by="human")
    before = head(timed)
    assert types(timed.poll()) == ["close_run"] and timed.poll().actions == []
    assert hops(timed, before) == [] and timed.runs(task)[0].outcome == "blocked"


@pytest.mark.parametrize("silent", [True, False])
def test_a_review_that_a_runner_drove_ends_when_the_runner_does(
    timed: Team, clock: ManualClock, dead: str, silent: bool
) -> None:
    task = claimed(timed, review="bob")
    timed.complete(task, by="ada")
    runner = "elsewhere|boot|17|1" if silent else dead
    with workspace(timed).act(Principal("bob", "run:review", process=runner)) as act:
        found = act.rows.tasks.get(task)
        act.rows.tasks.update(found, run=2)
        first = act.rows.runs.get(task, 1)
        expires = act.later(TTL)
        second = copy.copy(first)
        second.number, second.member, second.session, second.runner = 2, "bob", "run:review", runner
        second.ended_at, second.expires_at = None, expires
        act.rows.runs.begin(second)
    before = head(timed)
    clock.advance(TTL if silent else 0)
    assert types(timed.poll()) == ["stale_heartbeat" if silent else "close_run"]
    assert hops(timed, before) == [] and timed.task(task).state == "review"
    assert timed.runs(task)[1].outcome == ("failed" if silent else "reclaimed")
    assert timed.poll().actions == []


def test_a_runner_that_lives_but_shows_nothing_is_stuck(timed: Team, clock: ManualClock) -> None:
    task = driven(timed, ref.current().as_text())
    clock.advance(TTL - 1)
    assert timed.poll().actions == []
    clock.advance(1)
    before = head(timed)
    assert types(timed.poll()) == ["stale_heartbeat"] and timed.task(task).state == "ready"
    [recovered] = since(timed, before, "task.recovered")
    assert recovered.payload["evidence"]["judged"] == "stuck"


def test_a_runner_elsewhere_is_judged_by_its_lease_alone(timed: Team, clock: ManualClock) -> None:
    task = driven(timed, "elsewhere|boot|17|1")
    assert timed.poll().actions == []
    clock.advance(TTL)
    assert types(timed.poll()) == ["stale_heartbeat"] and timed.task(task).attempt == 1


def test_a_program_that_had_joined_and_is_gone_keeps_its_claims_for_a_minute(
    timed: Team, clock: ManualClock, start: Callable[..., Any], tmp_path: Path
) -> None:
    task = timed.create_task("Write").id
    program = start("claim", tmp_path / "home", timed.name, task, "ada", "s1")
    assert program.line() == "ready"
    program.go()
    assert program.line() == "claimed"
    program.result()
    before = head(timed)
    assert types(timed.poll()) == ["session_lost"]
    assert timed.poll().actions == [] and hops(timed, before) == []
    clock.advance(CLAIM_GRACE - 1)
    assert timed.poll().actions == []
    clock.advance(1)
    assert types(timed.poll()) == ["requeue"]
    assert (timed.task(task).state, timed.task(task).attempt) == ("ready", 0)
    for name in ("ada", "lead"):
        assert any(f"{task} was taken from ada" in message.content for message in timed.read(name))


@pytest.mark.parametrize("noticed", [True, False])
def test_a_program_that_comes_back_under_its_session_keeps_what_it_holds(
    timed: Team, clock: ManualClock, start: Callable[..., Any], tmp_path: Path, noticed: bool
) -> None:
    task = timed.create_task("Write").id
    first = start("claim", tmp_path / "home", timed.name, task, "ada", "s1")
    first.line()
    first.go()
    first.result()
    if noticed:
        assert types(timed.poll()) == ["session_lost"]
    # Another process of the same agent: its MCP server was started again, say.
    timed.acting("ada", session="s1").update(task, log="on my way")
    clock.advance(2 * CLAIM_GRACE)
    assert timed.poll().actions == [] and timed.task(task).state == "in-progress"


def test_a_session_that_ended_gives_back_what_it_still_holds(timed: Team, clock: ManualClock) -> None:
    ada = timed.acting("ada", session="s1")
    task = timed.create_task("Write").id
    ada.claim(task)
    ada.end_session()
    assert timed.poll().actions == []
    clock.advance(CLAIM_GRACE)
    assert types(timed.poll()) == ["requeue"] and timed.task(task).state == "ready"


def test_a_person_or_a_command_has_no_process_to_lose(timed: Team, clock: ManualClock) -> None:
    claimed(timed)
    by_command = timed.create_task("Test").id
    timed.acting("ada", session="hook-1", face="cli").claim(by_command)
    clock.advance(30 * 86400)
    assert timed.poll().actions == []


def running(team: Team, **more: Any) -> Scheduler:
    """A scheduler that goes on running."""
    return Scheduler(workspace(team), interval=INTERVAL, **more)


@pytest.mark.parametrize("jump", [86400.0, 2 * TTL])
def test_a_clock_that_jumps_ends_nobody_s_lease(timed: Team, clock: ManualClock, jump: float) -> None:
    alive, silent = beating(timed), beating(timed)
    scheduler = running(timed)
    assert scheduler.poll().actions == []
    clock.jump(jump)
    for _ in range(int(TTL / INTERVAL) - 1):
        assert scheduler.poll().actions == []
        clock.advance(INTERVAL)
        timed.heartbeat(alive, by="ada")
    clock.advance(INTERVAL)
    assert [action.task_id for action in scheduler.poll().actions] == [silent], "after one lease it is judged"


def test_a_machine_that_slept_gives_everybody_the_time_of_a_lease(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    scheduler = running(timed)
    scheduler.poll()
    clock.advance(8 * 3600)
    assert scheduler.poll().actions == []
    assert types(timed.poll()) == ["stale_heartbeat"], "a single poll knows nothing of sleep"
    assert timed.task(task).state == "ready"


def test_a_first_poll_judges_at_once(timed: Team, clock: ManualClock) -> None:
    beating(timed)
    clock.advance(TTL)
    assert types(running(timed).poll()) == ["stale_heartbeat"]


def test_sleep_protects_nobody_whose_runner_is_gone(timed: Team, clock: ManualClock, dead: str) -> None:
    scheduler = running(timed)
    scheduler.poll()
    driven(timed, dead)
    clock.advance(8 * 3600)
    assert types(scheduler.poll()) == ["requeue"]


def test_of_two_schedulers_that_found_the_same_one_acts(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    clock.advance(TTL)
    first, second = running(timed), running(timed)
    found = first.look(), second.look()
    assert [len(first.carry_out(found[0])), len(second.carry_out(found[1]))] == [1, 0]
    assert len(timed.runs(task)) == 1 and timed.task(task).attempt == 1


def test_a_heartbeat_at_the_last_moment_saves_the_run(timed: Team, clock: ManualClock) -> None:
    task = beating(timed)
    clock.advance(TTL)
    scheduler = running(timed)
    found = scheduler.look()
    assert len(found) == 1
    timed.heartbeat(task, by="ada")
    assert scheduler.carry_out(found) == [] and timed.task(task).state == "in-progress"


def test_programs_that_cannot_be_ended_block_their_task(timed: Team, dead: str) -> None:
    class Powerless(LivenessProbe):
        """Nothing it tries to end goes."""

        def end(self, run: Any, grace: float) -> bool:
            return False

    task = driven(timed, dead)
    Scheduler(workspace(timed), probe=Powerless()).poll()
    found = timed.task(task)
    assert found.state == "blocked" and "could not be ended" in str(found.output)


def test_a_check_on_another_machine_that_is_never_answered_is_run_again(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed, verify="true", review="none")
    with workspace(timed).act(Principal("ada")) as act:
        finish.complete(act, act.rows.tasks.get(task), verifier=f"elsewhere|boot|17|1#{'0' * 32}")
    clock.advance(timed.setting("verify_timeout")[0])
    assert timed.poll().actions == []
    clock.advance(TTL)
    assert types(timed.poll()) == ["verify"] and timed.task(task).state == "done"


def test_a_late_check_of_an_older_run_fails_nobody(timed: Team, dead: str) -> None:
    task = driven(timed, dead, verify="true", review="none")
    with workspace(timed).act(Principal("ada", f"run:{dead[-16:]}")) as act:
        taken = finish.complete(act, act.rows.tasks.get(task), verifier=f"{dead}#{'0' * 32}")
    mark = f"{ref.current().as_text()}#{'1' * 32}"
    taken = checking.take_over(workspace(timed), taken, mark)
    assert taken is not None
    timed.assign(task, to="bob")
    timed.claim(task, by="bob")
    before = head(timed)
    checking.decide(workspace(timed), taken, {"passed": False}, lambda: True)
    assert since(timed, before) == [] and timed.task(task).owner == "bob"


def test_a_check_that_was_taken_over_is_decided_by_who_runs_it_now(timed: Team, dead: str) -> None:
    task = driven(timed, dead, verify="true", review="none")
    late = f"{dead}#{'0' * 32}"
    with workspace(timed).act(Principal("ada", f"run:{dead[-16:]}")) as act:
        taken = finish.complete(act, act.rows.tasks.get(task), verifier=late)
    mark = f"{ref.current().as_text()}#{'1' * 32}"
    assert checking.take_over(workspace(timed), taken, mark) is not None
    before = head(timed)
    for passed in (False, True):
        with workspace(timed).act(Principal(SYSTEM)) as act:
            verify.verified(act, act.rows.tasks.get(task), {"passed": passed}, run=taken.run, verifier=late)
    assert since(timed, before) == [] and timed.task(task).state == "review"
    with workspace(timed).act(Principal(SYSTEM)) as act:
        verify.verified(act, act.rows.tasks.get(task), {"passed": True}, run=taken.run, verifier=mark)
    assert timed.task(task).state == "done"


def test_a_check_elsewhere_is_not_overdue_because_this_machine_slept(timed: Team, clock: ManualClock) -> None:
    task = claimed(timed, verify="true", review="none")
    with workspace(timed).act(Principal("ada")) as act:
        finish.complete(act, act.rows.tasks.get(task), verifier=f"elsewhere|boot|17|1#{'0' * 32}")
    scheduler = running(timed)
    scheduler.poll()
    clock.advance(8 * 3600)
    assert scheduler.poll().actions == [] and timed.task(task).state == "review"
    assert types(timed.poll()) == ["verify"], "a single poll knows nothing of sleep"


def test_what_interlock_does_for_an_older_run_is_refused(timed: Team) -> None:
    task = claimed(timed)
    timed.assign(task, to="bob")
    run = timed.claim(task, by="bob").run
    for verb in (finish.complete, claim.release):
        with pytest.raises(StaleRun), workspace(timed).act(Principal(SYSTEM, run=run - 1)) as act:
            verb(act, act.rows.tasks.get(task))
    with workspace(timed).act(Principal(SYSTEM, run=run)) as act:
        finish.complete(act, act.rows.tasks.get(task))
    assert timed.task(task).state == "done"


def test_a_verify_whose_process_is_gone_is_run_again(timed: Team, dead: str) -> None:
    task = claimed(timed, verify="true", review="none")
    with workspace(timed).act(Principal("ada")) as act:
        from_row = act.rows.tasks.get(task)
        finish.complete(act, from_row, verifier=f"{dead}#{'0' * 32}")
    assert timed.task(task).state == "review"
    assert types(timed.poll(dry_run=True)) == ["verify"]
    answer = timed.poll()
    assert types(answer) == ["verify"] and timed.task(task).state == "done"


@pytest.mark.long
def test_schedulers_of_many_processes_take_up_each_task_once(
    team: Team, together: Callable[..., list[list[str]]], tmp_path: Path
) -> None:
    tasks = [claimed(team) for _ in range(25)]
    for number, task in enumerate(tasks):
        drop(team, task, {"expiresAt": "2026-02-10T10:00:00.000Z"}, name="run_heartbeat.json")
        if number % 2:
            drop(team, task, result("partial", notes=f"part {number}"))
    before = head(team)
    printed = together("poll", *[(tmp_path / "home", team.name, 2)] * 4)
    acted = [line for lines in printed for line in lines]
    assert sorted(acted) == sorted(f"stale_heartbeat {task}" for task in tasks)
    assert len(since(team, before, "task.recovered")) == len(hops(team, before)) == len(tasks)
    assert [team.task(task).state for task in tasks] == ["ready", "review"] * 12 + ["ready"]
