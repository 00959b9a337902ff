# ruff: noqa: E402
"""What can happen to a ledger on a PostgreSQL server, and never to a file."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest

import tests.postgres

tests.postgres.needed()

import psycopg
from psycopg import conninfo

import interlock
from bench.postgres import Meter
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import SystemClock, seconds
from interlock.errors import (
    CommitUnknown,
    InterlockError,
    InvalidRequest,
    LedgerUnusable,
    MembersRunning,
    StorageError,
    TeamExists,
    TeamNotFound,
)
from interlock.model.run import Run
from interlock.storage import away
from interlock.storage.postgres import catalog, ledger, schema
from interlock.storage.postgres import server as postgres_server
from interlock.storage.sql import VERSION
from interlock.storage.sqlite.schema import create_schema
from interlock.wakeup import waiters
from tests.postgres import direct_url, on_postgres, pooled, schema_of, server_url


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    on_postgres(tmp_path / "home")
    with interlock.connect(str(tmp_path / "home")) as found:
        yield found


@pytest.fixture
def server() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(direct_url(), autocommit=True) as found:
        yield found


class Wire:
    """Between a client and the server; it can lose an answer, or the way."""

    def __init__(self) -> None:
        found = conninfo.conninfo_to_dict(direct_url())
        host, port = str(found.get("host", "localhost")), int(found.get("port", 5432))
        self._there = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = conninfo.make_conninfo(direct_url(), host="127.0.0.1", port=self._listening.getsockname()[1])
        self.lose_after: bytes | None = None
        """What the client says whose answer it is not to get."""
        self.says = b""
        """What it is told instead."""
        self.refuse: float = 0
        """How many more are not let through."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                if self.refuse:
                    self.refuse -= 1
                    here.close()
                    continue
                family = socket.AF_UNIX if isinstance(self._there, str) else socket.AF_INET
                there = socket.socket(family)
                there.connect(self._there)
                lost = threading.Event()
                for start in ((here, there, True), (there, here, False)):
                    threading.Thread(target=self._carry, args=(*start, lost), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, asking: bool, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if asking and self.lose_after is not None and self.lose_after in data:
                    self.lose_after = None
                    lost.set()
                elif not asking and lost.is_set():
                    if self.says:  # As a pooler does, it tells why, and hangs up a moment later.
                        target.sendall(self.says)
                        threading.Event().wait(0.3)
                    break  # The server has done it.
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    found = Wire()
    yield found
    found.close()


def test_the_tables_are_those_of_sqlite(home: Home, server: psycopg.Connection[tuple[str, str]]) -> None:
    import sqlite3

    home.create_team("alpha")
    place = f"{schema_of(Path(home.path))}:alpha:%"
    asked = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema LIKE %s"
    there = {one for one in server.execute(asked, (place,)).fetchall() if one[1] != "rowid"}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        create_schema(made)
        asked = "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
        assert there == set(made.execute(asked).fetchall())
        indexes = {name for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql > ''")}
    found = server.execute("SELECT indexname FROM pg_indexes WHERE schemaname LIKE %s", (place,)).fetchall()
    assert indexes <= {name for (name,) in found}


def test_homes_on_two_machines_share_their_teams(home: Home, tmp_path: Path) -> None:
    settings = {"INTERLOCK_LEDGER": server_url(), "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path / "home")}
    settings |= {f"INTERLOCK_{name.upper()}": value for name, value in pooled().items()}
    with interlock.connect(str(tmp_path / "laptop"), environment=settings) as other:
        assert other.teams() == []
        team = home.create_team("alpha")
        team.spawn("bob")
        seen = other.team("alpha")
        task = seen.create_task("Write it")
        assert team.claim(task.id, by="bob").owner == "bob"
        assert [path.name for path in Path(seen.directory).glob("tasks/*/*.md")] == [f"{task.id}.md"]
        seen.send("lead", to="bob", content="hello")
        assert [one.content for one in team.read(by="bob")] == ["hello"]
        assert other.doctor("alpha").healthy and home.doctor("alpha").healthy


def told(code: str, text: str) -> bytes:
    """An error as a server, or a pooler, says it."""
    fields = b"".join(f"{key}{value}\0".encode() for key, value in (("S", "FATAL"), ("C", code), ("M", text))) + b"\0"
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


POOLER = told("08P01", "server conn crashed?")
FAILOVER = told("25006", "cannot execute pg_logical_emit_message() in a read-only transaction")


@pytest.mark.parametrize("says", [b"", POOLER, FAILOVER], ids=["nothing", "the pooler", "a failover"])
def test_a_commit_that_is_answered_with_the_end_of_the_server_is_looked_up(
    tmp_path: Path, wire: Wire, says: bytes
) -> None:
    settings = {"INTERLOCK_LEDGER": wire.url, "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path)}
    with interlock.connect(str(tmp_path / "home"), environment=settings) as home:
        team = home.create_team("alpha")
        wire.lose_after, wire.says = b"COMMIT", says
        assert team.create_task("Write it").subject == "Write it" and wire.lose_after is None
        assert len(team.tasks()) == 1


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_without_an_answer_is_looked_up(tmp_path: Path, wire: Wire, committed: bool) -> None:
    settings = {"INTERLOCK_LEDGER": wire.url, "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path)}
    with interlock.connect(str(tmp_path / "home"), environment=settings) as home:
        team = home.create_team("alpha")
        if committed:
            wire.lose_after = b"COMMIT"
            assert team.create_task("Write it").subject == "Write it"
            assert wire.lose_after is None
        else:
            ledger = team._workspace.ledger  # type: ignore[attr-defined]
            with pytest.raises(StorageError, match="Nothing was changed"), ledger.transaction() as rows:  # noqa: PT012
                rows.tasks.add_log("T", "2026-11-22T00:00:00.000Z", "ada", "one")
                rows.events.append("note", "lead", None, "2026-11-22T00:00:00.000Z", {})
                rows.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            with ledger.snapshot() as rows:
                assert rows.tasks.log("T") == []
        assert len(team.tasks()) == committed


def test_a_commit_whose_fate_nobody_can_tell_is_said_to_be_unknown(tmp_path: Path, wire: Wire) -> None:
    settings = {"INTERLOCK_LEDGER": wire.url, "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path)}
    with interlock.connect(str(tmp_path / "home"), environment=settings) as home:
        team = home.create_team("alpha")
        server = home._catalog._server  # type: ignore[attr-defined]
        patience, server.patience = server.patience, 2.0
        wire.lose_after, wire.refuse = b"COMMIT", inf
        with pytest.raises(CommitUnknown):
            team.create_task("Write it")
        wire.refuse, server.patience = 0, patience
        assert len(team.tasks()) == 1


def test_a_runner_waits_until_somebody_can_tell(tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"INTERLOCK_LEDGER": wire.url, "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path)}
    looks: list[int] = []

    def waits() -> bool:
        looks.append(1)
        wire.refuse = 0 if len(looks) == 3 else inf
        return True

    monkeypatch.setattr(away, "LOOK_AGAIN", 0.01)
    with interlock.connect(str(tmp_path / "home"), environment=settings) as home:
        team = home.create_team("alpha")
        server = home._catalog._server  # type: ignore[attr-defined]
        monkeypatch.setattr(server, "patience", 0.3)
        wire.lose_after, wire.refuse = b"COMMIT", inf
        told = away.goes_on.set(waits)
        try:
            assert team.create_task("Write it").subject == "Write it"
        finally:
            away.goes_on.reset(told)
        assert len(looks) == 3 and len(team.tasks()) == 1


def test_a_server_that_was_restarted_is_reached_again(
    home: Home, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    team = home.create_team("alpha")
    team.create_task("Before")
    with team._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
        process = rows.connection.raw.info.backend_pid
    server.execute("SELECT pg_terminate_backend(%s, 5000)", (process,))
    assert team.create_task("After").subject == "After"


def test_a_server_that_is_being_restarted_is_waited_for(
    tmp_path: Path, wire: Wire, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    settings = {"INTERLOCK_LEDGER": wire.url, "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path)}
    with interlock.connect(str(tmp_path / "home"), environment=settings) as home:
        team = home.create_team("alpha")
        home.close()
        wire.refuse = 3
        assert team.create_task("After").subject == "After" and wire.refuse == 0


def test_a_server_that_only_reads_is_left_for_the_next(
    tmp_path: Path, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    name = schema_of(tmp_path)
    server.execute(f"CREATE DATABASE {name}")
    try:
        url = conninfo.make_conninfo(direct_url(), dbname=name)
        with interlock.connect(str(tmp_path / "home"), environment={"INTERLOCK_LEDGER": url}) as home:
            team = home.create_team("alpha")
            home.close()
            server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            team = home.team("alpha")
            with pytest.raises(StorageError, match="read-only"):
                team.create_task("Write it")
            server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            assert team.create_task("Write it").subject == "Write it"
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_an_older_process_is_refused_before_it_writes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    team = home.create_team("alpha")
    with monkeypatch.context() as newer, interlock.connect(home.path) as other:
        for module in (catalog, ledger):
            newer.setattr(module, "VERSION", VERSION + 1)
        newer.setitem(schema.OTHERWISE, VERSION + 1, ("ALTER TABLE tasks ADD COLUMN colour text",))
        with other.team("alpha")._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
            assert rows.events.latest(None, 1)[0].type == "ledger.migrated"
    with pytest.raises(LedgerUnusable, match=f"schema {VERSION + 1}"):
        team.create_task("Write it")
    with interlock.connect(home.path) as again, pytest.raises(LedgerUnusable, match="newer version"):
        again.team("alpha")


class Wrong(SystemClock):
    """A machine's clock that was set badly."""

    def __init__(self, by: float) -> None:
        self._by = by

    def now(self) -> float:
        return super().now() + self._by


def test_whatever_the_clocks_of_machines_say_the_server_has_the_time(home: Home) -> None:
    early, late = (interlock.connect(home.path, clock=Wrong(by)) for by in (-3600.0, 3600.0))
    with early, late:
        team = late.create_team("alpha")
        team.spawn("bob")
        team.configure({"claim_ttl": 1800})
        mine = [team.claim(team.create_task("Write it").id, by="bob")]
        mine.append(early.team("alpha").claim(early.team("alpha").create_task("Test it").id, by="bob"))
        for one in (early, late, home):
            one.team("alpha").poll()
        assert [team.task(one.id).state for one in mine] == ["in-progress", "in-progress"]
        events, _ = team.events()
        assert "clock.set_back" not in {one.type for one in events}
        times = [seconds(one.at) for one in events]
        assert times == sorted(times) and abs(times[-1] - time.time()) < 60


@pytest.mark.parametrize("cut", [False, True], ids=["heard", "after the listener was cut off"])
def test_who_waits_on_another_machine_is_woken_by_the_server(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: psycopg.Connection[tuple[bool]], cut: bool
) -> None:
    monkeypatch.setattr(waiters, "INTERVAL", 3600)  # Nobody looks for itself.
    (tmp_path / "laptop").mkdir()
    (tmp_path / "laptop" / "settings.json").write_text((tmp_path / "home" / "settings.json").read_text())
    with interlock.connect(str(tmp_path / "laptop")) as other:
        team = home.create_team("alpha")
        team.spawn("bob")
        there = other.team("alpha")._workspace.notifier  # type: ignore[attr-defined]
        for _ in range(3):
            with there.waiter("alpha", ["inbox:bob"]) as waiter:
                if cut:
                    listening = f'LISTEN "{schema_of(Path(home.path))}"'
                    ends = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query = %s"
                    server.execute(ends, (listening,))
                team.send("lead", to="bob", content="hello")
                assert waiter.wait(60), "woken"


def test_what_was_answered_is_on_disk_whatever_the_server_is_told(
    tmp_path: Path, server: psycopg.Connection[tuple[bool]]
) -> None:
    name = schema_of(tmp_path)
    server.execute(f"CREATE DATABASE {name}")
    try:
        server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        url = conninfo.make_conninfo(direct_url(), dbname=name)
        with interlock.connect(str(tmp_path / "home"), environment={"INTERLOCK_LEDGER": url}) as home:
            ledger = home.create_team("alpha")._workspace.ledger  # type: ignore[attr-defined]
            for _ in range(20):
                with ledger.transaction() as rows:
                    rows.tasks.add_log("T", "2026-11-22T00:00:00.000Z", "ada", "one")
                    (before,) = rows.connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
                asked = server.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", (before,))
                assert asked.fetchone() == (True,)
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.long
def test_what_was_answered_survives_a_crash_of_the_server(tmp_path: Path) -> None:
    server = tests.postgres.Breakable()
    answered: list[str] = []
    crashed, one_more = threading.Event(), threading.Semaphore(0)

    def work(team: Team) -> None:
        while not crashed.is_set():
            with suppress(InterlockError):
                answered.append(team.create_task("Write it").id)
                one_more.release()

    try:
        with interlock.connect(str(tmp_path), environment={"INTERLOCK_LEDGER": server.url}) as home:
            team = home.create_team("alpha")
            writers = [threading.Thread(target=work, args=(one,)) for one in (team, home.team("alpha"), team)]
            for writer in writers:
                writer.start()
            for _ in range(2):
                assert all(one_more.acquire(timeout=60) for _ in range(40))
                server.crash()
            crashed.set()
            for writer in writers:
                writer.join()
            kept = [task.id for task in team.tasks(limit=None)]
            assert len(answered) >= 80 and len(set(answered)) == len(answered) and set(answered) <= set(kept)
            assert home.doctor("alpha").healthy
    finally:
        crashed.set()
        server.close()


def test_a_missing_event_is_found(home: Home, server: psycopg.Connection[tuple[str]]) -> None:
    home.create_team("alpha").create_task("Write it")
    ((place,),) = server.execute(f"SELECT schema FROM {schema_of(Path(home.path))}.teams").fetchall()
    server.execute(f'DELETE FROM "{place}".events WHERE seq = 2')
    found = home.doctor("alpha")
    assert not found.healthy and "1 of" in str(found.findings)


def test_a_text_with_a_null_character_is_kept_without(home: Home) -> None:
    team = home.create_team("alpha")
    with team._workspace.ledger.transaction() as rows:  # type: ignore[attr-defined]
        rows.tasks.add_log("T", "2026-11-22T00:00:00.000Z", "ada", "a\0b")
        assert rows.tasks.log("T")[0][2] == "a␀b"


def test_what_cannot_be_reached_is_said_and_no_password_is(tmp_path: Path) -> None:
    home = interlock.connect(
        str(tmp_path), environment={"INTERLOCK_LEDGER": "postgresql://ann:swordfish@127.0.0.1:1/work"}
    )
    with pytest.raises(StorageError, match=r"postgresql://127.0.0.1/work could not be reached") as caught:
        home.teams()
    assert "swordfish" not in str(caught.value) and "swordfish" not in str(home.settings())


@pytest.mark.parametrize("scheme", ["", "mysql://", "postgresql://"])
def test_a_wrong_address_is_refused_without_its_password_and_locks_nobody_out(tmp_path: Path, scheme: str) -> None:
    wrong = f"{scheme}ann:sword%fish@db.example/work"
    with interlock.connect(str(tmp_path)) as home:
        with pytest.raises(StorageError, match="is no address of a PostgreSQL server") as caught:
            home.configure({"ledger": wrong})
        assert "fish" not in str(caught.value)
        assert home.teams() == []
    (tmp_path / "settings.json").write_text(json.dumps({"ledger": wrong}))
    with interlock.connect(str(tmp_path)) as home:
        with pytest.raises(StorageError, match="Set one, postgresql://USER@HOST/DATABASE"):
            home.create_team("alpha")
        home.configure({"ledger": None})
    with interlock.connect(str(tmp_path)) as home:
        home.create_team("alpha")


@pytest.mark.parametrize("word", ["sword", "'sword fish'"])
def test_a_password_among_the_words_of_an_address_is_not_shown(tmp_path: Path, word: str) -> None:
    address = f"host=db.example password={word} dbname=work"
    with interlock.connect(str(tmp_path), environment={"INTERLOCK_LEDGER": address}) as home:
        (shown,) = [one.value for one in home.settings() if one.name == "ledger"]
    assert shown == "host=db.example password=*** dbname=work"


def test_a_server_that_is_too_old_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "OLDEST", 1000)
    with pytest.raises(LedgerUnusable, match=r"is PostgreSQL \d\d, and a ledger needs 1000 or newer"):
        home.teams()


def test_a_role_without_rights_is_told_which_it_needs(
    tmp_path: Path, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    name = schema_of(tmp_path)
    server.execute(f"CREATE ROLE {name} LOGIN")
    server.execute(f"CREATE DATABASE {name}")
    try:
        url = conninfo.make_conninfo(direct_url(), dbname=name)
        weak = conninfo.make_conninfo(url, user=name)
        with (
            interlock.connect(str(tmp_path / "owner"), environment={"INTERLOCK_LEDGER": url}) as owner,
            interlock.connect(str(tmp_path / "weak"), environment={"INTERLOCK_LEDGER": weak}) as other,
        ):
            with pytest.raises(StorageError, match=f"permission denied for database {name}.*GRANT CREATE"):
                other.create_team("alpha")
            owner.create_team("alpha")
            with pytest.raises(StorageError, match="permission denied for schema") as caught:
                other.team("alpha")
            assert "\n" not in caught.value.message and "SELECT" not in caught.value.message
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        server.execute(f"DROP ROLE {name}")


def test_a_pooler_that_nobody_has_mentioned_is_named(home: Home) -> None:
    home.create_team("alpha")
    server = home._catalog._server  # type: ignore[attr-defined]
    refused = pytest.raises(StorageError, match=r"pooler .* Set ledger_direct")
    # As two clients of a pooler do, one after the other, on one connection of its own.
    with refused, server.lent() as raw, raw.transaction():
        for _ in range(2):
            raw.execute("PREPARE one AS SELECT 1")


def test_a_full_disk_of_the_server_is_named(home: Home) -> None:
    team = home.create_team("alpha")
    program = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
    with (
        pytest.raises(StorageError, match=r"disk of the server .* is full: could not extend file"),
        team._workspace.ledger.transaction() as rows,  # type: ignore[attr-defined]
    ):
        rows.connection.raw.execute(program)


def test_without_what_speaks_to_a_server_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\nimport interlock\n"
        "try: interlock.connect(sys.argv[1], environment={'INTERLOCK_LEDGER': 'postgresql://x'})\n"
        "except interlock.errors.InvalidRequest as error: print(error.message)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "pip install 'interlock-agents[postgres]'" in done.stdout


def test_hooks_do_not_read_a_file_that_is_no_longer_the_ledger(tmp_path: Path) -> None:
    from interlock.hooks_team import LocalTeam

    with interlock.connect(str(tmp_path)) as home:
        home.create_team("alpha")
    options = {"--home": str(tmp_path), "--team": "alpha"}
    assert LocalTeam.of(options) is not None
    on_postgres(tmp_path)
    assert LocalTeam.of(options) is None


def test_a_ledger_is_exported_and_imported_by_commands(home: Home, tmp_path: Path) -> None:
    team = home.create_team("alpha")
    task = team.create_task("Write it")

    def run(*words: str, at: str) -> str:
        command = [sys.executable, "-m", "interlock.surfaces.cli", *words, "--home", at]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    file = str(tmp_path / "alpha.gz")
    digest = re.search(r"[0-9a-f]{64}", run("ledger", "export", file, "--team", "alpha", at=home.path))
    run("ledger", "import", file, "--name", "alpha", at=str(tmp_path / "files"))
    again = run("ledger", "export", f"{file}2", "--team", "alpha", at=str(tmp_path / "files"))
    assert digest is not None and digest[0] in again
    with interlock.connect(str(tmp_path / "files")) as files:
        assert files.team("alpha").task(task.id).subject == "Write it"
    backup = str(tmp_path / "backup.gz")
    assert run("ledger", "backup", backup, "--team", "alpha", at=home.path) == f"{backup}\n"
    assert run("ledger", "import", backup, at=str(tmp_path / "again")).startswith("alpha is in ")
    with pytest.raises(InvalidRequest):
        home.import_ledger(file, "No name!")


@pytest.mark.parametrize("where", ["files", "server"])
def test_a_ledger_imported_under_another_name_is_a_team_of_its_own(tmp_path: Path, where: str) -> None:
    place, file = tmp_path / "home", str(tmp_path / "alpha.gz")
    if where == "server":
        on_postgres(place)
    with interlock.connect(str(place)) as home:
        team = home.create_team("alpha")
        team.spawn("bob")
        task = team.claim(team.create_task("Write it").id, by="bob")
        home.export_ledger("alpha", file)
        other = home.import_ledger(file, "beta")
        assert [(one.id, one.state, one.owner) for one in other.tasks()] == [(task.id, "ready", None)]
        assert other.claim(task.id, by="bob").run_id == f"{task.id}.2"
        assert other.describe().team.name == "beta" and other.id() != team.id()
        assert team.task(task.id).run_id == task.run_id, "the original goes on"
        with pytest.raises(TeamExists):
            home.import_ledger(file, "beta")
        assert home.check_ledgers() == {"alpha": [], "beta": []}
    with interlock.connect(str(place)) as home:
        assert home.doctor().healthy
        assert home.team("beta").task(task.id).owner == "bob"
        home.delete_team("beta")
        assert home.teams() == ["alpha"]


@pytest.mark.parametrize("where", ["files", "server"])
def test_a_ledger_is_checked_and_backed_up_by_commands(tmp_path: Path, where: str) -> None:
    place = tmp_path / "home"
    if where == "server":
        on_postgres(place)

    def run(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "interlock.surfaces.cli", "ledger", *words, "--home", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout

    with interlock.connect(str(place)) as home:
        home.create_team("alpha").create_task("Write it")
        assert run("check") == (0, "alpha: sound\n")
        code, said = run("backup", "--team", "alpha")
        path = said.strip()
        assert code == 0 and home._catalog.backups("alpha") == [path] and home._catalog.inspect(path) == []
        (found,) = home.migrate_ledgers()
        assert found.version == found.newest and found.location in run("version")[1]
        with pytest.raises(TeamNotFound):
            home.migrate_ledgers("beta", dry_run=True)


def test_a_dry_run_migrates_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.create_team("alpha")
    for module in (catalog, ledger):
        monkeypatch.setattr(module, "VERSION", VERSION + 1)
    monkeypatch.setitem(schema.OTHERWISE, VERSION + 1, ("ALTER TABLE tasks ADD COLUMN colour text",))
    with interlock.connect(home.path) as newer:
        for dry in (True, False):  # Each says what was there before.
            assert [one.newest - one.version for one in newer.migrate_ledgers(dry_run=dry)] == [1]
        assert [one.newest - one.version for one in newer.migrate_ledgers()] == [0]


def test_what_keeps_ledgers_has_a_deadline(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.create_team("alpha")
    home._catalog._server.patience = 0.001  # type: ignore[attr-defined]
    monkeypatch.setattr(catalog, "DEADLINE", 100)
    monkeypatch.setattr(catalog, "LOCK", "SELECT pg_sleep(60), ?::text")
    with pytest.raises(StorageError, match="statement timeout"):
        home.delete_team("alpha")
    monkeypatch.undo()
    home._catalog._server.patience = 5.0  # type: ignore[attr-defined]
    assert home.teams() == ["alpha"] and home.doctor().healthy


def test_teams_move_to_a_server_and_back_with_all_ids_and_events(tmp_path: Path) -> None:
    with interlock.connect(str(tmp_path / "home")) as home:
        home.configure({"ledger_schema": schema_of(tmp_path), **pooled()})
        team = home.create_team("alpha")
        team.spawn("bob")
        task = team.create_task("Write it")
        team.claim(task.id, by="bob")
        home.create_team("beta")
        before, _ = team.events()
        secret = home.tokens().create("peter", role="viewer")[1]
        with pytest.raises(InvalidRequest, match="already"):
            home.move_ledgers("files")
        with pytest.raises(StorageError, match="reached"):
            home.move_ledgers("postgresql://127.0.0.1:1/none")
        assert home.teams() == ["alpha", "beta"] and team.task(task.id).state == "in-progress"
        there = home.move_ledgers(server_url())
        with pytest.raises(TeamNotFound):
            team.create_task("By who does not know")
    assert not list((tmp_path / "home" / "teams" / "alpha").glob("ledger.db*"))
    with interlock.connect(str(tmp_path / "home")) as home:
        assert home.teams() == ["alpha", "beta"] and home.doctor().healthy
        assert home.tokens().find(secret) is not None
        later = home.tokens().create("paula", role="viewer")[1]
        team = home.team("alpha")
        assert team.events()[0] == before and team.task(task.id).owner == "bob"
        back = home.move_ledgers("files")
    assert [(one.team, one.sha256) for one in back] == [(one.team, one.sha256) for one in there]
    with interlock.connect(str(tmp_path / "home")) as home:
        assert home.team("alpha").events()[0] == before and home.doctor().healthy
        assert home.tokens().find(secret) is not None and home.tokens().find(later) is not None
        home.team("alpha").complete(task.id, by="bob")
        assert home.team("alpha").task(task.id).state == "done"


KILLED_MOVING = """
import os, signal, sys
import interlock
from interlock.app.home import Home
from interlock.storage.postgres.catalog import PostgresCatalog
from interlock.storage.postgres.ledger import PostgresLedger
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.storage.sqlite.ledger import SqliteLedger

_, place, to, step, after = sys.argv
there, here = (SqliteCatalog, PostgresLedger) if to == "files" else (PostgresCatalog, SqliteLedger)
owner, name = {"copy": (there, "take_in"), "retire": (here, "retire"), "set": (Home, "configure")}[step]
done, real = [], getattr(owner, name)

def killed(*given, **more):
    if len(done) == int(after):
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(1)
    return real(*given, **more)

setattr(owner, name, killed)
with interlock.connect(place) as home:
    home.move_ledgers(to)
"""


@pytest.mark.parametrize(("step", "after"), [("copy", 0), ("copy", 1), ("retire", 0), ("retire", 1), ("set", 0)])
@pytest.mark.parametrize("to", ["server", "files"])
def test_a_move_that_was_killed_loses_nothing_and_goes_on(tmp_path: Path, to: str, step: str, after: int) -> None:
    place, to = str(tmp_path / "home"), "files" if to == "files" else server_url()
    with interlock.connect(place) as home:
        home.configure({"ledger_schema": schema_of(tmp_path), **pooled()})
        for name in ("alpha", "beta"):
            home.create_team(name).create_task("Before")
        home.tokens()  # Their file is made with the first look at it.
        if to == "files":
            home.move_ledgers(server_url())
    moving = subprocess.run([sys.executable, "-c", KILLED_MOVING, place, to, step, str(after)])
    assert moving.returncode == -signal.SIGKILL
    with interlock.connect(place) as home:
        for name in home.teams():
            home.team(name).create_task("Meanwhile")
        meanwhile = {name: 2 if name in home.teams() else 1 for name in ("alpha", "beta")}
        said = [one.what for one in home.doctor().findings if "ledger move" in one.what]
        assert len(said) == (list(meanwhile.values()).count(1) if to != "files" else 0), said
        home.move_ledgers(to)
    with interlock.connect(place) as home:
        assert {name: len(home.team(name).tasks()) for name in home.teams()} == meanwhile
        assert home.doctor().healthy
        with pytest.raises(InvalidRequest, match="already"):
            home.move_ledgers(to)


def test_a_team_is_not_moved_over_another_one_or_over_changes(tmp_path: Path) -> None:
    schema, file = schema_of(tmp_path), str(tmp_path / "alpha.gz")
    settings = {"INTERLOCK_LEDGER": server_url(), "INTERLOCK_LEDGER_SCHEMA": schema}
    settings |= {f"INTERLOCK_{name.upper()}": value for name, value in pooled().items()}
    with (
        interlock.connect(str(tmp_path / "files")) as home,
        interlock.connect(str(tmp_path / "server"), environment=settings) as other,
    ):
        home.configure({"ledger_schema": schema, **pooled()})
        task = home.create_team("alpha").create_task("Write it")
        other.create_team("alpha")
        with pytest.raises(TeamExists, match=r"another team 'alpha'.*Nothing was moved.*--name NAME"):
            home.move_ledgers(server_url())
        other.delete_team("alpha")
        home.export_ledger("alpha", file)
        other.import_ledger(file, "alpha")
        other.team("alpha").create_task("Elsewhere")
        with pytest.raises(TeamExists, match="both were worked on"):
            home.move_ledgers(server_url())
        assert home.team("alpha").task(task.id).state == "ready" and len(other.team("alpha").tasks()) == 2
        assert list(Path(home.path, "teams", "alpha", "backups").iterdir()) == []


def test_two_teams_of_one_name_do_not_share_a_directory(home: Home, tmp_path: Path) -> None:
    home.create_team("alpha").create_task("Of the server")
    settings = {"INTERLOCK_LEDGER": server_url(), "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path / "home")}
    settings |= {f"INTERLOCK_{name.upper()}": value for name, value in pooled().items()}
    with interlock.connect(str(tmp_path / "laptop")) as files:
        own = files.create_team("alpha")
        file = next(Path(own.directory).glob("config.json"))
        before = file.read_text()
        files.create_team("beta")
    with interlock.connect(str(tmp_path / "laptop"), environment=settings) as other:
        with pytest.raises(LedgerUnusable, match=r"teams/alpha belongs to another team 'alpha'.*Move that directory"):
            other.team("alpha").create_task("Here")
        with pytest.raises(LedgerUnusable, match="belongs to another team 'beta'"):
            other.create_team("beta")
        assert [one.what for one in other.doctor().findings if one.team == "alpha" and one.level == "error"]
        assert file.read_text() == before and other.teams() == ["alpha"]
        file.parent.rename(tmp_path / "away")
        assert other.team("alpha").task("001").subject == "Of the server"


def test_a_team_that_was_moved_away_and_back_is_found_by_who_has_it_open(home: Home) -> None:
    home.create_team("alpha")
    with interlock.connect(home.path) as other:
        other.team("alpha").create_task("Before")
        home.move_ledgers("files")
        with pytest.raises(TeamNotFound):
            other.team("alpha")
        with interlock.connect(home.path) as again:
            again.move_ledgers(server_url())
        assert len(other.team("alpha").tasks()) == 1


def test_a_team_at_work_does_not_move(tmp_path: Path) -> None:
    with interlock.connect(str(tmp_path / "home")) as home:
        home.configure({"ledger_schema": schema_of(tmp_path), **pooled()})
        team = home.create_team("alpha")
        team.spawn("bob")
        task = team.create_task("Write it")
        with home.workspace("alpha").ledger.transaction() as rows:
            row = rows.tasks.get(task.id)
            assert row is not None
            rows.tasks.update(row, state="in-progress", owner="bob", run=1)
            rows.runs.begin(Run(task.id, 1, "bob", "run:1", task.created_at, None, None, None, "far|boot|1|1"))
        with pytest.raises(MembersRunning, match="bob"):
            home.move_ledgers(server_url())
        assert home.teams() == ["alpha"] and home.team("alpha").task(task.id).owner == "bob"


KILLED = """
import os, signal, sys
import interlock
from interlock.storage.postgres import catalog

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

place, name = sys.argv[2].split(".")
setattr({"catalog": catalog.PostgresCatalog, "files": catalog.shutil}[place], name, killed)
with interlock.connect(sys.argv[1]) as home:
    home.delete_team("alpha")
"""


@pytest.mark.parametrize(
    ("step", "deleted"), [("catalog._drop", False), ("catalog._put_away", True), ("files.rmtree", True)]
)
def test_a_process_killed_while_it_deletes_leaves_the_whole_team_or_what_is_swept(
    home: Home, step: str, deleted: bool
) -> None:
    team = home.create_team("alpha")
    task = team.create_task("Write it")
    notes = Path(team.directory, "notes")
    notes.write_text("of the old one")
    notes.chmod(0o600)
    killed = subprocess.run([sys.executable, "-c", KILLED, home.path, step])
    assert killed.returncode == -signal.SIGKILL
    if not deleted:
        assert home.doctor().healthy and home.team("alpha").task(task.id) == task and notes.exists()
        home.delete_team("alpha")
        assert not notes.exists() and home.doctor().findings == []
        return
    assert home.teams() == []
    (finding,) = home.doctor().findings
    assert (finding.level, finding.what) == (
        "warning",
        "Left by a process that was killed while team alpha was deleted.",
    )
    with interlock.connect(home.path) as other:
        again = other.create_team("alpha")  # Has nothing of the old one.
        assert [one.subject for one in again.tasks()] == [] and not notes.exists()
    home.doctor(repair=True)
    assert home.doctor().healthy and home.teams() == ["alpha"] and os.listdir(Path(home.path, "teams")) == ["alpha"]


def test_what_a_killed_deletion_left_is_removed_and_what_another_machine_deleted_is_kept(
    home: Home, tmp_path: Path
) -> None:
    for name in ("alpha", "beta"):
        Path(home.create_team(name).directory, "notes").write_text("work")
    subprocess.run([sys.executable, "-c", KILLED, home.path, "catalog._put_away"])
    settings = {"INTERLOCK_LEDGER": server_url(), "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path / "home")}
    settings |= {f"INTERLOCK_{name.upper()}": value for name, value in pooled().items()}
    with interlock.connect(str(tmp_path / "laptop"), environment=settings) as other:
        other.delete_team("beta")
    repaired = home.doctor(repair=True).findings
    assert [(Path(str(one.path)).name, one.level, one.repaired) for one in repaired] == [
        ("alpha", "warning", True),
        ("beta", "warning", False),
    ]
    assert "deleted on another machine" in repaired[1].what
    assert [path.parent.name for path in Path(home.path).glob("teams/*/notes")] == ["beta"]


def test_what_a_verb_writes_goes_out_as_one_statement(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    team = home.create_team("alpha")
    team.spawn("ada")
    for _ in range(2):
        team.create_task("Like any other")
    ada, said = team.acting("ada"), list[str]()
    first = ada.next_task()
    execute = psycopg.Cursor.execute

    def noted(self: psycopg.Cursor[Any], query: Any, *more: Any, **how: Any) -> psycopg.Cursor[Any]:
        if "pg_notify" not in str(query):  # It goes out later, by a thread of its own.
            said.append(str(query))
        return execute(self, query, *more, **how)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    assert first is not None
    ada.complete(first.id)
    writes = [one for one in said if "UPDATE" in one and "entered" not in one]
    assert len(writes) == 1 and all(table in writes[0] for table in (".runs", ".tasks", ".team", ".events"))
    said.clear()
    second = ada.next_task()
    assert second is not None and second.owner == "ada"
    # BEGIN, the lock, who acts, the task, what is written, COMMIT; that it is on disk is one more.
    assert said.index("COMMIT") == 5
    monkeypatch.undo()
    assert [event.seq for event in team.events()[0]] == list(range(1, team.head() + 1))


def test_a_verb_waits_at_most_six_times_for_the_server(tmp_path: Path) -> None:
    """BEGIN, COMMIT and the disk included; the files that show the ledger are read for afterwards."""
    meter = Meter(direct_url())
    settings = {"INTERLOCK_LEDGER": meter.url, "INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path), "INTERLOCK_MIRROR": "0"}
    with interlock.connect(str(tmp_path), environment={**settings, "INTERLOCK_LEDGER_NOTICES": "0"}) as home:
        team = home.create_team("alpha")
        for name in ("ada", "bob"):
            team.spawn(name)
        tasks = [team.create_task("Like any other").id for _ in range(8)]
        ada, claims, completions = team.acting("ada"), iter(tasks), iter(tasks)
        verbs: dict[str, Callable[[], object]] = {
            "claim": lambda: ada.claim(next(claims)),
            "complete": lambda: ada.complete(next(completions)),
            "send": lambda: ada.send(to="bob", content="hello"),
        }
        trips = {name: meter.per(verb, 8)[1] for name, verb in verbs.items()}
    meter.close()
    assert max(trips.values()) <= 6, trips
