"""Whether the server lives and can work, and GET /metrics for Prometheus: the teams, and this server's own work."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.errors import InterlockError
from interlock.model.task import STATES
from interlock.surfaces.http import responses
from interlock.surfaces.http.request_context import Reader, RequestContext
from interlock.surfaces.http.responses import answer, documented
from interlock.version import __version__

router = APIRouter(tags=["health"])
HEALTH = documented(responses.Health)
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@router.head("/healthz", include_in_schema=False)  # Monitors ask so.
@router.get("/healthz", responses=HEALTH)
async def healthz() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses={**HEALTH, **documented(responses.Health, 503)})
def readyz(request: Request) -> Response:
    """The home can be read, and the server is not about to end."""
    if request.app.state.shutdown_signal.is_set():
        return answer({"status": "ending"}, 503)
    try:
        request.app.state.home.teams()
    except InterlockError:
        # What is wrong with it is not for callers without a token.
        return answer({"status": "home_unreadable"}, 503)
    return answer({"status": "ready"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(request: Request, context: Reader) -> Response:
    """Numbers for Prometheus."""
    state = request.app.state
    state.metrics.streams.set(state.feed.readers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    state.metrics.memory.set(peak if sys.platform == "darwin" else peak * 1024)
    teams = CollectorRegistry()
    teams.register(_TeamCollector(context))
    return Response(generate_latest(state.metrics.registry) + generate_latest(teams), media_type=TEXT)


class ServerMetrics:
    """What this server has done."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        Info("interlock", "The version.", registry=registry).info({"version": __version__})
        began = Gauge("process_start_time_seconds", "When this server began, since the epoch.", registry=registry)
        began.set_to_current_time()
        self.streams = Gauge("interlock_event_streams", "Readers of /api/events.", registry=registry)
        self.memory = Gauge("process_resident_memory_peak_bytes", "Most memory held so far.", registry=registry)
        labels = ("method", "route")
        self.requests = Counter("interlock_http_requests", "Requests answered.", (*labels, "status"), registry=registry)
        self.seconds = Counter(
            "interlock_http_request_seconds", "Seconds until their answers began.", labels, registry=registry
        )


class RequestMeter:
    """ASGI middleware: counts requests by method, route and status, and how long they took until their answer began."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_noticed(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 10 else "other"
                # The route, never the path: paths hold ids, and would make a series each.
                route = getattr(scope.get("route"), "path", "")
                self._metrics.requests.labels(method, route, str(message["status"])).inc()
                self._metrics.seconds.labels(method, route).inc(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, send_noticed)


class _TeamCollector(Collector):
    """The teams that one caller may see."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        names = self._context.teams()
        tasks = GaugeMetricFamily("interlock_tasks", "Tasks by state.", labels=("team", "state"))
        members = GaugeMetricFamily("interlock_members", "Members, the lead included.", labels=("team",))
        questions = GaugeMetricFamily("interlock_open_questions", "Questions that wait for a person.", labels=("team",))
        events = CounterMetricFamily("interlock_events", "Events of the history.", labels=("team",))
        for name in names:
            try:
                team = self._context.home.team(name)
                described, asked, head = team.describe(), len(team.questions()), team.head()
            except InterlockError:
                continue  # Deleted this instant, or busy: the next scrape has it.
            for state in STATES:
                tasks.add_metric((name, state), described.task_counts.get(state, 0))
            members.add_metric((name,), len(described.members))
            questions.add_metric((name,), asked)
            events.add_metric((name,), head)
        yield GaugeMetricFamily("interlock_teams", "Teams.", len(names))
        yield from (tasks, members, questions, events)
