"""One MCP connection: which team, as which member, in which session; and the news that its answers carry along."""

from __future__ import annotations

import os
from contextlib import suppress
from uuid import uuid4

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.app.windows import ends, starter, starter_words
from interlock.errors import Forbidden, InterlockError, TeamNotFound
from interlock.model.names import HUMAN, LEAD
from interlock.model.run import RunOrigin

FACE = "mcp"
GONE_WITHIN = 0.5
"""Seconds for which a window whose connection ended may still be ending itself."""
CHANNEL_OPTIONS = ("--channels", "--dangerously-load-development-channels")


class Connection:
    """The team as the connected member sees it. Safe to share among threads.

    Attributes:
        given: the session belongs to a runner or an agent program, and outlives the connection.
        settled: whether it is known who the member is.
        acted: whether a call was made that may have begun the session in the ledger.
        leads: whether the member sees and may call the tools for leads.
        driven: whether the member is an agent that a runner of this machine drives.
        role: what the caller's token allows; None on the machine of the home.
        channel: whether the program takes hints of mail, and relays what it asks for at its prompt; see `channel.py`.
    """

    settled = True
    channel = False
    role: str | None = None

    def __init__(
        self, home: Home, team: str, member: str, session: str | None = None, *, given: bool = False,
        face: str = FACE, person: bool = False, origin: RunOrigin | None = None,
    ) -> None:  # fmt: skip
        self.home = home
        self.team_name = team
        self.member = member
        self.session = session or f"mcp:{uuid4()}"
        self.leads = False
        self.driven = False
        self.acted = False
        self._given = given
        self._face = face
        self._person = person
        self._origin = origin
        self._team: Team | None = None

    @classmethod
    def open(cls, home: Home, team: str, member: str, session: str | None) -> Connection:
        """Connect, and find out whether the member leads.

        Raises:
            TeamNotFound: no such team, and the member is not one that could create it.
            MemberNotFound: no such member.
        """
        session = session or os.environ.get("INTERLOCK_SESSION") or None
        made = cls(home, team, member, session, given=session is not None)
        try:
            made.adopt(made.home.team(team))
        except TeamNotFound:
            if member not in (LEAD, HUMAN):
                raise
            made.leads = True
        return made

    @property
    def team(self) -> Team:
        """The team, acting as the member.

        Raises:
            TeamNotFound: it was not created yet.
        """
        if self._team is None:
            try:
                self.adopt(self.home.team(self.team_name))
            except TeamNotFound:
                raise TeamNotFound(
                    f"Team {self.team_name!r} does not exist yet. Call team_create first.", team=self.team_name
                ) from None
        assert self._team is not None
        return self._team

    @property
    def bound(self) -> bool:
        """Whether the connection has a team; one without may create it."""
        return self._team is not None

    @property
    def in_workflow(self) -> bool:
        """Whether the agent of this session is led through a workflow. Blocks."""
        return self._team is not None and self._given and self._team.in_workflow()

    def must(self, *roles: str) -> None:
        """Raise Forbidden where the token's role is none of these."""
        if self.role not in (None, *roles):
            raise Forbidden(
                f"Your token has the role {self.role}, and this needs {' or '.join(roles)}. `interlock token create` "
                "makes a token that may.",
                role=self.role,
            )

    def settle(self) -> None:
        """Find out who the member is, where that is not known or may have changed."""

    def adopt(self, team: Team) -> None:
        """Act on `team` from now on."""
        self.team_name = team.name
        for member in team.members():
            if self.member in (member.name, member.session_key):
                self.member, self.leads = member.name, member.role == LEAD
                break
        else:
            # Not a member: a person, who may do what the lead may. `human` is created when first needed.
            if self.member != HUMAN and not self._person:
                team.history(member=self.member, limit=1)
            self.leads = True
        run = self.home.managed(team.name) if self._face == FACE else None
        if self._face == FACE and (run is None or self.member != run[0]):
            self.home.need_person(f"act as {self.member} in {team.name}")
        self.driven = run is not None and self.member == run[0]
        self.leads = self.leads and run is None and self._origin is None
        self._team = team.acting(
            self.member, session=self.session, face=self._face, person=self._person, origin=self._origin
        )

    def news(self) -> str | None:
        """Return one line about what the member should look at now."""
        if self._team is None or not self.settled:
            return None
        unread = next((member.unread for member in self._team.members() if member.name == self.member), 0)
        return f"{unread} unread message{'s' if unread > 1 else ''} — call read_inbox" if unread else None

    def end(self) -> None:
        """End the session, if it is this connection's own."""
        # A session that never acted is unknown to the ledger, and ending it would begin it.
        if self._team is not None and self.acted and not self._given:
            self._team.end_session()

    def close(self) -> None:
        self.end()
        self.home.close()


class JoinedConnection(Connection):
    """The connection of a program that joined: the ledger knows its member from the program's own hooks.

    The program starts this server beside its first hooks, in no order, so the seat is looked up with every call: a
    window that begins a new session stays the same member. Without hooks (a program that has none, or whose hooks are
    switched off) the connection takes a seat for the window itself.
    """

    settled = False

    def __init__(self, home: Home, team: str, name: str, program: str) -> None:
        super().__init__(home, team, name)
        self._called = name
        self._program = program
        self._window = self.session
        self._own = False
        self._process = starter()
        self.channel = program == "claude" and has_channel(starter_words())

    @classmethod
    def join(cls, home: Home, team: str, name: str, program: str) -> Connection:
        """Connect for a window of `program`; where a runner drives the program, for the member that it is.

        Args:
            name: what a new member is to be called.

        Raises:
            TeamNotFound: no such team.
        """
        made = cls(home, team, name, program)
        made.home.team(team)
        run = made.home.managed(team)
        if run is not None:
            return Connection.open(home, team, *run)
        seat = made.home.seated(team)
        if seat is None:
            made.leads = name == LEAD
        else:
            made._sit(*seat)
        return made

    @property
    def team(self) -> Team:
        """The team, acting as the window's member. Raises as `settle`."""
        if self._team is None:
            self.settle()
        assert self._team is not None
        return self._team

    @property
    def bound(self) -> bool:
        return True

    def settle(self) -> None:
        """Find the window's member and its present session, or take a seat for it.

        Raises:
            TeamNotFound: it was deleted.
            MemberLimit: the window has no seat, and the team has no room for one.
        """
        if self.find_seat():
            return
        window = self.home.window(
            self.team_name, program=self._program, session=self._window, name=self._called, process=self._process
        )
        seat = (window.sit(), self._window)
        self._own = True
        if self._team is None or seat != (self.member, self.session):
            self._sit(*seat)

    def find_seat(self) -> bool:
        """Find the window's member and its present session; whether it has a seat.

        Raises:
            TeamNotFound: the team was deleted.
        """
        seat = self.home.seated(self.team_name)
        if seat is not None and (self._team is None or seat != (self.member, self.session)):
            self._sit(*seat)
        return seat is not None

    def close(self) -> None:
        if self.home.elsewhere and ends(self._process, GONE_WITHIN):
            # Nobody on the machine of the home can see that the window was killed.
            with suppress(InterlockError):
                self.home.team(self.team_name).acting(self._called).windows_gone([self._process])
        elif self._own:
            try:
                if self.home.seated(self.team_name) == (self.member, self._window) and self._team is not None:
                    self._team.end_session()
            except InterlockError:
                pass  # The team is gone or busy: this process is about to end, and is known to have ended.
        self.home.close()

    def _sit(self, member: str, session: str) -> None:
        self.member, self.session = member, session
        self.adopt(self.home.team(self.team_name))
        self.settled = True


def has_channel(words: list[str]) -> bool:
    """Whether that command line of Claude Code names our server as a channel."""
    said = [part for word in words for part in word.split("=")]
    ours = any(part == "server:interlock" or part.startswith("plugin:interlock@") for part in said)
    return ours and any(option in said for option in CHANNEL_OPTIONS)
