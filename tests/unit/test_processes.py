"""Identities of processes, and ending all that one of ours has started. Every process here is a real one."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import interlock
from interlock.errors import InvalidRequest
from interlock.processes import MARK, bare_host, table
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.groups import end_group, end_marked, group_members
from interlock.processes.ref import ProcessRef, alive, current, identify, token_of, without_token
from tests.waiting import until

# A process that lasts until it is ended, but never longer than this suite.
LAST = "import time; time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)
# Prints its child's pid; the child gets a session of its own, and its parent ends when its input does.
ESCAPING = """
import os, sys, time
child = os.fork()
if child == 0:
    os.setsid()
    os.close(1)
    time.sleep(60)
else:
    time.sleep(0)
    print(child, flush=True)
    sys.stdin.read()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python code or a shell command as we start every program, and leaves nothing behind."""
    started: list[subprocess.Popen[str]] = []
    strays = secrets.token_hex(16)

    def run(code: str, *, shell: bool = False, token: str | None = None) -> subprocess.Popen[str]:
        argv = ["/bin/sh", "-c", code] if shell else [sys.executable, "-I", "-S", "-c", code]
        environment = {**os.environ, RUN_TOKEN: token or strays}
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        identity = identify(process.pid) if process.returncode is None else None
        if identity is not None:
            assert end_group(identity, grace=0)
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
    assert end_marked(strays, grace=0)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def named(pid: int) -> ProcessRef:
    identity = identify(pid)
    assert identity is not None
    return identity


def changed(identity: ProcessRef, **fields: Any) -> ProcessRef:
    return replace(identity, **fields)


def test_an_identity_reads_back_what_it_wrote() -> None:
    identity = current()
    assert ProcessRef.parse(identity.as_text() + "\n") == identity
    assert hash(ProcessRef.parse(identity.as_text())) == hash(identity)
    assert identity.pid == os.getpid()
    assert "\n" not in identity.as_text()


def test_a_run_token_is_stored_with_its_process_and_is_no_part_of_its_identity() -> None:
    marked = current().with_token("1" * 32)
    assert marked.as_text() == f"{current().as_text()}#{'1' * 32}"
    assert ProcessRef.parse(marked.as_text()).token == token_of(marked.as_text()) == "1" * 32
    assert marked == current() and without_token(marked.as_text()) == current().as_text()
    assert alive(marked.as_text()) is True


def test_text_that_names_no_process_names_none_that_lives() -> None:
    assert alive("") is False and alive(f"#{'1' * 32}") is False and alive("far|boot|1|1") is None


@pytest.mark.parametrize("text", ["", "host|boot|12", "host|boot|x|5", "host|boot|0|5", "host|boot|-1|5", "a|b|1|2|3"])
def test_what_names_no_process_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        ProcessRef.parse(text)


def test_this_process_is_alive_and_known_only_once() -> None:
    assert alive(current()) is True
    assert current() is current()


def test_a_forked_child_does_not_take_itself_for_its_parent() -> None:
    parent = current()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, current().as_text().encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        told = ProcessRef.parse(pipe.read())
    os.waitpid(child, 0)
    assert told.pid == child
    assert told != parent


def test_a_process_that_ended_is_not_alive_even_while_it_is_a_zombie(start: Start) -> None:
    process = start("pass")
    identity = named(process.pid)
    until(lambda: alive(identity) is False)
    assert process.returncode is None  # nobody has waited for it: it is still in the table
    assert identify(process.pid) == identity
    process.wait()
    assert alive(identity) is False
    assert identify(process.pid) is None


def test_a_later_process_with_the_same_pid_is_another(start: Start) -> None:
    identity = named(start(LAST).pid)
    assert alive(changed(identity, started=identity.started - 1)) is False
    assert alive(changed(identity, boot="another")) is False


def test_whether_a_process_lives_on_another_machine_cannot_be_known() -> None:
    assert alive(changed(current(), host="elsewhere")) is None


def test_a_program_and_its_children_and_grandchildren_end(start: Start) -> None:
    process = start("sh -c 'sleep 60 & echo $! $$; wait' & echo $!; wait", shell=True)
    pids = {int(word) for word in f"{line(process)} {line(process)}".split()}
    identity = named(process.pid)
    assert {process.pid, *pids} == set(group_members(identity))
    family = [identity, *(named(pid) for pid in pids)]
    assert len(family) == 3

    assert end_group(identity, grace=5)

    assert [alive(member) for member in family] == [False, False, False]
    assert group_members(identity) == []
    assert process.wait() == -signal.SIGTERM


def test_members_that_outlive_their_leader_end_too(start: Start) -> None:
    process = start("sleep 60 & echo $!", shell=True)
    identity = named(process.pid)
    orphan = named(int(line(process)))
    process.wait()
    assert alive(orphan) is True
    assert group_members(identity) == [orphan.pid]
    assert end_group(identity, grace=5)
    assert alive(orphan) is False


def test_members_of_a_leaderless_group_that_lack_the_token_are_not_taken_for_ours(start: Start) -> None:
    process = start("sleep 60 & echo $!", shell=True)
    identity = named(process.pid)
    stranger = named(int(line(process)))
    process.wait()
    assert end_group(identity, grace=0, token=secrets.token_hex(16))
    assert alive(stranger) is True
    assert end_group(identity, grace=5)


def test_members_older_than_the_leader_we_know_are_not_ours(start: Start) -> None:
    process = start("sleep 60 & echo $!", shell=True)
    identity = named(process.pid)
    stranger = named(int(line(process)))
    process.wait()
    assert end_group(changed(identity, started=identity.started + 10_000), grace=0)
    assert alive(stranger) is True
    assert end_group(identity, grace=5)


@pytest.mark.parametrize("leader_ends_first", [False, True])
def test_a_grandchild_with_a_session_of_its_own_is_found_by_the_token(start: Start, leader_ends_first: bool) -> None:
    token = secrets.token_hex(16)
    process = start(ESCAPING, token=token)
    identity = named(process.pid)
    escaped = named(int(line(process)))
    until(lambda: os.getsid(escaped.pid) == escaped.pid)
    if leader_ends_first:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    # By its parents it is found only as long as they are there.
    assert (escaped.pid in group_members(identity)) is not leader_ends_first
    assert escaped.pid in group_members(identity, token=token)

    assert end_group(identity, grace=5, token=token)

    assert alive(escaped) is False
    assert group_members(identity, token=token) == []


def test_a_token_alone_finds_what_carries_it(start: Start) -> None:
    token = secrets.token_hex(16)
    carriers = [named(start(LAST, token=token).pid) for _ in range(2)]
    other = named(start(LAST, token=secrets.token_hex(16)).pid)
    # Between fork and exec a process still has our environment.
    until(lambda: len(table.marked([c.pid for c in carriers], f"{RUN_TOKEN}={token}")) == 2)
    assert end_marked(token, 5)
    assert [alive(carrier) for carrier in carriers] == [False, False]
    assert alive(other) is True


@pytest.mark.parametrize("token", ["", "x", "short"])
def test_a_token_that_could_name_a_stranger_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequest):
        end_marked(token, 0)


def test_an_unrelated_process_is_untouched(start: Start) -> None:
    ours, other = start(LAST), start(LAST)
    bystander = named(other.pid)
    assert end_group(named(ours.pid), grace=5)
    assert alive(bystander) is True


def test_a_process_that_ignores_term_is_killed_after_the_grace(start: Start) -> None:
    process = start(STUBBORN)
    assert line(process) == "ready"
    began = time.monotonic()
    assert end_group(named(process.pid), grace=0.3)
    assert time.monotonic() - began >= 0.3
    assert process.wait() == -signal.SIGKILL


def test_a_process_that_heeds_term_is_not_kept_waiting(start: Start) -> None:
    process = start(LAST)
    began = time.monotonic()
    assert end_group(named(process.pid), grace=100)
    assert time.monotonic() - began < 60
    assert process.wait() == -signal.SIGTERM


def test_a_stopped_process_hears_term(start: Start) -> None:
    process = start(LAST)
    os.kill(process.pid, signal.SIGSTOP)
    assert end_group(named(process.pid), grace=30)
    assert process.wait() == -signal.SIGTERM


def test_a_group_whose_number_another_program_has_now_is_untouched(start: Start) -> None:
    process = start("sleep 60 & echo $!; wait", shell=True)
    child = named(int(line(process)))
    identity = named(process.pid)
    before = changed(identity, started=identity.started - 1)
    assert group_members(before) == []
    assert end_group(before, grace=0)
    assert alive(identity) is True
    assert alive(child) is True


def test_nothing_is_touched_on_behalf_of_another_boot_or_host(start: Start) -> None:
    token = secrets.token_hex(16)
    process = start(LAST, token=token)
    identity = named(process.pid)
    rebooted = changed(identity, boot="earlier")
    elsewhere = changed(identity, host="elsewhere")
    assert end_group(rebooted, grace=0, token=token)  # it cannot have survived
    assert not end_group(elsewhere, grace=0, token=token)  # we cannot know
    assert group_members(rebooted, token=token) == group_members(elsewhere, token=token) == []
    assert alive(identity) is True


def test_a_process_that_ends_its_own_run_survives_to_tell(start: Start) -> None:
    token = secrets.token_hex(16)
    code = f"""
import sys; sys.path[:0] = {[os.path.dirname(os.path.dirname(interlock.__file__))]!r}
from interlock.processes.groups import end_group, group_members
from interlock.processes.ref import current, identify
import os
leader = identify(os.getppid())
print(end_group(leader, grace=5, token={token!r}), os.getpid() in group_members(leader, token={token!r}), flush=True)
"""
    process = start(f"{sys.executable} -I -S -c '{code.replace(chr(39), chr(34))}'; true", shell=True, token=token)
    assert line(process) == "True False"
    assert process.wait() == -signal.SIGTERM


@pytest.mark.skipif(not table.PROC, reason="compares /proc with psutil")
def test_psutil_tells_the_same_as_proc(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    token = secrets.token_hex(16)
    process = start(STUBBORN, token=token)
    assert line(process) == "ready"
    expected = table.row(process.pid)
    words, names, environment = table.words(process.pid), table.names(process.pid), table.environment(process.pid)
    assert expected is not None
    monkeypatch.setattr(table, "PROC", False)
    found = table.row(process.pid)
    assert found is not None
    assert (found.pid, found.parent, found.group, found.running) == (process.pid, os.getpid(), process.pid, True)
    assert (found.session, found.started) == (expected.session, expected.started // os.sysconf("SC_CLK_TCK"))
    assert table.words(process.pid) == words and table.names(process.pid) == names
    assert table.environment(process.pid) == environment
    assert table.marked([process.pid, os.getpid()], f"{RUN_TOKEN}={token}") == {process.pid}
    assert {os.getpid(), process.pid} <= {row.pid for row in table.rows()}


@pytest.mark.skipif(not table.PROC, reason="where there is no /proc, every other test shows this")
def test_without_proc_a_group_is_ended_all_the_same(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start("sleep 60 & echo $!; wait", shell=True)
    pids = sorted([process.pid, int(line(process))])
    monkeypatch.setattr(table, "PROC", False)
    identity = named(process.pid)
    assert group_members(identity) == pids
    assert end_group(identity, grace=5)
    assert process.wait() == -signal.SIGTERM
    assert alive(identity) is False


def test_telling_processes_apart_costs_no_heavy_import_where_there_is_proc() -> None:
    code = "import sys, interlock.processes.ref as r; r.current(); print(sorted(set(sys.modules) & {*sys.argv[1:]}))"
    heavy = ["subprocess", "psutil", "anyio", "click", "pathlib"] if table.PROC else []
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(interlock.__file__))}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *heavy], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_process_of_another_machine_of_the_same_name_is_not_known_to_be_dead() -> None:
    namesake = f"{bare_host()}{MARK}{'0' * 8}"
    assert alive(replace(current(), host=namesake)) is None
    assert alive(replace(current(), host=namesake, boot="another")) is None
    assert alive(replace(current(), boot="another")) is False, "this machine was started again"


def test_a_reference_that_was_stored_without_the_mark_of_its_machine_is_judged_as_before() -> None:
    assert alive(replace(current(), host=bare_host())) is True
    assert alive(replace(current(), host=bare_host(), boot="another")) is False
    assert alive(replace(current(), host="elsewhere")) is None
