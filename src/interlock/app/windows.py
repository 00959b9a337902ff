"""Windows of agent programs that joined a team, as their hooks and the programs they start see it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from interlock import core
from interlock.app.base import HomeBase
from interlock.app.mail import Mailing
from interlock.core import mailbox
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace, acknowledged
from interlock.model import handover
from interlock.model.message import Message, as_xml
from interlock.model.names import SYSTEM
from interlock.processes import ancestry
from interlock.processes.groups import RUN_TOKEN
from interlock.processes.ref import alive, current

EVENTS = ("start", "prompt", "tool", "stop", "end")
"""What happens in a window: its session begins, a prompt comes, a tool was used, a turn is about to end, it closes."""


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


class Window(Mailing):
    """One window of a program that joined."""

    def __init__(self, workspace: Workspace, program: str, session: str, name: str, process: str | None) -> None:
        super().__init__(workspace, Principal(SYSTEM))
        self._program = program
        self._session = session
        self._called = name
        self._process = process

    def sit(self) -> str:
        """Take the seat and hear nothing; returns the member.

        Raises:
            MemberLimit: see `hear`.
        """
        process = self._process or starter()
        with self._act() as act:
            return core.sessions.take(
                act, program=self._program, session=self._session, process=process, name=self._called, alive=alive
            ).name

    @contextmanager
    def hear(self, event: str, *, again: bool = False) -> Iterator[HookReply]:
        """Do what the event asks for (decision 5): begin and prompt hand over all mail, a tool only what is urgent, and
        a stop sends the window back once in a turn; begin, prompt and stop are turn boundaries.

        Args:
            again: the program says that this stop follows one that was refused.

        Raises:
            MemberLimit: a new window needs a member more than the team may have.
            MemberNotFound: its member was removed.
        """
        if event == "tool" and not self._urgent_waits():
            yield HookReply()
            return
        with self._workspace.ledger.snapshot() as rows:
            member = None if event == "start" else core.sessions.of_window(rows, self._session, lineage())
        managed = ancestry.origin(self._workspace.home) is not None
        fresh = member is None and event in ("start", "prompt") and not managed
        if fresh:
            member = self.sit()
        if member is None:
            yield HookReply()
            return
        self._caller = Principal(member, self._session, face=core.sessions.FACE)
        if event == "end":
            with self._act() as act:
                core.sessions.leave(act)
            yield HookReply()
            return
        with self._act() as act:
            reply = self._at_stop(act, again) if event == "stop" else self._with_mail(act, event == "tool", fresh)
        with self._handing_over(list(reply.messages)):
            yield reply

    def _with_mail(self, act: UnitOfWork, urgent: bool, fresh: bool) -> HookReply:
        if not urgent:
            act.rows.sessions.note_sent_back(act.name, act.session, False)
        messages = self._offered(act, urgent_only=urgent, earlier="unknown" if urgent else "seen")
        state = core.teams.state_block(act) if act.role == "lead" and not urgent else ""
        return HookReply(act.name, self.name, messages, fresh=fresh, state=state)

    def _at_stop(self, act: UnitOfWork, again: bool) -> HookReply:
        """Send the window back for its mail, and for a task that it has not reported on; the second time it may go."""
        acknowledged(act)
        open_tasks = core.sessions.unreported(act)
        if again or act.rows.sessions.sent_back(act.name, act.session):
            core.sessions.idle(act, [id for id, _ in open_tasks])
            return HookReply(act.name, self.name)
        messages = self._offered(act, urgent_only=False, earlier="seen")
        if messages or open_tasks:
            act.rows.sessions.note_sent_back(act.name, act.session, True)
        return HookReply(act.name, self.name, messages, open_tasks)

    def _offered(self, act: UnitOfWork, *, urgent_only: bool, earlier: str) -> list[Message]:
        own = current().as_text()
        return mailbox.offer(
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
            member = core.sessions.of_window(rows, self._session, ())
            return member is not None and mailbox.waits(rows, member, self._workspace.clock.now(), alive, True)


@dataclass(slots=True, frozen=True)
class TeamGlance:
    """What tells whether a team is meant, and as whom this process acts in it: (member, session) of the `run` that it
    belongs to, and of the joined program (`seat`) that it descends from. `places` are where the team works: its own
    directory, which holds the worktrees of its tasks, and its workdir."""

    name: str
    places: tuple[str, ...]
    isolation: str
    run: tuple[str, str] | None
    seat: tuple[str, str] | None


class WindowVerbs(HomeBase):
    """The windows of a home's teams."""

    def glance(self, team: str) -> TeamGlance:
        """Look at a team before acting in it, at one moment.

        Raises:
            InvalidTeamName, TeamNotFound, LedgerUnusable.
        """
        known = self._in_directory(team)
        with known.ledger.snapshot() as rows:
            row = rows.team.get()
            seat = core.sessions.around(rows, lineage) if rows.sessions.joined() else None
        self._check_name(known, row.name)
        isolation = str(known.home_settings.for_team(row.settings).get("isolation"))
        places = (known.directory,) if row.workdir is None else (known.directory, row.workdir)
        return TeamGlance(team, places, isolation, self.managed(team), seat)

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
            return core.sessions.around(rows, lineage) if rows.sessions.joined() else None


def starter() -> str:
    """The program that had this process started, as text."""
    return (ancestry.starter() or current()).as_text()


def lineage() -> list[str]:
    """The processes that this one descends from, the nearest first."""
    return [identity.as_text() for identity in ancestry.ancestors()]


def in_run() -> bool:
    """Whether this process says that it belongs to a run."""
    return RUN_TOKEN in os.environ
