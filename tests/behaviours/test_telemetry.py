"""Traces and metrics over OTLP/HTTP, taken by a small receiver, derived from the ledger; nothing where it is off."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.errors import InvalidRequest
from tests.agents.acting import acp_member
from tests.behaviours.repository import Repository

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

SECRET = "the password is hunter2"


class Receiver(BaseHTTPRequestHandler):
    """Takes what an OTLP exporter sends, unless the server is out of order."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        if self.server.answer == 200:
            self.server.heard.append((self.path, body))
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class Collector(ThreadingHTTPServer):
    """A collector: what was sent, by the protocol's own definitions."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.heard: list[tuple[str, bytes]] = []
        self.answer = 200

    @property
    def spans(self) -> list[Span]:
        sent = [ExportTraceServiceRequest.FromString(body) for path, body in self.heard if path == "/v1/traces"]
        return [span for one in sent for of in one.resource_spans for scope in of.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    @property
    def figures(self) -> dict[tuple[str, ...], float]:
        """By the metric's name and its attributes' values, without the team."""
        found = {}
        for path, body in self.heard:
            if path == "/v1/metrics":
                for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metric in (one for scope in of.scope_metrics for one in scope.metrics):
                        for waits in metric.histogram.data_points:
                            found[(metric.name, "count")] = waits.count
                            found[(metric.name, "sum")] = waits.sum
                        for point in metric.gauge.data_points:
                            about = [one.value.string_value for one in point.attributes if one.key != "interlock.team"]
                            found[(metric.name, *sorted(about))] = point.as_int or point.as_double
        return found


def said(span: Span) -> dict[str, Any]:
    """Its attributes."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with interlock.connect(str(tmp_path / "home")) as opened:
        opened.configure({"otel": True})
        yield opened


def run(home: Home, directory: Path, plan: dict[str, Any]) -> None:
    """Run that plan as the command line does."""
    path = directory / "plan.yaml"
    path.write_text(json.dumps(plan))
    with home.notices(), home.telemetry():
        home.drive(home.stage(str(path)).team)


@pytest.mark.long
def test_a_run_of_a_plan_is_a_trace_for_each_task_and_one_for_the_team(
    home: Home, collector: Collector, tmp_path: Path
) -> None:
    tool = {"tool": {"title": SECRET, "kind": "edit", "paths": [], "status": "completed"}}
    report = {"call": "task_complete", "with": {"task_id": "{task}", "summary": "done"}}
    agent = acp_member(tmp_path, models=["opus"], turns=[[tool, report]])
    run(home, tmp_path, {
        "team": "night",
        "retries": 0,
        "members": {"ada": {"agent": "shell"}, "bob": {**agent, "model": "opus"}},
        "tasks": {
            "good": {"subject": SECRET, "run": "printenv TRACEPARENT > parent", "verify": "true", "assignee": "ada"},
            "bad": {"run": "false", "assignee": "ada"},
            "tool": {"subject": "Use a tool", "assignee": "bob"},
        },
    })  # fmt: skip
    by_id = {span.span_id: span for span in collector.spans}
    [good] = [one for one in collector.named("invoke_workflow night") if said(one)["interlock.task.key"] == "good"]
    [run_of_good] = [one for one in collector.named("invoke_agent ada") if one.trace_id == good.trace_id]
    [verify] = collector.named("verify")
    assert (run_of_good.parent_span_id, verify.parent_span_id) == (good.span_id, run_of_good.span_id)
    assert not good.parent_span_id and good.status.code != Status.STATUS_CODE_ERROR
    assert said(good)["gen_ai.operation.name"] == "invoke_workflow" and said(good)["gen_ai.workflow.name"] == "night"
    assert said(run_of_good)["gen_ai.conversation.id"] == said(good)["interlock.task.id"]
    assert good.start_time_unix_nano <= run_of_good.start_time_unix_nano <= run_of_good.end_time_unix_nano
    version, trace, parent, flags = (tmp_path / "parent").read_text().strip().split("-")
    assert (version, flags) == ("00", "01")
    assert (bytes.fromhex(trace), bytes.fromhex(parent)) == (good.trace_id, run_of_good.span_id)
    [bad] = [one for one in collector.named("invoke_agent ada") if said(one)["interlock.task.key"] == "bad"]
    assert bad.status.code == Status.STATUS_CODE_ERROR and said(bad)["error.type"] == "failed"
    assert said(by_id[bad.parent_span_id])["error.type"] == "deadletter"
    [call] = collector.named("execute_tool edit")
    of_bob = by_id[call.parent_span_id]
    assert of_bob.name == "invoke_agent bob" and said(of_bob)["gen_ai.request.model"] == "opus"
    assert said(call)["gen_ai.operation.name"] == "execute_tool" and said(call)["gen_ai.tool.name"] == "edit"
    [whole], [plan] = collector.named("run night"), collector.named("plan night")
    assert plan.parent_span_id == whole.span_id and said(plan)["interlock.plan.new"] == 3
    assert b"hunter2" not in b"".join(body for _, body in collector.heard)
    sent = ExportTraceServiceRequest.FromString(next(body for path, body in collector.heard if path == "/v1/traces"))
    assert sent.resource_spans[0].scope_spans[0].schema_url == "https://opentelemetry.io/schemas/1.41.0"
    assert collector.figures["interlock.tasks", "done"] == 2 and collector.figures["interlock.tasks", "deadletter"] == 1


@pytest.mark.long
def test_checks_and_merges_are_spans_with_how_they_ended(home: Home, collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = Repository(tmp_path / "project")
    run(home, project.path, {
        "team": "night",
        "retries": 0,
        "isolation": "worktree",
        "members": {"ada": {"agent": "shell"}},
        "tasks": {
            "good": {"run": "echo good > good.txt", "verify": "test -s good.txt"},
            "bad": {"run": "echo bad > bad.txt", "verify": "exit 7", "blocked_by": ["good"]},
        },
    })  # fmt: skip
    [merge] = collector.named("merge")
    assert said(merge)["interlock.merge.outcome"] == "merged" and said(merge)["interlock.task.key"] == "good"
    codes = {(said(one)["interlock.task.key"], said(one)["process.exit.code"]) for one in collector.named("verify")}
    assert codes >= {("good", 0), ("bad", 7)}
    red = [one for one in collector.named("verify") if said(one)["process.exit.code"] == 7]
    assert {one.status.code for one in red} == {Status.STATUS_CODE_ERROR}
    assert {said(one)["error.type"] for one in red} == {"verify_failed"}
    assert b"bad.txt" not in b"".join(body for _, body in collector.heard)


def test_how_long_a_task_was_ready_is_told_once_for_each_run(home: Home, collector: Collector) -> None:
    team = home.create_team("alpha")
    team.spawn("ada")
    with home.telemetry() as telemetry:
        first = team.create_task("first")
        second = team.create_task("second", blocked_by=[first.id])
        for one in (first, second):
            team.claim(one.id, by="ada")
            team.complete(one.id, by="ada")
        telemetry.tell()
        telemetry.tell()
    assert collector.figures["interlock.tasks.wait", "count"] == 2
    assert 0 <= collector.figures["interlock.tasks.wait", "sum"] < 60
    assert collector.figures["interlock.tasks", "done"] == 2


def test_a_question_is_a_span_without_its_text_and_usage_is_told_as_far_as_it_is_known(
    home: Home, collector: Collector
) -> None:
    team = home.create_team("alpha")
    team.spawn("ada")
    with home.telemetry() as telemetry:
        task = team.create_task("Move the database")
        team.claim(task.id, by="ada")
        team.ask(task.id, SECRET, by="ada")
        team.reply(task.id, SECRET)
        telemetry.tell()
    [question] = collector.named("question clarification")
    assert said(question)["interlock.question.state"] == "answered"
    assert b"hunter2" not in b"".join(body for _, body in collector.heard)
    [asked] = collector.named("invoke_agent ada")
    assert "gen_ai.provider.name" not in said(asked) and asked.trace_id == question.trace_id


def test_what_a_collector_did_not_take_is_sent_after_a_restart_with_the_same_ids(
    home: Home, collector: Collector, tmp_path: Path
) -> None:
    team = home.create_team("alpha")
    team.spawn("ada")
    with home.telemetry():
        pass
    task = team.create_task("Move the database")
    team.claim(task.id, by="ada")
    team.complete(task.id, by="ada")
    collector.answer = 400
    with home.telemetry():
        pass
    assert collector.spans == []
    collector.answer = 200
    with interlock.connect(home.path) as again, again.telemetry():
        pass
    assert sorted(span.name for span in collector.spans) == ["invoke_agent ada", "invoke_workflow alpha"]
    first = {span.span_id for span in collector.spans}
    (tmp_path / "home" / "telemetry.json").write_text(json.dumps({"teams": {team.id(): 0}}))
    with interlock.connect(home.path) as again, again.telemetry():
        pass
    assert len(collector.spans) == 4 and {span.span_id for span in collector.spans} == first


def test_waiting_and_leases_are_figures(home: Home, collector: Collector) -> None:
    team = home.create_team("alpha")
    team.spawn("ada")
    blocker = team.create_task("first")
    team.create_task("second", blocked_by=[blocker.id])
    team.create_task("third")
    team.claim(blocker.id, by="ada")
    with home.telemetry():
        pass
    figures = collector.figures
    assert figures["interlock.tasks.waiting", "dependency"] == 1 and figures["interlock.tasks.waiting", "turn"] == 1
    assert figures["interlock.runs.open",] == 1 and figures["interlock.leases.expired",] == 0
    assert figures["interlock.events",] == team.head()


def test_nothing_is_sent_imported_or_handed_on_where_it_is_off(collector: Collector, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "team: night\nmembers: {ada: {agent: shell}}\ntasks: {one: {run: 'test -z \"$TRACEPARENT\" && touch here'}}\n"
    )
    script = (
        "import sys, interlock\n"
        "with interlock.connect(sys.argv[1]) as home, home.telemetry():\n"
        "    home.drive(home.stage(sys.argv[2]).team)\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exp'))])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "home"), str(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "[]\n" and collector.heard == [] and (tmp_path / "here").exists()
    assert not (tmp_path / "home" / "telemetry.json").exists()


def test_without_the_extra_it_is_said_what_to_install(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(InvalidRequest, match=r"interlock-agents\[otel\]"):
        home.telemetry().start()
