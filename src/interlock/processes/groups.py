"""Ending everything that one of our programs has started, and nothing else.

What belongs to a program, and how we know:

* **Its process group and session**, whose ids are the leader's pid, because each program is started in a session of
  its own. The system never hands out a pid that still names a group or a session. So while the leader is there
  (running, or ended and not yet waited for) with the start time we know, every member is ours; and once another
  program has that pid (its start time differs), our group is gone and what bears its number is not ours.
* **A group whose leader is gone** is nearly always ours, but could belong to a later leader of the same number that
  is gone, too. Members older than our leader are not ours. Where a token is known, one member has to carry it.
* **What escaped** by starting a session of its own: every program of ours carries `INTERLOCK_RUN_TOKEN=<random>` in
  its environment, and so does what it starts, unless that wipes its environment.
* **What descends from the leader**, whatever it has done to its environment: the leader of a program of ours is its
  supervisor, to which the system gives what has lost its parent. It is ended last, when nothing is left below it. A
  token names supervisors, too, since they carry it.
* **A daemon that the user keeps** (`keep_processes`) is left alone, with what it has started and its supervisor: one of
  that name in a session of its own. The names are in the supervisor's environment, where no program can change them.
* **What belongs to a run and may end before it** (a subagent) has a token of its own, and the run's as
  `INTERLOCK_RUN_WITHIN`: it is ended by itself, or with the run as a *whole*.

Nothing is ever touched on another host, in another boot, or in this very process. Signals go to single processes that
were checked right before (through a pidfd where there is one), never to a group by number.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence

from interlock.errors import InvalidRequest
from interlock.processes import table
from interlock.processes.ancestry import RUN_KEEP, RUN_TOKEN, RUN_WITHIN, supervises
from interlock.processes.ref import ProcessRef, alive, this_boot
from interlock.processes.table import Row

TOKEN_CHARS = 16
_KILL_WAIT = 5.0  # seconds the system gets to remove what was killed; more only for a process stuck in the kernel


def nested(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for what is started within the run of `environment` and may end before it."""
    own = dict(environment)
    token = own.get(RUN_TOKEN)
    return {**own, RUN_WITHIN: token, RUN_TOKEN: os.urandom(16).hex()} if token else own


def group_members(leader: ProcessRef, *, token: str | None = None) -> list[int]:
    """The pids of what still runs of the group led by `leader` and, with `token`, of what carries it.

    Empty on another host or after a reboot. This process is never among them.
    """
    return sorted(_members(leader, token)[0])


def kept_daemons(leader: ProcessRef) -> dict[int, str]:
    """The daemons that a program of ours has left behind and that the user keeps: their names by pid.

    Only those whose parents have ended, and not what they have started in turn.
    """
    if not alive(leader):
        return {}  # Its supervisor stays as long as they do.
    _, _, daemons = _members(leader, None)
    known = {row.pid for row in daemons}
    return {row.pid: max(table.names(row.pid), default="", key=len) for row in daemons if row.parent not in known}


def end_group(leader: ProcessRef, *, grace: float, token: str | None = None, whole: bool = False) -> bool:
    """End the process group and session led by `leader`, and what carries `token`: TERM, `grace` seconds, KILL.

    With `whole`, also what was started within that run with a token of its own.
    Returns True when nothing of it is left (also: nothing was, or this machine was restarted since), False when
    something survived (another user's, stuck in the kernel) or when it lives on another host. A process that leads
    no group of its own is left alone. Blocks for up to `grace` + 5 seconds.
    """
    return leader.here and _end(leader, token, grace, whole)


def end_marked(token: str, grace: float, *, whole: bool = False) -> bool:
    """As `end_group`, for everything on this machine that was started with that run token."""
    return _end(None, token, grace, whole)


def _end(identity: ProcessRef | None, token: str | None, grace: float, whole: bool) -> bool:
    asked: set[tuple[int, int]] = set()
    patience = time.monotonic() + max(grace, 0.0)
    number = signal.SIGTERM
    pause = 0.005
    empty = 0
    while True:
        members, tops, _ = _members(identity, token, whole)
        # The table is not read in one instant: a child forked meanwhile can be missed once, not twice.
        empty = 0 if members else empty + 1
        if empty == 2 or (empty and not asked):
            return True
        now = time.monotonic()
        if now >= patience:
            if number == signal.SIGKILL:
                return False
            number, patience, pause = signal.SIGKILL, now + _KILL_WAIT, 0.005
        for row in members.values():
            if number == signal.SIGKILL:
                if row.pid not in tops or tops.issuperset(members):
                    _send(row, signal.SIGKILL)
            elif (row.pid, row.started) not in asked:
                _send(row, signal.SIGTERM)
                _send(row, signal.SIGCONT)  # a stopped process hears TERM only when it goes on
            asked.add((row.pid, row.started))
        time.sleep(min(pause, max(patience - now, 0.001)))
        pause = min(pause * 1.5, 0.1)


def _members(
    identity: ProcessRef | None, token: str | None, whole: bool = False
) -> tuple[dict[int, Row], set[int], list[Row]]:
    """(what is to be ended, the supervisors among it, the daemons that the user keeps)."""
    if token is not None and len(token) < TOKEN_CHARS:
        raise InvalidRequest(f"A run token has at least {TOKEN_CHARS} characters; {token!r} could name a stranger.")
    if identity is not None and (not identity.here or identity.boot != this_boot()):
        return {}, set(), []
    since = identity.started if identity else 0
    rows = [row for row in table.rows() if row.started >= since]
    running = [row.pid for row in rows if row.running]
    names = (RUN_TOKEN, RUN_WITHIN) if whole else (RUN_TOKEN,)
    marked = {pid for name in names for pid in table.marked(running, f"{name}={token}")} if token else set()
    tops = {pid for pid in marked if supervises(pid)}
    group: list[Row] = []
    if identity is not None:
        group = [row for row in rows if identity.pid in (row.group, row.session)]
        leader = table.row(identity.pid)
        if leader is None:
            ours = not token or any(row.pid in marked for row in group)
        else:
            ours = leader.started == since
        group = group if ours else []
        if leader is not None and ours:
            tops.add(identity.pid)
    group += [row for top in tops for row in descendants(rows, top)]
    found = {row.pid: row for row in [*group, *(row for row in rows if row.pid in marked)] if row.running}
    kept = _daemons(found, tops)
    for row in kept:
        for one in (row, *descendants(rows, row.pid)):
            found.pop(one.pid, None)
    for top in [top for top in tops if any(row in descendants(rows, top) for row in kept)]:
        found.pop(top, None)
    found.pop(os.getpid(), None)
    return found, tops, kept


def _daemons(found: Mapping[int, Row], tops: set[int]) -> list[Row]:
    """Those of `found` that the user keeps, as the supervisors say that are below no other one."""
    outermost = [top for top in tops if top not in found or found[top].parent not in found]
    names = {name for top in outermost for name in table.environment(top).get(RUN_KEEP, "").split(",") if name}
    if not names:
        return []
    names |= {name[:15] for name in names}
    return [
        row
        for row in found.values()
        if row.session not in tops and row.pid not in tops and names & table.names(row.pid)
    ]


def descendants(rows: Sequence[Row], pid: int) -> list[Row]:
    """What descends from that process, by the parents that its descendants have now."""
    children: dict[int, list[Row]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row)
    found: list[Row] = []
    parents = [pid]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [row.pid for row in below]
    return found


def _send(row: Row, number: int) -> None:
    """Signal that very process; one that is gone, or another user's, is left to the next look."""
    try:
        handle = os.pidfd_open(row.pid)
    except (AttributeError, OSError):
        handle = -1  # not Linux, forbidden in this container, or gone
    try:
        now = table.row(row.pid)
        if now is None or now.started != row.started:
            return
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(row.pid, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        if handle >= 0:
            os.close(handle)
