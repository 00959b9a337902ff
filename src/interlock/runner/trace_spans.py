"""The spans of a trace, derived from the events and rows of a team's ledger: what happened is written down once.

A task is a trace, and so is each run of a whole team. Ids are derived from those of the ledger, so that whoever asks,
in any process and before a span has ended, gets the same: an agent's own spans hang below those of its run
(`traceparent`), and what is sent twice is the same span. Names and attributes `gen_ai.*` are those of the OpenTelemetry
semantic conventions for generative AI at `SCHEMA`, which are in development; all others are our own. No attribute
holds anything that somebody wrote: no subject, body, question, command or path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import field

from interlock.clock import iso, seconds
from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.model.run import Run
from interlock.model.task import FINAL, Task
from interlock.storage.ledger import Rows

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
FINE = ("done", "released", "blocked", "awaiting-response")
"""Outcomes of a run that are no error."""
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""`gen_ai.provider.name` of agents whose models come from one place."""
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span. `trace`, `key` and `parent` name things of the team whose id is `team`; times are ISO 8601."""

    team: str
    trace: str
    key: str
    parent: str | None
    name: str
    began: str
    ended: str
    error: str | None = None
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A tool call of a member's agent, begun and ended at these seconds since the epoch. `tool` is its kind."""

    team: str
    task_id: str
    member: str
    id: str
    tool: str
    began: float
    ended: float
    failed: bool


def trace_id(team: str, trace: str) -> int:
    """128 bits, the same for the same trace."""
    return int.from_bytes(hashlib.sha256(f"trace/{team}/{trace}".encode()).digest()[:16])


def span_id(team: str, key: str) -> int:
    """64 bits, the same for the same span."""
    return int.from_bytes(hashlib.sha256(f"span/{team}/{key}".encode()).digest()[:8])


def traceparent(team: str, task_id: str, run_id: str) -> str:
    """The variable TRACEPARENT (W3C Trace Context) for a program of that run."""
    return f"00-{trace_id(team, task_id):032x}-{span_id(team, run_id):016x}-01"


class SpanSource:
    """What the rows of a team, at one moment, say of events and tool calls."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._team = rows.team.get()
        self._members = {member.name: member for member in rows.team.members()}

    def of(self, events: Iterable[Event]) -> list[TraceSpan]:
        """The spans that ended with these events."""
        found: list[TraceSpan] = []
        moments: dict[str, set[str]] = {}
        for event in events:
            if event.type == "runner.stopped":
                found += self._runner(event)
            elif event.task_id is not None:
                moments.setdefault(event.task_id, set()).add(event.at)
                task = self._rows.tasks.get(event.task_id)
                found += self._within(task, event) if task is not None else []
        for task_id, ats in moments.items():
            # A run ends in the transaction that writes an event about its task, at the same time.
            task = self._rows.tasks.get(task_id)
            ended = [run for run in self._rows.runs.of_task(task_id) if run.ended_at in ats]
            found += [self._run(task, run) for run in ended] if task is not None else []
        return found

    def waits(self, events: Iterable[Event]) -> list[float]:
        """Of each run that began with one of these events, how many seconds its task was ready before."""
        found = []
        for begun in events:
            if begun.type == "task.claimed" and begun.task_id is not None:
                for one in reversed(self._rows.events.of_task(begun.task_id)):
                    if one.seq < begun.seq and "ready" in (one.payload.get("to"), one.payload.get("state")):
                        found.append(max(0.0, seconds(begun.at) - seconds(one.at)))
                        break
        return found

    def of_tool(self, call: TracedCall) -> TraceSpan | None:
        """The span of a tool call; None where its task has no run of that member."""
        task = self._rows.tasks.get(call.task_id)
        runs = [run for run in self._rows.runs.of_task(call.task_id) if run.member == call.member]
        began = iso(call.began)
        run = next((one for one in reversed(runs) if one.started_at <= began), runs[-1] if runs else None)
        if task is None or run is None:
            return None
        return self._span(
            task, f"tool/{run.id}/{call.id}", run.id, f"execute_tool {call.tool}", (began, iso(call.ended)),
            "failed" if call.failed else None,
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.tool, "gen_ai.tool.call.id": call.id,
             "gen_ai.agent.name": run.member},
        )  # fmt: skip

    def _within(self, task: Task, event: Event) -> list[TraceSpan]:
        said, run = event.payload, str(event.payload.get("run") or "") or None
        match event.type:
            case "task.transitioned" if said.get("to") in FINAL or said.get("to") == "deadletter":
                return [self._whole(task, event)]
            case "verify.finished":
                began = iso(seconds(event.at) - float(said.get("seconds") or 0.0))
                error = None if said.get("passed") else "verify_failed"
                attributes = {"interlock.verify.round": said.get("round"), "process.exit.code": said.get("exit_code")}
                return [self._span(task, f"verify/{event.seq}", run, "verify", (began, event.at), error, attributes)]
            case "merge.finished":
                began = self._begun(task, event, "merge.started")
                outcome = str(said.get("outcome"))
                error = None if outcome in ("merged", "postponed") else outcome
                attributes = {"interlock.merge.outcome": outcome}
                return [self._span(task, f"merge/{event.seq}", task.id, "merge", (began, event.at), error, attributes)]
            case "question.answered" | "question.withdrawn":
                asked = self._rows.questions.get(str(said.get("id")))
                if asked is None:
                    return []
                attributes = {
                    "interlock.question.id": asked.id, "interlock.question.kind": asked.kind,
                    "interlock.question.state": asked.state, "interlock.question.held": asked.held,
                    "interlock.question.face": asked.answered_face,
                }  # fmt: skip
                name, key = f"question {asked.kind}", f"question/{asked.id}"
                return [self._span(task, key, task.id, name, (asked.asked_at, event.at), None, attributes)]
            case "workflow.step_completed":
                step = str(said.get("step"))
                began = self._begun(task, event, "workflow.step_started", step)
                attributes = {"interlock.step": step, "interlock.step.status": said.get("status")}
                parent = f"{task.id}.{task.run}" if task.run else task.id
                return [
                    self._span(task, f"step/{event.seq}", parent, f"step {step}", (began, event.at), None, attributes)
                ]
        return []

    def _begun(self, task: Task, event: Event, type: str, step: str | None = None) -> str:
        """When what ended with `event` began, by the newest event of that type before it."""
        for one in reversed(self._rows.events.of_task(task.id)):
            if one.seq < event.seq and one.type == type and step in (None, str(one.payload.get("step"))):
                return one.at
        return event.at

    def _whole(self, task: Task, event: Event) -> TraceSpan:
        runs = self._rows.runs.of_task(task.id)
        began = runs[0].started_at if runs else event.at
        # `<module>-<name>-<UTC time>-<4 hex>`: without what makes it unique, it is the name of the workflow.
        name = task.workflow.rsplit("-", 2)[0] if task.workflow else self._team.name
        state = str(event.payload.get("to"))
        attributes: dict[str, Value | None] = {
            "gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name, "interlock.task.state": state,
            "interlock.task.runs": len(runs),
        }  # fmt: skip
        error = state if state == "deadletter" else None
        return self._span(task, task.id, None, f"invoke_workflow {name}", (began, event.at), error, attributes)

    def _run(self, task: Task, run: Run) -> TraceSpan:
        member = self._members.get(run.member)
        agent, model = (member.agent, member.model) if member is not None else (None, None)
        attributes: dict[str, Value | None] = {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": run.member,
            "gen_ai.provider.name": PROVIDERS.get(agent or ""), "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": run.spent["input_tokens"],
            "gen_ai.usage.output_tokens": run.spent["output_tokens"],
            "interlock.agent": agent, "interlock.agent.session": run.agent_session, "interlock.run": run.id,
            "interlock.run.outcome": run.outcome, "interlock.run.turns": run.turns,
            "interlock.cost_usd": run.cost_usd,
        }  # fmt: skip
        error = run.outcome if run.outcome not in FINE else None
        name = f"invoke_agent {run.member}"
        return self._span(task, run.id, task.id, name, (run.started_at, str(run.ended_at)), error, attributes)

    def _span(
        self, task: Task, key: str, parent: str | None, name: str, times: tuple[str, str], error: str | None,
        attributes: dict[str, Value | None],
    ) -> TraceSpan:  # fmt: skip
        known = {
            "gen_ai.conversation.id": task.group_id or task.id, "interlock.team": self._team.name,
            "interlock.task.id": task.id, "interlock.task.key": task.plan_key, **attributes,
        }  # fmt: skip
        given = {name: value for name, value in known.items() if value is not None}
        return TraceSpan(self._team.id, task.id, key, parent, name, min(times), times[1], error, given)

    def _runner(self, stopped: Event) -> list[TraceSpan]:
        """A run of the whole team, and the plan that it began with."""
        latest = self._rows.events.latest
        started = latest(stopped.seq, 1, ("runner.started",))
        if not started:
            return []
        began, trace, name = started[0], f"runner/{started[0].seq}", self._team.name
        said: dict[str, Value] = {"interlock.team": name, "interlock.endless": bool(stopped.payload.get("endless"))}
        found = [TraceSpan(self._team.id, trace, trace, None, f"run {name}", began.at, stopped.at, None, said)]
        planned, before = latest(began.seq, 1, ("plan.started",)), latest(began.seq, 1, ("runner.stopped",))
        if planned and (not before or before[0].seq < planned[0].seq):
            payload = planned[0].payload
            counts: dict[str, Value] = {
                "gen_ai.operation.name": "plan", "interlock.team": name,
                "interlock.plan.new": len(payload.get("new") or ()),
                "interlock.plan.updated": len(payload.get("updated") or ()),
            }  # fmt: skip
            key = f"plan/{planned[0].seq}"
            found.append(
                TraceSpan(self._team.id, trace, key, trace, f"plan {name}", planned[0].at, began.at, None, counts)
            )
        return found
