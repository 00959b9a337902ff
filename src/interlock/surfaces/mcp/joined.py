"""The connection of a program that joined: who its member is, the ledger knows from the program's own hooks.

The program starts this server beside its first hooks, in no order, so the seat is looked up when a tool is called, and
each time anew: a window that begins a new session goes on as the same member. Without hooks (a program that has none,
or whose hooks are switched off) the connection takes a seat for the window itself.
"""

from __future__ import annotations

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model.names import LEAD
from interlock.processes import ancestry, ref
from interlock.surfaces.mcp.connection import Connection


class JoinedConnection(Connection):
    """The team as the window sees it whose program started this server. Safe to share among threads."""

    settled = False

    def __init__(self, home: Home, team: str, name: str, program: str) -> None:
        super().__init__(home, team, name, None)
        self._called = name
        self._program = program
        self._window = self.session
        self._own = False
        starter = ancestry.starter() or ref.current()
        self._process = starter.as_text()

    @classmethod
    def join(cls, home: str | None, team: str, name: str, program: str) -> Connection:
        """Connect for the window of `program` that is to be called `name`; where a runner drives the program, for the
        member that it is.

        Raises:
            TeamNotFound: no such team.
        """
        from interlock.wiring import connect

        made = cls(connect(home), team, name, program)
        made.home.team(team)
        run = made.home.managed(team)
        if run is not None:
            made.home.close()
            return Connection.open(home, team, *run)
        seat = made.home.seated(team)
        if seat is None:
            made.leads = name == LEAD
        else:
            made._sit(*seat)
        return made

    @property
    def team(self) -> Team:
        """The team, acting as the window's member.

        Raises:
            InterlockError: as `settle`.
        """
        if self._team is None:
            self.settle()
        assert self._team is not None
        return self._team

    def settle(self) -> None:
        """Find the window's member and its present session, or take a seat for it.

        Raises:
            TeamNotFound: it was deleted.
            MemberLimit: the window has no seat, and the team has no room for one.
        """
        seat = self.home.seated(self.team_name)
        if seat is None:
            window = self.home.window(
                self.team_name, program=self._program, session=self._window, name=self._called, process=self._process
            )
            seat = (window.sit(), self._window)
            self._own = True
        if self._team is None or seat != (self.member, self.session):
            self._sit(*seat)

    @property
    def bound(self) -> bool:
        """It never makes a team."""
        return True

    def news(self) -> str | None:
        """One line about what the member should look at now; null when there is nothing."""
        return super().news() if self.settled else None

    def close(self) -> None:
        """End the session where it is the connection's own, and give files back."""
        if self._own:
            try:
                if self.home.seated(self.team_name) == (self.member, self._window) and self._team is not None:
                    self._team.end_session()
            except InterlockError:
                pass  # The team is gone, or nobody can write now: the process is gone soon, and known to be.
        self.home.close()

    def _sit(self, member: str, session: str) -> None:
        self.member, self.session = member, session
        self._bind(self.home.team(self.team_name))
        self.settled = True
