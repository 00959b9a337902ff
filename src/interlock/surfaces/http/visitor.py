"""A principal at work: the home and its teams as that one sees them, and what each endpoint asks of its caller."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Request

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden, InvalidRequest, TeamNotFound
from interlock.surfaces.http.access import PAGE, Access, Principal

READERS = ("viewer", "operator", "admin", "worker")
WORKERS = ("operator", "admin", "worker")
OPERATORS = ("operator", "admin")
FORM_KEY = "interlock_key"
"""The hidden field by which a form of the page says that it is ours."""


class Visitor:
    """One request's caller. Members see their own team only."""

    def __init__(self, home: Home, principal: Principal) -> None:
        self.home = home
        self.principal = principal

    @property
    def name(self) -> str:
        """The member or person that acts."""
        return self.principal.name

    def teams(self) -> list[str]:
        """The names of the teams the caller may see."""
        names = self.home.teams()
        return names if self.principal.team is None else [name for name in names if name == self.principal.team]

    def check(self, team: str) -> None:
        """Refuse a team that the caller's token does not hold in.

        Raises:
            TeamNotFound: also where it exists: a member learns nothing of other teams.
        """
        if self.principal.team not in (None, team):
            raise TeamNotFound(f"Team {team!r} not found: your token holds in {self.principal.team}.", team=team)

    def project(self, asked: str | None) -> str | None:
        """The project to look in: the one asked for; for a member, none but its own team.

        Raises:
            TeamNotFound: see `check`.
        """
        if asked is None:
            return self.principal.team
        self.check(asked)
        return asked

    def team(self, name: str, session: str | None = None) -> Team:
        """The team of that name, acting as the caller, in that session of it.

        Raises:
            TeamNotFound, InvalidTeamName: there is none, or the caller may not see it.
        """
        self.check(name)
        principal = self.principal
        return self.home.team(name).acting(
            self.name, session=session, face=principal.face, person=principal.team is None, origin=principal.origin
        )

    def acting(self, team: str, by: str | None = None, session: str | None = None) -> Team:
        """The team, for a verb that changes something. `by`: act as that member, which only an admin may.

        Raises:
            Forbidden: `by` is somebody else than the caller, who is no admin.
            TeamNotFound, InvalidTeamName, MemberNotFound: as `team`.
        """
        if by not in (None, self.name) and self.principal.role != "admin":
            raise Forbidden(f"This token acts as {self.name} only, not as {by}.", member=by)
        if by in (None, self.name):
            return self.team(team, session)
        return self.team(team).acting(str(by), session=session, face=self.principal.face)


def entering(*roles: str) -> Callable[[Request], Awaitable[Visitor]]:
    """A dependency: the caller, whose role has to be one of these."""

    async def enter(request: Request) -> Visitor:
        principal: Principal = request.state.principal
        if principal.face == PAGE and principal.role == "viewer":
            # A form of a browser without script. Only forms are read: another body is the endpoint's to read.
            access: Access = request.app.state.access
            sent, wanted = (await request.form()).get(FORM_KEY), access.form_key(request.headers)
            if wanted and isinstance(sent, str) and hmac.compare_digest(sent.encode(), wanted.encode()):
                principal = replace(principal, role="admin")
        principal.must(*roles)
        given = [name for name, _ in request.query_params.multi_items()]
        for name in given:
            if given.count(name) > 1:
                raise InvalidRequest(f"The parameter {name[:80]!r} is given twice; say it once.", field=name[:80])
        state: Any = request.app.state
        return Visitor(state.home, principal)

    return enter


Reader = Annotated[Visitor, Depends(entering(*READERS))]
"""Whoever may look."""
Worker = Annotated[Visitor, Depends(entering(*WORKERS))]
"""Whoever takes part in a team's work: members as themselves, people who may operate."""
Operator = Annotated[Visitor, Depends(entering(*OPERATORS))]
"""People who may operate."""
Admin = Annotated[Visitor, Depends(entering("admin"))]
"""Whoever may set up and tear down."""
