"""One program under our care: started in a process group of its own, listened to, limited, and ended whole.

Promises, to the command agent, the shell executor and verify alike:

* It is a `Child`, with all that one promises.
* Its standard error goes where its standard output goes, in order. Its standard input is what is given, or empty.
* When `wait` or `close` returns, also by cancellation, nothing that it started is running, or `Ending.left` says what.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Literal

import anyio
import anyio.lowlevel

from interlock.child import Child
from interlock.output import Output
from interlock.processes import Identity

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
    def identity(self) -> Identity | None:
        """The first process, once it was started."""
        return self._child.identity if self._child else None

    async def start(self) -> Identity:
        """Start it.

        Raises:
            AgentError: it cannot be started; the message says what to check.
            StorageError: the log file cannot be opened.
        """
        self._output = self._output_of()
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
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
            os.close(write_end)
        try:
            await self._child.begun()
        except BaseException:
            self._put_away()
            raise
        return self._child.identity

    async def wait(self, time_limit: float, on_line: Callable[[str], None]) -> Ending:
        """Listen until it has ended, or end it when `time_limit` seconds are over or `cancel` is called.

        `on_line` is called in the event loop for each line; what it raises ends the program and is raised here.
        """
        child, output = self._child, self._output
        if child is None or output is None or self._done is not None:
            raise RuntimeError("wait follows start, once")
        self._done = anyio.Event()
        self._patience = anyio.CancelScope()
        exited = False
        try:
            async with anyio.create_task_group() as listeners:
                drained = anyio.Event()
                listeners.start_soon(self._listen, output, on_line, drained)
                with self._patience, anyio.move_on_after(time_limit - (time.monotonic() - child.started)):
                    if self._cancelled:
                        self._patience.cancel()
                    await child.exited()
                    exited = True
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
        return self._ending(exited, child, output)

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

    def _ending(self, exited: bool, child: Child, output: Output) -> Ending:
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
        return Ending(stop, code, output.text, time.monotonic() - child.started, detail, child.left)


@contextmanager
def standard_input(text: str | None) -> Iterator[IO[bytes]]:
    """Standard input with `text`. A file, not a pipe: a program that does not read it can never make us wait."""
    if text is None:
        with open(os.devnull, "rb") as nothing:
            yield nothing
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        yield file
