"""The socket notifier between real processes, and the directory that it trusts or not."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from interlock.wakeup.socket import PATH_BYTES, SocketNotifier

WAITER = """
import sys, time
from interlock.wakeup.socket import SocketNotifier
home, topic = sys.argv[1:]
with SocketNotifier(home).waiter("red", [topic], lambda: False) as waiter:
    print("ready", flush=True)
    print(int(waiter.wait(600)), time.monotonic_ns(), flush=True)
"""


@contextmanager
def waiting(home: Path, topic: str = "tasks") -> Iterator[subprocess.Popen[str]]:
    """A process that waits for `topic`; it is registered when the block begins."""
    command = [sys.executable, "-c", WAITER, str(home), topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def sockets(runtime: Path) -> list[Path]:
    return [path for path in runtime.rglob("*") if path.is_socket()]


@pytest.fixture
def own_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Path) -> Path:
    """An empty runtime directory for this test alone."""
    path = runtime / f"{os.getpid()}-{time.monotonic_ns() % 10**9}"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


def test_fifty_waiting_processes_are_woken_by_one_notification(tmp_path: Path, own_runtime: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(waiting(tmp_path)) for _ in range(50)]
        assert [line(process) for process in processes] == ["ready"] * 50
        assert len(sockets(own_runtime)) == 50
        before = time.monotonic_ns()
        SocketNotifier(str(tmp_path)).notify("red", ["tasks"])
        answers = [line(process).split() for process in processes]
        assert {woken for woken, _ in answers} == {"1"}
        late = sorted((int(at) - before) / 1e6 for _, at in answers)
        print(f"50 processes woken: median {statistics.median(late):.2f} ms, last {late[-1]:.2f} ms")
        for process in processes:
            process.wait()  # before `waiting` kills it: it prints first and lets go of its socket after
    assert not list((own_runtime / "interlock").iterdir()), "the last waiter leaves nothing behind"


def test_a_killed_waiter_is_removed_by_the_next_writer(tmp_path: Path, own_runtime: Path) -> None:
    notifier = SocketNotifier(str(tmp_path))
    with waiting(tmp_path, "tasks") as dead, waiting(tmp_path, "questions") as alive:
        assert [line(dead), line(alive)] == ["ready", "ready"]
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert len(sockets(own_runtime)) == 2
        notifier.notify("red", ["tasks"])
        assert [path.name.split("~")[0] for path in sockets(own_runtime)] == [str(alive.pid)]
        notifier.notify("red", ["questions"])
        assert line(alive).startswith("1 ")


def test_another_team_topic_or_home_wakes_nobody(tmp_path: Path) -> None:
    notifier = SocketNotifier(str(tmp_path))
    with notifier.waiter("red", ["inbox:bob"], lambda: False) as waiter:
        notifier.notify("blue", ["inbox:bob"])
        notifier.notify("red", ["inbox:bobby", "tasks"])
        notifier.notify("red", [])
        SocketNotifier(str(tmp_path / "other")).notify("red", ["inbox:bob"])
        assert waiter.wait(0) is False


def test_a_home_is_the_same_by_whatever_path_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with SocketNotifier(str(tmp_path / "home")).waiter("red", ["tasks"], lambda: False) as waiter:
        SocketNotifier(str(tmp_path / "link")).notify("red", ["tasks"])
        assert waiter.wait(0) is True


def test_names_stay_short_enough_for_every_system(tmp_path: Path, own_runtime: Path) -> None:
    notifier = SocketNotifier(str(tmp_path))
    with notifier.waiter("t" * 50, [f"inbox:{n}" + "m" * 50 for n in range(30)], lambda: False) as waiter:
        (path,) = sockets(own_runtime)
        assert len(os.fsencode(path)) <= PATH_BYTES
        assert path.name.endswith("~all")
        assert waiter.fileno() is not None


def test_a_runtime_directory_that_is_too_deep_means_polling(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * PATH_BYTES)
    with SocketNotifier(str(tmp_path), str(deep)).waiter("red", ["tasks"], lambda: False) as waiter:
        assert waiter.fileno() is None


def test_the_runtime_directory_is_closed_to_others(tmp_path: Path) -> None:
    runtime = tmp_path / "r"
    with SocketNotifier(str(tmp_path), str(runtime)).waiter("red", ["tasks"], lambda: False):
        assert runtime.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("fault", ["open to others", "a symbolic link", "a file", "not ours"])
def test_a_runtime_directory_that_cannot_be_trusted_is_not_used(tmp_path: Path, fault: str) -> None:
    runtime = tmp_path / "runtime"
    match fault:
        case "open to others":
            runtime.mkdir()
            runtime.chmod(0o755)
        case "a symbolic link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            runtime.symlink_to(tmp_path / "elsewhere")
        case "a file":
            runtime.write_text("")
        case _:
            if os.getuid() != 0:
                pytest.skip("only root can give a directory away")
            runtime.mkdir(mode=0o700)
            os.chown(runtime, 12345, 12345)
    notifier = SocketNotifier(str(tmp_path), str(runtime))
    with notifier.waiter("red", ["tasks"], lambda: True) as waiter:
        assert waiter.fileno() is None
        assert waiter.wait(20) is True
        notifier.notify("red", ["tasks"])
    assert not sockets(tmp_path)


def test_a_writer_touches_nothing_in_a_directory_that_it_does_not_trust(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    notifier = SocketNotifier(str(tmp_path), str(runtime))
    with notifier.waiter("red", ["tasks"], lambda: False):
        (team,) = runtime.iterdir()
        bait = team / "1~2~all"
        bait.write_text("a regular file refuses a datagram just as a dead socket does")
        runtime.chmod(0o777)
        notifier.notify("red", ["tasks"])
        assert bait.exists()


def test_an_agent_without_the_variable_finds_the_same_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    standard = Path(f"/run/user/{os.getuid()}")
    notifier = SocketNotifier("/nowhere")
    expected = standard / "interlock" if standard.is_dir() else Path(f"/tmp/interlock-{os.getuid()}")
    assert notifier._runtime == str(expected)


def test_a_writer_without_waiters_does_not_load_the_socket_module(tmp_path: Path) -> None:
    code = (
        "import sys; from interlock.wakeup.socket import SocketNotifier; "
        "SocketNotifier(sys.argv[1]).notify('red', ['tasks']); print('socket' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.storm
def test_no_wake_up_is_lost_while_waiters_come_and_go(tmp_path: Path, dose: float) -> None:
    """Waiters register, re-check and sleep while a writer writes; nobody has a safety net, so a lost one is seen."""
    notifier = SocketNotifier(str(tmp_path))
    state = 0
    stop = threading.Event()
    rounds = max(1, int(20_000 * dose))

    def write() -> None:
        nonlocal state
        while not stop.is_set():
            state += 1
            notifier.notify("red", ["tasks"])

    def follow() -> None:
        for _ in range(rounds):
            seen = state
            with notifier.waiter("red", ["tasks"], lambda: False) as waiter:
                if state == seen:
                    assert waiter.wait(20), "slept through a change"

    with ThreadPoolExecutor(9) as pool:
        writer = pool.submit(write)
        try:
            for follower in [pool.submit(follow) for _ in range(8)]:
                follower.result()
        finally:
            stop.set()
        writer.result()
