"""PORT: windows of agent programs that joined, as their hooks and whatever they start see the team, and what processes
of a run may not do. Part of the client port; code imports this module for types only, hooks do not pay for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from interlock.errors import Forbidden
from interlock.model.message import Message
from interlock.processes.ancestry import RunOrigin

EVENTS = ("start", "prompt", "tool", "stop", "end")
"""What happens in a window: its session begins, a prompt comes, a tool was used, a turn is about to end, it closes."""


class Heard(Protocol):
    """What a window is told at one event. It counts as handed over when the `with` block that gives it ends."""

    member: str
    """Who the window is; empty where it has no seat, and there is nothing to say."""
    team: str
    fresh: bool
    """Whether it begins now, and should hear who it is."""
    messages: Sequence[Message]
    unreported: Sequence[tuple[str, str]]
    """At `stop`: (id, subject) of its tasks in progress without a report. Where it is not to be sent back, this and
    `messages` are empty."""

    def as_xml(self) -> str:
        """The messages as a hook gives them, after the state of the team for the lead."""


class Window(Protocol):
    """One window."""

    def sit(self) -> str:
        """Take the seat and hear nothing; answers the member.

        Raises:
            MemberLimit: see `hear`.
        """

    def hear(self, event: str, *, again: bool = False) -> AbstractContextManager[Heard]:
        """Do what the event asks for (decision 5): begin and prompt hand over all mail, a tool only what is urgent, and
        a stop sends the window back once in a turn; begin, prompt and stop are turn boundaries.

        Args:
            again: the program says that this stop follows one that was refused.

        Raises:
            MemberLimit: a new window needs a member more than the team may have.
            MemberNotFound: its member was removed.
        """


class Windows(Protocol):
    """The windows of a home's teams."""

    def places(self, team: str) -> list[str]:
        """Where that team is at work: its own directory, which holds the worktrees of its tasks, and its workdir."""

    def window(self, team: str, *, program: str, session: str, name: str, process: str | None = None) -> Window:
        """The window whose program names its session so. `process` is the one it lives in, as text; by default the
        program that had this process started.

        Raises:
            InvalidTeamName, TeamNotFound.
        """

    def joined(self) -> list[str]:
        """The projects whose programs joined a team of this home, sorted."""

    def note_joined(self, project: str) -> None:
        """Remember that a program of that directory joined. Raises StorageError."""

    def note_left(self, project: str) -> None:
        """Forget it again. Raises StorageError."""

    def managed(self, team: str) -> tuple[str, str] | None:
        """(member, session) of the run of the team that this process belongs to; null where there is none. Programs do
        not pass all of their environment on, which would say it, too.

        Raises:
            InvalidTeamName, TeamNotFound.
        """

    def seated(self, team: str) -> tuple[str, str] | None:
        """(member, session) of the joined program that this process descends from; null where there is none.

        Raises:
            InvalidTeamName, TeamNotFound.
        """

    def need_person(self, what: str) -> None:
        """Refuse `what` to processes of a run: "open the page", say. Nearly every verb of a home asks this first.

        Raises:
            Forbidden: this process belongs to a run of this home; that is an event of the run's team.
        """

    def note_refusal(self, origin: RunOrigin, error: Forbidden, face: str = "python") -> None:
        """Write down, as an event of its team, that the run `origin` was refused something; `error` said so to it."""
