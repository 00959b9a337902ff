"""A disk that is full, read-only, closed by its modes, or that fails: what is said is the true cause, and no more."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.doctor import DoctorFinding, DoctorReport
from interlock.errors import StorageError
from interlock.surfaces.http.failures import status_of
from tests.behaviours.driving import Place
from tests.behaviours.mirrored import assert_files_agree, python
from tests.waiting import until

FAILING_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file FAIL_SYNC holds how many syncs of a ledger still fail: 0 none, -1 all. */
static int fails(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, "ledger.db")) return 0;
    const char *name = getenv("FAIL_SYNC");
    FILE *file = name ? fopen(name, "r+") : NULL;
    if (!file) return 0;
    int left = 0;
    if (fscanf(file, "%d", &left) != 1) left = 0;
    if (left > 0) { rewind(file); fprintf(file, "%-8d", left - 1); }
    fclose(file);
    return left != 0;
}
int fsync(int fd) {
    if (fails(fd)) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    if (fails(fd)) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""
VERBS = """
import json
from interlock.errors import InterlockError
team = home.team("alpha")
def fail(syncs):
    with open(os.environ["FAIL_SYNC"], "w") as file:
        file.write(str(syncs))
def tried(verb):
    try:
        return verb() and None
    except InterlockError as error:
        return error.as_dict()
def subjects():
    return [task.subject for task in team.tasks()]
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = interlock.connect(str(tmp_path / "home"))
    yield home
    home.close()


@pytest.fixture
def team(home: Home) -> Team:
    team = home.create_team("alpha")
    team.create_task("Write it")
    return team


@pytest.fixture
def on_failing_disk(tmp_path: Path) -> Callable[[str, str], Any]:
    """Carries out a script in a process whose syncs of the ledger fail as the script says; answers what it printed."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs a C compiler and LD_PRELOAD to make fsync fail")
    source, shim, control = tmp_path / "shim.c", tmp_path / "shim.so", tmp_path / "fail"
    source.write_text(FAILING_SYNC)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True)
    control.write_text("0")

    def carried_out(home: str, script: str) -> Any:
        start = f"import os, sys, interlock\nhome = interlock.connect({home!r})\n"
        done = subprocess.run(
            [sys.executable, "-c", start + VERBS + script], stdout=subprocess.PIPE, text=True, timeout=120,
            env={**os.environ, "LD_PRELOAD": str(shim), "FAIL_SYNC": str(control), "INTERLOCK_BUSY_TIMEOUT": "60"},
        )  # fmt: skip
        return json.loads(done.stdout)

    return carried_out


def command(home: str, *words: str) -> dict[str, Any]:
    """What a command answers, carried out by somebody for whom modes count."""
    done = subprocess.run(
        [sys.executable, "-m", "interlock", *words, "--json"], text=True, preexec_fn=bound_by_modes, timeout=120,
        capture_output=True, env={**os.environ, "INTERLOCK_HOME": home, "INTERLOCK_TEAM": "alpha"},
    )  # fmt: skip
    return json.loads(done.stdout or done.stderr)  # type: ignore[no-any-return]


def bound_by_modes() -> None:
    if os.getuid() == 0 and sys.platform == "linux":
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def serious(result: DoctorReport | dict[str, Any]) -> list[str]:
    told = [DoctorFinding(**one) for one in result["findings"]] if isinstance(result, dict) else result.findings
    return [found.what for found in told if found.level != "info" and not found.repaired]


def keep_a_backup(team: Team) -> None:
    """Something that could be put back, so that nobody advises it only for want of one."""
    directory = Path(team.directory, "backups")
    directory.mkdir(mode=0o700)
    team._workspace.ledger.copy_to(str(directory / "sound.db"))  # type: ignore[attr-defined]


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (100_000, 4096, 100):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return filler


@pytest.mark.req("CORE-EC.1")
def test_a_ledger_is_read_on_a_disk_that_was_full_before_it_was_opened(disk: Path) -> None:
    home = interlock.connect(str(disk / "home"))
    team = home.create_team("alpha")
    team.create_task("Write it")
    keep_a_backup(team)
    home.close()
    filler = fill(disk)
    assert [task.subject for task in team.tasks()] == ["Write it"]
    assert [task["subject"] for task in command(home.path, "task", "list")["tasks"]] == ["Write it"]
    with pytest.raises(StorageError, match=r"the disk is full. Nothing was changed"):
        team.create_task("Too much")
    for said in (command(home.path, "task", "create", "Too much")["message"], *serious(home.doctor(repair=True))):
        assert "full" in said or "bytes free" in said
        assert "backup" not in said
    filler.unlink()
    assert home.doctor().healthy
    team.create_task("Test it")
    assert [task.subject for task in team.tasks()] == ["Write it", "Test it"]
    home.close()


@pytest.mark.long
def test_what_agents_did_while_the_disk_was_full_counts_once_there_is_space(tmp_path: Path, disk: Path) -> None:
    place, go = Place(tmp_path), tmp_path / "go"
    place.home = interlock.connect(str(disk / "home"))
    waits = f"touch {tmp_path}/begun; while [ ! -e {go} ]; do sleep 0.05; done; echo made > made"
    place.stage({"one": {"run": waits, "verify": "test -s made"}, "two": {"run": "true", "blocked_by": ["one"]}})
    with place.runner() as runner:
        until((tmp_path / "begun").exists)
        filler = fill(disk)
        go.touch()
        assert runner.hears("it waits for the ledger: .*the disk is full")
        filler.unlink()
        assert runner.hears("ended: finished")
    task = place.task("one")
    assert (task.state, task.run, task.failures, place.task("two").state) == ("done", 1, 0, "done")
    place.home.close()


@pytest.mark.req("CORE-EC.1")
def test_a_ledger_is_read_on_a_disk_that_cannot_be_written(disk: Path) -> None:
    home = interlock.connect(str(disk / "home"))
    team = home.create_team("alpha")
    team.create_task("Write it")
    keep_a_backup(team)
    home.close()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert [task.subject for task in team.tasks()] == ["Write it"]
    assert [task["subject"] for task in command(home.path, "task", "list")["tasks"]] == ["Write it"]
    with pytest.raises(StorageError, match=r"is read-only. Nothing was changed"):
        team.create_task("Too much")
    for said in (command(home.path, "task", "create", "Too much")["message"], *serious(home.doctor(repair=True))):
        assert "read-only" in said and "backup" not in said
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    team.create_task("Test it")
    assert [task.subject for task in team.tasks()] == ["Write it", "Test it"]
    assert home.doctor().healthy
    home.close()


@pytest.mark.long
@pytest.mark.req("CORE-EC.1")
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_ledger_that_may_not_be_opened_is_not_called_damaged(home: Home, team: Team, mode: int) -> None:
    keep_a_backup(team)
    home.close()
    ledger = Path(team.directory, "ledger.db")
    ledger.chmod(mode)
    said = command(home.path, "task", "create", "Too much")
    assert said["error"] == "storage_error" and f"mode {mode:04o}" in said["message"]
    found = serious(command(home.path, "doctor"))
    assert any(f"(mode {mode:04o})" in what for what in found)
    assert "backup" not in " ".join(found)
    assert serious(command(home.path, "doctor", "--repair")) == []
    assert command(home.path, "task", "create", "Test it")["subject"] == "Test it"
    assert [task.subject for task in team.tasks()] == ["Write it", "Test it"]


@pytest.mark.long
@pytest.mark.req("CORE-EC.1")
def test_a_log_that_kept_the_mode_of_a_closed_ledger_is_found_and_repaired(home: Home, team: Team) -> None:
    for name in ("ledger.db-wal", "ledger.db-shm"):
        Path(team.directory, name).chmod(0o400)
    assert command(home.path, "task", "create", "Too much")["error"] == "storage_error"
    found = serious(command(home.path, "doctor"))
    assert sum("Its owner may not read and write it (mode 0400)" in what for what in found) == 2
    assert serious(command(home.path, "doctor", "--repair")) == []
    assert command(home.path, "task", "create", "Test it")["subject"] == "Test it"


@pytest.mark.req("CORE-FR-002", "CORE-EC.1")
def test_what_was_committed_last_is_kept_when_a_damaged_ledger_is_put_aside(home: Home, team: Team) -> None:
    team.send(to="lead", content="hello")
    keep_a_backup(team)
    home.close()
    ledger = Path(team.directory, "ledger.db")
    damage_an_index(ledger)
    script = "team = home.team('alpha')\nfor n in range(5): team.create_task(f'Number {n}')\nos.kill(os.getpid(), 9)\n"
    python(home.path, script).communicate(timeout=200)
    (said,) = serious(home.doctor())
    # The ledger is still open here, so what was committed last is in its log alone.
    assert Path(f"{ledger}-wal").stat().st_size > 0
    done = subprocess.run(
        said.split("`")[1].replace("interlock doctor", f"{sys.executable} -m interlock doctor"),
        shell=True, env={**os.environ, "INTERLOCK_HOME": home.path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [task.subject for task in home.team("alpha").tasks()] == ["Write it"]
    home.close()
    (aside,) = Path(team.directory).glob("damaged-*")
    kept = sqlite3.connect(aside / "ledger.db")
    assert kept.execute("SELECT count(*) FROM tasks").fetchone() == (6,)
    kept.close()


def damage_an_index(ledger: Path) -> None:
    connection = sqlite3.connect(ledger)
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name='sqlite_autoindex_messages_1'"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with ledger.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.req("CORE-FR-002", "CORE-EC.1")
def test_a_commit_that_was_not_synced_is_never_called_undone_until_that_is_known(
    team: Team, home: Home, on_failing_disk: Callable[[str, str], Any]
) -> None:
    home.close()
    first, second, seen = on_failing_disk(
        home.path,
        """
team.create_task("Draft it")  # The log has begun: its header is synced before anything is written behind it.
fail(-1)
first = tried(lambda: team.create_task("Test it"))
second = tried(lambda: team.create_task("Review it"))
print(json.dumps([first, second, subjects()]), flush=True)
os.kill(os.getpid(), 9)
""",
    )
    assert first["error"] == "commit_unknown" and "is not known yet" in first["message"]
    assert "Nothing was changed" not in first["message"]
    assert second["error"] in ("storage_error", "commit_unknown")
    left = [task.subject for task in team.tasks()]
    assert left in (["Write it", "Draft it"], ["Write it", "Draft it", "Test it"]) and left == seen
    assert_files_agree(team)
    team.create_task("Release it")
    assert [task.subject for task in team.tasks()] == [*left, "Release it"]


@pytest.mark.req("CORE-FR-002", "CORE-EC.1")
def test_a_commit_whose_outcome_recovery_shows_is_answered_by_it(
    team: Team, home: Home, on_failing_disk: Callable[[str, str], Any]
) -> None:
    home.close()
    seen = on_failing_disk(
        home.path,
        """
seen = []
for syncs in range(1, 7):
    before = subjects()
    fail(syncs)
    answer = tried(lambda: team.create_task(f"Number {syncs}"))
    fail(0)
    later = tried(lambda: team.create_task(f"After {syncs}"))
    seen.append([syncs, answer, later, subjects()[len(before):]])
print(json.dumps(seen), flush=True)
""",
    )
    for syncs, answer, later, added in seen:
        assert later is None and added[-1] == f"After {syncs}"
        if answer is None:
            assert added == [f"Number {syncs}", f"After {syncs}"]
        elif answer["error"] == "storage_error":
            assert "Nothing was changed" in answer["message"] and added == [f"After {syncs}"]
        else:
            assert answer["error"] == "commit_unknown"
    assert len({answer and answer["error"] for _, answer, _, _ in seen}) >= 2, seen
    assert_files_agree(team)
    assert home.doctor().healthy


READ_WHILE_RECOVERED = """
import sys, threading
import interlock

ledger = interlock.connect(sys.argv[1]).team("alpha")._workspace.ledger
over = threading.Event()

def read():
    while not over.is_set():
        with ledger.snapshot() as rows:
            rows.events.since(0)

readers = [threading.Thread(target=read) for _ in range(3)]
for reader in readers:
    reader.start()
for _ in range(1000):
    with ledger._mutex:
        ledger._recover()
over.set()
for reader in readers:
    reader.join()
"""


@pytest.mark.long
def test_a_ledger_that_is_recovered_takes_no_reader_its_connection(team: Team, home: Home) -> None:
    home.close()
    done = subprocess.run([sys.executable, "-c", READ_WHILE_RECOVERED, home.path], timeout=120, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_unknown_outcome_is_not_offered_to_be_tried_again_over_http() -> None:
    from interlock.errors import CommitUnknown

    assert status_of(CommitUnknown("It is not known.")) == 500
