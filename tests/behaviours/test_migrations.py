"""A ledger from an older version: brought up once, after a backup, or left exactly as it was."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

import interlock
from interlock.clock import SystemClock, iso
from interlock.errors import LedgerUnusable, StorageError
from interlock.settings import Settings
from interlock.storage.sqlite import schema
from interlock.storage.sqlite.catalog import SqliteCatalog

NOW, NEXT, THEN = schema.VERSION, schema.VERSION + 1, schema.VERSION + 2
"""The versions that the tests migrate from and to."""
SECOND = """-- One more table, and data in it.
CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT NOT NULL);
INSERT INTO notes (text) SELECT 'count ' || count(*) FROM tasks;
CREATE TRIGGER notes_kept BEFORE DELETE ON notes BEGIN
    SELECT raise(ABORT, 'kept');
END;
"""
SLOW = """
CREATE TABLE many (n INTEGER);
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50000000) INSERT INTO many SELECT n FROM c;
"""
OPEN = """
import os, sys
from interlock.clock import SystemClock
from interlock.storage.sqlite.catalog import SqliteCatalog
from interlock.settings import Settings
print("ready", flush=True)
sys.stdin.readline()
root, team = os.path.split(sys.argv[2])
patient = Settings(environment={"INTERLOCK_BUSY_TIMEOUT": "100"})
ledger = SqliteCatalog(root, patient, SystemClock(), sys.argv[1]).open(team)
with ledger.snapshot() as rows:
    print(sorted(task.subject for task in rows.tasks.select()))
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A team's directory with a ledger of our version that holds one task."""
    home = interlock.connect(str(tmp_path / "home"))
    team = home.create_team("alpha")
    team.create_task("Write it")
    home.close()
    return Path(team.directory)


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    """Our own migrations, to which a test adds."""
    copied = tmp_path / "migrations"
    shutil.copytree(schema.DIRECTORY, copied)
    return copied


def open_with(migrations: Path, directory: Path) -> SqliteCatalog:
    catalog = SqliteCatalog(str(directory.parent), Settings(), SystemClock(), str(migrations))
    catalog.open(directory.name)
    return catalog


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def version(path: Path) -> object:
    return query(path, "PRAGMA user_version")[0][0]


def backups(directory: Path) -> list[Path]:
    return sorted((directory / "backups").glob("*")) if (directory / "backups").exists() else []


def spawn(migrations: Path, directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN, str(migrations), str(directory)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_the_version_in_the_code_is_that_of_the_newest_migration() -> None:
    numbers = [number for number, _ in schema.migrations()]
    assert numbers == list(range(1, schema.VERSION + 1))


def test_a_new_ledger_has_the_tables_that_migrations_make() -> None:
    """To the letter. Where a new base is wanted, its statements are those that this query reads of the migrated one."""
    made = []
    for directory in (None, schema.DIRECTORY):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            schema.create_schema(connection, directory)
            said = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
            made.append((connection.execute("PRAGMA user_version").fetchone(), said))
    assert made[0] == made[1]


@pytest.mark.req("CORE-FR-003")
def test_each_migration_is_applied_after_a_backup_of_what_it_changes(directory: Path, migrations: Path) -> None:
    (migrations / f"{NEXT:03d}_notes.sql").write_text(SECOND)
    (migrations / f"{THEN:03d}_more.sql").write_text("INSERT INTO notes (text) VALUES ('third')")
    open_with(migrations, directory).close()
    ledger = directory / "ledger.db"
    assert version(ledger) == THEN
    assert query(ledger, "SELECT text FROM notes ORDER BY n") == [("count 1",), ("third",)]
    assert query(ledger, "SELECT payload FROM events WHERE type='ledger.migrated'") == [
        (f'{{"from": {NOW}, "to": {NEXT}}}',), (f'{{"from": {NEXT}, "to": {THEN}}}',),
    ]  # fmt: skip
    second, third = backups(directory)
    assert f"before-{NEXT:03d}" in second.name and f"before-{THEN:03d}" in third.name
    assert (version(second), version(third)) == (NOW, NEXT)
    for path in (second, third):
        assert query(path, "PRAGMA integrity_check") == [("ok",)]
        assert query(path, "SELECT subject FROM tasks") == [("Write it",)]
        assert path.stat().st_mode & 0o077 == 0
    open_with(migrations, directory).close()
    assert len(list((directory / "backups").glob("ledger-before-*.db"))) == 2


def test_a_backup_put_back_is_a_ledger_again(directory: Path, migrations: Path) -> None:
    (migrations / f"{NEXT:03d}_notes.sql").write_text(SECOND)
    open_with(migrations, directory).close()
    (kept,) = backups(directory)
    shutil.copy(kept, directory / "ledger.db")
    catalog = SqliteCatalog(str(directory.parent), Settings(), SystemClock())
    with catalog.open(directory.name).transaction() as rows:
        assert [task.subject for task in rows.tasks.select()] == ["Write it"]
    assert query(directory / "ledger.db", "PRAGMA journal_mode") == [("wal",)]
    catalog.close()


@pytest.mark.req("CORE-FR-002", "CORE-EC.1")
def test_a_migration_that_fails_leaves_the_old_version_whole(directory: Path, migrations: Path) -> None:
    (migrations / f"{NEXT:03d}_broken.sql").write_text(SECOND + "INSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(LedgerUnusable, match="nowhere"):
        open_with(migrations, directory)
    assert version(directory / "ledger.db") == NOW
    assert query(directory / "ledger.db", "SELECT name FROM sqlite_schema WHERE name='notes'") == []
    (migrations / f"{NEXT:03d}_broken.sql").write_text(SECOND)
    open_with(migrations, directory).close()
    assert version(directory / "ledger.db") == NEXT


@pytest.mark.req("CORE-FR-002")
def test_a_process_killed_while_migrating_leaves_the_old_version_whole(directory: Path, migrations: Path) -> None:
    (migrations / f"{NEXT:03d}_slow.sql").write_text(SLOW)
    process = spawn(migrations, directory)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    wal = directory / "ledger.db-wal"
    # Spilled pages show that it is in the midst of it.
    while size_of(wal) < 4_000_000:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert version(directory / "ledger.db") == NOW
    (migrations / f"{NEXT:03d}_slow.sql").write_text(SECOND)
    open_with(migrations, directory).close()
    assert version(directory / "ledger.db") == NEXT
    assert query(directory / "ledger.db", "SELECT text FROM notes") == [("count 1",)]
    assert query(directory / "ledger.db", "PRAGMA integrity_check") == [("ok",)]
    assert {version(path) for path in backups(directory) if path.suffix == ".db"} == {NOW}


def size_of(path: Path) -> int:
    """The size of a file that SQLite makes and removes."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_without_room_for_a_backup_nothing_is_migrated(directory: Path, migrations: Path) -> None:
    (migrations / f"{NEXT:03d}_notes.sql").write_text(SECOND)
    (directory / "backups").write_text("in the way")
    with pytest.raises(StorageError, match="backup"):
        open_with(migrations, directory)
    assert version(directory / "ledger.db") == NOW


@pytest.mark.req("CORE-FR-001", "CORE-SC.1")
def test_processes_that_migrate_at_the_same_time_apply_it_once(directory: Path, migrations: Path) -> None:
    (migrations / f"{NEXT:03d}_notes.sql").write_text(SECOND)
    processes = [spawn(migrations, directory) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, error = process.communicate(timeout=200)
        assert (out, error) == ("['Write it']\n", "")
    assert version(directory / "ledger.db") == NEXT
    assert query(directory / "ledger.db", "SELECT count(*) FROM events WHERE type='ledger.migrated'") == [(1,)]
    assert [version(path) for path in backups(directory)] == [NOW]


@pytest.mark.req("CORE-FR-003")
def test_the_files_of_a_team_follow_a_newer_schema(directory: Path) -> None:
    connection = sqlite3.connect(directory / "ledger.db")
    with connection:
        connection.execute("UPDATE tasks SET subject = 'Write it well'")  # as a migration may change what files show
        connection.execute(
            "INSERT INTO events (type, at, actor, payload) VALUES ('ledger.migrated', ?, 'interlock', ?)",
            (iso(SystemClock().now()), json.dumps({"from": NOW - 1, "to": NOW})),
        )
    connection.close()
    with interlock.connect(str(directory.parent.parent)) as home:
        assert [task.subject for task in home.team("alpha").tasks()] == ["Write it well"]
        assert [one for one in home.doctor().findings if one.level == "error"] == []
    assert "Write it well" in next(directory.glob("tasks/*/*.md")).read_text()


FROZEN = {
    "001_core.sql": "d15613cd7dd1dae9f4d8d4a253ac86eff3a3207e2044a656b055255bae081271",
    "002_protocol.sql": "3f3fe38d7ac69daa727a132d15099fac5c29d95eb99a8049409a3f5e1ec35cd6",
    "003_scheduler.sql": "974bb18c1e84329e52aad304ce1137f6ee97bc227729b04eee3be8a6ae60c9d2",
    "004_people.sql": "96e9830b911ca3e45f2d80967925d2c156145cbcdfe8ce5db28f6cd4a49bf748",
    "005_workflow_sessions.sql": "b448fc11fedbc6beee8424c97ed629f4b7e7e98bf206241907968d991bc630f5",
    "006_evidence.sql": "5a23d2dc438094963db9ccdabebc654cb425d0cd2318a8a15e708a0e2fab6742",
    "007_workflow_entries.sql": "05d2c4a7ee9763622f4f679fd70d7ef9479c32463bb31459950b015e859b2ce5",
    "008_workers.sql": "90843d21acfc2cd1c55aeebb93c35c89f445c589f9a2ad0b9974544e1c221e8e",
    "009_changes.sql": "242f7860e3fe9d7e5d6b8ed415d4d286be1cf44f96d7877b2f581442da9efa63",
    "010_landed.sql": "4b25e7b471f5e3ef92c0db0fe00a9caf698bed58fb49b44a3ae2429128395485",
}


def test_a_migration_that_was_published_is_never_edited() -> None:
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in Path(schema.DIRECTORY).glob("*.sql")}
    assert digests == FROZEN, "a new file belongs in this list once it is published"


@pytest.mark.req("CORE-FR-003")
def test_a_ledger_from_before_the_first_migration_was_completed_is_brought_up(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "teams" / "alpha"
    directory.mkdir(parents=True, mode=0o700)
    script = (Path(schema.DIRECTORY) / "001_core.sql").read_text()
    column = script[script.index(",\n    -- Names of variables") : script.index("\n);\n\nCREATE TABLE sessions")]
    connection = sqlite3.connect(directory / "ledger.db")
    connection.executescript(script.replace(column, ""))
    at = "'2026-11-21T04:00:00.000Z'"
    connection.executescript(f"""
        PRAGMA journal_mode=WAL; PRAGMA user_version=1;
        INSERT INTO team (id, name, lead_session_key, status, created_at, updated_at)
        VALUES ('t1', 'alpha', 'agent:main:main', 'active', {at}, {at});
        INSERT INTO members (name, session_key, inbox, role, joined_at)
        VALUES ('lead', 'agent:main:main', 'agent_main_main', 'lead', {at});
    """)
    connection.close()
    home = interlock.connect(str(tmp_path / "home"))
    team = home.team("alpha")
    team.spawn("ada")
    assert team.claim(team.create_task("Write it").id, by="ada").owner == "ada"
    assert home.doctor(repair=True).healthy
    home.close()


@pytest.mark.req("CORE-FR-003")
def test_a_process_of_an_older_version_writes_no_more_once_the_ledger_is_newer(
    directory: Path, migrations: Path
) -> None:
    older = interlock.connect(str(directory.parent.parent)).team("alpha")
    older.create_task("While it was its own")
    (migrations / f"{NEXT:03d}_notes.sql").write_text(SECOND)
    open_with(migrations, directory).close()
    head = query(directory / "ledger.db", "SELECT max(seq) FROM events")
    for verb in (lambda: older.create_task("Too late"), lambda: older.send(to="lead", content="Too late")):
        with pytest.raises(LedgerUnusable, match=f"schema {NEXT}; this process knows {NOW}. Nothing was changed"):
            verb()
    assert query(directory / "ledger.db", "SELECT max(seq) FROM events") == head


@pytest.mark.req("CORE-FR-003")
def test_a_newer_ledger_is_refused_and_not_touched(directory: Path) -> None:
    connection = sqlite3.connect(directory / "ledger.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    before = (directory / "ledger.db").read_bytes()
    with pytest.raises(LedgerUnusable, match=r"newer version of Interlock \(schema 99"):
        SqliteCatalog(str(directory.parent), Settings(), SystemClock()).open(directory.name)
    assert (directory / "ledger.db").read_bytes() == before
    assert backups(directory) == []


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize("content", [b"", b"this is no database, but it is long enough to look at" * 10])
def test_what_is_no_ledger_is_refused_and_not_touched(directory: Path, content: bytes) -> None:
    for path in directory.glob("ledger.db*"):
        path.unlink()
    (directory / "ledger.db").write_bytes(content)
    with pytest.raises(LedgerUnusable, match="interlock doctor"):
        SqliteCatalog(str(directory.parent), Settings(), SystemClock()).open(directory.name)
    assert (directory / "ledger.db").read_bytes() == content
