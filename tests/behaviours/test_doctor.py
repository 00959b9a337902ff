"""The doctor: finds what does not hold, repairs what takes no guess, and never touches a damaged ledger."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.doctor import DoctorReport
from interlock.errors import LedgerUnusable, TeamNotFound
from interlock.storage.sqlite.schema import VERSION
from tests.behaviours.mirrored import assert_files_agree, python


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = interlock.connect(str(tmp_path / "home"))
    yield home
    home.close()


@pytest.fixture
def team(home: Home) -> Team:
    team = home.create_team("alpha")
    team.spawn("bob")
    first = team.create_task("Write it", body="As it was.")
    team.create_task("Test it", blocked_by=[first.id])
    team.create_task("Review it", review="human")
    team.claim(first.id, by="bob")
    team.send(to="bob", content="hello")
    return team


def meddle(team: Team, *statements: str) -> None:
    """Change rows behind the ledger's back."""
    connection = sqlite3.connect(Path(team.directory, "ledger.db"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def serious(result: DoctorReport) -> list[str]:
    return [finding.what for finding in result.findings if finding.level != "info"]


def unrepaired(result: DoctorReport) -> list[str]:
    return [found.what for found in result.findings if found.level != "info" and not found.repaired]


def test_a_team_at_work_is_healthy(home: Home, team: Team) -> None:
    assert team.doctor() == DoctorReport(True, [])
    assert home.doctor() == DoctorReport(True, [])
    team.complete("001", by="bob")
    team.claim("003", by="bob")
    team.complete("003", by="bob")
    team.read(by="bob")
    team.cancel("002")
    assert team.doctor() == DoctorReport(True, [])


def test_a_home_that_does_not_exist_yet_is_healthy_and_stays_so(tmp_path: Path) -> None:
    home = interlock.connect(str(tmp_path / "nothing"))
    assert home.doctor(repair=True) == DoctorReport(True, [])
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(TeamNotFound):
        home.doctor("alpha")
    home.close()


BROKEN = [
    ("UPDATE team SET open_tasks=7", "counts 7 open tasks, there are 3"),
    ("UPDATE team SET day_count=1", "a number that is taken"),
    ("UPDATE members SET unread=5 WHERE name='bob'", "bob counts 5 unread messages, there are 1"),
    ("UPDATE tasks SET open_blockers=0 WHERE n=2", "counts 0 open blockers, it has 1"),
    ("UPDATE tasks SET open_blockers=3, state='backlog' WHERE n=3", "counts 3 open blockers, it has 0"),
    ("UPDATE tasks SET rank=100 WHERE n=1", "ranks above what it blocks"),
    ("INSERT INTO edges (blocked, blocker) SELECT id, 'TASK-1999-01-01-001' FROM tasks WHERE n=3", "there is no"),
    ("INSERT INTO runs (task_id, number, member, session, started_at) "
     "SELECT id, 1, 'bob', 's', '' FROM tasks WHERE n=3",
     "is open, but its task is ready"),
    ("INSERT INTO questions (id, task_id, kind, text, asked_at, asked_by, state) "
     "SELECT 'Q-1', id, 'review', 'Good?', '', 'bob', 'open' FROM tasks WHERE n=4", "its task"),
]  # fmt: skip


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize(("statement", "said"), BROKEN)
def test_what_does_not_add_up_is_found_and_repaired_after_a_backup(team: Team, statement: str, said: str) -> None:
    team.delete(team.create_task("Gone").id)
    meddle(team, statement)
    before = team.events()[1]
    found = team.doctor()
    assert not found.healthy and any(said in what for what in serious(found))
    assert team.events()[1] == before
    repaired = team.doctor(repair=True)
    story = "by its history" in " ".join(serious(repaired))
    assert all(said not in what for what in unrepaired(repaired))
    assert [event.payload["what"] for event in team.events(before)[0] if event.type == "ledger.repaired"]
    assert list(Path(team.directory, "backups").glob("ledger-before-repair-*.db"))
    if not story:
        assert team.doctor().healthy
        assert_files_agree(team)
        team.complete("001", by="bob")
        assert team.task("002").state == "ready"
        assert team.create_task("The next").id.endswith("-005")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE runs SET ended_at='2026-01-01T00:00:00.000Z'", "its run 1 has ended: `interlock task release"),
        ("UPDATE runs SET member='eve'", "but its run belongs to eve"),
        ("UPDATE tasks SET assignee='ghost' WHERE n=3", "reserved for ghost, who is not a member"),
        ("UPDATE tasks SET state='cancelled' WHERE n=3", "by its history it is ready"),
        ("DELETE FROM events WHERE seq=4", "Events 4 to 4 are missing"),
        (
            "INSERT INTO edges (blocked, blocker) SELECT a.id, b.id FROM tasks a, tasks b WHERE a.n=1 AND b.n=2",
            "cycle",
        ),
    ],
)
def test_what_somebody_has_to_decide_is_told_and_left_alone(team: Team, statement: str, said: str) -> None:
    meddle(team, statement)
    found = team.doctor(repair=True)
    assert not found.healthy
    assert any(said in what for what in unrepaired(found))


@pytest.mark.req("CORE-EC.1")
def test_files_that_are_missing_wrong_or_in_the_wrong_place_are_written_again(team: Team) -> None:
    tasks = Path(team.directory, "tasks")
    ready = next((tasks / "ready").glob("*.md"))
    shutil.copy(ready, tasks / "done" if (tasks / "done").exists() else tasks / "backlog")
    ready.unlink()
    Path(team.directory, "config.json").unlink()
    running = next((tasks / "in-progress").glob("*.md"))
    older = next((tasks / "backlog").glob("*-002.md")).read_bytes()
    running.write_bytes(older)
    Path(team.directory, "inbox", "bob", "messages.jsonl").unlink()
    found = team.doctor()
    assert not found.healthy
    words = " ".join(serious(found))
    for said in ("config.json is missing", "lies where", "does not say", "messages.jsonl is missing"):
        assert said in words
    repaired = team.doctor(repair=True)
    assert repaired.healthy and unrepaired(repaired) == []
    assert team.doctor() == DoctorReport(True, [])
    assert_files_agree(team)


def test_after_power_loss_torn_files_are_found_though_the_position_is_ahead(team: Team) -> None:
    file = next(Path(team.directory, "tasks", "ready").glob("*.md"))
    file.write_bytes(b"")
    assert not team.doctor().healthy
    assert team.doctor(repair=True).healthy
    assert_files_agree(team)


def test_an_edit_is_shown_and_adopt_takes_subject_and_body_over(team: Team) -> None:
    file = next(Path(team.directory, "tasks", "in-progress").glob("*.md"))
    team.update("001", log="a line\nof two")
    file.write_text(
        file.read_text().replace("As it was.", "As I want it.").replace('subject: "Write it"', "subject: Write it well")
    )
    found = team.doctor()
    assert not found.healthy and "edited by hand" in serious(found)[0]
    assert team.task("001").body == "As it was."
    adopted = team.doctor(adopt=True)
    assert adopted.healthy
    task = team.task("001")
    assert (task.subject, task.body) == ("Write it well", "As I want it.")
    assert [event.payload["fields"] for event in team.events()[0] if event.type == "mirror.adopted"] == [
        ["body", "subject"]
    ]
    assert len(team.work_log("001")) == 1
    assert_files_agree(team)
    assert team.doctor(adopt=True) == DoctorReport(True, [])
    team.complete("001", by="bob")


def test_an_edit_kept_aside_of_a_final_task_or_beyond_limits_is_not_taken_over(team: Team) -> None:
    file = next(Path(team.directory, "tasks", "ready").glob("*.md"))
    file.write_text(file.read_text() + "x" * 20_000)
    team.update("003", log="keeps it aside")
    running = next(Path(team.directory, "tasks", "in-progress").glob("*.md"))
    running.write_text("no frontmatter at all")
    team.complete("001", by="bob")
    found = team.doctor(adopt=True)
    words = " ".join(unrepaired(found))
    assert "10000 are allowed" in words and "the task is done" in words
    assert team.task("003").body == ""
    assert len(list(Path(team.directory).glob("tasks/*/*.edited-*.md"))) == 2


def test_what_killed_processes_left_is_removed_and_nothing_else(home: Home, team: Team) -> None:
    teams = Path(home.path, "teams")
    gone = python(home.path, "")
    gone.communicate()
    left = [
        Path(team.directory, f"config.json.{gone.pid}.tmp"),
        Path(team.directory, "tasks", "ready", f"x.md.{gone.pid}.tmp"),
    ]
    kept = [
        Path(team.directory, f"config.json.{os.getpid()}.tmp"),
        Path(team.directory, "tasks", "ready", "TASK-1", f"mine.{gone.pid}.tmp"),
    ]
    kept[1].parent.mkdir()
    for path in left + kept:
        path.write_text("half")
        path.chmod(0o600)
    unfinished = teams / ".creating-beta-00000000-0000-4000-8000-000000000001"
    unfinished.mkdir(mode=0o700)
    (unfinished / "ledger.db").write_text("")
    found = home.doctor()
    assert len(serious(found)) == 3 and "while team beta was made" in " ".join(serious(found))
    assert unfinished.exists()
    assert home.doctor(repair=True).healthy
    assert not any(path.exists() for path in [*left, unfinished]) and all(path.exists() for path in kept)
    assert home.teams() == ["alpha"]


def test_a_team_that_is_being_made_right_now_is_left_alone(home: Home, team: Team) -> None:
    slow = python(
        home.path,
        """
from interlock.storage.sqlite import catalog
create_schema = catalog.create_schema
def slow(*args):
    print("making", flush=True)
    sys.stdin.readline()
    create_schema(*args)
catalog.create_schema = slow
home.create_team("beta")
""",
    )
    assert slow.stdout is not None and slow.stdout.readline() == "making\n"
    assert home.doctor(repair=True).healthy
    slow.communicate("\n")
    assert slow.returncode == 0
    assert home.teams() == ["alpha", "beta"]


def test_the_socket_of_a_killed_waiter_is_swept(home: Home, team: Team) -> None:
    waiter = python(
        home.path,
        """
team = home.team("alpha")
with home._notifier.waiter("alpha", ["tasks"]):
    print("waiting", flush=True)
    sys.stdin.readline()
""",
    )
    assert waiter.stdout is not None and waiter.stdout.readline() == "waiting\n"
    assert home.doctor().findings == []
    waiter.kill()
    waiter.communicate()
    (finding,) = home.doctor().findings
    assert "left its socket" in finding.what and os.path.exists(finding.path)
    assert home.doctor(repair=True).healthy
    assert not os.path.exists(finding.path)


def test_permissions_are_closed_again(home: Home, team: Team) -> None:
    for path in (home.path, team.directory, team.directory + "/ledger.db", team.directory + "/config.json"):
        os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
    assert len(serious(home.doctor())) == 4
    assert home.doctor(repair=True).healthy
    assert home.doctor() == DoctorReport(True, [])
    assert os.stat(team.directory + "/ledger.db").st_mode & 0o777 == 0o600


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize("damage", ["text", "empty", "page"])
def test_a_damaged_ledger_is_a_finding_that_names_the_sound_backup(home: Home, team: Team, damage: str) -> None:
    ledger = Path(team.directory, "ledger.db")
    directory = Path(team.directory, "backups")
    directory.mkdir(mode=0o700)
    team._workspace.ledger.copy_to(str(directory / "sound.db"))  # type: ignore[attr-defined]
    (directory / "torn.db").write_bytes((directory / "sound.db").read_bytes()[:20_000])
    os.utime(directory / "sound.db", (1, 1))
    home.close()
    meddle(team, "PRAGMA wal_checkpoint(TRUNCATE)")
    if damage == "text":
        ledger.write_text("no database at all " * 1000)
    elif damage == "empty":
        ledger.write_bytes(b"")
    else:
        data = bytearray(ledger.read_bytes())
        for page in range(4096, len(data) - 4096, 4096):
            data[page + 8 : page + 200] = b"\xff" * 192
        ledger.write_bytes(data)
    before = ledger.read_bytes()
    for found in (home.doctor(), home.doctor("alpha", repair=True, adopt=True)):
        assert not found.healthy
        (said,) = serious(found)
        assert "sound.db" in said and "torn.db" not in said
        assert found.findings[0].path == str(ledger) and found.findings[0].team == "alpha"
    assert ledger.read_bytes() == before
    # What it says works.
    command, _, _ = said.split("`")[1].partition(" && interlock doctor")
    assert os.system(command) == 0
    (aside,) = Path(team.directory).glob("damaged-*")
    assert (aside / "ledger.db").read_bytes() == before
    home.close()
    assert home.doctor(repair=True).healthy
    assert home.team("alpha").task("001").owner == "bob"
    assert_files_agree(home.team("alpha"))


@pytest.mark.req("CORE-FR-003")
def test_a_ledger_of_a_newer_version_is_sound_and_no_backup_is_advised(home: Home, team: Team) -> None:
    directory = Path(team.directory, "backups")
    directory.mkdir(mode=0o700)
    team._workspace.ledger.copy_to(str(directory / "ledger-before-077.db"))  # type: ignore[attr-defined]
    home.close()
    meddle(team, "PRAGMA user_version=77")
    for found in (home.doctor(), home.doctor("alpha", repair=True, adopt=True)):
        (said,) = serious(found)
        assert "newer version of Interlock" in said and "Upgrade Interlock" in said
        assert "backup" not in said and "mv " not in said
    meddle(team, f"PRAGMA user_version={VERSION}")
    assert home.doctor().healthy
    assert home.team("alpha").task("001").owner == "bob"


def test_a_ledger_put_back_from_a_backup_has_its_files_written_again(home: Home, team: Team) -> None:
    team._workspace.ledger.copy_to(team.directory + "/older.db")  # type: ignore[attr-defined]
    lost = team.create_task("After the backup")
    home.close()
    meddle(team, "PRAGMA wal_checkpoint(TRUNCATE)")
    os.replace(team.directory + "/older.db", team.directory + "/ledger.db")
    again = home.team("alpha")
    found = again.doctor()
    assert not found.healthy and "replaced by an older one" in " ".join(serious(found))
    again.doctor(repair=True)
    assert lost.id not in [task.id for task in again.tasks()]
    again.create_task("Number four again")
    assert_files_agree(again)


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_ledger_put_back_from_a_backup_is_noticed_by_the_next_verb(home: Home, team: Team, more: int) -> None:
    team._workspace.ledger.copy_to(team.directory + "/older.db")  # type: ignore[attr-defined]
    lost = [team.create_task("After the backup"), team.create_task("And after that")]
    home.close()
    meddle(team, "PRAGMA wal_checkpoint(TRUNCATE)")
    os.replace(team.directory + "/older.db", team.directory + "/ledger.db")
    again = home.team("alpha")
    # As many events as the files show, fewer or more: what is counted is not what happened.
    again.configure({"mirror": False})
    for number in range(more):
        again.create_task(f"Number {number}")
    again.configure({"mirror": True})
    (event,) = [one for one in again.events()[0] if one.type == "ledger.restored"]
    assert event.actor == "interlock"
    made = again.create_task("The next")
    assert made.warnings == []
    shown = {path.stem for path in Path(team.directory).glob("tasks/*/*.md")}
    assert {task.id for task in again.tasks()} <= shown
    assert "replaced by an older one" not in " ".join(serious(home.doctor("alpha")))
    assert home.doctor("alpha", repair=True).healthy
    assert {one.id for one in lost} <= shown


def test_the_verb_that_notices_an_older_ledger_says_so(home: Home, team: Team) -> None:
    team._workspace.ledger.copy_to(team.directory + "/older.db")  # type: ignore[attr-defined]
    for number in range(9):
        team.create_task(f"Number {number}")
    home.close()
    meddle(team, "PRAGMA wal_checkpoint(TRUNCATE)")
    os.replace(team.directory + "/older.db", team.directory + "/ledger.db")
    again = home.team("alpha")
    assert again.create_task("The next").warnings == ["ledger_restored"]
    assert again.create_task("And the next").warnings == []


def test_a_link_or_a_file_in_the_way_is_named(team: Team, tmp_path: Path) -> None:
    path = Path(team.directory, "tasks", "ready")
    shutil.rmtree(path)
    path.symlink_to(tmp_path)
    found = team.doctor(repair=True)
    assert any("symbolic link" in what for what in unrepaired(found))
    assert list(tmp_path.glob("TASK*")) == []
    path.unlink()
    assert team.doctor(repair=True).healthy


def test_a_team_that_lost_its_ledger_is_named(home: Home, team: Team) -> None:
    home.close()
    for path in Path(team.directory).glob("ledger.db*"):
        path.unlink()
    assert "alpha has no ledger" in " ".join(serious(home.doctor(repair=True)))
    assert Path(team.directory, "config.json").exists()


def test_settings_that_cannot_be_read_are_a_finding(home: Home, team: Team) -> None:
    Path(home.path, "settings.json").write_text("{broken")
    assert "settings.json cannot be read" in " ".join(serious(home.doctor(repair=True)))


def test_a_schema_that_something_else_has_changed_is_a_finding(home: Home, team: Team) -> None:
    meddle(team, "ALTER TABLE tasks RENAME COLUMN rounds TO cycles")
    with pytest.raises(LedgerUnusable, match="not the one this version of Interlock expects"):
        team.tasks()
    with pytest.raises(LedgerUnusable, match="not the one this version of Interlock expects"):
        team.create_task("One more")
    for result in (home.doctor(), home.doctor("alpha"), team.doctor()):
        [finding] = [found for found in result.findings if found.level == "error"]
        assert "rounds" in finding.what and not result.healthy


def test_task_files_that_nobody_made_through_the_ledger_are_listed_and_left_alone(home: Home, team: Team) -> None:
    file = Path(team.directory, "tasks", "ready", "TASK-2020-01-01-001.md")
    file.write_text("mine")
    result = home.doctor(repair=True)
    assert result.healthy
    assert [found.path for found in result.findings] == [str(file)]
    assert file.read_text() == "mine"
