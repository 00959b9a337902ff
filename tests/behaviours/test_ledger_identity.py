"""Whose ledger lies in a directory: its team's, another team's, or another program's."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import SystemClock
from interlock.errors import LedgerUnusable, TeamNotFound
from interlock.settings import Settings
from interlock.storage.sqlite.catalog import SqliteCatalog
from tests.behaviours.mirrored import assert_files_agree


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = interlock.connect(str(tmp_path / "home"))
    yield home
    home.close()


@pytest.fixture
def team(home: Home) -> Team:
    team = home.create_team("alpha")
    team.spawn("bob")
    team.claim(team.create_task("Write it").id, by="bob")
    team.create_task("Review it", review="human")
    home.close()
    return team


def command(home: Home, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "interlock", *words, "--json"], capture_output=True, text=True, timeout=120,
        env={**os.environ, "INTERLOCK_HOME": home.path},
    )  # fmt: skip
    return json.loads(done.stdout or done.stderr)  # type: ignore[no-any-return]


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize("original", ["stays", "goes"])
def test_a_team_directory_of_another_name_does_not_act_for_the_original(home: Home, team: Team, original: str) -> None:
    alpha, gamma = Path(team.directory), Path(home.path, "teams", "gamma")
    (shutil.copytree if original == "stays" else shutil.move)(str(alpha), gamma)  # type: ignore[operator]
    for refused in (
        command(home, "--team", "gamma", "status"),
        command(home, "--team", "gamma", "task", "release", "001"),
        command(home, "--team", "gamma", "stop", "--now"),
    ):
        assert refused["error"] == "ledger_unusable" and "it was copied or renamed" in refused["message"]
    with pytest.raises(LedgerUnusable, match="doctor --repair --team gamma"):
        home.team("gamma")
    assert any("ledger of team alpha" in found.what for found in home.doctor("gamma").findings)
    assert home.doctor("gamma", repair=True).healthy

    again = home.team("gamma")
    assert again.describe().team.name == "gamma"
    assert [(task.state, task.owner) for task in again.tasks()] == [("ready", None), ("ready", None)]
    assert_files_agree(again)
    if original == "stays":
        assert home.team("alpha").task("001").owner == "bob"
        assert again.describe().team.id != home.team("alpha").describe().team.id
        assert {one["name"] for one in command(home, "team", "list")["teams"]} == {"alpha", "gamma"}


@pytest.mark.req("CORE-FR-003")
def test_the_directory_of_another_program_is_no_team_and_is_left_alone(home: Home, team: Team) -> None:
    theirs = Path(home.path, "teams", "theirs")
    (theirs / "inbox").mkdir(parents=True)
    (theirs / "config.json").write_text("{}")
    connection = sqlite3.connect(theirs / "ledger.db")
    connection.executescript("CREATE TABLE tasks (id TEXT); CREATE TABLE members (id TEXT); PRAGMA user_version=3;")
    connection.close()
    for path in (Path(home.path), Path(home.path, "teams"), theirs):
        path.chmod(0o755)
    before = files(theirs)
    assert home.teams() == ["alpha"]
    assert len(command(home, "task", "list")["tasks"]) == 2, "alpha is the only team"
    with pytest.raises(TeamNotFound):
        home.team("theirs")
    assert home.doctor(repair=True).healthy
    assert files(theirs) == before
    assert [oct(path.stat().st_mode & 0o777) for path in (Path(home.path), theirs)] == ["0o755", "0o755"]


def test_a_writer_that_waits_while_its_team_is_deleted_finds_it_gone(
    tmp_path: Path, home: Home, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, found = threading.Event(), list[BaseException]()

    class Noting(SystemClock):
        def sleep(self, seconds: float) -> None:
            waits.set()
            super().sleep(seconds)

    ledger = SqliteCatalog(str(tmp_path / "home" / "teams"), Settings({}), Noting()).open("alpha")

    def write() -> None:
        try:
            with ledger.transaction():
                pass
        except TeamNotFound as error:
            found.append(error)

    writer, rename = threading.Thread(target=write), os.rename

    def renamed(source: str, target: str) -> None:
        if not writer.ident:
            writer.start()
            assert waits.wait(60), "it waits for the transaction that deletes the team"
        rename(source, target)

    monkeypatch.setattr(os, "rename", renamed)
    home.delete_team("alpha", force=True)
    writer.join(60)
    assert found
    ledger.close()
