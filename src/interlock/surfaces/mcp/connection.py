"""One MCP connection: which team, as whom, in which session; and the news that ride along with its answers."""

from __future__ import annotations

import os
from uuid import uuid4

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import TeamNotFound
from interlock.model.names import HUMAN, LEAD
from interlock.processes.ancestry import RunOrigin

FACE = "mcp"


class Connection:
    """The team as the connected member sees it. Safe to share among threads."""

    settled = True
    """Whether it is known who the member is; that of a program that joined shows with its first call."""

    def __init__(
        self, home: Home, team: str, member: str, session: str | None, *, face: str = FACE, person: bool = False,
        origin: RunOrigin | None = None,
    ) -> None:  # fmt: skip
        self.home = home
        self._origin = origin
        self._face = face
        self._person = person
        self.team_name = team
        self.member = member
        self._given = session is not None
        self.session = session or f"mcp:{uuid4()}"
        self.leads = False
        self.acted = False
        """Whether a call was made that may have begun the session in the ledger."""
        self._team: Team | None = None

    @classmethod
    def open(cls, home: str | None, team: str, member: str, session: str | None) -> Connection:
        """Connect, and find out whether the member leads.

        Raises:
            TeamNotFound: no such team, and the member is not one that could make it.
            MemberNotFound: nobody of that name.
        """
        from interlock.wiring import connect

        made = cls(connect(home), team, member, session or os.environ.get("INTERLOCK_SESSION") or None)
        try:
            made._bind(made.home.team(team))
        except TeamNotFound:
            if member not in (LEAD, HUMAN):
                raise
            made.leads = True
        return made

    @classmethod
    def share(
        cls, home: Home, team: str, member: str, session: str, *, given: bool, face: str, person: bool,
        origin: RunOrigin | None = None,
    ) -> Connection:  # fmt: skip
        """A connection to a home that others use, too. `given`: the session is not the connection's own.

        Raises:
            TeamNotFound, MemberNotFound: no such team, or nobody of that name.
        """
        made = cls(home, team, member, session, face=face, person=person, origin=origin)
        made._given = given
        made._bind(home.team(team))
        return made

    @property
    def team(self) -> Team:
        """The team, acting as the member.

        Raises:
            TeamNotFound: it was not created yet.
        """
        if self._team is None:
            try:
                self._bind(self.home.team(self.team_name))
            except TeamNotFound:
                raise TeamNotFound(
                    f"Team {self.team_name!r} does not exist yet. Call team_create first.", team=self.team_name
                ) from None
        assert self._team is not None
        return self._team

    def settle(self) -> None:
        """Find out who the member is, where that is not known or may have changed."""

    @property
    def bound(self) -> bool:
        """Whether the connection has a team."""
        return self._team is not None

    def adopt(self, team: Team) -> None:
        """Act on `team` from now on; only a connection without a team may."""
        self.team_name = team.name
        self._bind(team)

    def news(self) -> str | None:
        """One line about what the member should look at now; null when there is nothing."""
        if self._team is None:
            return None
        unread = next((member.unread for member in self._team.members() if member.name == self.member), 0)
        if not unread:
            return None
        return f"{unread} unread message{'s' if unread > 1 else ''} — call read_inbox"

    def close(self) -> None:
        """End the session, if it was this connection's own, and give files back."""
        self.end()
        self.home.close()

    def end(self) -> None:
        """End the session, if it was this connection's own."""
        # A session that never acted is unknown to the ledger, and ending it would begin it; one that was given belongs
        # to a runner or an agent program, which goes on.
        if self._team is not None and self.acted and not self._given:
            self._team.end_session()

    def _bind(self, team: Team) -> None:
        for member in team.members():
            if self.member in (member.name, member.session_key):
                self.member, self.leads = member.name, member.role == LEAD
                break
        else:
            # Not a member: a person, who may do what the lead may. `human` is made when first needed.
            if self.member != HUMAN and not self._person:
                team.history(member=self.member, limit=1)
            self.leads = True
        run = self.home.managed(team.name) if self._face == FACE else None
        if self._face == FACE and (run is None or self.member != run[0]):
            self.home.need_person(f"act as {self.member} in {team.name}")
        self.leads = self.leads and run is None and self._origin is None
        self._team = team.acting(
            self.member, session=self.session, face=self._face, person=self._person, origin=self._origin
        )
