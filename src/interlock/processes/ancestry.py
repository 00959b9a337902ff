"""Which run a process belongs to, whatever it says of itself.

What Interlock starts for an agent (its program, a verify, a setup, a hook) descends from a supervisor, which carries
`INTERLOCK_RUN_TOKEN` in the environment that it was started with, beside the variables that name its home, team and
member. A process can clear and change its own environment, and that of what it starts, but not that of a process above
it. So the ancestors are asked, and the outermost one counts: below itself an agent may start anything, with any
variables.
"""

from __future__ import annotations

import os
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

GENERATIONS = 64
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"})
SUBREAPED = sys.platform == "linux"
"""Whether what loses its parent stays below its run's supervisor. Elsewhere it goes to the system's first process."""


def supervises(pid: int) -> bool:
    """Whether that process calls itself the supervisor of a run."""
    return any(word.endswith(SUPERVISOR) for word in table.words(pid)[1:6])


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
        model.run.RunOrigin(os.getpid(), certain=False)
        if began and oldest and oldest[0].started >= min(began)
        else None
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
    for _ in range(GENERATIONS):
        row = table.row(pid)
        if row is None:
            return
        yield row
        pid = row.parent


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
