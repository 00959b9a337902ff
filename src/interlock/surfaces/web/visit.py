"""One look at one page: who looks, at what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Request
from markupsafe import Markup

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.core.reports.needs import folded
from interlock.errors import InterlockError
from interlock.surfaces.http.visitor import FORM_KEY

OPERATORS = ("operator", "admin")
T = TypeVar("T")


class Visit:
    """What the builders of regions work from. Everything is read when first asked for, once."""

    def __init__(self, request: Request, visitor: Any) -> None:
        self._visitor = visitor
        self._request = request
        self._read: dict[str, Any] = {}
        state: Any = request.app.state
        if not hasattr(state, "glances"):
            state.glances = {}
        self._glances: dict[str, tuple[int, dict[str, Any]]] = state.glances
        self.path = request.url.path
        self.params: Mapping[str, str] = request.path_params
        self.query: Mapping[str, str] = request.query_params
        self.told: str | None = None  # what a form's verb answered, for the person who sent it

    @property
    def me(self) -> str:
        """The name that acts."""
        return str(self._visitor.name)

    @property
    def may_act(self) -> bool:
        """Whether the page offers buttons and boxes, and not only looks."""
        return self._visitor.principal.role in OPERATORS

    @cached_property
    def key(self) -> Markup:
        """What a form holds to count where there is no script to say so; nothing for a browser with one."""
        found = self._request.app.state.access.form_key(self._request.headers)
        return Markup('<input type="hidden" name="{}" value="{}">').format(FORM_KEY, found) if found else Markup("")

    @property
    def home(self) -> Home:
        """The home."""
        found: Home = self._visitor.home
        return found

    @property
    def project(self) -> str | None:
        """The project in the address."""
        return self.params.get("project")

    @cached_property
    def teams(self) -> list[str]:
        """The projects the visitor may see."""
        return list(self._visitor.teams())

    @cached_property
    def team(self) -> Team:
        """The project of the address, as a team. Raises TeamNotFound."""
        return self.named(self.project or "")

    @cached_property
    def acting(self) -> Team:
        """The same, for a verb that changes something. Raises TeamNotFound, Forbidden."""
        found: Team = self._visitor.acting(self.project or "")
        return found

    def named(self, name: str) -> Team:
        """A project by name, as a team. Raises TeamNotFound."""
        found: Team = self._visitor.team(name)
        return found

    @cached_property
    def statuses(self) -> list[dict[str, Any]]:
        """`Team.status` of every project; one that cannot be read says why, as `error` and `message`."""
        return [self._status(name) for name in self.teams]

    def glance(self, name: str) -> dict[str, Any]:
        """How many things of a project need somebody, and run. Counted anew only when something has happened there."""
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

    @cached_property
    def status(self) -> dict[str, Any]:
        """`Team.status` of the address's project."""
        return self.team.status()

    def once(self, name: str, read: Callable[[], T]) -> T:
        """What `read` answers, read once for all regions of the page."""
        if name not in self._read:
            self._read[name] = read()
        found: T = self._read[name]
        return found

    def number(self, name: str) -> int | None:
        """A number in the query; null where there is none."""
        text = self.query.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 16 else None

    def address(self, **changes: str | int | None) -> str:
        """This page's address with its query changed."""
        query: dict[str, str | int | None] = {**self.query, **changes}
        kept = {key: value for key, value in query.items() if value is not None}
        return quote(self.path) + (f"?{urlencode(kept)}" if kept else "")

    def to(self, *parts: str, project: str | None = None) -> str:
        """The address of a page of a project: `visit.to("tasks", id)`."""
        name = project or self.project or ""
        return "/".join(["/projects", quote(name, safe=""), *(quote(part, safe="") for part in parts)])

    def _status(self, name: str) -> dict[str, Any]:
        try:
            return self.status if name == self.project else self.named(name).status()
        except InterlockError as error:
            return {"team": name, "needs_me": [], "running": [], "next": [], "counts": {}, **error.as_dict()}
