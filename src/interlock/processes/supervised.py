"""A short program below a supervisor of its own, waited for in place: nothing that it starts outlives it.

For calls from any thread; what is listened to while it runs is a `Program`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from interlock.processes import groups, ref, supervisor
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.ref import ProcessRef

GRACE = 1.0
"""Seconds that what it has left running gets to end."""
_GOING = 0.3  # seconds for a supervisor below which nothing is left


def command(wire: int, grace: float, unset: Sequence[str], argv: Sequence[str]) -> list[str]:
    """What starts a supervisor that speaks over the descriptor `wire` and starts `argv` (see `supervisor`)."""
    words = [sys.executable or "python3", "-I", "-S", "-E", supervisor.__file__]
    return [*words, str(wire), str(grace), ",".join(unset), *argv]


def run(
    argv: Sequence[str], *, workdir: str, environment: Mapping[str, str], stdin: bytes | None, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run it to its end: its exit code (negative for a signal), and what it printed on both streams.

    It gets a run token of its own, by which what escapes its supervisor is found.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took more than `timeout` seconds; it was ended, with all that it had started.
    """
    token = os.urandom(16).hex()
    wire, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                command(theirs.fileno(), GRACE, (), argv),
                cwd=workdir,
                env={**environment, RUN_TOKEN: token},
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        except BaseException:
            wire.close()
            raise
    leader = ref.identify(process.pid)  # It was not waited for, so the number is still its own.
    said, read = list[int](), threading.Event()
    # While the streams are read here: a daemon that it leaves may hold them open.
    watch = threading.Thread(target=_watch, args=(wire, leader, token, said, read), daemon=True)
    watch.start()
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except BaseException:
        _end(leader, token)
        process.kill()  # The program ends with its supervisor, also where no process can be told from another.
        process.communicate()
        raise
    finally:
        read.set()
        watch.join()
        wire.close()
    if said and said[0]:
        raise OSError(said[0], os.strerror(said[0]))
    return (said[1] if len(said) > 1 else -signal.SIGKILL), out, err


def _watch(wire: socket.socket, leader: ProcessRef | None, token: str, said: list[int], read: threading.Event) -> None:
    """Hear the supervisor: the number of the error that starting met, 0 for none, and the exit code. Then end what is
    left. `read`: nobody reads the streams any more."""
    with wire.makefile("rb") as lines:
        for line in (lines.readline(), lines.readline()):
            if line:
                said.append(int(line.split()[0]))
        wire.settimeout(_GOING)
        try:
            lines.readline()
        except TimeoutError:
            _end(leader, token)
    if not said or (said[0] == 0 and len(said) == 1):
        _end(leader, token)  # Somebody has ended the supervisor, and what it had below itself went elsewhere.
        while not read.wait(_GOING):
            _end(leader, token)  # What was started in the moment of its end was not seen yet, and holds the streams.


def _end(leader: ProcessRef | None, token: str) -> None:
    if leader is not None:
        groups.end_group(leader, grace=GRACE, token=token)
