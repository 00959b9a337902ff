"""Nothing that can be done waits for ever: not an old task behind new urgent ones, not a member behind another, not a
team behind one with more work. Who is full says so at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock, seconds
from interlock.errors import RunLimit, TaskLimit
from interlock.model.driving import Stop
from interlock.model.task import PRIORITIES
from interlock.runner.machine_share import MachineShare
from interlock.serve.team_threads import TeamThreads
from tests.behaviours.driving import Place
from tests.waiting import until

DAY = 86_400


def test_an_old_task_goes_before_new_ones_that_are_more_urgent(timed: Team, clock: ManualClock) -> None:
    old = timed.create_task("Tidy up", priority="low")
    clock.advance(3 * DAY - 60)
    urgent = timed.create_task("Fix it", priority="critical")
    assert timed.acting("ada").next_task() == timed.task(urgent.id), "it is not yet old enough"
    clock.advance(120)
    timed.create_task("Fix that", priority="critical")
    assert timed.status().next[0].subject == old.subject, "the queue is shown as it is served"
    taken = timed.acting("bob").next_task()
    assert taken is not None and taken.id == old.id


def test_without_ageing_priority_alone_counts(timed: Team, clock: ManualClock) -> None:
    timed.configure({"ageing": 0})
    timed.create_task("Tidy up", priority="low")
    clock.advance(1000 * DAY)
    urgent = timed.create_task("Fix it", priority="critical")
    taken = timed.acting("ada").next_task()
    assert taken is not None and taken.id == urgent.id


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(
    ageing=st.integers(1, 10),
    first=st.sampled_from(PRIORITIES),
    stream=st.lists(st.tuples(st.sampled_from(PRIORITIES), st.booleans()), min_size=1, max_size=12),
)
def test_no_task_starves_behind_an_endless_stream(
    tmp_path_factory: pytest.TempPathFactory, ageing: int, first: str, stream: list[tuple[str, bool]]
) -> None:
    clock = ManualClock()
    with interlock.connect(str(tmp_path_factory.mktemp("home")), clock=clock) as home:
        team = home.create_team("alpha")
        team.configure({"ageing": ageing, "task_limit": 100_000})
        team.spawn("ada")
        ada = team.acting("ada")
        waits = team.create_task("Waits", priority=first)
        longest = ageing * PRIORITIES.index(first) + 2
        for second in range(longest):
            clock.advance(1)
            priority, own = stream[second % len(stream)]
            team.create_task("Another", priority=priority, assignee="ada" if own else None)
            taken = ada.next_task()
            assert taken is not None
            if taken.id == waits.id:
                return
            ada.complete(taken.id)
        raise AssertionError(f"it waits after {longest} s, in which every second a task came and one was done")


def test_a_member_is_at_no_more_tasks_than_it_may_be(team: Team) -> None:
    team.configure({"member_parallel": 2})
    tasks = [team.create_task(f"T{number}") for number in range(4)]
    ada = team.acting("ada")
    ada.next_task()
    ada.claim(tasks[1].id)
    for refused in (ada.next_task, lambda: ada.claim(tasks[3].id)):
        with pytest.raises(RunLimit) as full:
            refused()
        assert (full.value.code, full.value.details["setting"]) == ("run_limit", "member_parallel")
    assert ada.claim(tasks[0].id).owner == "ada", "what it holds already is no further one"
    ada.complete(tasks[0].id)
    assert ada.next_task() is not None and team.acting("bob").next_task() is not None


def test_a_queue_that_is_full_says_so(team: Team) -> None:
    team.configure({"task_limit": 1})
    team.create_task("T1")
    with pytest.raises(TaskLimit) as full:
        team.create_task("T2")
    assert (full.value.code, full.value.details["setting"]) == ("task_limit", "task_limit")
    team.configure({"task_limit": 3})
    team.create_task("T2")
    team.create_task("T3")
    team.configure({"task_limit": 1})
    with pytest.raises(TaskLimit, match="has 3 open tasks, and may have 1"):
        team.create_task("T4")


@pytest.mark.long
def test_one_place_goes_round_among_the_members(place: Place) -> None:
    shell = {"agent": "shell"}
    tasks = {f"a{number}": {"run": "true", "assignee": "ada"} for number in range(4)}
    place.stage({**tasks, "b": {"run": "true", "assignee": "ben"}}, {"ada": shell, "ben": shell})
    place.team.configure({"parallel": 1})
    assert place.drive() == "finished"
    begun = sorted(place.states(), key=lambda key: seconds(str(place.task(key).claimed_at)))
    assert begun.index("b") <= 1, begun


class Served:
    """Teams that ask a share for places, in some order, and what they got."""

    def __init__(self, limit: int, weights: list[int]) -> None:
        self.weights = weights
        self.share = MachineShare(limit, lambda team: None, lambda: 0.0)
        self.open = [0] * len(weights)
        self.got = [0] * len(weights)

    def ask(self, team: int) -> bool:
        got = self.share.take(str(team), self.weights[team])
        if got:
            self.open[team] += 1
            self.got[team] += 1
        self.share.looked(str(team), self.open[team], asks=not got)
        return got

    def end(self, team: int) -> None:
        self.open[team] -= 1
        self.share.looked(str(team), self.open[team], asks=False)


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_no_team_starves_and_no_place_is_idle(data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    limit = data.draw(st.integers(1, 3))
    served, late = Served(limit, weights), 0
    busy = list(range(1, len(weights)))  # The team 0 comes later, with one task.
    for _ in range(data.draw(st.integers(0, 30))):
        served.ask(data.draw(st.sampled_from(busy)))
        if any(served.open) and data.draw(st.booleans()):
            served.end(data.draw(st.sampled_from([team for team in busy if served.open[team]])))
    before = list(served.got)
    while not served.ask(0):
        assert sum(served.open) <= limit
        if sum(served.open) == limit:
            served.end(data.draw(st.sampled_from([team for team in busy if served.open[team]])))
        for team in data.draw(st.permutations(busy)):
            served.ask(team)
        late += 1
        assert late < 100, "it never gets its turn"
        for team in busy:  # At most what its weight allows, and one run more.
            assert served.got[team] - before[team] <= weights[team] / weights[0] + 1, (weights, limit)


@pytest.mark.long
def test_a_team_with_one_task_is_served_beside_one_with_many(connect: Callable[..., Home], tmp_path: Path) -> None:
    home = connect(settings={"machine_parallel": 1})
    for name, count, run in (("many", 12, f"until test -e {tmp_path / 'go'}; do sleep 0.02; done"), ("one", 1, "true")):
        team = home.create_team(name)
        team.spawn("ada", agent="shell")
        team.spawn("ben", agent="shell")
        for _ in range(count):
            team.create_task("Work", run=run)
    threads = TeamThreads(home)
    threads.start()
    try:
        one = home.team("one")  # The other team has the place, and goes on once this one has asked for it, or had it.
        until(lambda: [each.status for each in one.workers()] == ["full"] or one.tasks()[0].state == "done")
        (tmp_path / "go").touch()
        until(lambda: all(one.state == "done" for name in ("many", "one") for one in home.team(name).tasks()))
    finally:
        threads.stop()
        assert threads.join(60)
    begun = sorted(
        (seconds(str(one.claimed_at)), seconds(str(one.completed_at)), name)
        for name in ("many", "one")
        for one in home.team(name).tasks()
    )
    assert all(one[1] <= other[0] + 0.001 for one, other in zip(begun, begun[1:], strict=False)), "one at a time"
    assert [name for _, _, name in begun].index("one") <= 6, begun


def test_why_a_task_waits_for_other_teams_is_stored_and_shown(connect: Callable[..., Home]) -> None:
    home = connect()
    team = home.create_team("alpha")
    team.spawn("ada", agent="shell")
    team.create_task("Work", run="true")
    share = MachineShare(1, lambda team: None)
    assert share.take("other", 1)
    share.looked("other", 1, asks=False)
    stop = Stop()
    thread = threading.Thread(
        target=lambda: home.drive("alpha", endless=True, stop=stop, share=share, name="build-1"), daemon=True
    )
    thread.start()
    try:
        until(lambda: [one.status for one in team.workers()] == ["full"])
        (waiting,) = team.status().next
        assert waiting.why is not None and waiting.why.startswith(
            "no worker takes new tasks: build-1 has been full since "
        )
        share.looked("other", 0, asks=False)
        share.leave("other")
        team.create_task("Work", run="true")  # It looks again.
        until(lambda: all(one.state == "done" for one in team.tasks()))
        until(lambda: [one.status for one in team.workers()] == ["active"])
    finally:
        stop.request("over", now=True)
        thread.join(60)


def test_a_runner_starts_nobody_who_is_paused_gone_or_at_work(team: Team) -> None:
    from interlock.core.tasks.claim import claim_next
    from interlock.core.unit_of_work import Principal
    from interlock.processes import ref

    def begun(name: str, runner: str) -> str | None:
        with team._workspace.act(Principal(name, f"run:{name}")) as act:  # type: ignore[attr-defined]
            task = claim_next(act, shell=None, runner=runner)
            return task.id if task is not None else None

    own, dead = ref.current().as_text(), "gone"
    first, second = (team.create_task(name).id for name in ("T1", "T2"))
    team.pause("bob")
    assert begun("bob", own) is None
    team.resume("bob")
    assert begun("bob", own) == first
    assert begun("bob", own) is None, "it is at work"
    assert begun("ada", dead) == second
    third = team.create_task("T3").id
    assert begun("ada", own) == third, "whoever had it at work is gone"
