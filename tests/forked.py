"""Processes of this tree's code that need not load it: each is forked from one that has, and is otherwise its own.

`Forked(main, "home", …)` is used like `subprocess.Popen` with pipes and text. Where the start of a program is the point
(its command line, its environment as others see it, what it loads), a test starts it with `subprocess` as users do.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.forked_modules"])
# Begun within a test it would carry that test's run token, and be ended with its run.
resource_tracker.ensure_running()


class Forked:
    """One process that does `main(*arguments)`, in the current environment with `environment` added. Its errors go
    where ours go, unless `errors` are wanted."""

    def __init__(
        self,
        main: Callable[..., object],
        *arguments: str,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        errors: bool = True,
    ) -> None:
        pipes = [FORKS.Pipe(duplex=False) for _ in range(2 if errors else 1)]
        surroundings = {**os.environ, **(environment or {})}
        where = str(directory or Path.cwd())
        self._process = FORKS.Process(
            target=_begin, args=(main, arguments, where, surroundings, [end for _, end in pipes]), daemon=True
        )
        self._process.start()
        for _, end in pipes:
            end.close()
        self.stdout = _text(pipes[0][0])
        self.stderr = _text(pipes[1][0]) if errors else None
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both to their ends, wait for its own, and close them."""
        read = ["", ""]

        def drain(place: int, stream: TextIO) -> None:
            with stream:
                read[place] = stream.read()

        streams = [(place, one) for place, one in enumerate((self.stdout, self.stderr)) if one and not one.closed]
        threads = [threading.Thread(target=drain, args=one, daemon=True) for one in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout)
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        self.wait(timeout)
        return read[0], read[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _text(end: Connection) -> TextIO:
    stream = open(os.dup(end.fileno()), encoding="utf-8")  # noqa: SIM115
    end.close()
    return stream


def _begin(
    main: Callable[..., object],
    arguments: tuple[str, ...],
    directory: str,
    environment: dict[str, str],
    ends: list[Connection],
) -> None:
    """What a new process does instead of being executed."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number, name, end in zip((1, 2), ("stdout", "stderr"), ends, strict=False):
        os.dup2(end.fileno(), number)
        end.close()
        setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    main(*arguments)


def interlock(*words: str) -> None:
    """`interlock WORD…`: the console script's own entry."""
    from interlock.surfaces.cli import main

    sys.argv = ["interlock", *words]
    main()
