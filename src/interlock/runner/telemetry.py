"""Sends traces and metrics to OpenTelemetry over OTLP/HTTP: extra `otel`, setting `otel`, off by default. Where and how
is said by OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, …). Nothing of it is imported while
it is off.

Spans come from the events of the ledgers (`trace_spans`). A file of the home holds how far each team was sent, so that
what a collector that is down does not take is sent later, at least once. Tool calls are in no ledger: what was heard of
them is kept in memory, for `CALLS` calls, and is lost with the process.
"""

from __future__ import annotations

import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from interlock.clock import Clock, iso, seconds
from interlock.core.unit_of_work import Workspace
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.driving import Update
from interlock.model.task import STATES
from interlock.model.team import TeamRecord
from interlock.runner.event_follower import EventFollower
from interlock.runner.trace_spans import SCHEMA, SpanSource, TracedCall, TraceSpan, span_id, trace_id
from interlock.storage.ledger import Rows
from interlock.storage.shared_state import shared_state
from interlock.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

FILE = "telemetry.json"
CALLS = 10_000
AT_ONCE = 500
METRICS_EVERY = 60.0
AFTER_A_FAILURE = 30.0
SECONDS = 5.0
"""How long one sending may take."""
Measured = list[tuple[str, float, dict[str, str]]]
MEASURES = {
    "interlock.tasks": "Tasks by state.",
    "interlock.tasks.waiting": "Ready tasks that have not begun, by why.",
    "interlock.questions.open": "Questions that wait for a person, by kind.",
    "interlock.runs.open": "Runs that have not ended.",
    "interlock.leases.expired": "Open runs whose lease has expired.",
    "interlock.events": "Events of the history.",
}
WAIT = "interlock.tasks.wait"
WAITS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)


class TracedCalls:
    """Hears what agents do, and keeps the tool calls that ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: dict[tuple[str, str, str, str], float] = {}
        self.ended: deque[TracedCall] = deque(maxlen=CALLS)

    def heard(self, team: str, update: Update) -> None:
        """Take note of what an agent of the team did."""
        if update.kind != "tool":
            return
        key = (team, update.task_id, update.member, str(update.data.get("id")))
        now, status = self._clock.now(), update.data.get("status")
        if len(self._begun) >= CALLS:
            self._begun.clear()
        began = self._begun.setdefault(key, now)
        if status in ("completed", "failed"):
            del self._begun[key]
            self.ended.append(TracedCall(*key, str(update.data.get("kind")), began, now, status == "failed"))


class Telemetry(EventFollower):
    """Sends what ended in the teams, and once a minute figures of what is. While it is not `on`, it does nothing."""

    def __init__(
        self,
        home: str,
        names: Callable[[], Iterable[str]],
        workspace: Callable[[str], Workspace],
        clock: Clock,
        calls: TracedCalls,
        *,
        on: bool,
    ) -> None:
        super().__init__(names, workspace, clock)
        self._home = home
        self._calls = calls
        self._on = on
        self._not_before = 0.0
        self._metrics_at = 0.0

    def start(self) -> None:
        """Begin; what happened before in a team that was not followed yet is not sent.

        Raises:
            InvalidRequest: the extra is not installed.
        """
        if not self._on:
            return
        try:
            self._exporter = OtlpExporter(self._measured)
        except ImportError as error:
            raise InvalidRequest(
                f"The setting otel is on, and {error.name} is not installed: `pip install 'interlock-agents[otel]'`.",
                field="otel",
            ) from None
        super().start()

    def tell(self, *, hurry: bool = False) -> None:
        """Send what there is, unless a sending failed just now. In a `hurry`, the figures of
        this moment are sent as well."""
        if hurry:
            self._not_before = self._metrics_at = 0.0
        now = self._clock.monotonic()
        if not self._on or now < self._not_before:
            return
        try:
            sent = self._tell_tools()
            with shared_state(os.path.join(self._home, FILE)) as position:
                if position is not None and sent:
                    sent = self._tell_events(position.setdefault("teams", {}))
                    if sent and (self._metrics_at == 0.0 or now - self._metrics_at >= METRICS_EVERY):
                        self._metrics_at = now
                        self._exporter.send_metrics()
        except (InterlockError, OSError):
            return  # Busy, full or gone: there is another time.
        if not sent:
            self._not_before = self._clock.monotonic() + AFTER_A_FAILURE

    def _tell_tools(self) -> bool:
        calls = [self._calls.ended.popleft() for _ in range(min(len(self._calls.ended), AT_ONCE))]
        found = []
        for name in {call.team for call in calls}:
            with self._workspace(name).ledger.snapshot() as rows:
                source = SpanSource(rows)
                found += [span for call in calls if call.team == name and (span := source.of_tool(call)) is not None]
        sent = self._exporter.send(found)
        if not sent:
            self._calls.ended.extendleft(reversed(calls))
        return sent

    def _tell_events(self, places: dict[str, int]) -> bool:
        def new(_: Workspace, rows: Rows) -> tuple[TeamRecord, int, list[TraceSpan], list[float]]:
            place, source = self._place(places, rows), SpanSource(rows)
            events = rows.events.since(place, AT_ONCE)
            return rows.team.get(), events[-1].seq if events else place, source.of(events), source.waits(events)

        for team, place, found, waits in self._each(new):
            if not self._exporter.send(found):
                return False
            self._exporter.waited(team.name, waits)
            places[team.id] = place
        return True

    def _measured(self) -> Measured:
        now = iso(self._clock.now())
        figures = self._each(lambda team, rows: measures(rows, now, bool(team.settings(rows).get("paused"))))
        return list(chain.from_iterable(figures))


def measures(rows: Rows, now: str, paused: bool) -> Measured:
    """The figures of one team, as `MEASURES` names them."""
    team, counts = {"interlock.team": rows.team.get().name}, rows.tasks.counts()
    found: Measured = [("interlock.tasks", counts.get(one, 0), {**team, "state": one}) for one in STATES]
    ready = rows.tasks.select(states=["ready"])
    later = sum(task.not_before is not None and task.not_before > now for task in ready)
    waiting = {
        "dependency": counts.get("backlog", 0),
        "retry": later,
        "paused": len(ready) - later if paused else 0,
        "turn": 0 if paused else len(ready) - later,
    }
    found += [("interlock.tasks.waiting", number, {**team, "reason": why}) for why, number in waiting.items()]
    kinds = [question.kind for question in rows.questions.open()]
    found += [("interlock.questions.open", kinds.count(kind), {**team, "kind": kind}) for kind in sorted({*kinds})]
    found.append(("interlock.runs.open", len(rows.runs.open()), team))
    found.append(("interlock.leases.expired", len(rows.runs.lapsed(now)), team))
    found.append(("interlock.events", rows.start.head, team))
    return found


class OtlpExporter:
    """The one place that knows the packages of OpenTelemetry.

    Args:
        measured: the figures of this moment.

    Raises:
        ImportError: one is not installed.
    """

    def __init__(self, measured: Callable[[], Measured]) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.metrics import Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        # Its complaints about a collector that is down would be written into the board of `interlock run`.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        name = os.environ.get("OTEL_SERVICE_NAME") or "interlock"
        self._resource = Resource.create({"service.name": name, "service.version": __version__})
        self._scope = InstrumentationScope("interlock", __version__, SCHEMA)
        self._spans = OTLPSpanExporter(timeout=SECONDS)
        # No thread of its own: it sends when it is told to.
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=SECONDS), math.inf)
        self._meters = MeterProvider([reader], self._resource)
        meter = self._meters.get_meter("interlock", __version__)
        for measure, what in MEASURES.items():

            def observe(_: Any, measure: str = measure) -> list[Observation]:
                return [Observation(value, about) for one, value, about in self._measured if one == measure]

            meter.create_observable_gauge(measure, [observe], description=what)
        self._waits = meter.create_histogram(
            WAIT, "s", "How long a task was ready before a run of it began.", explicit_bucket_boundaries_advisory=WAITS
        )
        self._measure = measured
        self._measured: Measured = []

    def send(self, found: Sequence[TraceSpan]) -> bool:
        """Send these spans; whether they were taken."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        if not found:
            return True
        return self._spans.export([self._made(span) for span in found]) is SpanExportResult.SUCCESS

    def waited(self, team: str, waits: Iterable[float]) -> None:
        """Count tasks that were ready for so many seconds before they began."""
        for one in waits:
            self._waits.record(one, {"interlock.team": team})

    def send_metrics(self) -> None:
        """Send the figures of this moment."""
        self._measured = self._measure()
        self._meters.force_flush(SECONDS * 1000)

    def _made(self, span: TraceSpan) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        trace, sampled = trace_id(span.team, span.trace), TraceFlags(TraceFlags.SAMPLED)
        parent = SpanContext(trace, span_id(span.team, span.parent), False, sampled) if span.parent else None
        return ReadableSpan(
            span.name,
            SpanContext(trace, span_id(span.team, span.key), False, sampled),
            parent,
            self._resource,
            {**span.attributes, **({"error.type": span.error} if span.error else {})},
            status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
            start_time=int(seconds(span.began) * 1000) * 1_000_000,
            end_time=int(seconds(span.ended) * 1000) * 1_000_000,
            instrumentation_scope=self._scope,
        )
