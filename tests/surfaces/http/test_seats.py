"""`interlock up` and `interlock work` in teams without any agent: what nobody works on is taken up there, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.runner import recovery_scan
from interlock.serve import team_threads
from interlock.wiring import connect
from tests.surfaces.http.harness import PATIENCE, Server
from tests.waiting import until


def seats(home: Path, **settings: object) -> Team:
    """A team of people and programs alone."""
    team = connect(str(home)).create_team("alpha")
    for name in ("ada", "bob"):
        team.spawn(name)
    team.configure(settings)
    return team


def types(team: Team) -> list[str]:
    return [event.type for event in team.events()[0]]


def command(home: Path, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "interlock.surfaces.cli", "--home", str(home), *words]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.req("AOF-61.01", "AOF-61.12")
def test_a_server_takes_up_a_silent_run_of_a_seat(start: Callable[..., Server], tmp_path: Path) -> None:
    team = seats(tmp_path / "home", heartbeat_ttl=2)
    task = team.create_task("Write it").id
    team.claim(task, by="ada")
    team.heartbeat(task, by="ada")
    start()
    until(lambda: team.task(task).state == "ready")
    assert "stale_heartbeat" in str([event.payload for event in team.events()[0] if event.type == "task.recovered"])
    # One that falls silent while the server runs, and while nothing else changes.
    second = team.create_task("Read it").id
    team.claim(second, by="bob")
    with suppress(InterlockError):  # On a busy machine it may be taken up between the two.
        team.heartbeat(second, by="bob")
    until(lambda: team.task(second).state == "ready")


@pytest.mark.long
@pytest.mark.req("AOF-61.12")
def test_interlock_work_serves_a_team_without_agents(tmp_path: Path) -> None:
    home = tmp_path / "home"
    team = seats(home, heartbeat_ttl=2)
    task = team.create_task("Write it").id
    team.claim(task, by="ada")
    team.heartbeat(task, by="ada")
    working = command(home, "work", "--team", "alpha")
    try:
        until(lambda: team.task(task).state == "ready" or working.poll() is not None)
        assert working.poll() is None
        working.send_signal(signal.SIGINT)
        said = working.communicate(timeout=PATIENCE)[0]
    finally:
        working.kill()
        working.communicate()
    assert working.returncode == 0 and "No member of alpha has an agent" in said


def test_a_server_takes_defaults_and_reminds_where_only_seats_are(start: Callable[..., Server], tmp_path: Path) -> None:
    team = seats(tmp_path / "home", unattended=True, question_timeout=1, question_reminder=1)
    task = team.create_task("Choose").id
    team.claim(task, by="ada")
    team.ask(task, "Blue or red?", options=["blue", "red"], default="blue", reversible=True, by="ada")
    other = team.create_task("Decide").id
    team.claim(other, by="bob")
    team.ask(other, "Shall it go out?", options=["yes", "no"], by="bob")
    start()
    until(lambda: "question.reminded" in types(team) and not [q for q in team.questions() if q.task_id == task])
    assert team.conversation(task)[-1].answer == "blue"


@pytest.mark.long
def test_a_server_runs_a_check_whose_process_was_killed(start: Callable[..., Server], tmp_path: Path) -> None:
    home, gate = tmp_path / "home", tmp_path / "gate"
    team = seats(home)
    task = team.create_task("Write it", verify=f"test -e {gate} || sleep 600").id
    team.claim(task, by="ada")
    checking = command(home, "task", "complete", task, "--team", "alpha", "--as", "ada")
    try:
        until(lambda: bool(team.task(task).verifying))
    finally:
        checking.kill()
        checking.communicate()
    gate.touch()
    start()
    until(lambda: team.task(task).state == "done")


def test_what_a_dead_program_held_goes_back_where_only_seats_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_scan, "CLAIM_GRACE", 0.5)
    monkeypatch.setattr(team_threads, "REST", 0.1)
    home = tmp_path / "home"
    team = seats(home)
    task = team.create_task("Write it").id
    program = f"""
import interlock, sys
team = interlock.connect({str(home)!r}).team("alpha").acting("ada", session="one", face="mcp")
team.claim({task!r})
print("claimed", flush=True)
sys.stdin.read()
"""
    held = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert held.stdout is not None and held.stdout.readline() == "claimed\n"
    served = team_threads.TeamThreads(connect(os.fspath(home)))
    served.start()
    try:
        held.kill()
        held.communicate()
        until(lambda: team.task(task).state == "ready")
    finally:
        served.stop()
        assert served.join(60)
    assert "session.lost" in types(team)
    assert any(task in message.content for message in team.history(member="lead"))


def test_a_team_in_which_nothing_is_open_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_threads, "REST", 0.0)
    team = seats(tmp_path / "home")
    task = team.create_task("Write it").id
    home = connect(str(tmp_path / "home"))
    recovery = home.recovery("alpha", interval=5.0)
    assert recovery.rests
    team.claim(task, by="ada")
    assert not recovery.rests
    team.ask(task, "Which?", by="ada")
    assert not recovery.rests
    team.reply(task, "This one.")
    team.claim(task, by="ada")
    team.complete(task, by="ada")
    assert recovery.rests
