"""Which run a process belongs to, whatever it says of itself.

What Interlock starts for an agent (its program, a verify, a setup, a hook) descends from a supervisor, which carries
`INTERLOCK_RUN_TOKEN` in the environment that it was started with, beside the variables that name its home, team and
member. A process can clear and change its own environment, and that of what it starts, but not that of a process above
it. So the ancestors are asked, and the outermost one counts: below itself an agent may start anything, with any
variables.

Loaded by every hook: a look costs two small files for each generation, and is taken once in a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from interlock.errors import Forbidden, InvalidRequest
from interlock.processes import table
from interlock.processes.groups import RUN_HOME, RUN_TEAM, RUN_TOKEN, supervises
from interlock.processes.ref import ProcessRef, identify

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"})
GENERATIONS = 64
SUBREAPED = sys.platform == "linux"
"""Whether what loses its parent stays below its run's supervisor. Elsewhere it goes to the system's first process."""


class RunOrigin:
    """The run that a process belongs to: the member that it acts as, and no other. A check acts for nobody: `member`
    is null."""

    __slots__ = ("home", "member", "pid", "session", "team")

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        self.home = environment.get(RUN_HOME) or environment.get("INTERLOCK_HOME")
        self.team = environment.get(RUN_TEAM) or environment.get("INTERLOCK_TEAM")
        self.member = environment.get("INTERLOCK_MEMBER")
        self.session = environment.get("INTERLOCK_SESSION")
        self.pid = pid

    def concerns(self, home: str) -> bool:
        """Whether it is a run of that home; one that names none is of every home."""
        if self.home is None or self.home == home:
            return True
        try:
            return os.path.samefile(self.home, home)
        except OSError:
            return False  # One of them does not exist.

    def must_be(self, team: str, member: str) -> None:
        """Refuse to act as anybody else.

        Raises:
            Forbidden: that is somebody else.
        """
        if (team, member) != (self.team, self.member):
            raise Forbidden(
                f"{self} It cannot act as {member} in {team}, whatever its environment says. Leave --as out, or act "
                f"as {member} from a terminal outside of the run.",
                member=member,
            )

    def refusal(self, what: str) -> Forbidden:
        """The error for what is a person's alone."""
        return Forbidden(
            f"{self} It cannot {what}: a person does that, at a terminal outside of every run.", member=self.member
        )

    def __str__(self) -> str:
        if self.member is None:
            return "This runs within what Interlock itself runs (a check, a setup or a hook), which acts for nobody."
        return f"This runs within a run of {self.member} in {self.team}, and acts as {self.member} only."


class PossibleRun(RunOrigin):
    """One whose run is not known."""

    __slots__ = ()

    def __str__(self) -> str:
        return "This process has no terminal, and began while a run was open: it may belong to that run."


def adrift(runs: Iterable[str | None]) -> RunOrigin | None:
    """What this process counts as where lost ones do not stay below their run, and it may be one of the open `runs`
    (their processes as text): it has no terminal, and not even the topmost process above it is older than the run."""
    began = []
    for one in runs:
        try:
            began.append(ProcessRef.parse(one or "").started)
        except InvalidRequest:
            continue
    if SUBREAPED or not began:
        return None
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        return None
    except OSError:
        pass
    pid = os.getpid()
    top = row = table.row(pid)
    while row is not None and row.parent > 1:
        row = table.row(row.parent)
        top = row or top
    return PossibleRun({}, pid) if top is not None and top.started >= min(began) else None


def origin(home: str) -> RunOrigin | None:
    """The run of that home that this process belongs to; null outside of every run."""
    return _of_home(_around_us(), home)


def origin_of(pid: int, home: str) -> RunOrigin | None:
    """The same for another process."""
    return _of_home(_around(pid), home)


def _of_home(found: list[RunOrigin], home: str) -> RunOrigin | None:
    return next((one for one in found if one.concerns(home)), None)


_known: tuple[int, list[RunOrigin]] | None = None


def _around_us() -> list[RunOrigin]:
    """Since nobody gets out of a run, or into one, the ancestors are looked at once; a fork is another process."""
    global _known
    pid = os.getpid()
    if _known is None or _known[0] != pid:
        _known = pid, _around(os.getppid())
    return _known[1] or ([RunOrigin(os.environ, pid)] if RUN_TOKEN in os.environ else [])


def _around(pid: int) -> list[RunOrigin]:
    """The runs that the process belongs to, the outermost first."""
    found: list[RunOrigin] = []
    for _ in range(GENERATIONS):
        row = table.row(pid)
        if row is None:
            break
        environment = table.environment(pid, RUN_TOKEN)
        if environment is not None:
            found.insert(0, RunOrigin(environment, pid))
        pid = row.parent
    # What a program below has changed its variables to says nothing; without a supervisor (it was killed) it is all
    # there is.
    return [one for one in found if supervises(one.pid)] or found


def ancestors() -> list[ProcessRef]:
    """The processes that this one descends from, its parent first."""
    found: list[ProcessRef] = []
    row = table.row(os.getpid())
    while row is not None and row.parent > 1 and len(found) < GENERATIONS:
        above = identify(row.parent)
        row = table.row(row.parent)
        if above is not None:
            found.append(above)
    return found


def starter() -> ProcessRef | None:
    """The program that had this one started: the nearest ancestor that is no shell which only carries out a command."""
    found = ancestors()
    for process in found:
        words = table.words(process.pid)
        shell = bool(words) and os.path.basename(words[0]).lstrip("-") in _SHELLS
        if not (shell and any(word.startswith("-") and word.endswith("c") for word in words[1:4])):
            return process
    return found[0] if found else None
