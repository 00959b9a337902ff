"""How often a verb asks the ledger for a transaction or a snapshot; `make metrics` prints its statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import interlock
from interlock.app.team import Team
from interlock.clock import Clock
from interlock.model.report import as_markdown, headline
from interlock.storage.sql.table import Table
from interlock.storage.sqlite import catalog, connection, ledger
from interlock.surfaces.cli.entry import run


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of connections that are opened from now on."""
    found: list[str] = []

    def traced(path: str, clock: Clock, patience: float) -> sqlite3.Connection:
        opened = connection.connect(path, clock, patience)
        # What SQLite runs inside a statement of ours it traces as a comment.
        opened.set_trace_callback(lambda one: None if one.startswith("--") else found.append(one))
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

    for verb, most in (
        (lambda: team.create_task("Ship it"), 2),
        (lambda: team.claim(task.id, by="bob"), 2),
        (lambda: team.complete(task.id, by="bob"), 2),
        (lambda: team.next_task(by="bob"), 2),
        (lambda: team.send("bob", to="ada", content="hello"), 2),
        (lambda: team.tasks(), 1),
    ):
        assert begun(verb) == most, statements
    home.close()


def test_four_connections_that_read_are_kept(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counted(path: str, clock: Clock, patience: float) -> sqlite3.Connection:
        opened.append(path)
        return connection.connect(path, clock, patience)

    monkeypatch.setattr(ledger, "connect", counted)
    for at_once, new in ((6, None), (4, 0), (6, 2), (5, 1)):
        opened.clear()
        with ExitStack() as looks:
            for _ in range(at_once):
                looks.enter_context(team._workspace.ledger.snapshot())
        assert new in (None, len(opened)), at_once


def test_what_no_file_shows_is_written_without_a_look_at_the_ledger(tmp_path: Path, statements: list[str]) -> None:
    home = interlock.connect(str(tmp_path))
    team = home.create_team("alpha")
    team.spawn("bob")
    statements.clear()
    team.acting("bob", session="s1").read()
    assert [one.type for one in team.events()[0]][-1] == "session.began"
    assert [one for one in statements if one.startswith("BEGIN")] == ["BEGIN IMMEDIATE", "BEGIN"], (
        "the events' own look"
    )
    assert home.workspace("alpha").mirror.position() == team.head() and not team.doctor().findings
    home.close()


def test_pictures_of_a_team_ask_as_many_statements_of_many_finished_tasks_as_of_few(
    tmp_path: Path, statements: list[str]
) -> None:
    home = interlock.connect(str(tmp_path))
    team = home.create_team("alpha")
    team.spawn("ada")

    def asked(finished: int) -> list[int]:
        for _ in range(finished):
            task = team.create_task("Write it", metadata={"epic": "1"})
            team.claim(task.id, by="ada")
            team.complete(task.id, by="ada")
        found = []
        for picture in (team.report, team.status, team.board, team.member_overviews):
            statements.clear()
            picture()
            found.append(len(statements))
        return found

    assert asked(2) == asked(20)
    home.close()


def test_a_cut_report_reads_no_more_of_many_finished_tasks_than_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    decoded = Table.decoded

    def noted(self: Table[object], row: tuple[object, ...]) -> object:
        read.append(decoded(self, row))
        return read[-1]

    monkeypatch.setattr(Table, "decoded", noted)
    home = interlock.connect(str(tmp_path))
    team = home.create_team("alpha")
    team.spawn("ada")

    def rows_read(finished: int) -> int:
        for _ in range(finished):
            task = team.create_task("Write it")
            team.claim(task.id, by="ada")
            team.complete(task.id, by="ada")
        read.clear()
        team.report(limit=2)
        return len(read)

    assert rows_read(2) == rows_read(20)
    found, whole = team.report(limit=2), team.report()
    home.close()
    assert (found.left_out, whole.left_out, len(whole.done)) == ({"done": 20}, {}, 22)
    assert found.done == whole.done[-2:] and found.totals == whole.totals and found.unverified == 22
    assert headline(found) == headline(whole) and headline(found).startswith("22 done (22 unverified), 0 failed")
    assert "… 20 more: interlock report --full --team alpha" in "\n".join(as_markdown(found))


def test_a_claim_asks_five_statements_of_a_transaction(tmp_path: Path, statements: list[str]) -> None:
    home = interlock.connect(str(tmp_path))
    team = home.create_team("alpha")
    team.spawn("bob")
    team.claim(team.create_task("First").id, by="bob")
    task = team.create_task("Second")
    statements.clear()
    team.claim(task.id, by="bob")
    home.close()
    begun, *asked = statements[: statements.index("COMMIT")]
    # On a database server, what every transaction begins with goes with its lock, and the writes with the last read.
    assert begun == "BEGIN IMMEDIATE" and asked.pop(0).startswith("SELECT team.")
    assert [one.split()[0] for one in asked] == ["UPDATE", "SELECT", "UPDATE", "INSERT", "INSERT"]


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
