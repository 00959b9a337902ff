"""Programs and what they leave behind, the command and scripted agents, and both executors. All processes are real."""

from __future__ import annotations

import gc
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from interlock.agents.command import CommandAgent
from interlock.agents.scripted import Say, ScriptedAgent
from interlock.agents.session import Agent, Opening, Turn, Update
from interlock.errors import AgentError, InvalidRequest
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.groups import group_members
from interlock.processes.program import Program
from interlock.processes.ref import ProcessRef, alive, identify
from interlock.runner.executor import Executor, Job
from interlock.runner.executors import AgentExecutor, ShellExecutor

pytestmark = pytest.mark.anyio

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
ENOUGH = (1.0, 5.0, 30.0)
"""Time limits, in seconds: on a busy machine a program may not have said a word after the first."""
# Leaves a process behind that has a session of its own, and holds the pipe open if it is asked to.
DAEMON = """
import os, sys, time
told, tell = os.pipe()
child = os.fork()
if child == 0:
    os.setsid()
    if sys.argv[1] == "silent":
        os.close(1); os.close(2)
    os.write(tell, b"x")
    time.sleep(60)
os.read(told, 1)
print(child, flush=True)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    return Opening(
        session_id="s-1",
        member="ada",
        workdir=str(tmp_path),
        environment={"PATH": os.environ["PATH"], "GIVEN": "yes"},
        log=str(tmp_path / "log"),
        time_limit=30,
        stop_grace=5,
        output_bytes=65_536,
    )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(
        team="t",
        task_id="TASK-2026-01-01-001",
        run_id="r-1",
        member="ada",
        session_id="s-1",
        prompt="do it",
        command="echo done",
        workdir=str(tmp_path),
        environment={"PATH": os.environ["PATH"]},
        log=str(tmp_path / "log"),
        time_limit=30,
        stop_grace=5,
        output_bytes=65_536,
    )


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def nothing(update: Update) -> None:
    pass


def named(pid: int) -> ProcessRef:
    identity = identify(pid)
    assert identity is not None
    return identity


async def turn(
    opening: Opening, argv: list[str], prompt: str = "", on_update: Callable[[Update], None] = nothing
) -> Turn:
    session = await CommandAgent("any", argv).open(opening)
    try:
        return await session.prompt(prompt, on_update)
    finally:
        await session.close()


# The command agent


async def test_a_prompt_is_given_as_the_argument_that_asks_for_it(opening: Opening) -> None:
    ended = await turn(opening, ["printf", "%s|", "{prompt}", "x{prompt}"], "say; `hi` $HOME")
    assert ended == Turn("end", "say; `hi` $HOME|x{prompt}|", 0)


async def test_a_prompt_is_given_on_standard_input_otherwise(opening: Opening) -> None:
    assert (await turn(opening, ["cat"], "line\nmore é")).output == "line\nmore é"


async def test_a_large_prompt_that_nobody_reads_makes_nobody_wait(opening: Opening) -> None:
    assert (await turn(opening, ["true"], "x" * 1_000_000)).stop == "end"


async def test_a_prompt_too_long_for_an_argument_fails_with_what_to_do(opening: Opening) -> None:
    ended = await turn(opening, ["echo", "{prompt}"], "x" * 5_000_000)
    assert ended.stop == "failed"
    assert ended.detail is not None and "standard input" in ended.detail


async def test_both_outputs_are_heard_in_order_line_by_line(opening: Opening) -> None:
    heard: list[Update] = []
    ended = await turn(opening, ["sh", "-c", "echo one; echo two >&2; printf three"], on_update=heard.append)
    assert heard == [Update("text", "one"), Update("text", "two"), Update("text", "three")]
    assert ended.output == "one\ntwo\nthree"
    assert Path(opening.log).read_text() == ended.output


async def test_a_line_is_heard_while_the_program_still_runs(opening: Opening) -> None:
    session = await CommandAgent("any", ["sh", "-c", "echo ready; exec sleep 60"]).open(opening)
    alive_then: list[bool | None] = []

    def on_update(update: Update) -> None:
        assert session.identity is not None
        alive_then.append(alive(session.identity))
        session._program.cancel()  # type: ignore[union-attr]

    assert (await session.prompt("", on_update)).stop == "cancelled"
    assert alive_then == [True]


async def test_the_program_sees_its_own_environment_only_and_leads_its_group(opening: Opening) -> None:
    code = "import os; print(sorted(os.environ), os.getcwd(), os.getpid() == os.getpgrp())"
    started: list[ProcessRef] = []
    ended = await turn(replace(opening, on_start=started.append), python(code))
    names = sorted({"GIVEN", RUN_TOKEN, "PATH"} | set(ended.output.split("'")) & {"LC_CTYPE", "PWD"})
    assert ended.output == f"{names} {os.path.realpath(opening.workdir)} True\n"
    assert [identity.pid > 0 for identity in started] == [True]


async def test_secrets_are_blanked_everywhere(opening: Opening) -> None:
    heard: list[Update] = []
    opening = replace(opening, secrets=("hunter22",))
    code = "import os, time; os.write(1, b'a hunt'); os.write(1, b'er22 b\\n')"
    ended = await turn(opening, python(code), on_update=heard.append)
    assert ended.output == Path(opening.log).read_text() == "a *** b\n"
    assert heard == [Update("text", "a *** b")]


async def test_long_output_loses_its_middle(opening: Opening) -> None:
    opening = replace(opening, output_bytes=2048)
    ended = await turn(opening, python("for n in range(20000): print('line', n)"))
    assert ended.output.startswith("line 0\n") and ended.output.endswith("line 19999\n")
    assert "bytes cut" in ended.output
    assert len(ended.output.encode()) <= 2048
    assert Path(opening.log).read_text().count("\n") == 20_000


async def test_an_error_exit_is_a_failed_turn(opening: Opening) -> None:
    assert await turn(opening, ["sh", "-c", "echo no; exit 3"]) == Turn("failed", "no\n", 3)


async def test_a_signal_that_was_not_ours_is_a_killed_turn(opening: Opening) -> None:
    assert await turn(opening, ["sh", "-c", "kill -KILL $$"]) == Turn("killed", "", -signal.SIGKILL)


async def test_time_over_ends_the_program_and_its_children(opening: Opening) -> None:
    children: list[ProcessRef] = []

    def on_update(update: Update) -> None:
        children.append(named(int(update.text)))

    argv = ["sh", "-c", "sleep 60 & echo $!; wait"]
    for seconds in ENOUGH:
        ended = await turn(replace(opening, time_limit=seconds), argv, on_update=on_update)
        if children:
            break
    assert (ended.stop, ended.exit_code) == ("timeout", -signal.SIGTERM)
    assert [alive(child) for child in children] == [False]


async def test_a_program_that_ignores_term_is_killed_when_its_time_is_over(opening: Opening) -> None:
    for seconds in ENOUGH:
        ended = await turn(replace(opening, time_limit=seconds, stop_grace=0.2), python(STUBBORN))
        if ended.output:
            break
    assert ended == Turn("timeout", "ready\n", -signal.SIGKILL)


async def test_a_program_that_prints_for_ever_is_stopped_in_time(opening: Opening) -> None:
    ended = await turn(replace(opening, time_limit=0.3, log=""), ["yes"])
    assert ended.stop == "timeout"
    assert len(ended.output.encode()) <= opening.output_bytes


async def test_a_cancelled_turn_returns_cancelled_though_the_program_resists(opening: Opening) -> None:
    session = await CommandAgent("any", python(STUBBORN)).open(replace(opening, stop_grace=0.2))
    ready = anyio.Event()
    turns: list[Turn] = []

    async def prompt() -> None:
        turns.append(await session.prompt("", lambda update: ready.set()))

    async with anyio.create_task_group() as group:
        group.start_soon(prompt)
        await ready.wait()
        await session.cancel()
    assert turns == [Turn("cancelled", "ready\n", -signal.SIGKILL)]
    await session.close()
    await session.close()


async def test_closing_a_session_at_work_leaves_nothing_running(opening: Opening) -> None:
    session = await CommandAgent("any", ["sh", "-c", "echo ready; sleep 60 & wait"]).open(opening)
    ready = anyio.Event()
    turns: list[Turn] = []

    async def prompt() -> None:
        turns.append(await session.prompt("", lambda update: ready.set()))

    async with anyio.create_task_group() as group:
        group.start_soon(prompt)
        await ready.wait()
        await session.close()
        assert session.identity is not None
        assert group_members(session.identity) == []
    assert [ended.stop for ended in turns] == ["cancelled"]


async def test_cancelling_the_caller_leaves_nothing_running(opening: Opening) -> None:
    started: list[ProcessRef] = []
    session = await CommandAgent("any", ["sh", "-c", "echo ready; sleep 60 & wait"]).open(
        replace(opening, on_start=started.append)
    )
    with anyio.CancelScope() as scope:
        await session.prompt("", lambda update: scope.cancel())
    assert scope.cancelled_caught
    assert group_members(started[0]) == [] and alive(started[0]) is False


@pytest.mark.parametrize("where", ["on_start", "on_update"])
async def test_what_a_listener_raises_reaches_the_caller_and_ends_the_program(opening: Opening, where: str) -> None:
    started: list[ProcessRef] = []

    def on_start(identity: ProcessRef) -> None:
        started.append(identity)
        if where == "on_start":
            raise ZeroDivisionError

    def on_update(update: Update) -> None:
        raise ZeroDivisionError

    session = await CommandAgent("any", ["sh", "-c", "echo ready; sleep 60"]).open(replace(opening, on_start=on_start))
    with pytest.raises(ZeroDivisionError):
        await session.prompt("", on_update)
    assert alive(started[0]) is False and group_members(started[0]) == []


@pytest.fixture(params=["all of the system", "polling", "waiting"])
def watching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the end of a program is noticed: macOS has no pidfd, and before Python 3.13 no waitid either."""
    if request.param != "all of the system":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    if request.param == "waiting":
        monkeypatch.delattr(os, "waitid", raising=False)


@pytest.mark.usefixtures("watching")
async def test_a_child_without_our_token_ends_with_the_group(opening: Opening) -> None:
    children: list[ProcessRef] = []
    ended = await turn(
        opening,
        ["sh", "-c", "env -i sleep 60 >/dev/null 2>&1 & echo $!"],
        on_update=lambda update: children.append(named(int(update.text))),
    )
    assert ended.stop == "end"
    assert [alive(child) for child in children] == [False]


@pytest.mark.usefixtures("watching")
@pytest.mark.parametrize("manner", ["silent", "holding the pipe"])
async def test_a_daemon_does_not_outlive_the_program_nor_hold_it_up(opening: Opening, manner: str) -> None:
    daemons: list[ProcessRef] = []
    began = time.monotonic()
    ended = await turn(
        opening, python(DAEMON, manner), on_update=lambda update: daemons.append(named(int(update.text)))
    )
    assert ended.stop == "end" and ended.exit_code == 0
    assert time.monotonic() - began < 50, "it waited for the daemon to end by itself"
    assert [alive(daemon) for daemon in daemons] == [False]


async def test_a_missing_program_says_what_to_check(opening: Opening) -> None:
    for argv in (["no-such-program-here"], ["./nor-here"], [opening.workdir]):
        with pytest.raises(AgentError, match="install it, or check"):
            await CommandAgent("any", argv).open(opening)
    with pytest.raises(AgentError, match="working directory"):
        await CommandAgent("any", ["true"]).open(replace(opening, workdir=opening.workdir + "/gone"))


async def test_a_program_named_by_path_is_looked_for_in_the_working_directory(opening: Opening) -> None:
    script = Path(opening.workdir, "agent.sh")
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    assert (await turn(opening, ["./agent.sh"])).output == "hello\n"
    script.write_text("echo hello\n")
    ended = await turn(opening, ["./agent.sh"])
    assert ended.stop == "failed" and ended.detail is not None and "first line" in ended.detail


async def test_a_command_session_takes_one_prompt(opening: Opening) -> None:
    session = await CommandAgent("any", ["true"]).open(opening)
    assert session.lasting is False and session.identity is None
    await session.prompt("", nothing)
    with pytest.raises(InvalidRequest):
        await session.prompt("", nothing)
    with pytest.raises(InvalidRequest):
        CommandAgent("any", [])


async def test_many_short_programs_all_end_as_they_should(opening: Opening) -> None:
    """A program may be over before we have looked at it even once."""
    turns: list[Turn] = []

    async def one(number: int) -> None:
        turns.append(await turn(replace(opening, log=""), ["sh", "-c", f"exit {number % 2}"]))

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(one, number)
    assert sorted(ended.exit_code or 0 for ended in turns) == [0] * 15 + [1] * 15


INTERRUPTED = """
import os, signal, threading, time
import anyio
from interlock.processes.program import Program

signal.signal(signal.SIGINT, lambda number, frame: None)

def press():
    while True:
        os.killpg(os.getpgrp(), signal.SIGINT)
        time.sleep(0.0002)

async def start():
    own = {"environment": {"PATH": os.environ["PATH"]}, "workdir": "/", "log": None, "secrets": (), "output_bytes": 100}
    program = Program(["sh", "-c", "kill -INT $$"], stop_grace=1.0, **own)
    await program.start()
    return (await program.wait(30.0, lambda line: None)).exit_code

threading.Thread(target=press, daemon=True).start()
print([anyio.run(start) for _ in range(10)])
"""


def test_ctrl_c_does_not_end_what_is_just_being_started() -> None:
    """A terminal interrupts all of our group, to which a program belongs for the moment that it takes to leave it. The
    program itself can be interrupted."""
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, start_new_session=True, check=False
    )
    assert ran.stdout == f"{[-signal.SIGINT.value] * 10}\n", ran.stderr


async def test_a_program_that_is_slow_to_start_keeps_nobody_waiting(
    opening: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is started with does not begin before another task of the same loop has had its turn."""
    go, slow = tmp_path / "go", tmp_path / "slow-python"
    slow.write_text(f'#!/bin/sh\nuntil test -e {go}; do sleep 0.02; done\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    async with anyio.create_task_group() as group:
        found: list[Turn] = []

        async def work() -> None:
            found.append(await turn(opening, ["echo", "hello"]))

        group.start_soon(work)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        go.touch()
    assert found[0].output.strip() == "hello"


async def test_no_descriptors_are_left_open(opening: Opening) -> None:
    await turn(opening, ["true"])
    gc.collect()  # What other tests have left is closed now, not in the middle.
    before = len(os.listdir("/dev/fd"))
    for argv in (["true"], ["sh", "-c", "exit 1"], ["./none"]):
        program = Program(
            argv, workdir=opening.workdir, environment=opening.environment, output_bytes=4096, stop_grace=1, stdin="x"
        )
        try:
            await program.start()
            await program.wait(math.inf, lambda line: None)
        except AgentError:
            pass
        await program.close()
    assert len(os.listdir("/dev/fd")) == before


# The scripted agent


async def test_a_script_answers_successive_prompts(opening: Opening) -> None:
    heard: list[str] = []

    async def first(prompt: str, say: Say, opening: Opening) -> str:
        say(f"{opening.member} heard {prompt}")
        return "secret hunter22"

    async def second(prompt: str, say: Say, opening: Opening) -> Turn:
        return Turn("capacity", "later", detail="usage limit")

    session = await ScriptedAgent("s", [first, second]).open(replace(opening, secrets=("hunter22",)))
    assert session.identity is None and session.lasting

    def on_update(update: Update) -> None:
        heard.append(update.text)

    assert await session.prompt("a", on_update) == Turn("end", "ada heard a\nsecret ***\n")
    assert await session.prompt("b", on_update) == Turn("capacity", "later\n", detail="usage limit")
    assert (await session.prompt("c", on_update)).stop == "failed"
    assert heard == ["ada heard a", "secret ***", "later"]
    assert Path(opening.log).read_text() == "ada heard a\nsecret ***\nlater\n"


async def test_an_exception_in_a_script_is_a_failed_turn(opening: Opening) -> None:
    async def script(prompt: str, say: Say, opening: Opening) -> str:
        say("before")
        raise KeyError(prompt)

    session = await ScriptedAgent("s", script).open(opening)
    assert await session.prompt("x", nothing) == Turn("failed", "before\n", None, "KeyError: 'x'")


async def test_a_script_is_cancelled_closed_and_limited(opening: Opening) -> None:
    async def script(prompt: str, say: Say, opening: Opening) -> str:
        say("ready")
        await anyio.sleep_forever()
        return "never"

    agent = ScriptedAgent("s", script)
    limited = await agent.open(replace(opening, time_limit=0.01))
    assert (await limited.prompt("", nothing)).stop == "timeout"
    for way in ("cancel", "close"):
        session = await agent.open(opening)
        ready = anyio.Event()
        turns: list[Turn] = []

        async def prompt(session=session, ready=ready, turns=turns) -> None:  # type: ignore[no-untyped-def]
            turns.append(await session.prompt("", lambda update: ready.set()))

        async with anyio.create_task_group() as group:
            group.start_soon(prompt)
            await ready.wait()
            await getattr(session, way)()
        assert turns == [Turn("cancelled", "ready\n")]
        await session.close()
        with pytest.raises(InvalidRequest):
            await session.prompt("", nothing)


# The executors


async def test_a_task_s_command_is_run_without_a_shell_unless_it_needs_one(job: Job) -> None:
    executor: Executor = ShellExecutor()
    for command, output in (("printf %s 'a && b'", "a && b"), ("printf a && printf b", "ab")):
        execution = executor.start(replace(job, command=command))
        result = await execution.run(nothing)
        assert (result.status, result.output, result.exit_code) == ("ended", output, 0)
        assert result.seconds > 0
        assert await execution.again("findings", nothing) is None
        await execution.close()


@pytest.mark.parametrize(
    ("command", "says"),
    [(None, "no command"), ("echo 'a", "quote"), ("no-such-program-here", "not found"), ("exit 3", None)],
)
async def test_what_cannot_be_run_or_fails_is_a_failed_result(job: Job, command: str | None, says: str | None) -> None:
    execution = ShellExecutor().start(replace(job, command=command))
    result = await execution.run(nothing)
    assert (result.status, result.exit_code) == ("failed", None if says else 3)
    assert says is None or (result.detail is not None and says in result.detail)
    await execution.close()


async def test_a_run_is_found_by_the_token_its_job_gave(job: Job) -> None:
    token = os.urandom(16).hex()
    found: list[list[int]] = []
    pids: list[int] = []
    job = replace(job, environment={**job.environment, RUN_TOKEN: token}, command=f"echo ${RUN_TOKEN}; exec sleep 60")
    execution = ShellExecutor().start(job)

    async def hear(group: anyio.abc.TaskGroup) -> None:
        def on_update(update: Update) -> None:
            assert update.text == token
            found.append(group_members(ProcessRef(named(1).host, named(1).boot, 1, 0), token=token))
            group.start_soon(execution.cancel)

        result = await execution.run(on_update, lambda identity: pids.append(identity.pid))
        assert result.status == "cancelled"

    async with anyio.create_task_group() as group:
        group.start_soon(hear, group)
    assert [set(pids) <= set(pids_found) for pids_found in found] == [True]
    await execution.close()


@pytest.mark.parametrize("kind", ["shell", "command", "scripted"])
async def test_an_execution_cancelled_before_it_began_never_begins(job: Job, kind: str) -> None:
    async def script(prompt: str, say: Say, opening: Opening) -> str:
        raise AssertionError

    agents: dict[str, Agent] = {"command": CommandAgent("c", ["false"]), "scripted": ScriptedAgent("s", script)}
    executor: Executor = AgentExecutor(agents[kind]) if kind in agents else ShellExecutor()
    execution = executor.start(job)
    await execution.cancel()
    assert (await execution.run(nothing)).status == "cancelled"
    await execution.close()
    await execution.close()


async def test_an_agent_gets_the_prompt_and_its_process_is_known_at_once(job: Job) -> None:
    started: list[ProcessRef] = []
    alive_then: list[bool | None] = []
    execution = AgentExecutor(CommandAgent("c", ["sh", "-c", "cat; read -r x"])).start(job)

    def on_start(identity: ProcessRef) -> None:
        started.append(identity)
        alive_then.append(identify(identity.pid) == identity)

    result = await execution.run(nothing, on_start)
    assert (result.status, result.output, result.exit_code) == ("failed", "do it", 1)
    assert alive_then == [True]
    assert await execution.again("findings", nothing) is None
    await execution.close()


async def test_findings_go_to_the_same_session_where_it_takes_more_prompts(job: Job) -> None:
    async def script(prompt: str, say: Say, opening: Opening) -> str:
        return f"heard {prompt}"

    execution = AgentExecutor(ScriptedAgent("s", script)).start(job)
    assert await execution.again("too early", nothing) is None
    assert (await execution.run(nothing)).output == "heard do it\n"
    again = await execution.again("it fails", nothing)
    assert again is not None and (again.status, again.output) == ("ended", "heard it fails\n")
    await execution.close()
    assert await execution.again("too late", nothing) is None


async def test_a_missing_agent_is_a_failed_result_that_says_what_to_check(job: Job) -> None:
    result = await AgentExecutor(CommandAgent("c", ["no-such-program-here"])).start(job).run(nothing)
    assert result.status == "failed"
    assert result.detail is not None and "install it" in result.detail
