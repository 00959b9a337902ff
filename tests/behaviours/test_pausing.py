"""Pause and resume, stop and shutdown of one member, and workers that wait for work."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from interlock.errors import Forbidden, InvalidRequest, MemberNotFound
from interlock.model.event import Event
from tests.behaviours.driving import ROOT, SHELL, Place, follow, outside, pids, running
from tests.waiting import until

TWO = {"ada": SHELL, "bea": SHELL}
LONG = "echo $$ >> pids; exec sleep 300"


def cli(place: Place, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", *words],
        cwd=ROOT,
        env=outside(INTERLOCK_HOME=place.home.path, PYTHONPATH="src", INTERLOCK_TEAM="crew"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(place: Place, *words: str) -> str:
    process = cli(place, *words)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output


@contextmanager
def working(place: Place, count: int = 1) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of `interlock work`, ended by Ctrl-C at the end."""
    started = [cli(place, "work") for _ in range(count)]
    try:
        until(lambda: len(place.team.status().workers) == count)
        yield started
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            process.communicate(timeout=60)
            assert process.returncode == 0
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def happened(place: Place, *types: str) -> list[Event]:
    return [event for event in place.team.events()[0] if event.type in types]


@pytest.mark.long
def test_a_paused_team_starts_nothing_and_goes_on_when_it_is_resumed(place: Place) -> None:
    place.stage({"one": {"run": "echo at it; while ! test -f go; do sleep 0.02; done"}, "two": {"run": "true"}})
    with place.runner() as runner:
        runner.hears("text at it$")
        assert "paused" in said(place, "pause", "--reason", "lunch")
        (place.work / "go").touch()
        follow(place.team, lambda e: e.type == "task.transitioned" and e.payload["to"] == "done")
        assert place.states() == {"one": "done", "two": "ready"}, "what ran was finished"
        assert place.team.status().status == "paused" and "Paused" in said(place, "status")
        said(place, "resume")
        runner.hears("ended: finished")
    assert set(place.states().values()) == {"done"}
    assert [event.type for event in happened(place, "team.paused", "team.resumed")] == ["team.paused", "team.resumed"]


def test_a_paused_member_is_given_nothing_while_others_go_on(place: Place) -> None:
    place.stage({"a": {"run": "true", "assignee": "ada"}, "b": {"run": "true", "assignee": "bea"}}, TWO)
    place.team.pause("ada")
    with place.runner() as runner:
        follow(place.team, lambda e: e.type == "task.transitioned" and e.payload["to"] == "done")
        assert place.states() == {"a": "ready", "b": "done"}
        assert {member.name: member.status for member in place.team.members()}["ada"] == "paused"
        place.team.resume("ada")
        runner.hears("ended: finished")
    assert place.states() == {"a": "done", "b": "done"}


def test_pausing_is_for_who_leads_repeats_harmlessly_and_knows_its_members(place: Place) -> None:
    place.stage({"a": {"run": "true"}}, TWO)
    team = place.team
    with pytest.raises(Forbidden):
        team.pause(by="ada")
    with pytest.raises(MemberNotFound):
        team.pause("nobody")
    with pytest.raises(InvalidRequest):
        team.pause("lead")
    for reason in ("a\0b", "\ud800", "x" * 10_001):
        with pytest.raises(InvalidRequest, match="reason"):
            team.pause(reason=reason)
        with pytest.raises(InvalidRequest, match="reason"):
            team.pause("ada", reason=reason)
    assert not happened(place, "team.paused", "member.paused")
    for _ in range(2):
        team.pause()
        team.pause("ada")
    for _ in range(2):
        team.resume()
        team.resume("ada")
    kinds = ["team.paused", "member.paused", "team.resumed", "member.resumed"]
    assert [event.type for event in happened(place, *kinds)] == kinds


def test_a_member_stopped_at_once_is_offered_no_task_again_until_it_is_resumed(place: Place) -> None:
    place.stage({"one": {"run": LONG, "assignee": "ada"}})
    with place.runner() as runner:
        place.wait_for("pids")
        found = place.home.stop("crew", member="ada", now=True)
        assert (found.ended, place.team.task("one").state) == (("ada",), "ready")
        runner.hears("ended: finished")
    assert not any(running(pid) for pid in pids(place, "pids")) and len(pids(place, "pids")) == 1
    assert [need.verb for need in place.needs("stopped")] == ["interlock resume --member ada --team crew"]
    assert place.drive() == "finished" and len(pids(place, "pids")) == 1, "also not by the next runner"
    place.team.update("one", command="true")
    place.team.resume("ada")
    assert place.drive() == "finished" and place.task("one").state == "done"


@pytest.mark.parametrize("goes", ["by itself", "not by itself"])
def test_a_member_whose_shutdown_was_granted_ends_and_is_given_nothing_more(place: Place, goes: str) -> None:
    ending = "" if goes == "by itself" else "print(os.getpid(), file=open('pids', 'a')); time.sleep(300)"
    source = "open('asked', 'a').write('x\\n')\ninterlock('shutdown', 'approve')\n" + ending
    place.stage(
        {"one": {"subject": "One"}, "two": {"subject": "Two", "blocked_by": ["one"]}},
        {"bob": place.program("bob", source)},
    )
    if goes == "by itself":
        place.team.configure({"stop_grace": 60})  # However slow the machine is, it has the time to.
    place.team.request_shutdown("bob")
    assert place.drive() == "finished"
    states = {"one": "done", "two": "ready"} if goes == "by itself" else {"one": "ready", "two": "backlog"}
    assert place.lines("asked") == ["x"] and place.states() == states
    assert not any(running(pid) for pid in pids(place, "pids"))
    assert [event.payload["status"] for event in happened(place, "member.paused")] == ["stopped"]
    assert place.task("one").attempt <= 1 and place.team.runs("one")[0].outcome != "failed"


@pytest.mark.long
def test_workers_wait_for_new_work_and_several_processes_do_each_task_once(place: Place) -> None:
    place.stage({"one": {"run": "echo one >> log"}}, TWO)
    with working(place, 2):
        for number in range(6):
            place.team.create_task(f"More {number}", run=f"echo {number} >> log; sleep 0.05")
        until(lambda: all(task.state == "done" for task in place.team.tasks()))
        assert sorted(place.lines("log")) == ["0", "1", "2", "3", "4", "5", "one"]
        late = place.team.create_task("Late", run="true")
        until(lambda: place.team.task(late.id).state == "done")
        assert place.drive() == "finished", "who drives the plan may do so beside them"
    assert place.team.status().workers == []
    for member in TWO:
        runs = [run for task in place.team.tasks() for run in place.team.runs(task.id) if run.member == member]
        spans = sorted((run.started_at, str(run.ended_at)) for run in runs)
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))


@pytest.mark.long
def test_down_ends_workers_with_everything_and_says_so(place: Place) -> None:
    place.stage({"one": {"run": LONG}})
    worker = cli(place, "work")
    try:
        place.wait_for("pids")
        found = json.loads(said(place, "down", "--json"))
        assert [(one["ended"], one["gone"]) for one in found["teams"]] == [(["worker"], True)]
        worker.communicate(timeout=60)
    finally:
        worker.kill()
        worker.communicate()
    assert not running(pids(place, "pids")[0])
    assert place.states() == {"one": "ready"} and place.task("one").attempt == 0


def test_logs_are_followed_while_a_program_runs(place: Place) -> None:
    place.stage({"one": {"run": "echo first; while ! test -f go; do sleep 0.02; done; echo last"}})
    driver = threading.Thread(target=place.drive)
    driver.start()
    try:
        until(lambda: [run.last_words for run in place.team.status().running] == ["first"])
        following = cli(place, "logs", "one", "--follow")
        assert following.stdout is not None and following.stdout.readline() == "first\n"
    finally:
        (place.work / "go").touch()
        driver.join()
    rest, _ = following.communicate(timeout=60)
    assert (rest, following.returncode) == ("last\n", 0)
