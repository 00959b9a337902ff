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
from interlock.runner import completion, merge_queue
from interlock.runner.executor import failed
from tests.behaviours.driving import ROOT, SHELL, Place
from tests.behaviours.repository import Repository
from tests.waiting import until

CHECK = """
import os, resource, threading
import anyio
from interlock.runner import verify

verify.ENDED_WITH_US = 0.1
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
    assert any("this machine is short of something" in text for text in heard), heard
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
        assert runner.hears("this machine is short of something: .*Too many open files")
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


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def test_what_a_machine_is_short_of_says_nothing_about_the_work() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    short = [
        full, MemoryError(), BlockingIOError(errno.EAGAIN, "fork"), RuntimeError("can't start new thread"),
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
