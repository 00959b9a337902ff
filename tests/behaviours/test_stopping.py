"""Asking a run to end: softly, what runs is finished; hard, everything is ended now. Nothing is left running."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.agents.session import Update
from interlock.model.driving import Stop
from tests.behaviours.driving import SHELL, Place, pids, running
from tests.waiting import until

TWO = {"ada": SHELL, "bea": SHELL}
STUBBORN = "trap '' TERM; echo $$ >> pids; sleep 300 & echo $! >> pids; echo at it; wait; sleep 300"
GRACE = 1.0
"""`stop_grace` of every test here, in seconds."""


def test_a_soft_stop_finishes_what_runs_with_its_check_and_starts_nothing_new(place: Place) -> None:
    go = place.work / "go"
    place.stage(
        {
            "one": {"run": "echo at it; while ! test -f go; do sleep 0.02; done", "verify": "sleep 0.2; test -f go"},
            "two": {"run": "true", "blocked_by": ["one"]},
            "other": {"run": "true", "priority": "low"},
        }
    )
    with place.runner() as runner:
        runner.hears("text at it$")
        runner.send(signal.SIGINT)
        runner.hears("interrupted")
        go.touch()
        runner.hears("ended: interrupted")
        assert runner.wait() == 0
    assert place.states() == {"one": "done", "two": "ready", "other": "ready"}
    evidence = place.task("one").check
    assert evidence is not None and evidence["passed"]
    assert place.drive() == "finished"
    assert set(place.states().values()) == {"done"}


@pytest.mark.long
@pytest.mark.parametrize("how", ["the second Ctrl-C", "being terminated"])
def test_a_hard_stop_ends_everything_promptly_and_uses_no_attempt(place: Place, how: str) -> None:
    place.stage({key: {"run": STUBBORN} for key in ("one", "two")}, TWO)
    with place.runner() as runner:
        runner.hears("text at it$")
        runner.hears("text at it$")
        if how == "being terminated":
            runner.send(signal.SIGTERM)
        else:
            runner.send(signal.SIGINT)
            runner.hears("interrupted")
            runner.send(signal.SIGINT)
        assert runner.wait() == 0
    left = pids(place, "pids")
    assert len(left) == 4 and not any(running(pid) for pid in left)
    assert place.states() == {"one": "ready", "two": "ready"}
    for key in ("one", "two"):
        (run,) = place.team.runs(key)
        assert (run.outcome, run.reason, place.task(key).attempt) == ("reclaimed", "stopped", 0)


def test_a_hard_stop_ends_a_check_and_the_next_run_does_it_again(place: Place) -> None:
    check = "test -f again && exit 0; touch again; " + STUBBORN
    place.stage({"one": {"run": "echo x >> runs", "verify": check}})
    with place.runner() as runner:
        runner.hears("text at it$")
        runner.send(signal.SIGTERM)
        assert runner.wait() == 0
    left = pids(place, "pids")
    assert len(left) == 2 and not any(running(pid) for pid in left)
    assert place.states() == {"one": "review"}
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"} and place.lines("runs") == ["x"]


@pytest.mark.long
def test_a_hard_stop_ends_the_check_that_an_agent_had_begun_itself(place: Place) -> None:
    bob = place.program(
        "bob", "subprocess.Popen(['interlock', 'task', 'complete', os.environ['INTERLOCK_TASK']])\ntime.sleep(300)"
    )
    place.stage({"one": {"subject": "One", "verify": "echo $$ > pids; sleep 300"}}, {"bob": bob})
    with place.runner() as runner:
        place.wait_for("pids")
        (check,) = pids(place, "pids")
        runner.send(signal.SIGTERM)
        assert runner.wait() == 0
    assert not running(check)


def test_the_same_process_may_stop_hard_and_go_on_later(place: Place) -> None:
    place.stage({"one": {"run": "true", "verify": "test -f again && exit 0; touch again; echo at it; sleep 300"}})
    stop = Stop()

    def hear(update: Update) -> None:
        if (update.kind, update.text) == ("text", "at it"):
            threading.Thread(target=stop.request, kwargs={"now": True}).start()

    assert place.drive(stop=stop, on_update=hear) == "asked to stop"
    assert place.states() == {"one": "review"}
    assert place.drive() == "finished"
    assert place.states() == {"one": "done"}


def test_a_stop_that_comes_while_the_run_ends_is_written_into_no_file(place: Place) -> None:
    class Late(Stop):
        heard: Callable[[], None]

        def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
            self.heard = listener
            return super().listen(listener)

    place.stage({"one": {"run": "true"}})
    stop = Late()
    assert place.drive(stop=stop) == "finished"
    with ExitStack() as stack:  # They have the numbers of what the run had open.
        files = [stack.enter_context((place.path / f"file-{number}").open("wb")) for number in range(50)]
        stop.heard()  # A request that had begun before the run was over goes on.
    assert [Path(file.name).read_bytes() for file in files] == [b""] * 50


def test_a_stop_that_was_asked_for_before_the_run_starts_nothing(place: Place) -> None:
    place.stage({"one": {"run": "true"}})
    stop = Stop()
    stop.request("changed my mind")
    assert place.drive(stop=stop) == "changed my mind"
    assert place.states() == {"one": "ready"}


def test_an_interrupted_python_program_gives_its_tasks_back(place: Place) -> None:
    place.stage({"one": {"run": STUBBORN}})

    def hear(update: Update) -> None:
        if update.text == "at it":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        place.drive(on_update=hear)
    assert not any(running(pid) for pid in pids(place, "pids"))
    assert place.states() == {"one": "ready"} and place.task("one").attempt == 0


@pytest.mark.long
def test_nothing_new_starts_after_until_but_what_runs_is_finished(place: Place) -> None:
    end = place.work / "end"
    longer = f"while [ $(date +%s) -le $(cat {end}) ]; do sleep 0.1; done"
    place.stage({"one": {"run": longer}, "two": {"run": "true", "blocked_by": ["one"]}})
    for seconds in (3, 30):  # On a busy machine the time may be up before anything has begun.
        until = time.time() + seconds
        end.write_text(f"{int(until)}\n")
        assert place.drive(until=until) == "time is up"
        if place.states()["one"] != "ready":
            break
    assert place.states() == {"one": "done", "two": "ready"}


def test_a_task_that_is_cancelled_by_hand_has_its_program_ended_at_once(place: Place) -> None:
    place.stage({"one": {"run": "echo $$ > pids; exec sleep 300"}, "two": {"run": "true"}}, TWO)

    def hear_started() -> None:
        place.wait_for("pids")
        place.home.team("crew").cancel("one", reason="no longer wanted")

    canceller = threading.Thread(target=hear_started)
    canceller.start()
    assert place.drive() == "finished"
    canceller.join()
    assert place.states() == {"one": "cancelled", "two": "done"}
    assert not running(pids(place, "pids")[0])


@pytest.mark.long
def test_what_a_dead_runner_has_left_is_told_by_a_stop_and_ended_by_a_hard_one(place: Place) -> None:
    place.stage({"one": {"run": STUBBORN}})
    place.team.configure({"stop_grace": 100})  # so long its supervisor, left alone, waits for it
    with place.runner() as runner:
        runner.hears("text at it$")
        until(lambda: place.team.runs("one")[0].process is not None)
        runner.kill()
    left = pids(place, "pids")
    told = place.home.stop("crew")
    assert told.left == ("ada",) and not told.ended and any(running(pid) for pid in left)
    place.team.configure({"stop_grace": GRACE})
    ended = place.home.stop("crew", now=True)
    assert ended.ended == ("ada",) and ended.left == () and ended.gone
    assert not any(running(pid) for pid in left) and place.states() == {"one": "ready"}
    again = place.home.stop("crew", now=True)
    assert again.ended == () and again.left == ()
