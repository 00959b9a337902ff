"""Windows of agent programs that joined a team, as their hooks and the programs they start see it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from interlock import core, model
from interlock.app.base import HomeBase, TeamBase
from interlock.app.mail import Mailing
from interlock.clock import seconds
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace, acknowledged
from interlock.errors import InvalidRequest
from interlock.integrations import SESSION_VARIABLES
from interlock.lazy_dataclass import dataclass
from interlock.model import handover
from interlock.model.names import SYSTEM
from interlock.processes import ancestry, table
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.ref import ProcessRef, alive, current
from interlock.storage.ledger import Rows

ELSEWHERE = "http"
"""The face of a window on another machine."""
HEARD_LAG = 60.0
"""Seconds after which a window elsewhere is written down as heard of again, though it has nothing to be told."""
EVENTS = ("start", "prompt", "tool", "stop", "end")
"""What happens in a window: its session begins, a prompt comes, a tool was used, a turn is about to end, it closes."""


class Window(Mailing):
    """One window of a program that joined. With `only` it is on another machine, and is that member, whatever other
    windows there are."""

    def __init__(
        self, workspace: Workspace, program: str, session: str, name: str, process: str | None, only: str | None = None
    ) -> None:
        super().__init__(workspace, Principal(SYSTEM, face=core.sessions.FACE if only is None else ELSEWHERE))
        self._program = program
        self._session = session
        self._called = name
        self._process = process
        self._only = only

    def sit(self) -> str:
        """Take the seat and hear nothing; returns the member.

        Raises:
            MemberLimit, Conflict: see `hear`.
        """
        process = self._process or starter()
        with self._act() as act:
            return core.sessions.take(
                act, program=self._program, session=self._session, process=process, name=self._called, alive=alive,
                only=self._only,
            ).name  # fmt: skip

    @contextmanager
    def hear(self, event: str, *, again: bool = False, only_offer: bool = False) -> Iterator[core.sessions.HookReply]:
        """Do what the event asks for (decision 5): begin and prompt hand over all mail, a tool only what is urgent, and
        a stop sends the window back once in a turn; begin, prompt and stop are turn boundaries.

        Args:
            again: the program says that this stop follows one that was refused.
            only_offer: as in `mail`.

        Raises:
            MemberLimit: a new window needs a member more than the team may have.
            Conflict: its member is none that a window can be.
            MemberNotFound: its member was removed.
        """
        if event == "tool" and not self._urgent_waits():
            if self._only is not None:
                self._note_heard(self._only)
            yield core.sessions.HookReply()
            return
        with self._workspace.ledger.snapshot() as rows:
            member = None if event == "start" else self._member(rows, () if self._only else lineage())
        seatless = self._process is None if self._only else ancestry.origin(self._workspace.home) is not None
        fresh = member is None and event in ("start", "prompt") and not seatless
        if fresh:
            member = self.sit()
        if member is None:
            yield core.sessions.HookReply()
            return
        self._caller = Principal(member, self._session, face=self._caller.face)
        if event == "end":
            with self._act() as act:
                core.sessions.leave(act)
            yield core.sessions.HookReply()
            return
        with self._act() as act:
            if self._only is not None:
                core.sessions.renew_claims(act)
            reply = self._at_stop(act, again) if event == "stop" else self._with_mail(act, event == "tool", fresh)
        with self._handing_over(list(reply.messages), delivers=not only_offer):
            yield reply

    def _note_heard(self, name: str) -> None:
        """Write down that a window elsewhere lives, now and then: nobody here sees its process."""
        with self._workspace.ledger.snapshot() as rows:
            member, seat = rows.team.member(name), self._member(rows, ())
            ttl = self._workspace.settings(rows).get("claim_ttl")
        if member is None or seat is None:
            return
        lag = min(HEARD_LAG, ttl / 4) if ttl else HEARD_LAG
        own = member.session == self._session and member.last_active_at is not None
        if own and seconds(str(member.last_active_at)) + lag > self._workspace.clock.now():
            return
        self._caller = Principal(name, self._session, face=self._caller.face)
        with self._act() as act:
            core.sessions.renew_claims(act)

    def _with_mail(self, act: UnitOfWork, urgent: bool, fresh: bool) -> core.sessions.HookReply:
        if not urgent:
            act.rows.sessions.note_sent_back(act.name, act.session, False)
        messages = self._offered(act, urgent_only=urgent, earlier="unknown" if urgent else "seen")
        state = core.teams.state_block(act) if act.role == "lead" and not urgent else ""
        return core.sessions.HookReply(act.name, self.name, messages, fresh=fresh, state=state)

    def _at_stop(self, act: UnitOfWork, again: bool) -> core.sessions.HookReply:
        """Send the window back for its mail, and for a task that it has not reported on; the second time it may go."""
        acknowledged(act)
        open_tasks = core.sessions.unreported(act)
        if again or act.rows.sessions.sent_back(act.name, act.session):
            core.sessions.idle(act, [id for id, _ in open_tasks])
            return core.sessions.HookReply(act.name, self.name)
        messages = self._offered(act, urgent_only=False, earlier="seen")
        if messages or open_tasks:
            act.rows.sessions.note_sent_back(act.name, act.session, True)
        return core.sessions.HookReply(act.name, self.name, messages, open_tasks)

    def _offered(self, act: UnitOfWork, *, urgent_only: bool, earlier: str) -> list[model.message.Message]:
        own = current().as_text()
        return core.mailbox.offer(
            act,
            own,
            alive,
            count=handover.HOOK_COUNT,
            size=handover.HOOK_BYTES,
            urgent_only=urgent_only,
            earlier=earlier,
        )

    def _urgent_waits(self) -> bool:
        """Whether there is urgent mail: a look, no transaction, since this is asked at every tool call."""
        with self._workspace.ledger.snapshot() as rows:
            member = self._member(rows, ())
            return member is not None and core.mailbox.waits(rows, member, self._workspace.clock.now(), alive, True)

    def _member(self, rows: Rows, lineage: Sequence[str]) -> str | None:
        return core.sessions.of_window(rows, self._session, lineage, self._only)


class DistantWindowVerbs(TeamBase):
    """The windows of programs on other machines. Nobody here sees whether their processes live, so that a window is
    always the caller, and two at once are two sessions of it. A `process` and those of a `lineage` are as text."""

    def window_seat(self, lineage: Sequence[str]) -> tuple[str, str] | None:
        """(member, session) of the window that lives in one of these processes, the nearest first."""
        with self._workspace.look() as rows:
            return core.sessions.around(rows, lambda: lineage)

    def window_sits(self, program: str, session: str, process: str) -> str:
        """Take the caller's seat for a window and hear nothing; returns the member.

        Raises:
            Conflict: the caller is a person, or driven by Interlock itself.
        """
        return self._window(program, session, process).sit()

    def window_hears(
        self, event: str, program: str, session: str, process: str | None = None, again: bool = False
    ) -> core.sessions.WindowNews:
        """What a window is told at one event, as `Window.hear`. Without a `process` it takes no seat.

        Raises:
            InvalidRequest: there is no such event.
            Conflict: the caller is a person, or driven by Interlock itself.
        """
        if event not in EVENTS:
            raise InvalidRequest(f"event must be one of: {', '.join(EVENTS)}.", field="event")
        if process is None and event == "start":
            raise InvalidRequest("A window that begins says in which process it lives.", field="process")
        with self._window(program, session, process).hear(event, again=again, only_offer=True) as heard:
            numbers = [message.n for message in heard.messages]
            beside = list[str]()
            if event == "start" and process is not None:
                with self._workspace.ledger.snapshot() as rows:
                    beside = core.sessions.beside(rows, heard.member, process)
            text = heard.as_xml()
            return core.sessions.WindowNews(
                heard.member, heard.team, text, numbers, list(heard.unreported), heard.fresh, beside
            )

    def windows_gone(self, processes: Sequence[str]) -> list[str]:
        """Say that windows of the caller are gone, by the processes that they lived in: only their machine can know.
        What they claimed goes back to the queue in a minute. Returns their sessions.

        Raises:
            InvalidRequest: one of these names no process.
        """
        for process in processes:
            ProcessRef.parse(process)
        with self._workspace.act(Principal(SYSTEM, face=ELSEWHERE)) as act:
            return core.sessions.lost(act, self._caller.name, processes)

    def _window(self, program: str, session: str, process: str | None) -> Window:
        if process is not None:
            ProcessRef.parse(process)
        name = self._caller.name
        return Window(self._workspace, program, session, name, process, only=name)


@dataclass(slots=True, frozen=True)
class TeamGlance:
    """What tells whether a team is meant, and as whom this process acts in it: (member, session) of the `run` that it
    belongs to, and of the joined program (`seat`) that it descends from. The team works in its own `directory`, which
    holds the worktrees of its tasks, and in its `workdir`; None where these are on another machine."""

    name: str
    directory: str | None
    workdir: str | None
    isolation: str
    run: tuple[str, str] | None
    seat: tuple[str, str] | None


class WindowVerbs(HomeBase):
    """The windows of a home's teams."""

    def glance(self, team: str, *, here: bool = True) -> TeamGlance:
        """Look at a team before acting in it, at one moment. For a caller that is not `here`, where the team works and
        what this process descends from says nothing.

        Raises:
            InvalidTeamName, TeamNotFound, LedgerUnusable.
        """
        known = self._in_directory(team)
        with known.ledger.snapshot() as rows:
            row = rows.start
            seat = core.sessions.around(rows, lineage, named_sessions()) if here else None
        self._check_name(known, row.team)
        isolation = str(known.home_settings.for_team(row.settings).get("isolation"))
        if not here:
            return TeamGlance(team, None, None, isolation, None, None)
        return TeamGlance(team, known.directory, row.workdir, isolation, self.managed(team), seat)

    def window(self, team: str, *, program: str, session: str, name: str, process: str | None = None) -> Window:
        """The window whose program names its session so. `process` is the one it lives in, as text; by default the
        program that had this process started.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        return Window(self.workspace(team), program, session, name, process)

    def managed(self, team: str) -> tuple[str, str] | None:
        """(member, session) of the run of the team that this process belongs to; None where there is none. Programs do
        not pass all of their environment on, which would say it, too.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        found = ancestry.origin(self.path)
        self.workspace(team)
        if found is None or found.team != team or found.member is None or found.session is None:
            return None
        return found.member, found.session

    def seated(self, team: str) -> tuple[str, str] | None:
        """(member, session) of the joined program that this process descends from; None where there is none.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        with self.workspace(team).ledger.snapshot() as rows:
            return core.sessions.around(rows, lineage)


def ends(process: str, within: float) -> bool:
    """Whether that process of this machine is gone, or is within so many seconds."""
    by = time.monotonic() + within
    while alive(process) is not False:
        if time.monotonic() > by:
            return False
        time.sleep(0.02)
    return True


def starter() -> str:
    """The program that had this process started, as text."""
    return (ancestry.starter() or current()).as_text()


def starter_words() -> list[str]:
    """The command line of the program that had this process started; empty where it cannot be read."""
    found = ancestry.starter()
    return [] if found is None else table.words(found.pid)


def lineage() -> list[str]:
    """The processes that this one descends from, the nearest first."""
    return [identity.as_text() for identity in ancestry.ancestors()]


def named_sessions() -> list[str]:
    """The sessions of agent programs that our environment names: what a program starts keeps that, as a rule, when it
    leaves its parents."""
    return [os.environ[name] for name in SESSION_VARIABLES if os.environ.get(name)]


def in_run() -> bool:
    """Whether this process says that it belongs to a run."""
    return RUN_TOKEN in os.environ
