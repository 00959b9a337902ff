"""Which member a program is that somebody started and that joined (`interlock join`).

A window of such a program is a member. It takes its seat when it first speaks: the member it is to be called by, or,
while another living window has that one, the next free name (`ada`, `ada-2`, …). What ties a window to its seat is the
program's own session id, and the process it lives in: a session that is resumed, in whatever process, gets its member
back, and so does a process that begins a new session. Both are rows of the ledger, so nothing needs a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from interlock.core.tasks.transition import lease
from interlock.core.teams import spawn
from interlock.core.unit_of_work import Principal, UnitOfWork, begin, unknown_member
from interlock.errors import Conflict, MemberLimit
from interlock.lazy_dataclass import dataclass
from interlock.model.message import Message, as_xml
from interlock.model.names import LEAD, SESSION_KEY_LIMIT, check_text
from interlock.processes.ref import ProcessRef
from interlock.storage.ledger import Rows

Alive = Callable[[str], bool | None]

FACE = "hook"
NAMES = 100
"""How many names are tried for a new window."""


@dataclass(slots=True)
class HookReply:
    """What a window is told at one event. It counts as handed over when the `with` block that gives it ends."""

    member: str = ""
    """Who the window is; empty where it has no seat, and there is nothing to say."""
    team: str = ""
    messages: Sequence[Message] = ()
    unreported: Sequence[tuple[str, str]] = ()
    """At `stop`: (id, subject) of its tasks in progress without a report. Where it is not to be sent back, this and
    `messages` are empty."""
    fresh: bool = False
    """Whether it begins now, and should hear who it is."""
    state: str = ""

    def as_xml(self) -> str:
        """The messages as a hook gives them, after the state of the team for the lead."""
        return self.state + "".join(as_xml(message) for message in self.messages)


@dataclass(slots=True, frozen=True)
class WindowNews:
    """A `HookReply` for a window on another machine. `text` is the mail as XML, `numbers` those of its messages: they
    stay offered until `finish_handover` says what became of them."""

    member: str
    team: str
    text: str
    numbers: list[int]
    unreported: list[tuple[str, str]]
    fresh: bool
    beside: list[str]
    """Processes of its member's other windows, of which its machine can tell whether they live. At `start` alone."""


def of_window(rows: Rows, session: str, lineage: Sequence[str], only: str | None = None) -> str | None:
    """The member of the open session of that id, in one of these processes where several have it; null without one.
    With `only`, that member's sessions alone count."""
    joined = rows.sessions.joined(session)
    found = [(member, process) for member, _, process, ended in joined if ended is None and only in (None, member)]
    for member, process in found:
        if process in lineage:
            return member
    return found[0][0] if found else None


def around(rows: Rows, lineage: Callable[[], Sequence[str]], named: Sequence[str] = ()) -> tuple[str, str] | None:
    """(member, session) of the joined program that the caller descends from, the nearest first; where it descends from
    none, of the one whose session, also one that is over, is among `named`: those that its environment names.

    `lineage` is asked only where anybody has joined: it costs a look at processes.
    """
    seats = rows.sessions.joined()
    for process in lineage() if seats else ():
        for member, session, lives_in, _ in seats:
            if lives_in == process:
                return member, session
    return next(((member, session) for id in named for member, session, _, _ in rows.sessions.joined(id)), None)


def take(
    act: UnitOfWork, *, program: str, session: str, process: str, name: str, alive: Alive, only: str | None = None
) -> UnitOfWork:
    """Give a window its seat, and answer the same transaction as its member's act.

    Args:
        act: of Interlock itself.
        program: the kind of program, such as `claude`.
        session: the program's own id of its session.
        process: the process that the window lives in.
        name: what it is to be called by.
        only: the member that it is, whoever has a window of that member open.

    Raises:
        MemberLimit: it needs a new member, and the team has as many as it may.
        MemberNotFound, Conflict: there is no member `only`, or it is none that a window can be.
        InvalidRequest: the session's id is no text of 1 to 200 characters.
    """
    check_text(session, "session", limit=SESSION_KEY_LIMIT, required=True)
    team, sessions = act.rows.team, act.rows.sessions
    member = _resumed(act, session, process, alive) if only is None else _named(act, only)
    before = [row for row in sessions.joined(process=process) if only is None or row[0] == member]
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
    window = Principal(member, session, face=act.face, process=process, program=program)
    joined = begin(act.rows, window, act.home, act.clock)
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


def lost(act: UnitOfWork, member: str, processes: Collection[str]) -> list[str]:
    """The member's windows that lived in these processes are gone, as their machine knows; their sessions."""
    open_ = [(session, lives_in) for one, session, lives_in, _ in act.rows.sessions.joined() if one == member]
    gone = [session for session, lives_in in open_ if lives_in in processes]
    for session in gone:
        _end(act, member, session)
    return gone


def beside(rows: Rows, member: str, process: str) -> list[str]:
    """The processes of the member's other open windows on the machine of that one, since it was last started: that
    machine can tell whether they live."""
    own = ProcessRef.parse(process)
    lived = {lives_in for one, _, lives_in, _ in rows.sessions.joined() if one == member and lives_in is not None}
    others = {one: ProcessRef.parse(one) for one in lived - {process}}
    return sorted(one for one, found in others.items() if (found.host, found.boot) == (own.host, own.boot))


def renew_claims(act: UnitOfWork) -> None:
    """The session was heard of: what it claimed is its own for another `claim_ttl`."""
    if act.settings.get("claim_ttl") and act.rows.sessions.hold_work(act.name, act.session):
        for run in act.rows.runs.of_member_session(act.name, act.session):
            if run.expires_at is not None:
                act.rows.runs.update(run, expires_at=lease(act, run.heartbeat_at is not None))


def unreported(act: UnitOfWork) -> list[tuple[str, str]]:
    """(id, subject) of the tasks in progress that the act's session claimed and has not reported on."""
    found: list[tuple[str, str]] = []
    if not act.rows.sessions.hold_work(act.name, act.session):
        return found
    for run in act.rows.runs.of_member_session(act.name, act.session):
        task = act.rows.tasks.get(run.task_id)
        if run.result is None and task is not None:
            found.append((task.id, task.subject))
    return found


def idle(act: UnitOfWork, task_ids: Sequence[str]) -> None:
    """It stops, sent back or not, and has reported nothing (decision 21)."""
    for id in task_ids:
        task = act.rows.tasks.get(id)
        if task is not None:
            act.event("agent.idle_without_report", id, run=task.run_id, member=act.name)


def _named(act: UnitOfWork, name: str) -> str:
    member = act.rows.team.member(name)
    if member is None:
        raise unknown_member(act.rows, name)
    if member.role == "person" or member.agent is not None:
        whose = "a person" if member.agent is None else f"driven by Interlock itself ({member.agent})"
        raise Conflict(f"{name} is {whose}: no window of a program can be that member.", member=name)
    return member.name


def _resumed(act: UnitOfWork, session: str, process: str, alive: Alive) -> str | None:
    """The member that had that session, unless another living window is that member."""
    for member, _, _, _ in act.rows.sessions.joined(session):
        if act.rows.team.address(member) is not None and not _occupied(act, member, process, alive):
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
        if task is not None:
            act.rows.tasks.update(task, session=act.session, updated_at=act.at)


def _end(act: UnitOfWork, member: str, session: str) -> None:
    act.rows.sessions.end(member, session, act.at)
    act.event("session.ended", member=member, session=session)
