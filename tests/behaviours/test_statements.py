"""How often a verb asks the ledger for a transaction or a snapshot; `make metrics` prints its statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import interlock
from interlock.clock import Clock
from interlock.storage.sqlite import catalog, connection, ledger
from interlock.surfaces.cli.entry import run


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of connections that are opened from now on."""
    found: list[str] = []

    def traced(path: str, clock: Clock, patience: float) -> sqlite3.Connection:
        opened = connection.connect(path, clock, patience)
        opened.set_trace_callback(found.append)
        return opened

    for module in (catalog, ledger):
        monkeypatch.setattr(module, "connect", traced)
    return found


def test_a_verb_is_one_transaction_and_at_most_one_look(tmp_path: Path, statements: list[str]) -> None:
    home = interlock.connect(str(tmp_path))
    team = home.create_team("alpha")
    for name in ("ada", "bob"):
        team.spawn(name)
    task = team.create_task("Write it")
    team.create_task("Test it", blocked_by=[task.id])
    team.claim(task.id, by="bob")
    team.release(task.id, by="bob")

    def begun(verb: Callable[[], object]) -> int:
        """Transactions and snapshots."""
        statements.clear()
        verb()
        return sum(one.startswith("BEGIN") for one in statements)

    claim = begun(lambda: team.claim(task.id, by="bob"))
    complete = begun(lambda: team.complete(task.id, by="bob"))
    home.close()
    assert (claim, complete) == (2, 2)


def test_a_command_looks_once_at_the_team_acts_once_and_writes_the_files_once(
    tmp_path: Path, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path / "home"))
    for line in ("team create alpha", "member spawn ada", "task create one", "task claim 001 --as ada"):
        assert run(line.split()) == 0
    assert run(["task", "create", "two"]) == 0
    for line in ("task claim 002 --as ada", "message send --to ada hello"):
        statements.clear()
        assert run(line.split()) == 0
        assert sum(one.startswith("BEGIN") for one in statements) == 3
