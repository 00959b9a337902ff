"""What ends a run and what follows: another attempt, another check, another reader."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock, seconds
from interlock.core.tasks import claim, finish, verify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.errors import Forbidden, InvalidTransition, TaskAlreadyClaimed
from interlock.model.event import Event


def told(team: Team, type: str) -> list[Event]:
    return [event for event in team.events()[0] if event.type == type]


def failed(team: Team, task: str, **how: Any) -> None:
    """A runner ends ada's run of the task without a result."""
    with team._workspace.act(Principal("ada", "run:a")) as act:
        finish.fail(act, find(act.rows, task), "it broke", **how)


def begun(team: Team, task: str) -> None:
    """A runner that is gone by now has begun a run of the task by ada."""
    with team._workspace.act(Principal("ada", "run:a")) as act:
        claim.claim(act, find(act.rows, task), runner="gone")


def test_each_attempt_waits_twice_as_long_as_the_last_and_an_hour_at_most(timed: Team, clock: ManualClock) -> None:
    timed.configure({"retry_delay": 700, "retries": 4})
    task = timed.create_task("Deploy").id
    for attempt, delay in enumerate((700, 1400, 2800, 3600), 1):
        begun(timed, task)
        failed(timed, task)
        found, event = timed.task(task), told(timed, "task.failed")[-1]
        assert (found.state, found.failures) == ("ready", attempt)
        assert seconds(str(found.not_before)) - clock.now() == delay
        assert (event.payload["attempt"], event.payload["retry_at"]) == (attempt, found.not_before)
        clock.advance(delay)
    begun(timed, task)
    failed(timed, task)
    assert timed.task(task).state == "deadletter" and told(timed, "task.failed")[-1].payload["retry_at"] is None
    assert {run.outcome for run in timed.runs(task)} == {"failed"}


@pytest.mark.parametrize(
    ("how", "outcome", "reason", "failures"),
    [
        ({}, "failed", "it broke", 1),
        ({"counts": False}, "reclaimed", "it broke", 0),
        ({"lapsed": "stale_heartbeat"}, "expired", "stale_heartbeat_reclaim", 1),
        ({"lapsed": "lease_expired", "counts": False}, "expired", "lease_expired_reclaim", 0),
    ],
)
def test_how_a_run_ended_is_kept_and_the_way_back_says_why(
    team: Team, how: dict[str, Any], outcome: str, reason: str, failures: int
) -> None:
    task = team.create_task("Deploy").id
    begun(team, task)
    failed(team, task, **how)
    (run,) = team.runs(task)
    assert (run.outcome, run.reason) == (outcome, how.get("lapsed", "it broke"))
    assert told(team, "task.transitioned")[-1].payload["reason"] == reason
    assert team.task(task).failures == failures


def test_what_an_agent_gives_back_again_and_again_waits_longer_and_then_asks(timed: Team, clock: ManualClock) -> None:
    timed.configure({"retry_delay": 100, "retries": 3})
    task = timed.create_task("Deploy").id

    def given_back() -> None:
        with timed._workspace.act(Principal("ada", "run:a")) as act:
            claim.release(act, find(act.rows, task), "too hard")
        with timed._workspace.act(Principal("ada", "run:a")) as act:
            finish.given_back(act, find(act.rows, task))

    for delay in (100, 200, 400):
        begun(timed, task)
        given_back()
        assert seconds(str(timed.task(task).not_before)) - clock.now() == delay
        clock.advance(delay)
    begun(timed, task)
    given_back()
    assert timed.task(task).state == "deadletter"
    (event,) = told(timed, "task.failed")
    reason = "returned to the queue 4 times, last: too hard"
    assert (event.payload["attempt"], event.payload["reason"], event.payload["retry_at"]) == (4, reason, None)


def test_what_has_failed_since_it_was_given_back_is_left_alone(timed: Team, clock: ManualClock) -> None:
    timed.configure({"retry_delay": 100, "retries": 3})
    task = timed.create_task("Deploy").id
    begun(timed, task)
    timed.acting("lead", session="l").release(task)
    clock.advance(1000)
    begun(timed, task)
    failed(timed, task)
    before = timed.task(task).not_before
    with timed._workspace.act(Principal("ada", "run:a")) as act:
        finish.given_back(act, find(act.rows, task))
    assert timed.task(task).not_before == before


def test_a_check_that_could_not_start_ends_its_run_and_is_begun_once_more_as_the_same_round(team: Team) -> None:
    ada = team.acting("ada", session="a")
    task = ada.claim(team.create_task("Deploy", verify="./no-such-check").id).id
    ada.complete(task)
    (run,) = team.runs(task)
    assert run.outcome == "done" and team.task(task).rounds == 0
    team.retry(task)
    first, *again = told(team, "verify.started")
    assert (first.payload["round"], first.payload.get("again")) == (1, None)
    assert [(one.payload["round"], one.payload["again"]) for one in again] == [(1, True)] * 2, "asked for, and taken up"
    assert {one.payload["run"] for one in again} == {first.payload["run"]}
    assert len(team.runs(task)) == 1


def test_only_whoever_runs_a_check_now_says_how_it_ended(team: Team) -> None:
    task = team.create_task("Deploy", verify="true").id
    begun(team, task)

    def ended(verifier: str, run: int = 1) -> str:
        with team._workspace.act(Principal("ada", "run:a")) as act:
            passed = {"passed": True, "exit_code": 0, "command": "true"}
            return verify.verified(act, find(act.rows, task), passed, run=run, verifier=verifier).state

    with team._workspace.act(Principal("ada", "run:a")) as act:
        finish.complete(act, find(act.rows, task), verifier="first")
    with team._workspace.act(Principal("bob", "run:b")) as act:
        verify.take_up(act, find(act.rows, task), "second")
    seen = team.head()
    assert ended("first") == ended("second", run=2) == "review" and team.head() == seen
    assert ended("second") == "done" and ended("second") == "done"
    assert len(told(team, "verify.finished")) == 1


def test_an_author_who_goes_on_is_not_said_to_have_been_forced_upon(team: Team) -> None:
    ada = team.acting("ada", session="a")
    task = ada.claim(team.create_task("Deploy", review="bob").id).id
    ada.complete(task)
    team.acting("bob", session="b").reject(task, reason="No test.")
    first, again = told(team, "task.claimed")
    assert [one.payload["forced"] for one in (first, again)] == [False, False]
    assert again.payload["owner"] == "ada" and again.payload["run"] == f"{task}.2"


def test_an_author_whose_session_goes_on_in_another_process_gets_the_changes_back(team: Team) -> None:
    for goes_on, state in ((True, "in-progress"), (False, "ready")):
        task = team.create_task("Deploy", review="bob").id
        with team._workspace.act(Principal("ada", f"a-{goes_on}", process="here|boot|7|1")) as act:
            finish.complete(act, claim.claim(act, find(act.rows, task)))
        if goes_on:
            team.acting("ada", session=f"a-{goes_on}").send(to="bob", content="It is ready.")
        assert team.reject(task, reason="No test.").state == state


def test_what_the_lead_said_of_an_earlier_run_says_nothing_of_this_one(team: Team) -> None:
    ada, lead = team.acting("ada", session="a"), team.acting("lead", session="l")
    task = ada.claim(team.create_task("Deploy", review="human").id).id
    lead.complete(task)
    assert lead.complete(task).state == "review", "said again"
    team.reject(task, reason="No test.")
    ada.complete(task)
    with pytest.raises(Forbidden, match="for a human to review"):
        lead.complete(task)
    team.approve(task)
    with pytest.raises(InvalidTransition):
        lead.complete(task)


def test_whoever_reports_what_the_lead_has_reported_for_it_meanwhile_is_told_how_it_stands(team: Team) -> None:
    ada = team.acting("ada", session="a")
    for review, state in ((None, "done"), ("human", "review")):
        task = ada.claim(team.create_task("Deploy", review=review).id).id
        team.acting("lead", session="l").complete(task)
        head = team.head()
        assert ada.complete(task, summary="It is done.").state == state
        assert team.head() == head
        with pytest.raises(InvalidTransition if state == "done" else TaskAlreadyClaimed):
            team.acting("ada", session="another").complete(task)


def test_how_a_check_ended_before_the_work_is_known_of_all_that_began_with_that_tree_and_check(team: Team) -> None:
    tasks = {
        name: team.create_task(name, verify=check).id
        for name, check in (("one", "true"), ("same", "true"), ("other", "false"), ("elsewhere", "true"))
    }
    trees = {"one": "T", "same": "T", "other": "T", "elsewhere": "U"}
    with team._workspace.act(Principal("human")) as act:
        for name, task in tasks.items():
            row = {"kind": "verify", "passed": True, "exit_code": 0, "red_before": None}
            act.rows.tasks.update(find(act.rows, task), worktree={"tree": trees[name]}, evidence=[row])
    with team._workspace.act(Principal("human")) as act:
        verify.baselined(act, find(act.rows, tasks["one"]), True, "1 failed")
    with team._workspace.look() as rows:
        known = {name: find(rows, task).evidence[0]["red_before"] for name, task in tasks.items()}
    assert known == {"one": True, "same": True, "other": None, "elsewhere": None}
    said = told(team, "verify.before")
    assert [(one.task_id, one.payload.get("tail")) for one in said] == [
        (tasks["one"], "1 failed"),
        (tasks["same"], None),
    ]
