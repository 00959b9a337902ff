"""One request for one page: who looks, at what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Request
from markupsafe import Markup

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model.report import folded
from interlock.surfaces.http.auth import FORM_KEY
from interlock.surfaces.http.request_context import RequestContext

T = TypeVar("T")


class PageContext:
    """What the builders of regions work from. Everything is read when first asked for, once."""

    def __init__(self, request: Request, context: RequestContext) -> None:
        self.context = context
        self._request = request
        self._read: dict[str, Any] = {}
        state: Any = request.app.state
        if not hasattr(state, "glances"):
            state.glances = {}
        self._glances: dict[str, tuple[int, dict[str, Any]]] = state.glances
        self.path = request.url.path
        self.params: Mapping[str, str] = request.path_params
        self.query: Mapping[str, str] = request.query_params
        self.told: str | None = None
        """What a form's verb answered, for the person who sent it."""

    @property
    def me(self) -> str:
        return self.context.name

    @property
    def may_act(self) -> bool:
        """Whether the page offers buttons and boxes."""
        return self.context.principal.role in ("operator", "admin")

    @cached_property
    def key(self) -> Markup:
        """What a form holds to count where there is no script to say so; nothing for a browser with one."""
        found = self._request.app.state.authenticator.form_key(self._request.headers)
        return Markup('<input type="hidden" name="{}" value="{}">').format(FORM_KEY, found) if found else Markup("")

    @property
    def home(self) -> Home:
        return self.context.home

    @property
    def project(self) -> str | None:
        """The project in the address."""
        return self.params.get("project")

    @cached_property
    def teams(self) -> list[str]:
        """The projects the caller may see."""
        return self.context.teams()

    @cached_property
    def team(self) -> Team:
        """The project of the address, as a team. Raises TeamNotFound."""
        return self.named(self.project or "")

    @cached_property
    def acting(self) -> Team:
        """The same, for a verb that changes something. Raises TeamNotFound, Forbidden."""
        return self.context.acting(self.project or "")

    def named(self, name: str) -> Team:
        return self.context.team(name)

    @cached_property
    def status(self) -> dict[str, Any]:
        """`Team.status` of the address's project."""
        return self.team.status()

    @cached_property
    def statuses(self) -> list[dict[str, Any]]:
        """`Team.status` of every project; one that cannot be read says why, as `error` and `message`."""
        return [self._status(name) for name in self.teams]

    def _status(self, name: str) -> dict[str, Any]:
        try:
            return self.status if name == self.project else self.named(name).status()
        except InterlockError as error:
            return {"team": name, "needs_me": [], "running": [], "next": [], "counts": {}, **error.as_dict()}

    def glance(self, name: str) -> dict[str, Any]:
        """Return how many things of a project need somebody, and run; counted again only when something happened."""
        try:
            head = self.named(name).head()
            known = self._glances.get(name)
            if known is None or known[0] != head:
                status = self._status(name)
                counted = {"name": name, "needs": len(folded(status["needs_me"])), "running": len(status["running"])}
                known = self._glances[name] = (head, counted)
        except InterlockError:
            return {"name": name, "needs": 0, "running": 0}
        return known[1]

    def once(self, name: str, read: Callable[[], T]) -> T:
        """Return what `read` answers, read once for all regions of the page."""
        if name not in self._read:
            self._read[name] = read()
        found: T = self._read[name]
        return found

    def number(self, name: str) -> int | None:
        """Return a number in the query."""
        text = self.query.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 16 else None

    def address(self, **changes: str | int | None) -> str:
        """Return this page's address with its query changed."""
        query: dict[str, str | int | None] = {**self.query, **changes}
        kept = {key: value for key, value in query.items() if value is not None}
        return quote(self.path) + (f"?{urlencode(kept)}" if kept else "")

    def to(self, *parts: str, project: str | None = None) -> str:
        """Return the address of a page of a project: `page.to("tasks", id)`."""
        name = project or self.project or ""
        return "/".join(["/projects", quote(name, safe=""), *(quote(part, safe="") for part in parts)])
