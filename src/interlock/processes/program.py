"""Programs under our care: started in a process group of their own, listened to, limited, and ended whole.

A `Child` has the pipes it is given; for agents that are spoken with. A `Program` is a child that only prints, listened
to from its start to its end. Both promise:

* It gets exactly the environment it is given, plus `INTERLOCK_RUN_TOKEN` (made up unless the environment names one),
  by which even what escapes its group is found again. A token must be shared by nothing that should outlive it.
* A supervisor stands between it and us (see `supervisor`): whatever it starts descends from that, and is ended by it
  when we die. `identity` is the supervisor's.
* The supervisor is not waited for before everything has ended: while it is a zombie, its pid cannot be another's.
* When `end`, `wait` or `close` returns, also by cancellation, nothing that it started is running but daemons that the
  user keeps (`groups.kept`), or `left` says what.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from interlock.errors import AgentError, CannotStart, NoCapacity, is_short
from interlock.lazy_dataclass import dataclass
from interlock.processes import groups, ref, supervised, supervisor
from interlock.processes.ancestry import RUN_HOME, RUN_KEEP, RUN_TEAM, RUN_TOKEN
from interlock.processes.output import Output
from interlock.processes.ref import ProcessRef

_REAPING = 5.0
_STARTING = 60.0  # seconds; more only where the machine has no time at all for us


class Child:
    """One process and everything it starts.

    Wait for `begun` before anything else.

    Raises:
        AgentError: it cannot be started; the message says what to check.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        workdir: str,
        environment: Mapping[str, str],
        stop_grace: float,
        stdin: int | IO[bytes],
        stdout: int,
        stderr: int,
    ) -> None:
        self.token = environment.get(RUN_TOKEN) or os.urandom(16).hex()
        self.left: tuple[int, ...] = ()
        self.exit_code: int | None = None
        """Negative for a signal (-9: KILL); None before the end."""
        self.interrupted = False
        """Whether it ended when its supervisor had been told to go, or was gone."""
        self._stop_grace = stop_grace
        self._program = argv[0]
        self._error = partial(_error, argv, workdir, environment.get("PATH", os.defpath))
        self._begun = False
        self._ended = False
        self._ending = anyio.Lock()
        self._wire, theirs = socket.socketpair()
        # Python sets it for itself where the locale says nothing; the program is to get what it was given.
        unset = [RUN_HOME, RUN_TEAM, RUN_KEEP, *(name for name in ("LC_CTYPE",) if name not in environment)]
        try:
            with theirs, _away_from_the_terminal():
                self._process = subprocess.Popen(
                    supervised.command(theirs.fileno(), stop_grace, unset, argv),
                    cwd=workdir,
                    env={**environment, RUN_TOKEN: self.token},
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                )
        except (OSError, ValueError) as error:
            self._wire.close()
            raise self._error(error) from error
        self.started = time.monotonic()
        self._wire.setblocking(False)
        # It may have ended by now, but nobody has waited for it, so the pid still names it.
        identity = ref.identify(self._process.pid)
        if identity is None:
            with self._process:  # Closes its pipes and waits.
                self._process.kill()
            self._wire.close()
            raise AgentError("Processes cannot be told apart here: the system shows none of them.")
        self.identity: ProcessRef = identity

    async def begun(self) -> None:
        """Return when the program runs. Where it does not, or that is not waited for, nothing of it is left.

        Raises:
            AgentError: it cannot be started; the message says what to check.
        """
        number: int | None = errno.ETIMEDOUT
        try:
            with anyio.move_on_after(_STARTING):
                await anyio.wait_readable(self._wire)
                (number, _), self._begun = self._line(), True
        finally:
            if number != 0:
                await self.end()
        if number is None:
            raise AgentError(f"The program {self._program!r} was ended by somebody else while it was being started.")
        if number != 0:
            error = OSError(number, os.strerror(number))
            raise self._error(error) from error

    async def exited(self) -> None:
        """Return when the program has ended, or its supervisor."""
        if self.exit_code is None:
            await anyio.wait_readable(self._wire)
            self._hear()

    def _line(self) -> tuple[int | None, bool]:
        """The next number that the supervisor says (none where it is gone), and whether it is going."""
        said = b""
        while not said.endswith(b"\n"):
            byte = self._wire.recv(1)
            if not byte:
                return None, True
            said += byte
        number, told = said.split()
        return int(number), told == b"1"

    def _hear(self) -> None:
        """Note how the program has ended, where that is known by now."""
        try:
            if not self._begun:
                self._begun, _ = True, self._line()
            self.exit_code, self.interrupted = self._line()
        except BlockingIOError:
            pass

    async def end(self) -> None:
        """End it and everything it started: TERM, the grace, KILL. May be called twice, and is not cancelled."""
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if not self._ended:
                    self._ended, self.left = await anyio.to_thread.run_sync(self._end_all)

    def _end_all(self) -> tuple[bool, tuple[int, ...]]:
        leader = self.identity
        gone = groups.end_group(leader, grace=self._stop_grace, token=self.token)
        try:
            self._process.wait(_REAPING if gone and not groups.kept_daemons(leader) else 0)
        except subprocess.TimeoutExpired:
            # It stays with a daemon that the user keeps, or something has withstood.
            threading.Thread(target=self._process.wait, daemon=True).start()
        if self.exit_code is None:
            self._hear()
        if self.exit_code is None:
            self.exit_code = self._process.returncode or None  # Something ended the supervisor itself.
        self._wire.close()
        return gone, () if gone else tuple(groups.group_members(leader, token=self.token))


@contextmanager
def _away_from_the_terminal() -> Iterator[None]:
    """Let what is started here not hear what a terminal tells our group, such as Ctrl-C, before it has left that. The
    supervisor listens again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in supervisor.OF_A_TERMINAL])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def refusal(program: str, workdir: str, search: str) -> str | None:
    """Why `program` cannot be started in `workdir` with `search` as its PATH, in a sentence; None where nothing speaks
    against it."""
    if not os.path.isdir(workdir):
        return f"The working directory {workdir} does not exist: make it, or correct `workdir`."
    # As execvp looks it up: a name along PATH, a path from the working directory.
    places = [workdir] if "/" in program else search.split(os.pathsep)
    files = [file for place in places if os.path.isfile(file := os.path.join(place, program))]
    if not files:
        return f"The program {program!r} was not found: install it, or check its spelling and PATH."
    startable = next((file for file in files if os.access(file, os.X_OK)), None)
    if startable is None:
        return f"The program {program!r} is not executable: `chmod +x {shlex.quote(os.path.normpath(files[0]))}`."
    interpreter = _interpreter(startable)
    if interpreter and not os.path.exists(os.path.join(workdir, interpreter)):
        return (
            f"The interpreter {interpreter!r}, which the first line of {program!r} names, was not found: install it, "
            "or correct that line."
        )
    return None


def _interpreter(file: str) -> str | None:
    try:
        with open(file, "rb") as opened:
            first = opened.readline(4096)
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    return words[0] if words else None


def _error(argv: Sequence[str], workdir: str, search: str, error: OSError | ValueError) -> AgentError:
    program = argv[0]
    number = error.errno if isinstance(error, OSError) else None
    why = refusal(program, workdir, search)
    if why is None and number == errno.ENOEXEC:
        why = f"The program {program!r} is not executable: if it is a script, its first line must name an interpreter."
    if why is None and number == errno.E2BIG:
        why = f"The arguments for {program!r} are too long for the system: give the prompt on standard input instead."
    if why is not None:
        return CannotStart(why, program=program)
    text = f"The program {program!r} could not be started: {error}. Check its arguments, permissions and environment."
    return (NoCapacity if is_short(error) else AgentError)(text, program=program)


LINGER = 1.0  # seconds for output still in the pipe after the program has ended

_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended.

    `exit_code` is negative for a signal (-9: KILL), None if it could not be ended. `left` lists the pids of what
    withstood. `detail` is a sentence where the rest does not say all. `interrupted`: somebody other than us has ended
    it with its supervisor, as what ends a whole run does.
    """

    stop: Literal["end", "failed", "killed", "cancelled", "timeout"]
    exit_code: int | None
    output: str
    seconds: float
    detail: str | None = None
    left: tuple[int, ...] = ()
    interrupted: bool = False


class Program:
    """One run of one program: `start`, then `wait`; `cancel` at any time, `close` at last.

    Sizes are bytes, times seconds. `secrets` are blanked in everything that leaves this object.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        workdir: str,
        environment: Mapping[str, str],
        output_bytes: int,
        stop_grace: float,
        log: str | None = None,
        secrets: Sequence[str] = (),
        stdin: str | None = None,
    ) -> None:
        self.argv = list(argv)
        self._workdir = workdir
        self._environment = dict(environment)
        self._stop_grace = stop_grace
        self._stdin = stdin
        self._output_of = partial(Output, log=log, secrets=tuple(secrets), limit=output_bytes)
        self._output: Output | None = None
        self._child: Child | None = None
        self._pipe = -1
        self._cancelled = False
        self._patience: anyio.CancelScope | None = None
        self._done: anyio.Event | None = None

    @property
    def identity(self) -> ProcessRef | None:
        """The first process, once it was started."""
        return self._child.identity if self._child else None

    async def start(self) -> ProcessRef:
        """Start it.

        Raises:
            AgentError: it cannot be started; the message says what to check.
            StorageError: the log file cannot be opened.
            OSError: there is no pipe to be had, or no file for its input.
        """
        self._output = self._output_of()
        write_end = -1
        try:
            self._pipe, write_end = os.pipe()
            os.set_blocking(self._pipe, False)
            with standard_input(self._stdin) as stdin:
                self._child = Child(
                    self.argv,
                    workdir=self._workdir,
                    environment=self._environment,
                    stop_grace=self._stop_grace,
                    stdin=stdin,
                    stdout=write_end,
                    stderr=write_end,
                )
        except BaseException:
            self._put_away()
            raise
        finally:
            if write_end >= 0:
                os.close(write_end)
        try:
            await self._child.begun()
        except BaseException:
            self._put_away()
            raise
        return self._child.identity

    async def wait(self, time_limit: float, on_line: Callable[[str], None]) -> ProgramEnd:
        """Listen until it has ended, or end it when `time_limit` seconds are over or `cancel` is called.

        `on_line` is called in the event loop for each line; what it raises ends the program and is raised here.
        """
        child, output = self._child, self._output
        if child is None or output is None or self._done is not None:
            raise RuntimeError("wait follows start, once")
        self._done = anyio.Event()
        self._patience = anyio.CancelScope()
        exited = interrupted = False
        try:
            async with anyio.create_task_group() as listeners:
                drained = anyio.Event()
                listeners.start_soon(self._listen, output, on_line, drained)
                with self._patience, anyio.move_on_after(time_limit - (time.monotonic() - child.started)):
                    if self._cancelled:
                        self._patience.cancel()
                    await child.exited()
                    exited, interrupted = True, child.interrupted
                if exited:
                    # Something it left behind may hold the pipe open for ever.
                    with anyio.move_on_after(LINGER):
                        await drained.wait()
                await child.end()
                with anyio.move_on_after(LINGER):
                    await drained.wait()
                listeners.cancel_scope.cancel()
            output.finish(on_line)
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise
        finally:
            await child.end()
            self._put_away()
            self._done.set()
        return replace(self._ending(exited, child, output), interrupted=interrupted)

    def cancel(self) -> None:
        """Ask for its end; `wait` then ends it and returns `cancelled`. Call it from the event loop of `wait`."""
        self._cancelled = True
        if self._patience is not None:
            self._patience.cancel()

    async def close(self) -> None:
        """Leave nothing of it running. May be called twice, also while `wait` is under way."""
        with anyio.CancelScope(shield=True):
            self.cancel()
            if self._done is not None:
                await self._done.wait()
            if self._child is not None:
                await self._child.end()
        self._put_away()

    async def _listen(self, output: Output, on_line: Callable[[str], None], drained: anyio.Event) -> None:
        while True:
            try:
                chunk = os.read(self._pipe, _CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._pipe)
                continue
            if not chunk:
                break
            output.feed(chunk, on_line)
            await anyio.lowlevel.checkpoint()  # a chatterbox must not keep the time limit from being noticed
        drained.set()

    def _put_away(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._output is not None:
            self._output.close()

    def _ending(self, exited: bool, child: Child, output: Output) -> ProgramEnd:
        code = child.exit_code
        stop: Literal["end", "failed", "killed", "cancelled", "timeout"]
        if not exited:
            stop = "cancelled" if self._cancelled else "timeout"
        elif code == 0:
            stop = "end"
        else:
            stop = "killed" if code is not None and code < 0 else "failed"
        detail = output.warning
        if child.left:
            detail = f"still running in spite of KILL: process {', '.join(map(str, child.left))}"
        return ProgramEnd(stop, code, output.text, time.monotonic() - child.started, detail, child.left)


def _in_memory() -> IO[bytes]:
    """A file that needs no disk, where the system has such files."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("input"), "w+b")
    return tempfile.TemporaryFile()  # type: ignore[return-value, unused-ignore]


@contextmanager
def standard_input(text: str | None) -> Iterator[IO[bytes]]:
    """Standard input with `text`. A file, not a pipe: a program that does not read it can never make us wait."""
    if text is None:
        with open(os.devnull, "rb") as nothing:
            yield nothing
        return
    with _in_memory() as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        yield file
