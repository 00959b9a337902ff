"""Who may go on with a task, and until when its run may be silent: its current run, and nobody of an older one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock, iso
from interlock.core.tasks.claim import claim
from interlock.core.tasks.find import find
from interlock.core.tasks.finish import fail
from interlock.core.tasks.review import claim_review, no_verdict
from interlock.core.unit_of_work import Principal, UnitOfWork
from interlock.errors import Forbidden, InvalidTransition, StaleRun
from interlock.processes.ref import current


def acting(team: Team, member: str, session: str, do: Callable[[UnitOfWork], Any]) -> None:
    with team._workspace.act(Principal(member, session)) as act:
        do(act)


def in_review(team: Team) -> str:
    """A task of ada's that the program of rev reviews, in its session r-1."""
    team.spawn("rev", command=["true"])
    task = team.create_task("Write the parser", review="rev").id
    ada = team.acting("ada", session="a-1")
    ada.claim(task)
    ada.complete(task)
    acting(team, "rev", "r-1", lambda act: claim_review(act, runner=current().as_text(), parallel=5))
    return task


def test_a_reviewers_run_shows_that_it_lives(timed: Team, clock: ManualClock) -> None:
    task = in_review(timed)
    clock.advance(10)
    run = timed.acting("rev", session="r-1").heartbeat(task)
    assert (run.number, run.member, run.beats) == (2, "rev", 1)
    assert run.expires_at == iso(clock.now() + 300)


def test_nobody_shows_for_a_reviewer_that_it_lives(team: Team) -> None:
    task = in_review(team)
    for member, session in (("ada", "a-1"), ("rev", "r-2"), ("lead", "l-1"), ("ada", "r-1")):
        with pytest.raises(StaleRun, match="is being reviewed by rev"):
            team.acting(member, session=session).heartbeat(task)
    assert team.runs(task)[-1].beats == 0


def test_once_a_review_is_over_nobody_shows_that_it_goes_on(team: Team) -> None:
    task = in_review(team)
    acting(team, "rev", "r-1", lambda act: no_verdict(act, find(act.rows, task), "it said nothing"))
    for member, session in (("ada", "a-1"), ("rev", "r-1")):
        with pytest.raises(StaleRun):
            team.acting(member, session=session).heartbeat(task)


def test_an_author_has_nothing_to_show_once_its_task_is_in_review(team: Team) -> None:
    task = team.create_task("Write the parser", review="human").id
    ada = team.acting("ada", session="a-1")
    ada.claim(task)
    assert ada.heartbeat(task).beats == 1
    ada.complete(task)
    with pytest.raises(StaleRun, match="has ended; claim the task again"):
        ada.heartbeat(task)
    with pytest.raises(Forbidden):
        team.acting("bob", session="b-1").heartbeat(task)


def test_a_task_that_nobody_holds_is_given_back_by_nobody_but_who_gave_it_back(team: Team) -> None:
    task = team.create_task("Write the parser").id
    ada = team.acting("ada", session="a-1")
    with pytest.raises(InvalidTransition, match="is not claimed"):
        ada.release(task)
    ada.claim(task)
    given_back = ada.release(task)
    assert (given_back.state, given_back.owner, given_back.session) == ("ready", None, None)
    head = team.head()
    for again in (ada, team, team.acting("lead", session="l-1")):
        assert again.release(task).state == "ready"
    assert [event.type for event in team.events(head)[0] if event.task_id == task] == []
    for other in (team.acting("bob", session="a-1"), team.acting("ada", session="a-2")):
        with pytest.raises(InvalidTransition, match="is not claimed"):
            other.release(task)


def test_a_task_whose_run_failed_was_not_given_back(team: Team) -> None:
    task = team.create_task("Write the parser").id
    ada = team.acting("ada", session="a-1")
    ada.claim(task)
    acting(team, "ada", "a-1", lambda act: fail(act, find(act.rows, task), "it crashed"))
    for caller in (ada, team):
        with pytest.raises(InvalidTransition, match="is not claimed"):
            caller.release(task)


def test_what_was_given_back_and_called_off_is_not_given_back_again(team: Team) -> None:
    task = team.create_task("Write the parser").id
    ada = team.acting("ada", session="a-1")
    ada.claim(task)
    ada.release(task)
    team.cancel(task)
    with pytest.raises(InvalidTransition, match="is not claimed"):
        ada.release(task)


def test_whoever_had_an_older_run_of_a_free_task_is_told_so_and_whoever_had_the_last_that_it_is_free(
    team: Team,
) -> None:
    task = team.create_task("Write the parser").id
    ada, bob = team.acting("ada", session="a-1"), team.acting("bob", session="b-1")
    for one in (ada, bob):
        one.claim(task)
        one.release(task)
    with pytest.raises(StaleRun, match="was superseded by run 2") as refused:
        ada.complete(task)
    assert (refused.value.details["run"], refused.value.details["current_run"]) == (1, 2)
    for one in (bob, team.acting("ada", session="a-2")):
        with pytest.raises(InvalidTransition, match="is not claimed"):
            one.complete(task)


@pytest.mark.parametrize(("runner", "beats", "ttl"), [(False, False, 100), (False, True, 30), (True, False, 30)])
def test_a_run_may_be_silent_anew_once_its_task_comes_back_to_it(
    timed: Team, clock: ManualClock, runner: bool, beats: bool, ttl: int
) -> None:
    timed.configure({"claim_ttl": 100, "heartbeat_ttl": 30})
    task = timed.create_task("Write the parser").id
    process = current().as_text() if runner else None
    acting(timed, "ada", "a-1", lambda act: claim(act, find(act.rows, task), runner=process))
    ada = timed.acting("ada", session="a-1")
    if beats:
        ada.heartbeat(task)
    ada.block(task, reason="no network")
    clock.advance(1000)
    assert ada.unblock(task).state == "in-progress"
    (run,) = timed.runs(task)
    assert run.expires_at == iso(clock.now() + ttl)


def test_a_run_without_a_lease_has_none_when_its_task_comes_back_to_it(timed: Team, clock: ManualClock) -> None:
    task = timed.create_task("Write the parser").id
    ada = timed.acting("ada", session="a-1")
    ada.claim(task)
    timed.configure({"claim_ttl": 100})
    ada.block(task, reason="no network")
    assert ada.unblock(task).state == "in-progress"
    assert timed.runs(task)[0].expires_at is None
