"""The mirror: files that show the ledger, whatever happens to them and to the processes that write them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock, SystemClock
from interlock.core.unit_of_work import Principal
from interlock.errors import StorageError
from interlock.mirror.projector import Mirror
from interlock.mirror.render import body_of, task_file, with_work_log, without_work_log
from interlock.wakeup.inprocess import InProcessNotifier
from tests.behaviours.mirrored import assert_files_agree, finish, python


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = interlock.connect(str(tmp_path / "home"))
    yield home
    home.close()


@pytest.fixture
def team(home: Home) -> Team:
    team = home.create_team("alpha")
    team.spawn("bob")
    return team


def events(team: Team, type: str) -> list[dict[str, Any]]:
    return [event.payload for event in team.events()[0] if event.type == type]


def file_of(team: Team, task: Any) -> Path:
    return Path(team.directory, "tasks", team.task(task.id).state, f"{task.id}.md")


def inbox(team: Team, member: str) -> Path:
    return Path(team.directory, "inbox", member, "messages.jsonl")


# What is written


def test_a_task_moves_from_one_state_directory_to_the_next(team: Team) -> None:
    first = team.create_task("Write it")
    second = team.create_task("Test it", blocked_by=[first.id])
    assert file_of(team, second).parent.name == "backlog"
    team.claim(first.id, by="bob")
    assert_files_agree(team)
    team.complete(first.id, by="bob")
    assert_files_agree(team)
    assert file_of(team, first).parent.name == "done"
    assert file_of(team, second).parent.name == "ready"
    team.delete(second.id)
    assert_files_agree(team)


def test_a_blocker_that_is_retried_no_longer_shows_as_broken(team: Team) -> None:
    team.configure({"retries": 0})
    first = team.create_task("Write it")
    second = team.create_task("Test it", blocked_by=[first.id])
    workspace = team._workspace  # type: ignore[attr-defined]
    team.claim(first.id, by="bob")
    from interlock.core.tasks import finish as finishing
    from interlock.core.tasks.find import find
    from interlock.core.unit_of_work import Principal

    with workspace.act(Principal("bob")) as act:
        finishing.fail(act, find(act.rows, first.id), "broke")
    assert "which failed:" in file_of(team, second).read_text()
    team.retry(first.id)
    assert "which failed:" not in file_of(team, second).read_text()
    assert_files_agree(team)


def test_a_task_done_before_its_blocker_no_longer_shows_that_it_waits(team: Team) -> None:
    first, second = team.create_task("Write it"), team.create_task("Test it")
    team.claim(second.id, by="bob")
    team.depend(second.id, on=first.id)
    assert first.id in file_of(team, second).read_text()
    team.complete(second.id, by="bob")
    assert team.task(second.id).blocked_by == [] and team.task(first.id).blocks == []
    assert_files_agree(team)
    team.claim(first.id, by="bob")
    team.complete(first.id, by="bob")
    assert_files_agree(team)


@pytest.mark.parametrize("type", ["workflow.decided", "permission.answered"])
def test_an_event_that_changes_nothing_of_a_file_leaves_it_as_it_is(team: Team, type: str) -> None:
    task = team.create_task("one")
    file = file_of(team, task)
    before = file.stat()
    with team._workspace.act(Principal("human")) as act:  # type: ignore[attr-defined]
        act.event(type, task.id)
    assert file.stat() == before
    assert_files_agree(team)
    team.update(task.id, priority="high")
    assert file.stat().st_ino != before.st_ino and 'priority: "high"' in file.read_text()
    assert_files_agree(team)


def test_a_file_that_is_ahead_of_the_ledger_is_written_again(team: Team) -> None:
    task = team.create_task("one")
    file = file_of(team, task)
    before = file.read_bytes()
    file.write_bytes(task_file(team.task(task.id), [], 10**6))  # As after an older ledger was put back.
    with team._workspace.act(Principal("human")) as act:  # type: ignore[attr-defined]
        act.event("permission.answered", task.id)
    assert file.read_bytes() != before and b"ledger_seq: 1000000" not in file.read_bytes()
    assert_files_agree(team)


def test_everything_below_the_home_is_private(team: Team) -> None:
    team.create_task("Write it")
    team.send(to="bob", content="hello")
    team.claim("001", by="bob")
    for path in [Path(team.directory).parent.parent, *Path(team.directory).parent.parent.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_inbox_file_is_appended_to_while_nothing_in_it_was_delivered(team: Team) -> None:
    team.send(to="bob", content="one")
    before, inode = inbox(team, "bob").read_bytes(), inbox(team, "bob").stat().st_ino
    team.send(to="bob", content="two")
    after = inbox(team, "bob").read_bytes()
    assert after.startswith(before) and len(after.splitlines()) == 2
    assert inbox(team, "bob").stat().st_ino == inode
    assert_files_agree(team)


def test_an_inbox_file_is_gone_once_everything_was_handed_over(team: Team) -> None:
    team.send(to="bob", content="one")
    with team.mail(by="bob"):
        team.send(to="bob", content="came meanwhile")
        assert len(inbox(team, "bob").read_bytes().splitlines()) == 2
    assert [json.loads(line)["content"] for line in inbox(team, "bob").read_text().splitlines()] == ["came meanwhile"]
    assert_files_agree(team)
    team.read(by="bob")
    assert not inbox(team, "bob").exists()
    assert_files_agree(team)


def test_mail_that_is_offered_again_is_back_in_the_file_and_marked(team: Team) -> None:
    team.send(to="bob", content="one")
    for _ in range(2):
        with pytest.raises(BrokenPipeError), team.mail(by="bob"):
            raise BrokenPipeError
    assert [json.loads(line)["redelivered"] for line in inbox(team, "bob").read_text().splitlines()] == [True]
    assert_files_agree(team)


def test_the_inbox_of_a_removed_member_goes_but_not_what_others_laid_there(team: Team) -> None:
    team.send(to="bob", content="one")
    team.spawn("eve")
    team.send(to="eve", content="one")
    notes = inbox(team, "eve").with_name("notes.txt")
    notes.write_text("mine")
    team.remove("bob")
    team.remove("eve")
    assert not inbox(team, "bob").parent.exists()
    assert not inbox(team, "eve").exists() and notes.read_text() == "mine"
    assert_files_agree(team)


def test_a_member_of_the_same_name_finds_the_mail_that_was_left(team: Team) -> None:
    team.send(to="bob", content="one")
    team.remove("bob")
    team.spawn("bob")
    assert_files_agree(team)
    assert [message.content for message in team.read(by="bob")] == ["one"]
    assert_files_agree(team)


def test_the_files_of_an_earlier_run_lie_in_attempts(team: Team) -> None:
    task = team.create_task("Write it")
    runs = Path(team.directory, "runs", task.id)
    team.claim(task.id, by="bob")
    team.heartbeat(task.id, by="bob")
    result = runs / "run_result.json"
    result.write_text('{"outcome": "partial"}')
    team.release(task.id, by="bob")
    team.claim(task.id, by="bob")
    assert json.loads((runs / "run.json").read_text())["run"] == 2
    assert not (runs / "run_heartbeat.json").exists() and not result.exists()
    first = runs / "attempts" / "1"
    assert json.loads((first / "run.json").read_text())["metadata"]["outcome"] == "released"
    assert json.loads((first / "run_heartbeat.json").read_text())["beatCount"] == 1
    assert json.loads((first / "run_result.json").read_text()) == {"outcome": "partial"}
    assert_files_agree(team)
    team.acting("bob", session="another").claim(task.id, take_over=True)
    second = json.loads((runs / "attempts" / "2" / "run.json").read_text())
    assert second["metadata"]["outcome"] == "superseded"
    assert_files_agree(team)


def test_a_pass_killed_while_it_set_a_run_aside_is_done_again(team: Team) -> None:
    task = team.create_task("Write it")
    runs = Path(team.directory, "runs", task.id)
    team.claim(task.id, by="bob")
    team.heartbeat(task.id, by="bob")
    team.release(task.id, by="bob")
    position = Path(team.directory, ".mirror.position").read_bytes()
    heartbeat, run = (runs / "run_heartbeat.json").read_bytes(), (runs / "run.json").read_bytes()
    team.claim(task.id, by="bob")
    # As if only the heartbeat had been moved, and nothing else done.
    (runs / "run.json").write_bytes(run)
    (runs / "run_heartbeat.json").write_bytes(heartbeat)
    (runs / "attempts/1/run.json").unlink()
    Path(team.directory, ".mirror.position").write_bytes(position)
    assert_files_agree(team)
    assert not (runs / "run_heartbeat.json").exists()


# What others wrote


def test_an_edited_task_file_is_kept_before_it_is_written_again(team: Team) -> None:
    task = team.create_task("Write it", body="As it was.")
    file = file_of(team, task)
    edited = file.read_text().replace("As it was.", "As I want it.")
    file.write_text(edited)
    team.update(task.id, log="something else happens")
    (kept,) = file.parent.glob(f"{task.id}.edited-*.md")
    assert kept.read_text() == edited
    assert "As it was." in file.read_text()
    assert events(team, "mirror.conflict") == [{"path": str(file), "kept": str(kept)}]
    assert_files_agree(team)


def test_the_mirror_only_reads_the_ledger_and_returns_what_it_found_edited(team: Team) -> None:
    class ReadOnly:
        snapshot = team._workspace.ledger.snapshot  # type: ignore[attr-defined]

    task = team.create_task("Write it")
    file = file_of(team, task)
    file.write_text("my own words")
    problems, (edited,) = Mirror(team.directory, ReadOnly(), SystemClock()).rebuild()  # type: ignore[arg-type]
    assert problems == [] and edited.path == str(file) and edited.task_id == task.id
    assert Path(edited.kept).read_text() == "my own words"


def test_an_edited_file_of_the_old_state_is_kept_beside_the_new_one(team: Team) -> None:
    task = team.create_task("Write it")
    file = file_of(team, task)
    file.write_text("my own words")
    team.claim(task.id, by="bob")
    assert not file.exists()
    (kept,) = file_of(team, task).parent.glob(f"{task.id}.edited-*.md")
    assert kept.read_text() == "my own words"


@pytest.mark.parametrize("name", ["config.json", "runs/{id}/run.json", "runs/{id}/run_heartbeat.json"])
def test_other_edited_files_are_kept_as_well(team: Team, name: str) -> None:
    task = team.create_task("Write it")
    team.claim(task.id, by="bob")
    team.heartbeat(task.id, by="bob")
    file = Path(team.directory, name.format(id=task.id))
    file.write_text(file.read_text().replace("bob", "me!"))
    text = file.read_text()
    team.heartbeat(task.id, by="bob")
    team.spawn("eve")
    (kept,) = file.parent.glob(f"{file.stem}.edited-*.json")
    assert kept.read_text() == text
    assert "me!" not in file.read_text()
    assert_files_agree(team)


def test_an_inbox_file_that_others_wrote_into_is_kept(team: Team) -> None:
    team.send(to="bob", content="one")
    with inbox(team, "bob").open("a") as file:
        file.write("not a message\n")
    team.send(to="bob", content="two")
    assert len(inbox(team, "bob").read_text().splitlines()) == 2
    (kept,) = inbox(team, "bob").parent.glob("messages.edited-*.jsonl")
    assert kept.read_text().endswith("not a message\n")
    assert_files_agree(team)


def test_foreign_files_stay_and_a_companion_directory_travels_with_its_task(team: Team) -> None:
    task = team.create_task("Write it")
    base = Path(team.directory, "tasks")
    (base / "ready" / "notes.txt").write_text("mine")
    (base / "ready" / "TASK-1999-01-01-001.md").write_text("no task of this team")
    companion = base / "ready" / task.id / "inputs"
    companion.mkdir(parents=True)
    (companion / "handoff.json").write_text("{}")
    team.claim(task.id, by="bob")
    assert (base / "in-progress" / task.id / "inputs" / "handoff.json").read_text() == "{}"
    # On the way back something lies there already: neither is lost.
    (base / "ready" / task.id).mkdir()
    (base / "ready" / task.id / "other.txt").write_text("mine")
    team.release(task.id, by="bob")
    assert (base / "ready" / task.id / "inputs" / "handoff.json").exists()
    assert (base / "ready" / task.id / "other.txt").read_text() == "mine"
    assert (base / "ready" / "notes.txt").read_text() == "mine"
    assert (base / "ready" / "TASK-1999-01-01-001.md").read_text() == "no task of this team"


# Faults


def occupy_with_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)


def occupy_with_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.parent.parent / "elsewhere")


def occupy_with_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


@pytest.mark.req("CORE-EC.1", "CORE-FR-002")
@pytest.mark.parametrize("occupy", [occupy_with_directory, occupy_with_link, occupy_with_fifo])
@pytest.mark.parametrize("name", ["tasks/in-progress/{id}.md", "runs/{id}/run.json", ".mirror.position"])
def test_what_lies_in_the_way_makes_files_wait_and_the_commit_stands(team: Team, name: str, occupy: Any) -> None:
    task = team.create_task("Write it")
    path = Path(team.directory, name.format(id=task.id))
    occupy(path)
    claimed = team.claim(task.id, by="bob")
    assert claimed.warnings == ["mirror_pending"]
    assert claimed.owner == "bob"
    assert team.task(task.id).state == "in-progress"
    assert team.create_task("Another").warnings == ["mirror_pending"]
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    team.task(task.id)  # a read finishes it
    assert_files_agree(team)
    assert team.create_task("A third").warnings == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda home, task: home.locate(task),
        lambda home, task: home.task_groups(),
        lambda home, task: home.group_tasks("s1", project="alpha"),
    ],
)
def test_a_read_of_the_home_finishes_what_a_team_owes(
    home: Home, team: Team, ask: Callable[[Home, str], object]
) -> None:
    task = home.chat("alpha", "Fix the parser", session_id="s1").task_id
    path = Path(team.directory, "tasks", "in-progress", f"{task}.md")
    occupy_with_directory(path)
    assert team.claim(task, by="bob").warnings == ["mirror_pending"]
    path.rmdir()
    ask(home, task)
    assert_files_agree(team)


@pytest.mark.req("CORE-EC.1")
def test_a_file_where_a_directory_should_be_makes_files_wait(team: Team) -> None:
    team.create_task("Write it")
    blocking = Path(team.directory, "tasks", "in-progress")
    blocking.write_text("in the way")
    assert team.claim("001", by="bob").warnings == ["mirror_pending"]
    assert blocking.read_text() == "in the way"
    blocking.unlink()
    assert_files_agree(team)


@pytest.mark.parametrize("name", ["tasks", "tasks/in-progress", "inbox", "inbox/bob", "runs"])
def test_a_link_inside_the_team_never_leads_a_write_outside(team: Team, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = Path(team.directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(outside)
    team.create_task("Write it")
    assert team.claim("001", by="bob").state == "in-progress"
    team.send(to="bob", content="hello")
    assert list(outside.iterdir()) == []
    path.unlink()
    assert_files_agree(team)


def test_a_second_name_of_an_inbox_file_is_not_written_through(team: Team, tmp_path: Path) -> None:
    team.send(to="bob", content="one")
    outside = tmp_path / "outside.jsonl"
    os.link(inbox(team, "bob"), outside)
    before = outside.read_bytes()
    team.send(to="bob", content="two")
    assert outside.read_bytes() == before
    assert_files_agree(team)


@pytest.mark.parametrize(
    "content", [b"", b'{"seq": 7, "inb', b"[]", b'{"seq": 1, "owed": null, "inboxes": {}}', b"\xff"]
)
def test_a_torn_position_has_everything_written_again(team: Team, content: bytes) -> None:
    team.create_task("Write it")
    team.send(to="bob", content="hello")
    Path(team.directory, "tasks", "ready", "TASK-1999-01-01-001.md").write_text("foreign")
    file_of(team, team.task("001")).unlink()
    Path(team.directory, ".mirror.position").write_bytes(content)
    team.task("001")
    Path(team.directory, "tasks", "ready", "TASK-1999-01-01-001.md").unlink()
    assert_files_agree(team)


@pytest.mark.long
def test_after_a_long_time_without_the_mirror_it_catches_up_in_portions(team: Team) -> None:
    team.configure({"mirror": False, "task_limit": 5000})
    for number in range(700):
        team.create_task(f"Number {number}")
        if number % 2:
            team.claim(f"{number + 1:03d}", by="bob")
    assert not list(Path(team.directory).glob("tasks/*/*.md"))
    team.configure({"mirror": True})
    assert_files_agree(team)


@pytest.mark.req("CORE-FR-001")
def test_a_stopped_process_that_holds_the_lock_delays_others_only_so_long(team: Team, home: Home) -> None:
    holder = python(
        home.path,
        f"""
import fcntl, signal
lock = os.open({str(Path(team.directory, ".mirror.lock"))!r}, os.O_WRONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    started = time.monotonic()
    assert team.create_task("Write it").warnings == ["mirror_pending"]
    assert team.task("001").subject == "Write it"
    assert time.monotonic() - started < 60
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert_files_agree(team)


def test_a_process_that_stopped_with_the_lock_stalls_no_reader(team: Team, home: Home) -> None:
    task = team.create_task("Write it")
    lock = Path(team.directory, ".mirror.lock")
    holder = python(
        home.path,
        f"""
import fcntl, signal
lock = os.open({str(lock)!r}, os.O_WRONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    os.utime(lock, (time.time() - 60, time.time() - 60))
    clock = ManualClock()
    elsewhere = interlock.connect(home.path, clock=clock)
    other = elsewhere.team("alpha")
    assert other.create_task("Test it").warnings == ["mirror_pending"]
    assert [one.subject for one in other.tasks()] == ["Write it", "Test it"]
    assert other.task(task.id).subject == "Write it"
    assert clock.monotonic() < 1, "of the 6 s that three verbs would have waited"
    elsewhere.close()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert_files_agree(team)


@pytest.mark.req("CORE-FR-002")
def test_a_process_killed_before_it_wrote_a_file_has_not_noted_it_as_written(team: Team, home: Home) -> None:
    process = python(
        home.path,
        """
import signal
from interlock.storage.files import Tree
replace = Tree.replace
def killed(tree, path, data):
    if path.startswith("tasks/"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(tree, path, data)
Tree.replace = killed
home.team("alpha").create_task("Write it")
""",
    )
    process.communicate(timeout=200)
    assert process.returncode == -signal.SIGKILL
    assert [task.subject for task in team.tasks()] == ["Write it"]
    assert_files_agree(team)


class Looking(InProcessNotifier):
    """Looks at the ledger over a connection of its own whenever it is told of a change."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._ledger = f"{directory}/ledger.db"
        self.seen: list[int] = []

    def notify(self, team: str, topics: Collection[str]) -> None:
        connection = sqlite3.connect(self._ledger)
        self.seen.append(connection.execute("SELECT max(seq) FROM events").fetchone()[0])
        connection.close()
        super().notify(team, topics)


def test_whoever_is_woken_finds_the_change_in_the_ledger(team: Team, home: Home) -> None:
    notifier = Looking(team.directory)
    elsewhere = interlock.connect(home.path, notifier=notifier)
    other = elsewhere.team("alpha")
    for verb in (lambda: other.create_task("Write it"), lambda: other.send(to="bob", content="hello")):
        notifier.seen.clear()
        verb()
        assert set(notifier.seen) == {other.events()[1]}
    elsewhere.close()


def test_a_lock_file_that_was_removed_and_made_anew_still_excludes(team: Team) -> None:
    path = Path(team.directory, ".mirror.lock")
    old = os.open(path, os.O_WRONLY)
    fcntl.flock(old, fcntl.LOCK_EX)
    path.unlink()
    assert team.create_task("Write it").warnings == []
    os.close(old)
    assert_files_agree(team)


LIMITED = """
import resource, signal
from interlock.errors import StorageError
team = home.team("alpha")
team.task("001")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.req("CORE-EC.1", "CORE-FR-002")
def test_a_file_system_that_takes_no_more_for_the_files_leaves_the_commit_standing(team: Team, home: Home) -> None:
    task = team.create_task("Write it", body="x" * 9000)
    # The ledger's log is larger than the limit already and is only written below its end after a checkpoint.
    script = (
        LIMITED
        + """
import sqlite3
sqlite3.connect(team.directory + "/ledger.db").execute("PRAGMA wal_checkpoint(TRUNCATE)")
"""
    )
    process = python(
        home.path,
        script
        + """
files = __import__("interlock.storage.files").storage.files
write = files._write_all
def full(descriptor, data):
    import errno
    os.write(descriptor, data[: len(data) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")
files._write_all = full
print(team.claim("001", by="bob").warnings, flush=True)
print(team.send(to="bob", content="hello").id, flush=True)
""",
    )
    out, _ = process.communicate("\n", timeout=200)
    assert "['mirror_pending']" in out
    assert not list(Path(team.directory).rglob("*.tmp"))
    assert team.task(task.id).owner == "bob"
    assert_files_agree(team)


@pytest.mark.req("CORE-EC.1")
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the size of files that SQLite meets")
def test_a_ledger_that_cannot_grow_refuses_and_changes_nothing(team: Team, home: Home) -> None:
    team.create_task("Write it")
    before = team.events()[0]
    process = python(
        home.path,
        LIMITED
        + """
size = os.stat(team.directory + "/ledger.db-wal").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
refused = 0
for number in range(40):
    try:
        team.send(to="bob", content="x" * 50_000)
    except StorageError as error:
        assert error.code == "storage_error" and "Nothing was changed" in error.message
        refused += 1
seen = len(team.events()[0])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(refused, len(team.read(by="bob")), flush=True)
team.send(to="bob", content="again")
""",
    )
    out, _ = process.communicate("\n", timeout=200)
    assert process.returncode == 0
    refused, arrived = out.split("\n")[1].split()
    assert int(refused) > 0 and int(refused) + int(arrived) == 40
    assert [message.content for message in team.read(by="bob")] == ["again"]
    assert [event.seq for event in team.events()[0]] == list(range(1, team.events()[1] + 1))
    assert team._workspace.ledger.check() == []  # type: ignore[attr-defined]
    assert team.events()[0][: len(before)] == before
    assert_files_agree(team)


@pytest.mark.req("CORE-EC.1", "CORE-FR-002")
def test_on_a_full_disk_every_verb_is_whole_or_refused_and_files_follow_later(disk: Path) -> None:
    home = interlock.connect(str(disk / "home"))
    team = home.create_team("alpha")
    team.spawn("bob")
    filler = disk / "filler"
    accepted, refused = [], 0
    with filler.open("wb", buffering=0) as file:
        for size in (100_000, 4096, 100):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
        file.truncate(filler.stat().st_size - 600_000)
    for number in range(60):
        try:
            task = team.create_task(f"Number {number}", body="y" * 5000)
        except StorageError:
            refused += 1
        else:
            accepted.append(task.id)
            file_exists = Path(team.directory, "tasks", "ready", f"{task.id}.md").exists()
            assert file_exists == (task.warnings == [])
    assert refused and accepted
    filler.unlink()
    assert [task.id for task in team.tasks()] == accepted
    assert_files_agree(team)
    assert team._workspace.ledger.check() == []  # type: ignore[attr-defined]
    home.close()


# Many writers


WORKER = """
import random
from interlock.errors import InterlockError
team = home.team("alpha")
random.seed(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for step in range(int(sys.argv[2])):
    me = "m" + sys.argv[1]
    try:
        choice = random.randrange(7)
        if choice == 0:
            team.create_task(f"{me} {step}")
        elif choice == 1:
            team.next_task(by=me)
        elif choice == 2:
            held = [task for task in team.tasks(status="in_progress") if task.owner == me]
            if held:
                random.choice([team.release, team.complete])(held[0].id, by=me)
        elif choice == 3:
            team.send(me, to=random.choice(["lead", "m0", "m1", "m2"]), content=f"{me} {step}")
        elif choice == 4:
            team.read(by=me)
        elif choice == 5:
            team.configure({"parallel": random.randrange(1, 50)})
        else:
            seen = team.create_task(f"{me} {step}", by=me)
            assert team.task(seen.id).subject == f"{me} {step}"
    except InterlockError as error:
        print(error.code, flush=True)
"""


@pytest.mark.req("CORE-FR-001", "CORE-FR-002", "CORE-SC.1", "CORE-P1.1", "CORE-P1.2")
def test_files_converge_whoever_writes_at_the_same_time(home: Home, team: Team) -> None:
    for number in range(3):
        team.spawn(f"m{number}")
    workers = [python(home.path, WORKER, number, 60) for number in range(3)]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    torn = 0
    while any(worker.poll() is None for worker in workers):
        for path in Path(team.directory).glob("tasks/*/*.md"):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            torn += not interlock_wrote(data)
        json.loads(Path(team.directory, "config.json").read_text())
    for worker in workers:
        finish(worker)
    assert torn == 0
    assert_files_agree(team)
    assert events(team, "mirror.conflict") == []


def interlock_wrote(data: bytes) -> bool:
    from interlock.mirror.render import is_ours

    return is_ours(data)


@pytest.mark.storm
@pytest.mark.timeout(1800)
def test_twenty_thousand_tasks_are_rebuilt_in_bounded_memory(home: Home, team: Team) -> None:
    team.configure({"task_limit": 30_000, "mirror": False})
    from interlock.core.tasks.create import create
    from interlock.core.unit_of_work import Principal

    workspace = team._workspace  # type: ignore[attr-defined]
    with workspace.act(Principal()) as act:
        for number in range(20_000):
            create(act, f"Number {number}", body="body " * 20)
    script = """
import resource
team = home.team("alpha")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert team._workspace.rebuild_mirror() == []
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    kilobytes = int(finish(python(home.path, script), 1200))
    assert len(list(Path(team.directory).glob("tasks/ready/*.md"))) == 20_000
    assert kilobytes < 60_000


# Rendering


TEXT = st.text(st.sampled_from("ab #-\n:Work Log"), max_size=60)


@given(TEXT, st.lists(st.tuples(st.just("2026-11-21T00:00:00.000Z"), st.just("bob"), TEXT), max_size=3))
def test_a_body_comes_back_from_its_file_as_it_was_shown(body: str, log: list[tuple[str, str, str]]) -> None:
    from interlock.mirror.render import log_entries

    entries = log_entries(log)
    shown = with_work_log(body, entries)
    again = without_work_log(shown, entries)
    assert with_work_log(again, entries) == shown
    assert shown.count("\n## Work Log\n") <= 1 or body.count("## Work Log") > 1


def test_a_body_with_frontmatter_lines_of_its_own_survives_the_file(team: Team) -> None:
    body = "---\nsubject: forged\n---\n\n## Work Log\n\nmine\n\n## After\n\nmore"
    task = team.create_task("Plain", body=body)
    team.update(task.id, log="line one\nline two")
    log = team.work_log(task.id)
    fields, again = body_of(file_of(team, task).read_bytes(), log)
    assert fields["subject"] == "Plain"
    assert with_work_log(again, []) == body
    assert task_file(team.task(task.id), log, 1) == task_file(team.task(task.id), log, 1)
