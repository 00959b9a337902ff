"""One program under our care: started in a process group of its own, listened to, limited, and ended whole.

Promises, to the command agent, the shell executor and verify alike:

* It gets exactly the environment it is given, plus `INTERLOCK_RUN_TOKEN` (made up unless the environment names one),
  by which even what escapes its group is found again. A token must be shared by nothing that should outlive it.
* Its standard error goes where its standard output goes, in order. Its standard input is what is given, or empty.
* The first process is not waited for before its group has ended: while it is a zombie, the pid cannot be another's.
* When `wait` or `close` returns, also by cancellation, nothing that it started is running, or `Ending.left` says what.
"""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from interlock import processes
from interlock.errors import AgentError
from interlock.output import Output
from interlock.processes import RUN_TOKEN, Identity

LINGER = 1.0  # seconds for output still in the pipe after the program has ended

_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended.

    `exit_code` is negative for a signal (-9: KILL), null if it could not be ended. `left` lists the pids of what
    withstood. `detail` is a sentence where the rest does not say all.
    """

    stop: Literal["end", "failed", "killed", "cancelled", "timeout"]
    exit_code: int | None
    output: str
    seconds: float
    detail: str | None = None
    left: tuple[int, ...] = ()


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
        self.identity: Identity | None = None
        self.token = environment.get(RUN_TOKEN) or os.urandom(16).hex()
        self._workdir = workdir
        self._environment = {**environment, RUN_TOKEN: self.token}
        self._stop_grace = stop_grace
        self._stdin = stdin
        self._output_of = partial(Output, log=log, secrets=tuple(secrets), limit=output_bytes)
        self._output: Output | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._started = 0.0
        self._cancelled = False
        self._patience: anyio.CancelScope | None = None
        self._done: anyio.Event | None = None
        self._ended = False
        self._left: tuple[int, ...] = ()

    def start(self) -> Identity:
        """Start it.

        Raises:
            AgentError: it cannot be started; the message says what to check.
            StorageError: the log file cannot be opened.
        """
        self._output = self._output_of()
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            with _given(self._stdin) as stdin:
                self._process = subprocess.Popen(
                    self.argv,
                    cwd=self._workdir,
                    env=self._environment,
                    stdin=stdin,
                    stdout=write_end,
                    stderr=write_end,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            self._put_away()
            raise AgentError(_why_not(self.argv, self._workdir, error), program=self.argv[0]) from error
        finally:
            os.close(write_end)
        self._started = time.monotonic()
        # It may have ended by now, but nobody has waited for it, so the pid still names it.
        self.identity = processes.identify(self._process.pid)
        if self.identity is None:
            self._process.kill()
            self._process.wait()
            self._put_away()
            raise AgentError("Processes cannot be told apart here: neither /proc nor ps can be read.")
        return self.identity

    async def wait(self, time_limit: float, on_line: Callable[[str], None]) -> Ending:
        """Listen until it has ended, or end it when `time_limit` seconds are over or `cancel` is called.

        `on_line` is called in the event loop for each line; what it raises ends the program and is raised here.
        """
        process, output = self._process, self._output
        if process is None or output is None or self._done is not None:
            raise RuntimeError("wait follows start, once")
        self._done = anyio.Event()
        self._patience = anyio.CancelScope()
        exited = False
        try:
            async with anyio.create_task_group() as listeners:
                drained = anyio.Event()
                listeners.start_soon(self._listen, output, on_line, drained)
                with self._patience, anyio.move_on_after(time_limit - (time.monotonic() - self._started)):
                    if self._cancelled:
                        self._patience.cancel()
                    await _exited(process)
                    exited = True
                if exited:
                    # Something it left behind may hold the pipe open for ever.
                    with anyio.move_on_after(LINGER):
                        await drained.wait()
                await self._end()
                with anyio.move_on_after(LINGER):
                    await drained.wait()
                listeners.cancel_scope.cancel()
            output.finish(on_line)
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()
            self._put_away()
            self._done.set()
        return self._ending(exited, output)

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
            await self._end()
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

    async def _end(self) -> None:
        if self._process is None or self.identity is None or self._ended:
            return
        with anyio.CancelScope(shield=True):
            self._ended, self._left = await anyio.to_thread.run_sync(self._end_all, self.identity)
        if self._process.returncode is None:
            self._process.poll()

    def _end_all(self, leader: Identity) -> tuple[bool, tuple[int, ...]]:
        if self._process is not None and self._process.returncode is not None:
            # The system made us wait for the leader to learn of its end (see `_has_exited`). We have watched the group
            # until now, so it is ours without proof.
            gone = processes.end_group(leader, grace=self._stop_grace)
            gone = processes.end_marked(self.token, self._stop_grace) and gone
        else:
            gone = processes.end_group(leader, grace=self._stop_grace, token=self.token)
        return gone, () if gone else tuple(processes.group_members(leader, token=self.token))

    def _put_away(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._output is not None:
            self._output.close()

    def _ending(self, exited: bool, output: Output) -> Ending:
        code = self._process.returncode if self._process else None
        stop: Literal["end", "failed", "killed", "cancelled", "timeout"]
        if not exited:
            stop = "cancelled" if self._cancelled else "timeout"
        elif code == 0:
            stop = "end"
        else:
            stop = "killed" if code is not None and code < 0 else "failed"
        detail = output.warning
        if self._left:
            detail = f"still running in spite of KILL: process {', '.join(map(str, self._left))}"
        return Ending(stop, code, output.text, time.monotonic() - self._started, detail, self._left)


@contextmanager
def _given(text: str | None) -> Iterator[IO[bytes]]:
    """Standard input with `text`. A file, not a pipe: a program that does not read it can never make us wait."""
    if text is None:
        with open(os.devnull, "rb") as nothing:
            yield nothing
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        yield file


async def _exited(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended, without waiting for it in the system's sense (see the module's promises)."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        pause = 0.005
        while not _has_exited(process):
            await anyio.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):  # macOS before Python 3.13: nothing but waiting for it tells
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _why_not(argv: Sequence[str], workdir: str, error: OSError | ValueError) -> str:
    program = argv[0]
    number = error.errno if isinstance(error, OSError) else None
    if not os.path.isdir(workdir):
        return f"The working directory {workdir} does not exist: make it, or correct `workdir`."
    if number == errno.ENOENT:
        return (
            f"The program {program!r} was not found (or the interpreter its first line names): install it, or check "
            "its spelling and PATH."
        )
    if number == errno.EACCES:
        return f"The program {program!r} may not be executed: check its permissions (chmod +x) and its directory's."
    if number == errno.ENOEXEC:
        return f"The program {program!r} is not executable: if it is a script, its first line must name an interpreter."
    if number == errno.E2BIG:
        return f"The arguments for {program!r} are too long for the system: give the prompt on standard input instead."
    return f"The program {program!r} could not be started: {error}. Check its arguments and environment."
