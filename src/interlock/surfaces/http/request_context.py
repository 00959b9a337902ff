"""What endpoints work with: the home and its teams as the caller may see them, and what each asks of its caller."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import Depends, Request

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden, InvalidRequest, TeamNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.surfaces.http.auth import FORM_KEY, PAGE, Authenticator, HttpPrincipal

SLOW_VERBS = anyio.CapacityLimiter(100)
"""Threads for verbs that may take minutes; what comes beyond waits, and holds up nothing else."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request's caller. Members, and people whose token says so, see one team only."""

    home: Home
    principal: HttpPrincipal

    @property
    def name(self) -> str:
        """The member or person that acts."""
        return self.principal.name

    def teams(self) -> list[str]:
        """Return the names of the teams the caller may see."""
        return self.home.teams(within=self.principal.team)

    def check(self, team: str) -> None:
        """Refuse a team that the caller's token is not valid in.

        Raises:
            TeamNotFound: also where it exists: a member learns nothing of other teams.
        """
        if self.principal.team not in (None, team):
            raise TeamNotFound(f"Team {team!r} not found: your token is for {self.principal.team}.", team=team)

    def need_home(self) -> None:
        """Refuse what concerns more than the one team of the caller's token. Raises Forbidden."""
        if self.principal.team is not None:
            raise Forbidden(f"This token is for {self.principal.team} only.", team=self.principal.team)

    def project(self, asked: str | None) -> str | None:
        """Return the project to look in: the one asked for; for a member, only its own team.

        Raises:
            TeamNotFound: see `check`.
        """
        if asked is None:
            return self.principal.team
        self.check(asked)
        return asked

    def warned(self, shown: Json) -> Json:
        """An answer with the `warnings` beside it of what was met while it was made, where there are any."""
        met = self.home.warnings(self.principal.team)
        return {**shown, "warnings": [*shown.get("warnings", ()), *met]} if met else shown

    def team(self, name: str, session: str | None = None, run: int | None = None) -> Team:
        """Return a team, acting as the caller, in that session of it, for that run.

        Raises:
            TeamNotFound, InvalidTeamName: there is none, or the caller may not see it.
        """
        self.check(name)
        principal = self.principal
        if principal.role == "machine":
            return self.home.team(name).for_machine()
        if principal.run is not None and principal.origin is not None:
            session, run = principal.origin.session, principal.run
        return self.home.team(name).acting(
            self.name, session=session, run=run, face=principal.face, person=not principal.is_member,
            origin=principal.origin,
        )  # fmt: skip

    def acting(self, team: str, by: str | None = None, session: str | None = None, run: int | None = None) -> Team:
        """Return a team for a verb that changes something, acting as `by`, by default as the caller.

        Raises:
            Forbidden: `by` is someone other than the caller, who is not an admin.
            TeamNotFound, InvalidTeamName, MemberNotFound: as `team`.
        """
        name = self.named(by)
        if name == self.name:
            return self.team(team, session, run)
        return self.team(team).acting(name, session=session, run=run, face=self.principal.face)

    def named(self, by: str | None) -> str:
        """Return whom the caller acts as: itself, or, for an admin, whom it names. Raises Forbidden."""
        if by is not None and by != self.name and self.principal.role != "admin":
            raise Forbidden(f"This token acts as {self.name} only, not as {by}.", member=by)
        return self.name if by is None else by

    def need_admin(self, field: str) -> None:
        """Refuse a place on this machine to everybody else. Raises Forbidden."""
        if self.principal.role != "admin":
            raise Forbidden(f"Only an admin may name another {field} than the team's own.", field=field)

    def own_mail_only(self, member: str | None) -> None:
        """Refuse a member the mail of others. Raises Forbidden."""
        if self.principal.is_member and member != self.name:
            raise Forbidden(f"This token shows the messages of {self.name} only.", member=member)


def _for_roles(*roles: str) -> Any:
    async def enter(request: Request) -> RequestContext:
        principal: HttpPrincipal = request.state.principal
        if principal.face == PAGE and principal.role == "viewer":
            # A form of a browser without script. Only forms are read: another body is the endpoint's to read.
            authenticator: Authenticator = request.app.state.authenticator
            sent, wanted = (await request.form()).get(FORM_KEY), authenticator.form_key(request.headers)
            if wanted and isinstance(sent, str) and hmac.compare_digest(sent.encode(), wanted.encode()):
                principal = replace(principal, role="admin")
        principal.must(*roles)
        names = [name for name, _ in request.query_params.multi_items()]
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest(f"The parameter {name[:80]!r} is given twice; say it once.", field=name[:80])
        # Pages read their own query, which others link to; of the API nothing that was asked for is passed over.
        if request.url.path.startswith("/api/"):
            route = request.scope["route"].dependant
            known = [field.alias for one in (route, *route.dependencies) for field in one.query_params]
            for name in (name for name in names if name not in known):
                said = f"it takes {', '.join(known)}" if known else "it takes none"
                raise InvalidRequest(f"There is no parameter {name[:80]!r} here; {said}.", field=name[:80])
        return RequestContext(request.app.state.home, principal)

    return Depends(enter)


Reader = Annotated[RequestContext, _for_roles("viewer", "operator", "admin", "worker")]
Worker = Annotated[RequestContext, _for_roles("operator", "admin", "worker")]
"""Members as themselves, and people who may operate."""
Operator = Annotated[RequestContext, _for_roles("operator", "admin")]
Admin = Annotated[RequestContext, _for_roles("admin")]


def slow(verb: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Make an endpoint of a verb that may take minutes: it uses none of the threads that answer the rest."""

    @wraps(verb)
    async def endpoint(**given: Any) -> Any:
        return await anyio.to_thread.run_sync(partial(verb, **given), limiter=SLOW_VERBS)

    return endpoint
