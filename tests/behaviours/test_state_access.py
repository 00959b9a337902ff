"""Many at once: what is read is whole, what is written is kept, and a lock is waited for (CORE-P1, TEAM-4)."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import SystemClock
from interlock.errors import ConfigParseError, InvalidRequest, LedgerBusy, LedgerUnusable
from interlock.storage.sqlite.ledger import COMMITS_PER_LOOK


def home_of(team: Team) -> Path:
    return Path(team.directory).parents[1]


class Noticing(SystemClock):
    """The machine's clock, that remembers how long it was asked to sleep and can act at the n-th sleep."""

    def __init__(self, at: int = 0, act: Callable[[], None] = lambda: None) -> None:
        self.sleeps: list[float] = []
        self._at = at
        self._act = act

    def monotonic(self) -> float:
        """Only what was slept counts: how slow the machine is does not."""
        return sum(self.sleeps)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if len(self.sleeps) == self._at:
            self._act()
        super().sleep(seconds)


@contextmanager
def locked(team: Team) -> Iterator[Callable[[], None]]:
    """Another connection holds the ledger's write lock; gives a function that lets go."""
    connection = sqlite3.connect(Path(team.directory) / "ledger.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")

    def let_go() -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    try:
        yield let_go
    finally:
        let_go()
        connection.close()


@pytest.mark.req("TEAM-4.2", "CORE-FR-001")
def test_a_locked_ledger_is_tried_again_with_growing_pauses_and_succeeds(
    team: Team, connect: Callable[..., Home]
) -> None:
    task = team.create_task("T1")
    with locked(team) as let_go:
        clock = Noticing(at=12, act=let_go)
        waiting = connect(clock=clock).team(team.name)
        assert waiting.claim(task.id, by="ada").owner == "ada"
    assert len(clock.sleeps) == 12, "it was free at the first try after that"
    first, later = sum(clock.sleeps[:2]), sum(clock.sleeps[4:6])
    assert later > 2 * first, f"the pauses grow: {clock.sleeps}"
    assert max(clock.sleeps) < 0.1, "and never become long"


@pytest.mark.req("TEAM-4.2")
def test_a_ledger_that_stays_locked_is_busy_and_nothing_was_changed(team: Team, connect: Callable[..., Home]) -> None:
    task = team.create_task("T1")
    head = team.events()[1]
    waiting = connect(settings={"busy_timeout": 0.1}).team(team.name)
    with locked(team):
        for verb in (lambda: waiting.claim(task.id, by="ada"), lambda: waiting.send("ada", to="bob", content="x")):
            with pytest.raises(LedgerBusy, match="nothing was changed") as refused:
                verb()
            assert refused.value.code == "ledger_busy" and refused.value.details["setting"] == "busy_timeout"
        assert waiting.task(task.id).state == "ready", "reading does not wait for a writer"
    assert team.events()[1] == head and team.task(task.id).owner is None
    assert waiting.claim(task.id, by="ada").owner == "ada"


@pytest.mark.req("CORE-P1.1")
def test_who_reads_right_after_a_write_sees_it_whole(team: Team, connect: Callable[..., Home]) -> None:
    elsewhere = connect().team(team.name)
    made: list[str] = []
    for number in range(20):
        task = team.create_task(f"task {number}", blocked_by=made[-1:])
        made.append(task.id)
        seen = elsewhere.task(task.id)
        assert seen.as_dict() == task.as_dict()
        assert (Path(team.directory) / "tasks" / seen.state / f"{task.id}.md").is_file()


@pytest.mark.long
@pytest.mark.req("CORE-SC.1", "CORE-P1.1", "CORE-FR-001", "CORE-FR-002")
def test_readers_of_files_and_ledger_never_see_half_a_change(
    team: Team, start: Callable[..., object], together: Callable[..., list[list[str]]]
) -> None:
    reader = start("read_files", home_of(team), team.name)
    assert reader.line() == "ready"  # type: ignore[attr-defined]
    reader.go()  # type: ignore[attr-defined]
    ids: list[str] = []
    for number in range(30):
        ids.append(team.create_task(f"task {number}", blocked_by=ids[-2:], body="x" * 2000).id)
    together("work", *[(home_of(team), team.name, member) for member in ("ada", "bob")])
    for number in range(5):
        team.spawn(f"m{number}")
    reader.go()  # type: ignore[attr-defined]
    (looks,) = reader.result()  # type: ignore[attr-defined]
    assert int(looks) > 3


@pytest.mark.req("CORE-P1.2", "CORE-SC.1", "CORE-FR-001")
def test_of_many_that_change_one_configuration_at_once_every_change_is_kept(
    team: Team, together: Callable[..., list[list[str]]]
) -> None:
    team.configure({"member_limit": 100})
    rounds = 8
    names = [lines[0] for lines in together("configure", *[(home_of(team), team.name, n, rounds) for n in range(1, 5)])]
    assert len(set(names)) == 4
    config = json.loads((Path(team.directory) / "config.json").read_text())
    assert {name: config["settings"][name] for name in names} == dict.fromkeys(names, 5000 + rounds)
    spawned = {f"m{n}-{value}" for n in range(1, 5) for value in range(1, rounds + 1)}
    assert {member["name"] for member in config["members"]} == {"lead", "ada", "bob"} | spawned
    kept = json.loads((home_of(team) / "settings.json").read_text())
    assert kept == dict.fromkeys(names, 6000 + rounds)


@pytest.mark.req("CORE-SC.1")
def test_opening_and_closing_at_once_never_meets_a_locked_ledger(
    team: Team, together: Callable[..., list[list[str]]]
) -> None:
    home = home_of(team)
    rounds = 12
    # The last one to close empties the log under an exclusive lock; whoever opens meanwhile has to wait for it.
    interlock_closed(team)
    together("brief", *[(home, team.name, rounds) for _ in range(4)])
    with_another = interlock.connect(str(home))
    assert len(with_another.team(team.name).tasks()) == 4 * rounds
    with_another.close()


def interlock_closed(team: Team) -> None:
    """Nobody in this process keeps the ledger open."""
    team._workspace.ledger.close()  # type: ignore[attr-defined]


@pytest.mark.req("CORE-FR-002", "CORE-EC.1")
def test_a_verb_that_fails_in_its_middle_changes_nothing(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlock.core.tasks import transition

    root = team.create_task("root")
    waiting = [team.create_task(f"task {n}", blocked_by=[root.id]).id for n in range(3)]
    team.claim(root.id, by="ada")
    head, before = team.events()[1], [task.as_dict() for task in team.tasks()]
    real, calls = transition.move, []

    def breaks(*arguments: object, **more: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError("the disk is on fire")
        real(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(transition, "move", breaks)
    with pytest.raises(OSError, match="fire"):
        team.complete(root.id, by="ada")
    monkeypatch.undo()
    assert team.events()[1] == head and [task.as_dict() for task in team.tasks()] == before
    assert team.complete(root.id, by="ada").state == "done"
    assert [team.task(id).state for id in waiting] == ["ready"] * 3


@pytest.mark.req("CORE-EC.1", "CORE-FR-002")
@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="needs a directory that refuses files")
def test_when_files_cannot_be_written_the_verb_stands_and_the_next_one_finishes_them(team: Team) -> None:
    directory = Path(team.directory) / "tasks"
    directory.mkdir(exist_ok=True)
    aside = directory.rename(directory.with_name("aside"))
    directory.write_text("a file where a directory has to be")
    task = team.create_task("T1")
    assert task.warnings == ["mirror_pending"]
    assert team.task(task.id).state == "ready", "the ledger is the truth"
    directory.unlink()
    aside.rename(directory)
    team.members()
    assert (directory / "ready" / f"{task.id}.md").is_file()
    assert not list(Path(team.directory).rglob("*.tmp"))
    assert team.create_task("T2").warnings == []


@pytest.mark.req("CORE-EC.1")
def test_a_home_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "teams").write_text("a file")
    home = interlock.connect(str(tmp_path))
    with pytest.raises(interlock.InterlockError) as refused:
        home.create_team("alpha-squad")
    assert refused.value.code == "storage_error"
    assert (tmp_path / "teams").read_text() == "a file"


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\x00" + b"\xff" * 500])
def test_a_ledger_that_is_none_is_refused_and_not_touched(home: Home, content: bytes) -> None:
    directory = Path(home.path) / "teams" / "alpha-squad"
    directory.mkdir(parents=True)
    (directory / "ledger.db").write_bytes(content)
    with pytest.raises(LedgerUnusable) as refused:
        home.team("alpha-squad").tasks()
    assert refused.value.code == "ledger_unusable"
    assert (directory / "ledger.db").read_bytes() == content


@pytest.mark.req("CORE-FR-003")
def test_a_ledger_of_a_newer_version_is_refused_and_not_touched(home: Home, connect: Callable[..., Home]) -> None:
    directory = Path(home.create_team("alpha-squad").directory)
    home.close()
    raw = sqlite3.connect(directory / "ledger.db")
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(LedgerUnusable, match="newer version"):
        connect().team("alpha-squad")


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize("settings", ["{", "[]", '{"busy_timeout": "long"}', '{"inbox_limit": -1}', "\xff"])
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, settings: str) -> None:
    (tmp_path / "settings.json").write_bytes(settings.encode("latin-1"))
    with pytest.raises((ConfigParseError, InvalidRequest)):
        interlock.connect(str(tmp_path)).create_team("alpha-squad").send(to="lead", content="hello")


@pytest.mark.req("CORE-FR-003")
def test_nothing_that_makes_no_sense_gets_into_the_configuration(home: Home, team: Team) -> None:
    before = (Path(team.directory) / "config.json").read_bytes()
    for changes in (
        {"claim_policy": "lax"}, {"task_limit": 0}, {"task_limit": "many"}, {"task_limit": 1.5}, {"mirror": "maybe"},
        {"no_such_setting": 1}, {"team_limit": 5}, {"claim_policy": None, "retries": -1},
    ):  # fmt: skip
        with pytest.raises(InvalidRequest):
            team.configure(changes)
    with pytest.raises(InvalidRequest):
        home.configure({"busy_timeout": "never"})
    assert (Path(team.directory) / "config.json").read_bytes() == before
    assert team.describe().team.settings == {}


@pytest.mark.req("CORE-FR-003")
def test_the_ledger_itself_refuses_rows_that_make_no_sense(team: Team) -> None:
    task = team.create_task("T1")
    raw = sqlite3.connect(Path(team.directory) / "ledger.db")
    for statement in (
        "UPDATE tasks SET state = 'paused'",
        "UPDATE tasks SET owner = 'ada'",
        "UPDATE tasks SET state = 'in-progress'",
        "UPDATE tasks SET priority = 9",
        "UPDATE tasks SET metadata = '{'",
        "UPDATE tasks SET open_blockers = -1",
        "UPDATE team SET open_tasks = -1",
        "UPDATE members SET unread = -1",
        "INSERT INTO messages (id, sender, recipient, type, content, timestamp, stage) "
        "VALUES ('m', 'a', 'b', 'c', 'd', 'e', 'lost')",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute(statement)
    raw.close()
    assert team.task(task.id).state == "ready"


@pytest.mark.req("CORE-FR-003")
def test_an_edited_task_file_changes_no_state(team: Team) -> None:
    task = team.create_task("T1")
    path = Path(team.directory) / "tasks" / "ready" / f"{task.id}.md"
    path.write_text(path.read_text().replace('state: "ready"', 'state: "done"'))
    assert team.task(task.id).state == "ready"
    team.claim(task.id, by="ada")
    kept = [one.name for one in path.parent.parent.rglob("*.edited-*.md")]
    assert len(kept) == 1, "what somebody wrote is not lost"


@pytest.mark.req("CORE-FR-003")
@pytest.mark.parametrize("changes", [{"task_limit": 7}, {"task_limit": "7"}, {"task_limit": 7.0}])
def test_settings_are_kept_as_what_they_mean(team: Team, home: Home, changes: dict[str, object]) -> None:
    assert team.configure(changes) == {"task_limit": 7}
    assert team.setting("task_limit") == (7, "team")
    home.configure(changes)
    assert {s.name: (s.value, s.source) for s in home.settings()}["task_limit"] == (7, "home")
    assert team.configure({"task_limit": None}) == {}
    assert team.setting("task_limit") == (7, "home"), "a team that is open already sees it"
    home.configure({"task_limit": None})
    assert team.setting("task_limit") == (1000, "default")


def test_the_environment_stays_above_what_is_configured(connect: Callable[..., Home]) -> None:
    home = connect(settings={"task_limit": 5})
    team = home.create_team("alpha-squad")
    home.configure({"task_limit": 7})
    assert team.setting("task_limit") == (5, "environment")


@pytest.mark.req("TEAM-4.5")
def test_the_write_ahead_log_stays_small_however_much_is_written(connect: Callable[..., Home]) -> None:
    limit = 65_536
    team = connect(settings={"wal_bytes": limit}).create_team("alpha-squad")
    team.spawn("ada")
    wal = Path(team.directory) / "ledger.db-wal"
    sizes = []
    for number in range(90):
        team.send(to="ada", content=f"{number} " + "x" * 20_000)
        sizes.append(wal.stat().st_size)
    one = 20_000 + 16 * 4096  # a message and the pages it touches
    assert max(sizes) <= limit + COMMITS_PER_LOOK * one, sizes
    assert sum(later < earlier for earlier, later in pairwise(sizes)) >= 3, "emptied again and again"
    assert (Path(team.directory) / "ledger.db").stat().st_size > 90 * 20_000


def test_the_size_of_the_log_is_looked_at_with_the_first_commit_of_a_process_and_then_with_every_sixteenth(
    team: Team, connect: Callable[..., Home]
) -> None:
    for _ in range(4):
        team.send(to="ada", content="x" * 20_000)
    other = connect(settings={"wal_bytes": 65_536}).team(team.name)
    wal = Path(team.directory) / "ledger.db-wal"
    emptied = []
    for number in range(1, 36):
        other.send(to="ada", content="x" * 20_000)
        emptied += [number] if wal.stat().st_size == 0 else []
    assert emptied == [1, 17, 33]


@pytest.mark.req("TEAM-4.5")
def test_a_reader_delays_the_emptying_of_the_log_and_never_a_writer(connect: Callable[..., Home]) -> None:
    team = connect(settings={"wal_bytes": 65_536}).create_team("alpha-squad")
    team.spawn("ada")
    wal = Path(team.directory) / "ledger.db-wal"
    with team._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
        seen = rows.events.since(0)
        for number in range(COMMITS_PER_LOOK + 4):
            team.send(to="ada", content=f"{number} " + "x" * 20_000)
        assert rows.events.since(0) == seen, "a snapshot is one moment"
    grown = wal.stat().st_size
    assert grown > 65_536
    for _ in range(COMMITS_PER_LOOK):
        team.send(to="ada", content="after the reader has gone")
    assert wal.stat().st_size < grown


@pytest.mark.req("TEAM-pool")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_connections_to_a_ledger_are_kept_and_used_again(home: Home, team: Team) -> None:
    def connections() -> int:
        opened = []
        for link in Path("/proc/self/fd").iterdir():
            try:
                opened.append(os.readlink(link))
            except FileNotFoundError:
                continue
        return opened.count(str(Path(team.directory) / "ledger.db"))

    team.create_task("warm up")
    team.tasks()
    before = connections()
    assert before >= 2, "one that writes, one that reads"
    for number in range(30):
        home.team(team.name).create_task(f"task {number}")
        home.team(team.name).acting("ada", session=f"s{number}").tasks()
    assert connections() == before
    for _ in range(4):
        threads = [threading.Thread(target=lambda: [team.tasks() for _ in range(20)]) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert connections() <= before + 6, "no more than were ever needed at one moment"
    home.close()
    assert connections() == 0
    assert len(home.team(team.name).tasks()) == 31


@pytest.mark.req("TEAM-state")
def test_the_state_of_the_team_is_told_to_the_lead(team: Team) -> None:
    one, two = team.create_task("One <b>", review="human"), team.create_task("Two")
    team.create_task("Three", blocked_by=[one.id])
    team.claim(two.id, by="bob")
    team.claim(one.id, by="ada")
    team.complete(one.id, by="ada")
    with team.acting("lead", session="s1").mail(inject=True) as mail:
        shown = mail.as_xml()
    assert shown.splitlines() == [
        "=== TEAM STATE ===", "Team: alpha-squad", "Status: active", "Members:",
        "- lead (Lead): idle", "- ada (Member): idle", f"- bob (Member): working, on {two.id}",
        "Task counts: in_progress 2, pending 1", "Open questions: 1",
        f"- {one.id}: Approve {one.id} (One &lt;b&gt;)?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("postgresql://me:secret@db/x", "is no address of a home. A database is named by INTERLOCK_LEDGER"),
        ("ftp://example.org/home", "is no address of a home. A server's begins with http:// or https://"),
        ("https:/example.org", "is no address of a home"),
        ("HTTP:///x", "is no address of a home"),
        ("a\0b", "must not contain NUL"),
    ],
)
def test_what_is_neither_an_address_nor_a_path_is_no_home(place: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        interlock.connect(place, environment={})
    assert "secret" not in refused.value.message
    with pytest.raises(InvalidRequest):
        interlock.connect(environment={"INTERLOCK_HOME": place})


def test_an_address_without_its_scheme_is_not_taken_for_this_machine(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"INTERLOCK_URL is '127\.0\.0\.1:8420'.* begins with http"):
        interlock.connect(environment={"INTERLOCK_URL": "127.0.0.1:8420", "INTERLOCK_HOME": str(tmp_path)})
