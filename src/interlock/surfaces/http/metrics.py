"""GET /metrics, in the text format of Prometheus: the teams as the ledgers have them, and this server's own work."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.app.home import Home
from interlock.errors import InterlockError
from interlock.model.task import STATES
from interlock.surfaces.http.feed import Feed
from interlock.surfaces.http.visitor import Reader
from interlock.version import __version__

router = APIRouter(tags=["health"])

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


class Metered:
    """ASGI middleware: counts requests by method, route and status, and how long they took until their answer began."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def noticed(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route, never the path: paths hold ids, and would make a series each.
                route = getattr(scope.get("route"), "path", "")
                self._meter.note(scope["method"], route, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, noticed)


class Meter:
    """What this server has done."""

    def __init__(self) -> None:
        self.began = time.time()
        self._lock = threading.Lock()
        self._requests: Counter[Labels] = Counter()
        self._seconds: defaultdict[Labels, float] = defaultdict(float)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request was answered."""
        labels = (("method", method if method.isalpha() and len(method) < 10 else "other"), ("route", route))
        with self._lock:
            self._requests[(*labels, ("status", str(status)))] += 1
            self._seconds[labels] += seconds

    def lines(self) -> Iterator[str]:
        """Its series."""
        with self._lock:
            requests, spent = dict(self._requests), dict(self._seconds)
        yield from _series("interlock_http_requests_total", "counter", "Requests answered.", requests)
        yield from _series(
            "interlock_http_request_seconds_total", "counter", "Seconds until their answers began.", spent
        )
        yield from _series(
            "process_start_time_seconds", "gauge", "When this server began, since the epoch.", {(): self.began}
        )


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(request: Request, visitor: Reader) -> Response:
    """Numbers for Prometheus."""
    feed: Feed = request.app.state.feed
    lines = [
        *_series("interlock_info", "gauge", "The version.", {(("version", __version__),): 1}),
        *_series("interlock_event_streams", "gauge", "Readers of /api/events.", {(): feed.readers}),
        *_series("process_resident_memory_peak_bytes", "gauge", "Most memory held so far.", {(): _peak_memory()}),
        *request.app.state.meter.lines(),
        *_of_teams(visitor.home, visitor.teams()),
    ]
    return Response("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _of_teams(home: Home, names: list[str]) -> Iterator[str]:
    tasks: dict[Labels, float] = {}
    members: dict[Labels, float] = {}
    questions: dict[Labels, float] = {}
    events: dict[Labels, float] = {}
    for name in names:
        try:
            team = home.team(name)
            described, asked, head = team.describe(), len(team.questions()), team.head()
        except InterlockError:
            continue  # Deleted this instant, or busy: the next scrape has it.
        for state in STATES:
            tasks[(("team", name), ("state", state))] = described["task_counts"].get(state, 0)
        members[(("team", name),)] = len(described["members"])
        questions[(("team", name),)] = asked
        events[(("team", name),)] = head
    yield from _series("interlock_teams", "gauge", "Teams.", {(): len(names)})
    yield from _series("interlock_tasks", "gauge", "Tasks by state.", tasks)
    yield from _series("interlock_members", "gauge", "Members, the lead included.", members)
    yield from _series("interlock_open_questions", "gauge", "Questions that wait for a person.", questions)
    yield from _series("interlock_events_total", "counter", "Events of the history.", events)


def _series(name: str, kind: str, help: str, values: Mapping[Labels, float]) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        yield f"{name}{{{shown}}} {value:g}" if shown else f"{name} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
