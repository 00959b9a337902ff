"""A child process in a process group of its own, started with the pipes it is given and ended whole.

Promises, to programs that only print and to agents that are spoken with:

* It gets exactly the environment it is given, plus `INTERLOCK_RUN_TOKEN` (made up unless the environment names one),
  by which even what escapes its group is found again. A token must be shared by nothing that should outlive it.
* A supervisor stands between it and us (see `supervisor`): whatever it starts descends from that, and is ended by it
  when we die. `identity` is the supervisor's.
* The supervisor is not waited for before everything has ended: while it is a zombie, its pid cannot be another's.
* When `end` returns, nothing that it started is running but daemons that the user keeps (`processes.kept`), or `left`
  says what.
"""

from __future__ import annotations

import errno
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO

import anyio
import anyio.to_thread

from interlock import processes, supervisor
from interlock.errors import AgentError, CannotStart
from interlock.processes import RUN_HOME, RUN_KEEP, RUN_TEAM, RUN_TOKEN, Identity

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
        """Negative for a signal (-9: KILL); null before the end."""
        self._stop_grace = stop_grace
        self._error = partial(_error, argv, workdir, environment.get("PATH", os.defpath))
        self._begun = False
        self._ended = False
        self._ending = anyio.Lock()
        self._wire, theirs = socket.socketpair()
        # Python sets it for itself where the locale says nothing; the program is to get what it was given.
        unset = [RUN_HOME, RUN_TEAM, RUN_KEEP, *(name for name in ("LC_CTYPE",) if name not in environment)]
        words = [sys.executable or "python3", "-I", "-S", "-E", supervisor.__file__, str(theirs.fileno())]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*words, str(stop_grace), ",".join(unset), *argv],
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
        identity = processes.identify(self._process.pid)
        if identity is None:
            with self._process:  # Closes its pipes and waits.
                self._process.kill()
            self._wire.close()
            raise AgentError("Processes cannot be told apart here: neither /proc nor ps can be read.")
        self.identity: Identity = identity

    async def begun(self) -> None:
        """Return when the program runs. Where it does not, or that is not waited for, nothing of it is left.

        Raises:
            AgentError: it cannot be started; the message says what to check.
        """
        number: int | None = errno.ETIMEDOUT
        try:
            with anyio.move_on_after(_STARTING):
                await anyio.wait_readable(self._wire)
                number, self._begun = self._line(), True
        finally:
            if number != 0:
                await self.end()
        if number != 0:
            raise self._error(OSError(number or errno.EIO, os.strerror(number or errno.EIO)))

    async def exited(self) -> None:
        """Return when the program has ended, or its supervisor."""
        if self.exit_code is None:
            await anyio.wait_readable(self._wire)
            self._hear()

    def _line(self) -> int | None:
        """The next number that the supervisor says; null where it is gone."""
        said = b""
        while not said.endswith(b"\n"):
            byte = self._wire.recv(1)
            if not byte:
                return None
            said += byte
        return int(said)

    def _hear(self) -> None:
        """Note how the program has ended, where that is known by now."""
        try:
            if not self._begun:
                self._begun, _ = True, self._line()
            self.exit_code = self._line()
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
        gone = processes.end_group(leader, grace=self._stop_grace, token=self.token)
        try:
            self._process.wait(_REAPING if gone and not processes.kept(leader) else 0)
        except subprocess.TimeoutExpired:
            # It stays with a daemon that the user keeps, or something has withstood.
            threading.Thread(target=self._process.wait, daemon=True).start()
        if self.exit_code is None:
            self._hear()
        if self.exit_code is None:
            self.exit_code = self._process.returncode or None  # Somebody ended the supervisor itself.
        self._wire.close()
        return gone, () if gone else tuple(processes.group_members(leader, token=self.token))


def refusal(program: str, workdir: str, search: str) -> str | None:
    """Why `program` cannot be started in `workdir` with `search` as its PATH, in a sentence; null where nothing speaks
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
        return f"The program {program!r} is not executable: `chmod +x {shlex.quote(files[0])}`."
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
    return AgentError(text, program=program)
