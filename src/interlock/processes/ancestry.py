"""Which run a process belongs to, whatever it says of itself.

What Interlock starts for an agent (its program, a verify, a setup, a hook) descends from a supervisor, which carries
`INTERLOCK_RUN_TOKEN` in the environment that it was started with, beside the variables that name its home, team and
member. A process can clear and change its own environment, and that of what it starts, but not that of a process above
it. So the ancestors are asked, and the outermost one counts: below itself an agent may start anything, with any
variables.

A process can also hide its ancestors from itself, in a PID namespace of its own or below another /proc. It cannot hide
that they are there: a supervisor holds a lock on the directory of its home, and the kernel tells whoever asks for that
lock by which process it is held, or that this process has no number there (decision 0730).
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from interlock import model
from interlock.errors import InvalidRequest
from interlock.processes import table
from interlock.processes.ref import ProcessRef, this_boot, this_host

RUN_TOKEN = "INTERLOCK_RUN_TOKEN"
RUN_WITHIN = "INTERLOCK_RUN_WITHIN"
RUN_HOME = "INTERLOCK_RUN_HOME"
RUN_TEAM = "INTERLOCK_RUN_TEAM"
"""The home and the team that a run is of, for its supervisor; the program does not see them."""

RUN_KEEP = "INTERLOCK_RUN_KEEP"
"""For its supervisor only, too: the names of the daemons that a run may leave behind, with commas between."""

SUPERVISOR = os.path.join("processes", "supervisor.py")

_FLOCK = "hhqqi"
"""The kernel's `struct flock`: the kind of a lock, from where it counts, its first byte, its length, who holds it."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"})
ADRIFT = "This process has no terminal, and began while a run was open: it may belong to that run."
HIDDEN = (
    "A run is at work, and its processes cannot be seen from here, as in a PID namespace of its own or without /proc: "
    "this process may belong to that run."
)
SUBREAPED = sys.platform == "linux"
"""Whether what loses its parent stays below its run's supervisor. Elsewhere it goes to the system's first process."""


def supervises(pid: int) -> bool:
    """Whether that process calls itself the supervisor of a run."""
    return any(word.endswith(SUPERVISOR) for word in table.words(pid)[1:6])


def hidden_run(home: str) -> model.run.RunOrigin | None:
    """What this process counts as where programs of that home are at work that it cannot see: it may be one of them.

    A process in a container of its own, or in a sandbox, sees what is at work in there, and is a person's then.
    """
    if not SUBREAPED:
        return None
    try:
        directory = os.open(home, os.O_RDONLY)
    except OSError:
        return None
    try:
        # The answer is the oldest lock. What hides in a namespace is younger than its supervisor, and sees none older.
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, holder = struct.unpack(_FLOCK, fcntl.fcntl(directory, fcntl.F_GETLK, asked))
    except OSError:
        return None  # a file system without locks
    finally:
        os.close(directory)
    if kind == fcntl.F_UNLCK or (_shows_us() and table.row(holder) is not None):
        return None
    return model.run.RunOrigin(os.getpid(), doubt=HIDDEN)


def _shows_us() -> bool:
    """Whether /proc is that of the PID namespace which this process is in."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def possible_run(runs: Iterable[str | None]) -> model.run.RunOrigin | None:
    """What this process counts as where orphans do not stay below their run, and it may belong to one of the open
    `runs` (their stored processes): it has no terminal, and no process above it is older than the run."""
    if SUBREAPED:
        return None
    began = []
    for text in runs:
        try:
            began.append(ProcessRef.parse(text or "").started)
        except InvalidRequest:
            continue
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        return None
    except OSError:
        pass
    oldest = [row for row in _rows_up(os.getpid()) if row.pid > 1][-1:]
    return (
        model.run.RunOrigin(os.getpid(), doubt=ADRIFT) if began and oldest and oldest[0].started >= min(began) else None
    )


def origin(home: str) -> model.run.RunOrigin | None:
    """The run of that home that this process belongs to; None outside of every run."""
    # Nothing gets out of a run, or into one: the ancestors are looked at once.
    known = _runs_around_us() or ([_run_of(os.environ, os.getpid())] if RUN_TOKEN in os.environ else [])
    return next((run for run in known if _concerns(run, home)), None)


def origin_of(pid: int, home: str) -> model.run.RunOrigin | None:
    """The run of that home that another process belongs to; None outside of every run."""
    return next((run for run in _runs_around(pid) if _concerns(run, home)), None)


def _run_of(environment: Mapping[str, str], pid: int) -> model.run.RunOrigin:
    return model.run.RunOrigin(
        pid,
        home=environment.get(RUN_HOME) or environment.get("INTERLOCK_HOME"),
        team=environment.get(RUN_TEAM) or environment.get("INTERLOCK_TEAM"),
        member=environment.get("INTERLOCK_MEMBER"),
        session=environment.get("INTERLOCK_SESSION"),
    )


def _concerns(run: model.run.RunOrigin, home: str) -> bool:
    """Whether it is a run of that home; one that names none is of every home."""
    if run.home is None or run.home == home:
        return True
    try:
        return os.path.samefile(run.home, home)
    except OSError:
        return False  # One of them does not exist.


@cache
def _runs_around_us() -> list[model.run.RunOrigin]:
    return _runs_around(os.getppid())


os.register_at_fork(after_in_child=_runs_around_us.cache_clear)


def _runs_around(pid: int) -> list[model.run.RunOrigin]:
    """The runs that the process belongs to, the outermost first."""
    found: list[model.run.RunOrigin] = []
    for row in _rows_up(pid):
        environment = table.environment(row.pid)
        if RUN_TOKEN in environment:
            found.insert(0, _run_of(environment, row.pid))
    # What a program below has changed its variables to says nothing; without a supervisor (it was killed) it is all
    # there is.
    return [run for run in found if supervises(run.pid)] or found


def _rows_up(pid: int) -> Iterator[table.Row]:
    """That process and those that it descends from; in a container the first one may be a run's, too."""
    row = table.row(pid)
    while row is not None:
        yield row
        above = table.row(row.parent)
        if above is None and row.parent > 0 and (again := table.row(row.pid)) is not None:
            above = table.row(again.parent)  # Its parent may have ended meanwhile.
        row = above


def ancestors() -> list[ProcessRef]:
    """The processes that this one descends from, its parent first."""
    rows = [row for row in _rows_up(os.getppid()) if row.pid > 1]
    return [ProcessRef(this_host(), this_boot(), row.pid, row.started) for row in rows]


def starter() -> ProcessRef | None:
    """The program that had this one started: the nearest ancestor that is no shell which only runs a command."""
    found = ancestors()
    for process in found:
        words = table.words(process.pid)
        shell = bool(words) and os.path.basename(words[0]).lstrip("-") in _SHELLS
        if not (shell and any(word.startswith("-") and word.endswith("c") for word in words[1:4])):
            return process
    return found[0] if found else None
