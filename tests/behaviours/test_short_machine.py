"""A machine that is short of space, memory, open files or processes: what it does not do now counts against no task."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.agents.session import Update
from interlock.errors import AgentError, CannotStart, GitFailed, NoCapacity, StorageError, is_short
from interlock.processes import room
from interlock.runner import completion, merge_queue, verify
from interlock.runner.executor import failed
from interlock.storage.away import goes_on
from tests.behaviours.driving import ROOT, SHELL, Place
from tests.behaviours.repository import Repository
from tests.waiting import until

CHECK = """
import os, resource, threading
import anyio
from interlock.storage.away import goes_on
from interlock.runner import verify

verify.ENDED_WITH_US = 0.1
goes_on.set(lambda: True)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
said = []

def hear(line):
    said.append(line)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)

async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), limit[1]))
    return await verify.run_check(
        "true", workdir="/", environment=dict(os.environ), timeout=60, output_bytes=1000, stop_grace=0.1, on_line=hear
    )

print(anyio.run(main).passed, *said)
"""


AGENTS = """
import os, resource, sys
import anyio
from interlock.agents.acp.agent import AcpAgent, LaunchSpec
from interlock.agents.command import CommandAgent
from interlock.agents.session import Opening
from interlock.errors import is_short

opening = Opening(
    session_id="s", member="ada", workdir="/", environment=dict(os.environ), log="", time_limit=9, stop_grace=1,
    output_bytes=1000,
)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

async def tried(agent):
    try:
        session = await agent.open(opening)
        return (await session.prompt("Work", print)).stop
    except Exception as error:
        return is_short(error)

async def main():
    for agent in (CommandAgent("any", ["true"]), AcpAgent("any", LaunchSpec(argv=("true",)))):
        before = os.listdir("/proc/self/fd")
        for more in range(12):
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + more, hard))
            found = await tried(agent)
            if found is not True:
                break
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        print(more, found, len(os.listdir("/proc/self/fd")) - len(before), flush=True)

anyio.run(main)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(merge_queue, "SHORT_PAUSE", 0.1)


@pytest.mark.long
def test_a_full_disk_under_the_repository_fails_no_task_and_no_merge(tmp_path: Path, disk: Path, quick: None) -> None:
    place, filler, go = Place(tmp_path), disk / "filler", tmp_path / "go"
    place.work = disk / "work"
    place.work.mkdir()
    Repository(place.work)
    heard: list[str] = []

    def hear(update: Update) -> None:
        heard.append(update.text)
        if update.text.strip() == "full":
            place.team.create_task("Something new", run="true")
        elif "No space left on device" in update.text and filler.exists():
            filler.unlink()
            go.touch()

    fill = f"cat /dev/zero > {filler} 2> /dev/null"
    run = f"echo made > made; {fill}; echo full; while [ ! -e {go} ]; do sleep 0.05; done"
    place.stage({"one": {"run": run}}, {"ada": SHELL, "bob": SHELL}, workdir=str(place.work), isolation="worktree")
    assert place.drive(on_update=hear) == "finished", heard
    assert any("could not go on" in text for text in heard), heard
    place.team.create_task("Fill it once more", run=f"echo more > more; {fill}; true")
    assert place.drive(on_update=hear) == "finished", heard
    assert any("it could not be merged" in text for text in heard), heard
    assert [(task.state, task.failures) for task in place.team.tasks()] == [("done", 0)] * 3, heard
    assert not place.team.status().needs_me
    place.home.close()


@pytest.mark.long
def test_a_runner_that_may_open_no_more_files_uses_up_no_attempt(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "prlimit"):
        pytest.skip("only Linux changes the limits of another process")
    place, go = Place(tmp_path), tmp_path / "go"
    Repository(place.work)
    waits = f"touch {tmp_path}/begun; while [ ! -e {go} ]; do sleep 0.05; done; echo made > made"
    tasks = {"one": {"run": waits, "verify": "test -s made"}}
    place.stage(tasks, {"ada": SHELL, "bob": SHELL}, isolation="worktree")
    with place.runner() as runner:
        until((tmp_path / "begun").exists)
        before = resource.prlimit(runner.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(runner.pid, resource.RLIMIT_NOFILE, (0, before[1]))
        new = place.team.create_task("Something new", run="true").id
        assert runner.hears("could not go on: .*Too many open files")
        resource.prlimit(runner.pid, resource.RLIMIT_NOFILE, before)
        go.touch()
        until(lambda: place.task("one").state == "done")
    task, [run] = place.team.task(new), place.team.runs(new)
    assert (task.state, task.failures, run.outcome) == ("ready", 0, "capacity")
    assert task.not_before is not None and place.task("one").run == 1
    place.home.close()


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at its own open files")
def test_a_check_waits_until_its_program_can_be_started() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.startswith("True [interlock: it waits, since this machine is short of something: "), done


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at its own open files")
def test_an_agent_that_cannot_be_started_now_leaves_no_file_open() -> None:
    done = subprocess.run([sys.executable, "-c", AGENTS], capture_output=True, text=True, cwd=ROOT, timeout=120)
    found = [line.split() for line in done.stdout.splitlines()]
    assert [(int(tries) > 1, left) for tries, _, left in found] == [(True, "0")] * 2, done


@pytest.mark.anyio
async def test_a_check_that_failed_on_a_full_disk_has_shown_nothing(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "ENDED_WITH_US", 0.0)
    goes_on.set(lambda: True)
    filler, heard = disk / "filler", []

    def hear(line: str) -> None:
        heard.append(line)
        if "it waits" in line:
            filler.unlink()
            (disk / "ok").touch()

    check = f"if [ ! -e ok ]; then cat /dev/zero > {filler}; exit 1; fi"
    how = {"environment": dict(os.environ), "timeout": 60.0, "output_bytes": 1000, "stop_grace": 0.1}
    assert (await verify.run_check(check, workdir=str(disk), on_line=hear, **how)).passed, heard
    (disk / "ok").unlink()
    goes_on.set(lambda: False)
    found = await verify.run_check(check, workdir=str(disk), **how)
    assert (found.passed, found.exit_code) == (False, 1), "a person at a terminal is told at once"


def test_what_fails_on_a_full_disk_is_tried_again(tmp_path: Path, disk: Path, quick: None) -> None:
    place, filler = Place(tmp_path), disk / "filler"
    place.work = disk
    full = f"if [ -e {filler} ]; then rm {filler}; else cat /dev/zero > {filler}; exit 1; fi"
    place.stage({"one": {"run": full}, "two": {"run": "exit 3", "retries": 0}}, workdir=str(disk))
    assert place.drive() == "finished"
    assert place.states() == {"one": "done", "two": "deadletter"}
    assert [run.outcome for run in place.team.runs(place.task("one").id)] == ["capacity", "done"]
    place.home.close()


def test_who_says_that_there_was_no_space_is_believed_where_there_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Error: ENOSPC: no space left on device, write"
    monkeypatch.setattr(room, "LITTLE_ROOM", 0)
    assert not room.lacked(said, str(tmp_path))
    monkeypatch.setattr(room, "LITTLE_ROOM", float("inf"))
    assert room.lacked(said, str(tmp_path)) and not room.lacked("Error: 3 tests failed", str(tmp_path))


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def test_what_a_machine_is_short_of_says_nothing_about_the_work() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    short = [
        full, MemoryError(), BlockingIOError(errno.EAGAIN, "fork"), RuntimeError("can't start new thread"),
        FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
        caused(StorageError("no log"), full), caused(NoCapacity("no program"), full),
        GitFailed("failed", git="error: unable to write file: No space left on device"),
    ]  # fmt: skip
    assert all(is_short(error) for error in short)
    assert {failed(error).status for error in short} == {"short"}
    other = [OSError(errno.EACCES, "no"), AgentError("no"), GitFailed("no", git="conflict"), RuntimeError("no"), None]
    assert not any(is_short(error) for error in other)
    assert failed(NoCapacity("none", retry_at=9.0)).retry_at == 9.0
    assert failed(CannotStart("none")).permanent and not failed(AgentError("none")).permanent
    assert failed(ValueError("odd")).detail == "an error in Interlock itself: ValueError: odd"
