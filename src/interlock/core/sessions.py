"""Which member a program is that somebody started and that joined (`interlock join`).

A window of such a program is a member. It takes its seat when it first speaks: the member it is to be called by, or,
while another living window has that one, the next free name (`ada`, `ada-2`, …). What ties a window to its seat is the
program's own session id, and the process it lives in: a session that is resumed, in whatever process, gets its member
back, and so does a process that begins a new session. Both are rows of the ledger, so nothing needs a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from interlock.core.teams import spawn
from interlock.core.unit_of_work import Principal, UnitOfWork, begin
from interlock.errors import MemberLimit
from interlock.model.names import LEAD
from interlock.storage.ledger import Rows

Alive = Callable[[str], bool | None]

FACE = "hook"
NAMES = 100
"""How many names are tried for a new window."""


def of_window(rows: Rows, session: str, lineage: Sequence[str]) -> str | None:
    """The member of the open session of that id, in one of these processes where several have it; null without one."""
    found = [(member, process) for member, _, process, ended in rows.sessions.joined(session) if ended is None]
    for member, process in found:
        if process in lineage:
            return member
    return found[0][0] if found else None


def around(rows: Rows, lineage: Callable[[], Sequence[str]]) -> tuple[str, str] | None:
    """(member, session) of the joined program that the caller descends from, the nearest first.

    `lineage` is asked only where anybody has joined: it costs a look at processes.
    """
    seats = rows.sessions.joined()
    if not seats:
        return None
    for process in lineage():
        for member, session, lives_in, _ in seats:
            if lives_in == process:
                return member, session
    return None


def take(act: UnitOfWork, *, program: str, session: str, process: str, name: str, alive: Alive) -> UnitOfWork:
    """Give a window its seat, and answer the same transaction as its member's act.

    Args:
        act: of Interlock itself.
        program: the kind of program, such as `claude`.
        session: the program's own id of its session.
        process: the process that the window lives in.
        name: what it is to be called by.

    Raises:
        MemberLimit: it needs a new member, and the team has as many as it may.
        InvalidRequest: the session's id is no text of at most 200 characters.
    """
    team, sessions = act.rows.team, act.rows.sessions
    member = _resumed(act, session, process, alive)
    before = sessions.joined(process=process)
    if member is None:
        member = next((row[0] for row in before if team.address(row[0]) is not None), None)
    fresh = member is None
    if member is None:
        member = _free(act, name, program, alive)
    for other, old, lives_in, _ in sessions.joined():
        if (other, old) != (member, session) and lives_in is not None and alive(lives_in) is False:
            _end(act, other, old)
    if not fresh and sessions.known(member, session):
        sessions.begin(member, session, act.at, process, program)
    joined = begin(act.rows, Principal(member, session, None, FACE, process, program=program), act.home, act.clock)
    joined.topics = act.topics
    for other, old, _, ended in before:
        if (other, old) != (member, session):
            if other == member:
                _move(joined, old)
            if ended is None:
                _end(act, other, old)
    act.head = max(act.head, joined.head)
    return joined


def leave(act: UnitOfWork) -> None:
    """The window is closed."""
    _end(act, act.name, act.session)


def unreported(act: UnitOfWork) -> list[tuple[str, str]]:
    """(id, subject) of the tasks in progress that the act's session claimed and has not reported on."""
    found: list[tuple[str, str]] = []
    if not act.rows.sessions.hold_work(act.name, act.session):
        return found
    for run in act.rows.runs.of_member_session(act.name, act.session):
        task = act.rows.tasks.get(run.task_id)
        if run.result is None and task is not None and task.run == run.number:
            found.append((task.id, task.subject))
    return found


def idle(act: UnitOfWork, task_ids: Sequence[str]) -> None:
    """It stops, sent back or not, and has reported nothing (decision 21)."""
    for id in task_ids:
        task = act.rows.tasks.get(id)
        if task is not None:
            act.event("agent.idle_without_report", id, run=task.run_id, member=act.name)


def _resumed(act: UnitOfWork, session: str, process: str, alive: Alive) -> str | None:
    """The member that had that session, unless another living window has it open."""
    for member, _, lives_in, ended in act.rows.sessions.joined(session):
        open_elsewhere = ended is None and lives_in not in (None, process) and alive(str(lives_in)) is not False
        if (
            not open_elsewhere
            and act.rows.team.address(member) is not None
            and not _occupied(act, member, process, alive)
        ):
            return member
    return None


def _occupied(act: UnitOfWork, member: str, process: str, alive: Alive) -> bool:
    return any(
        other == member and lives_in not in (None, process) and alive(str(lives_in)) is not False
        for other, _, lives_in, _ in act.rows.sessions.joined()
    )


def _free(act: UnitOfWork, name: str, program: str, alive: Alive) -> str:
    """A member without a window: of that name, else of the next, made where there is none."""
    for candidate in _names(name, program):
        member = act.rows.team.member(candidate)
        if member is None:
            return spawn(act, candidate, type=program).name
        # A numbered one that somebody made for another purpose is not ours to sit on.
        ours = candidate == name or member.type == program
        if ours and member.agent is None and member.role != "person" and not _occupied(act, candidate, "", alive):
            return candidate
    raise MemberLimit(f"{NAMES} windows are called {name} already. Close some, or join under another --name.")


def _names(name: str, program: str) -> Iterator[str]:
    yield name
    # There is one lead.
    stem = program if name == LEAD else name
    if stem != name:
        yield stem
    for number in range(2, NAMES):
        yield f"{stem[: 49 - len(str(number))]}-{number}"


def _move(act: UnitOfWork, old: str) -> None:
    """The same window goes on in a new session: what it holds, it holds."""
    if not act.rows.sessions.hold_work(act.name, old):
        return
    for run in act.rows.runs.of_member_session(act.name, old):
        task = act.rows.tasks.get(run.task_id)
        act.rows.runs.update(run, session=act.session)
        if task is not None and task.run == run.number:
            act.rows.tasks.update(task, session=act.session, updated_at=act.at)


def _end(act: UnitOfWork, member: str, session: str) -> None:
    act.rows.sessions.end(member, session, act.at)
    act.event("session.ended", member=member, session=session)
