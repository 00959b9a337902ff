"""What keeps ledgers: history that goes, and the SQL of a server, through the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app import ledgers
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.storage.sql import VERSION
from interlock.wakeup.inprocess import InProcessNotifier
from tests.postgres import VirtualTime, direct_url, on_postgres

DAY = 86_400.0
Run = Callable[..., tuple[int, Any]]


@pytest.fixture(params=["sqlite", "postgres"])
def clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ManualClock]:
    """Time that moves when it is told to, of the machine or of a server that keeps the ledgers."""
    made = VirtualTime(tmp_path / "home") if request.param == "postgres" else ManualClock()
    yield made
    if isinstance(made, VirtualTime):
        made.close()


@pytest.fixture
def home(clock: ManualClock, tmp_path: Path) -> Iterator[Home]:
    with interlock.connect(str(tmp_path / "home"), environment={}, clock=clock, notifier=InProcessNotifier()) as made:
        yield made


def lived_in(home: Home, clock: ManualClock) -> Team:
    """A team with a finished and an open task from long ago, and mail that was read and not."""
    team = home.create_team("alpha")
    team.spawn("ada")
    for subject in ("finished", "open"):
        task = team.create_task(subject)
        team.claim(task.id, by="ada")
        for number in range(5):
            team.update(task.id, log=f"line {number}", by="ada")
    team.complete(team.tasks()[0].id, summary="it works", by="ada")
    team.send(to="ada", content="read")
    with team.mail(by="ada") as mail:
        ids = [message.id for message in mail.messages]
    team.acknowledge(ids, by="ada")
    clock.advance(100 * DAY)
    team.send(to="ada", content="not read")
    return team


def told(team: Team) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for event in team.events()[0]:
        found.setdefault(event.task_id, []).append(event.type)
    return found


def test_pruning_takes_old_history_and_leaves_open_work_and_all_evidence(
    home: Home, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = lived_in(home, clock)
    done, still_open = team.tasks()
    before, runs = told(team), team.runs(done.id)
    monkeypatch.setattr(ledgers, "AT_ONCE", 3)
    assert home.prune_ledgers(200 * DAY)[0].events == 0
    [pruned] = home.prune_ledgers(30 * DAY)
    after = told(team)
    assert set(after[done.id]) == {"task.created", "task.transitioned"} and pruned.events > 0
    assert after[still_open.id] == before[still_open.id]
    assert [message.content for message in team.history()] == ["not read"] and pruned.messages == 1
    assert team.tasks() == [done, still_open] and team.runs(done.id) == runs
    assert len(team.work_log(done.id)) > 5
    team.complete(still_open.id, summary="this, too", by="ada")
    assert team.report().done
    assert home.check_ledgers() == {"alpha": []}
    found = home.doctor("alpha")
    assert not [one for one in found.findings if one.level == "error"], found
    assert [(one.events, one.messages) for one in home.prune_ledgers(30 * DAY)] == [(0, 0)]


def test_pruning_takes_the_output_of_finished_tasks_and_sessions_that_ended(home: Home, clock: ManualClock) -> None:
    team = lived_in(home, clock)
    done, still_open = team.tasks()
    for number in range(3):
        team.acting("ada", session=f"morning-{number}").end_session()
    for number in range(3):
        team.acting("ada", session=f"reader-{number}", face="http").send(to="lead", content="reading")
    with team.acting("ada", session="holds", face="http").mail() as mail:
        assert [message.content for message in mail.messages] == ["not read"]
    team.acting("ada", session="now").claim(team.create_task("today").id)
    logs = [
        Path(team._workspace.log_path(id, 1, kind)) for id in (done.id, still_open.id) for kind in ("output", "verify")
    ]
    for one in logs:
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text("printed")
    clock.advance(100 * DAY)
    team.acting("ada", session="later").send(to="ada", content="still here")
    before = sessions(team)
    [pruned] = home.prune_ledgers(30 * DAY)
    assert [one.exists() for one in logs] == [False, False, True, True] and pruned.logs == 2
    left = sessions(team)
    assert pruned.sessions == len(before) - len(left) >= 3 and left <= before
    assert ("ada", "now") in left, "it holds a task"
    assert ("ada", "holds") not in left, "a later session was offered what it had"
    assert ("ada", "later") in left, "it is at work"
    assert not [session for _, session in left if session.startswith(("morning", "reader"))]
    assert not [one for one in home.doctor("alpha").findings if one.level == "error"]


def sessions(team: Team) -> set[tuple[str, str]]:
    with team._workspace.ledger.snapshot() as rows:
        return set(rows.connection.execute("SELECT member, id FROM sessions").fetchall())  # type: ignore[attr-defined]


def test_pruning_that_is_killed_halfway_leaves_a_sound_ledger_and_can_be_done_again(
    home: Home, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = lived_in(home, clock)
    monkeypatch.setattr(ledgers, "AT_ONCE", 10)
    with monkeypatch.context() as patch:
        rows = type(team._workspace.ledger.snapshot().__enter__().upkeep)
        whole, calls = rows.prune_events, [1, 1]
        patch.setattr(rows, "prune_events", lambda *given: (calls.pop(), whole(*given))[1])
        with pytest.raises(IndexError):
            home.prune_ledgers(30 * DAY)
    assert home.check_ledgers() == {"alpha": []}
    assert home.prune_ledgers(30 * DAY)[0].events > 0
    assert home.check_ledgers() == {"alpha": []}


def test_files_that_show_an_older_state_than_what_was_pruned_are_written_again_and_nothing_is_called_restored(
    home: Home, clock: ManualClock
) -> None:
    team = lived_in(home, clock)
    position = Path(team.directory) / ".mirror.json"
    position = position if position.exists() else next(Path(team.directory).glob(".mirror*[!k]"))
    kept = position.read_bytes()
    team.complete(team.tasks()[1].id, summary="this, too", by="ada")
    clock.advance(100 * DAY)
    home.prune_ledgers(30 * DAY)
    position.write_bytes(kept)
    team.create_task("more")
    assert team.tasks()[-1].warnings == [] and home.warnings() == []
    assert not [event for event in team.events()[0] if event.type == "ledger.restored"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*words: str) -> tuple[int, Any]:
        command = [sys.executable, "-m", "interlock.surfaces.cli", "--json", "--home", str(tmp_path / "home"), *words]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return found.returncode, json.loads(found.stdout or found.stderr)

    return call


@pytest.mark.long
def test_ledgers_are_prepared_and_pruned_by_commands(run: Run, tmp_path: Path) -> None:
    on_postgres(tmp_path / "home")
    assert run("ledger", "init")[0] == 0 and run("ledger", "init")[0] == 0
    assert run("ledger", "version")[1] == {"ledgers": []}
    assert run("team", "create", "alpha")[0] == 0
    code, answer = run("ledger", "prune", "--older-than", "30d")
    assert (code, answer["pruned"][0]["team"], answer["pruned"][0]["events"]) == (0, "alpha", 0)
    assert run("ledger", "prune", "--older-than", "soon")[1]["error"] == "invalid_request"
    assert run("ledger", "migrate", "--to", str(VERSION))[0] == 0
    assert run("ledger", "migrate", "--to", str(VERSION - 1))[1]["error"] == "invalid_request"


@pytest.mark.long
def test_the_sql_of_a_server_is_printed_without_one_and_makes_the_tables(run: Run, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    (tmp_path / "home").mkdir(mode=0o700)
    settings = {"ledger": "postgresql://nobody@127.0.0.1:1/none", "ledger_schema": f"dump {tmp_path.name}"[:40]}
    (tmp_path / "home" / "settings.json").write_text(json.dumps(settings))
    script = run("ledger", "init", "--dump-sql")[1]["sql"]
    on_postgres(tmp_path / "home")
    with psycopg.connect(direct_url()) as server:
        server.execute(script)
        look = "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE %s"
        assert server.execute(look, (settings["ledger_schema"] + "%",)).fetchone()[0] > 15
        server.rollback()
    steps = run("ledger", "migrate", "--dump-sql", "--to", "8")[1]["sql"]
    assert "CREATE TABLE workers" in steps and "CREATE TABLE changes" not in steps
    assert "CREATE TABLE changes" in run("ledger", "migrate", "--dump-sql")[1]["sql"]
    assert run("ledger", "migrate", "--dump-sql", "--to", "99")[1]["error"] == "invalid_request"
