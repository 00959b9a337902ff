"""One request for one page: who looks, at what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode
from zlib import crc32

from fastapi import Request
from markupsafe import Markup

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model.json import Json
from interlock.model.status import StatusReport, folded
from interlock.surfaces.http.auth import FORM_KEY
from interlock.surfaces.http.request_context import RequestContext

T = TypeVar("T")
ANNOUNCED = 20
"""Needs of one project that are announced one by one."""
STATE_WORDS = {
    "backlog": "Waiting",
    "ready": "Ready",
    "in-progress": "In progress",
    "awaiting-response": "Asks you",
    "blocked": "Blocked",
    "review": "In review",
    "done": "Done",
    "deadletter": "Failed",
    "cancelled": "Cancelled",
    "deleted": "Deleted",
}
"""What people call the states of a task."""
PERMISSION_WORDS = {
    "ask": "asks before everything",
    "workspace": "changes files, asks for the rest",
    "read-only": "only reads",
    "unattended": "changes files, asks nobody",
}
"""What an agent may do, for who adds one."""


class PageContext:
    """What the builders of regions work from. Everything is read when first asked for, once."""

    def __init__(self, request: Request, context: RequestContext) -> None:
        self.context = context
        self._request = request
        self._read: Json = {}
        state: Any = request.app.state
        if not hasattr(state, "glances"):
            state.glances = {}
        self._glances: dict[str, tuple[int, Json]] = state.glances
        self.path = request.url.path
        self.params: Mapping[str, str] = request.path_params
        self.query: Mapping[str, str] = request.query_params
        self.told: str | None = None
        """What a form's verb answered, for the person who sent it."""
        self.unreadable: dict[str, InterlockError] = {}
        """Why a project cannot be read."""

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

    @cached_property
    def push_key(self) -> str | None:
        """The key that a browser needs to be sent notices; None where it is not offered."""
        return self.home.push_key() if self.may_act and self.context.principal.team is None else None

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

    def permits(self, project: str) -> str:
        """Return what members of a project may do where nothing else is said."""
        return str(self.named(project).setting("permissions")[0])

    @cached_property
    def status(self) -> StatusReport:
        """`Team.status` of the address's project."""
        return self.team.status()

    @cached_property
    def statuses(self) -> list[StatusReport]:
        """`Team.status` of every project, empty where it cannot be read: `unreadable` says why."""
        return [self._status(name) for name in self.teams]

    def _status(self, name: str) -> StatusReport:
        try:
            return self.status if name == self.project else self.named(name).status()
        except InterlockError as error:
            self.unreadable[name] = error
            return StatusReport(name)

    def glance(self, name: str) -> Json:
        """Return how many things of a project need somebody, and run; counted again only when something happened."""
        try:
            head = self.named(name).head()
            known = self._glances.get(name)
            if known is None or known[0] != head:
                status = self._status(name)
                needs = folded(status.needs_me)
                asks = [(f"{name}/{need.task_id}/{crc32(need.text.encode())}", need) for need in needs[:ANNOUNCED]]
                counted = {"name": name, "needs": len(needs), "running": len(status.running), "asks": asks}
                known = self._glances[name] = (head, counted)
        except InterlockError:
            return {"name": name, "needs": 0, "running": 0, "asks": []}
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

    def sought(self) -> str:
        """Return the filter in the query, for the address of a page that keeps it."""
        kept = {key: self.query[key] for key in ("q", "member", "priority", "epic", "by") if self.query.get(key)}
        return f"?{urlencode(kept)}" if kept else ""

    def to(self, *parts: str, project: str | None = None) -> str:
        """Return the address of a page of a project: `page.to("tasks", id)`."""
        name = project or self.project or ""
        return "/".join(["/projects", quote(name, safe=""), *(quote(part, safe="") for part in parts)])
