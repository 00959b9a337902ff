"""Who does the tasks: workers with their labels, and why a task waits for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.app.home import Home
from interlock.clock import ManualClock
from interlock.errors import InvalidRequest, WorkerNotFound
from interlock.model.driving import Stop
from interlock.wakeup.inprocess import InProcessNotifier
from tests.behaviours.driving import SHELL, Place, follow
from tests.waiting import until

GPU = {"run": "echo trained", "labels": ["gpu", "linux"]}


def whys(place: Place) -> list[str | None]:
    return [one.why for one in place.team.status().next]


def test_a_task_waits_for_a_worker_that_offers_its_labels_and_says_so(place: Place) -> None:
    place.stage({"train": GPU, "lint": {"run": "true"}})
    assert place.drive() == "finished", "nobody here offers the label: the run does not wait for it"
    assert place.states() == {"train": "ready", "lint": "done"}
    assert whys(place) == ["no worker with labels gpu, linux has been here yet"]
    (need,) = place.needs("unclaimable")
    assert "no worker with labels gpu, linux" in need.text and need.verb.startswith("interlock work --labels gpu,linux")
    assert place.drive(labels=["linux"]) == "finished", "a part of them is not enough"
    assert place.states()["train"] == "ready"
    assert place.drive(labels=["gpu", "linux", "arm"]) == "finished"
    assert place.states()["train"] == "done" and not place.needs("unclaimable")


def test_since_when_there_is_no_such_worker_is_told(place: Place) -> None:
    place.stage({"one": {"run": "true"}})
    place.drive(labels=["gpu"], name="ci-1")
    task = place.team.create_task("Train", run="true", labels=["gpu"])
    (why,) = whys(place)
    assert why is not None and why.startswith("no worker with label gpu since ")
    (worker,) = place.team.workers()
    assert (worker.name, worker.labels, worker.alive, worker.holds) == ("ci-1", ["gpu"], False, [])
    assert worker.ended_at is not None and task.labels == ["gpu"]


def test_labels_by_hand_and_by_the_setting(home: Home, connect: Callable[..., Home]) -> None:
    team = connect(settings={"labels": "gpu, linux"}).create_team("alpha")
    team.spawn("ada", agent="shell")
    with pytest.raises(InvalidRequest, match="no label"):
        team.create_task("Train", run="true", labels=["GPU!"])
    task = team.create_task("Train", run="true", labels=["linux", "gpu", "gpu"])
    assert task.labels == ["gpu", "linux"]
    assert team.acting("ada").next_task() is None, "nobody said that ada has them"
    assert connect(settings={"labels": "gpu, linux"}).drive("alpha") == "finished"
    assert team.task(task.id).state == "done"


@pytest.mark.parametrize("status", ["paused", "draining"])
def test_a_worker_that_is_paused_starts_nothing_and_one_that_drains_ends(place: Place, status: str) -> None:
    place.stage({"first": {"run": "touch begun; while [ ! -e go ]; do sleep 0.05; done"}})
    with place.runner(endless=True, name="ci-1") as runner:
        until(lambda: (place.work / "begun").exists())
        until(lambda: bool(place.team.workers()[0].holds))
        assert place.team.workers()[0].holds == [place.task("first").id]
        second = place.team.create_task("second", run="true")
        assert whys(place) == [f"ada is working on {place.task('first').id}"]
        place.team.set_worker("ci-1", status)
        (place.work / "go").touch()
        follow(place.team, lambda event: event.type == "task.transitioned" and event.payload["to"] == "done")
        if status == "draining":
            assert runner.wait() == 0
            assert place.team.workers()[0].ended_at is not None
            assert (whys(place)[0] or "").startswith("no worker has been running since ")
            with pytest.raises(WorkerNotFound):
                place.team.set_worker("ci-1", "active")
        else:
            assert (whys(place)[0] or "").startswith("no worker takes new tasks: ci-1 has been paused since ")
            place.team.set_worker("ci-1", "active")
            until(lambda: place.team.task(second.id).state == "done")


def test_two_workers_of_one_name_are_told_apart(place: Place) -> None:
    place.stage({"one": {"run": "true"}})
    stop = Stop()
    with place.runner(endless=True, name="ci"):
        until(lambda: bool(place.team.workers()))
        place.drive(name="ci", stop=stop)
        assert [one.name for one in place.team.workers()] == ["ci", "ci-2"]


def test_a_worker_for_some_members_leaves_the_others_alone(place: Place) -> None:
    place.stage({"one": {"run": "true", "assignee": "ben"}}, {"ada": SHELL, "ben": SHELL})
    place.drive(members=["ada"], labels=[])
    assert place.states() == {"one": "ready"}
    assert place.drive(members=["ben"]) == "finished" and place.states() == {"one": "done"}


def test_a_worker_that_nobody_can_see_lives_while_it_beats(connect: Callable[..., Home], clock: ManualClock) -> None:
    from interlock.core import workers
    from interlock.core.unit_of_work import Principal

    home = connect(clock=clock, notifier=InProcessNotifier())
    team = home.create_team("alpha")
    elsewhere = "far|boot|7|9"
    with home.workspace("alpha").act(Principal("interlock")) as act:
        workers.begin(act, elsewhere, labels=["gpu"])
    assert team.workers()[0].alive
    clock.advance(299)
    with home.workspace("alpha").act(Principal("interlock")) as act:
        workers.beat(act, "far", elsewhere, 1.5)
    clock.advance(299)
    assert team.workers()[0].alive and team.workers()[0].load == 1.5
    clock.advance(2)
    assert not team.workers()[0].alive
    with home.workspace("alpha").act(Principal("interlock")) as act, pytest.raises(WorkerNotFound):
        workers.beat(act, "far", "far|boot|8|9", 1.5)


def test_a_worker_that_is_silent_is_told_what_to_do_once_it_is_back(
    connect: Callable[..., Home], clock: ManualClock
) -> None:
    from interlock.core import workers
    from interlock.core.unit_of_work import Principal
    from interlock.processes import ref

    home = connect(clock=clock, notifier=InProcessNotifier())
    team = home.create_team("alpha")
    elsewhere = "far|boot|7|9"
    with home.workspace("alpha").act(Principal("interlock")) as act:
        workers.begin(act, elsewhere)
        workers.begin(act, replace(ref.current(), started=1).as_text(), name="killed")
    clock.advance(3600)
    assert team.set_worker("far", "draining").alive is False
    with home.workspace("alpha").act(Principal("interlock")) as act:
        assert workers.beat(act, "far", elsewhere, 0.1).status == "draining"
    assert team.set_worker("far", "paused").alive
    with pytest.raises(WorkerNotFound, match="killed"):
        team.set_worker("killed", "draining")
    with home.workspace("alpha").act(Principal("interlock")) as act:
        workers.end(act, "far", elsewhere)
    with pytest.raises(WorkerNotFound, match="far"):
        team.set_worker("far", "active")
