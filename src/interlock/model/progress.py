"""Progress for people, as talkative as they want it (FR57–FR59, BMAD-7.7).

    verbose     every operation, at once, with its reason
    summary     operations in bunches: after five of them, or after 30 seconds
    silent      nothing until the run is over, then one summary of all of it
    streaming   a line for each step that is done; of one that takes more than 30 seconds its name, and how far it is

*An operation* is one thing that the run has done: a step, an answer to a menu or a question, a fix, an examination.
That a human is needed is no progress: whoever shows this says so in every mode.

A reducer: events and moments go in, lines come out. It knows no clock, no terminal and no ledger, so that a terminal,
a page and a test show the same. Moments are seconds since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from interlock.clock import seconds
from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.model.text import count
from interlock.model.workflow import is_gate, place_of, spoken

VERBOSE, SUMMARY, SILENT, STREAMING = "verbose", "summary", "silent", "streaming"
MODES = (VERBOSE, SUMMARY, SILENT, STREAMING)
BUNCH = 5
EVERY = 30.0
LONG = 30.0
"""Seconds from which on an operation is long."""
DECISIONS = frozenset({"menu", "question", "recovery", "fix", "examination", "checkpoint", "timeout"})
"""Kinds of decisions that are operations; the others are only told in `verbose`."""


@dataclass(frozen=True)
class Operation:
    """One thing that the run did. `minor`: only `verbose` tells it, and it counts for nothing. `step_done`: it ends a
    step."""

    text: str
    why: str = ""
    minor: bool = False
    step_done: bool = False


@dataclass
class ProgressDisplay:
    """What is to be shown of one run. `advance` takes events, `tick` the passing of time; both give the lines that are
    due. The mode may change at any moment: what was held back is shown with the next bunch, or at the end."""

    mode: str = SUMMARY
    held: list[Operation] = field(default_factory=list)
    since: float | None = None
    counts: dict[str, int] = field(default_factory=dict)
    began: float | None = None
    streamed: tuple[object, int] | None = None

    def advance(self, events: Iterable[Event], run: Mapping[str, Any], now: float) -> list[str]:
        """The lines that these events of the run's task make due; `run` is the run as it is now."""
        lines: list[str] = []
        for event in events:
            if event.payload.get("workflow_id") != run.get("workflow_id"):
                continue
            at = _moment(event.at, now)
            self.began = at if self.began is None else self.began
            if event.type == "workflow.ended":
                lines += [*self._flush(run, at), *self._end(event, run, at)]
                continue
            operation = operation_of(event)
            if operation is not None:
                lines += self._did(operation, run, at)
        return [*lines, *self.tick(run, now)]

    def tick(self, run: Mapping[str, Any], now: float) -> list[str]:
        """The lines that the time makes due."""
        if self.mode == SUMMARY and self.since is not None and now - self.since >= EVERY:
            return self._flush(run, now)
        if self.mode == STREAMING:
            return self._stream(run, now)
        return []

    def heard(self, text: str) -> list[str]:
        """What the agent does within a step (a tool it used): told in `verbose` only."""
        return [f"    {text}"] if self.mode == VERBOSE and text.strip() else []

    def _did(self, operation: Operation, run: Mapping[str, Any], at: float) -> list[str]:
        if not operation.minor:
            kind = "steps" if operation.step_done else "others"
            self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.mode == VERBOSE:
            return [operation.text + (f" ({operation.why})" if operation.why else "")]
        if operation.minor or self.mode == SILENT:
            return []
        if self.mode == STREAMING:
            return [f"{operation.text}, {percent(run, at)} %"] if operation.step_done else []
        self.held.append(operation)
        self.since = at if self.since is None else self.since
        return self._flush(run, at) if len(self.held) >= BUNCH else []

    def _flush(self, run: Mapping[str, Any], now: float) -> list[str]:
        held, self.held = self.held, []
        began, self.since = self.since, None
        if not held:
            return []
        took = f" in {span(now - began)}" if began is not None and now - began >= 1 else ""
        done = "; ".join(one.text for one in held)
        return [f"{count(len(held), 'operation')}{took}: {done}. {where(run)}"]

    def _stream(self, run: Mapping[str, Any], now: float) -> list[str]:
        line = live(run, now)
        if line is None:
            return []
        step = (run.get("current_step"), int((now - _moment(_current(run).get("started_at"), now)) // EVERY))
        if step == self.streamed:
            return []
        self.streamed = step
        return [line]

    def _end(self, event: Event, run: Mapping[str, Any], at: float) -> list[str]:
        steps, others = self.counts.get("steps", 0), self.counts.get("others", 0)
        took = f" in {span(at - self.began)}" if self.began is not None and at - self.began >= 1 else ""
        outcome = str(event.payload.get("outcome") or "").lower()
        lines = [f"{outcome.capitalize()}{took}: {count(steps, 'step')}, {count(others, 'other operation')}."]
        names = [_title(one) for one in _progress(run).get("completed_steps", ())]
        if self.mode == SILENT and names:
            lines.append(f"Done: {', '.join(names)}.")
        if run.get("documents"):
            lines.append(f"Documents: {', '.join(run['documents'])}.")
        return lines


def operation_of(event: Event) -> Operation | None:
    """What an event tells of what was done; None where it tells nothing."""
    payload = event.payload
    where, own = place_of(payload.get("step"), payload.get("name")), is_gate(payload.get("step"))
    match event.type:
        case "workflow.step_started":
            again = f", again ({payload.get('visit')})" if int(payload.get("visit") or 1) > 1 else ""
            return Operation(f"{where} begins{'' if own else f': {_title(payload)}'}{again}", minor=True)
        case "workflow.step_completed":
            verdict = f", {payload['verdict']}" if payload.get("verdict") else ""
            said = f"{where} {payload.get('status')}{'' if own else f': {_title(payload)}'}{verdict}"
            return Operation(said, step_done=True)
        case "workflow.step_failed":
            return Operation(f"{where} failed its check", str(payload.get("reason") or ""))
        case "workflow.turn_failed":
            why = str(payload.get("reason") or "").partition("\n")[0]
            return Operation(f"a turn in {where} came to nothing{f' ({why})' if why else ''}")
        case "workflow.decided":
            text = f"{payload.get('kind')}: {spoken(payload.get('choice') or 'a human is asked')}".replace("_", " ")
            return Operation(text, spoken(payload.get("why") or ""), minor=payload.get("kind") not in DECISIONS)
        case "workflow.recovered":
            return Operation(f"went on after a failure by {payload.get('recovery_method')}".replace("_", " "))
        case "workflow.override_blocked":
            return Operation(str(payload.get("message")))
    return None


def summary(run: Mapping[str, Any], now: float | None = None) -> list[str]:
    """How far a run is, on request (BMAD-7.7.5): the steps that are done, those that are left, the one at hand, and an
    estimate of the whole. `run` carries its `estimated_percent`, or `now` says when it is."""
    progress = _progress(run)
    done, left = progress.get("completed_steps", ()), progress.get("remaining_steps", ())
    current = run.get("current_step") if not run.get("outcome") else None
    left = [one for one in left if one["step"] != current]
    lines = [f"done ({len(done)}): {_names(done)}"]
    if current is not None:
        lines.append(f"now: {_named({'step': current, 'name': run.get('current_step_name')})}" + _since(run, now))
    lines.append(f"left ({len(left)}): {_names(left)}")
    much = percent(run, now) if now is not None else run.get("estimated_percent", progress.get("progress_percent", 0))
    estimate = f"about {much} %" if not run.get("outcome") else f"{progress.get('progress_percent', 0)} %"
    eta = progress.get("eta_ms")
    return [*lines, estimate + (f", about {span(eta / 1000)} left" if eta else "")]


def percent(run: Mapping[str, Any], now: float) -> int:
    """How much of a run is done, 0 to 100: its steps, and of the one at hand what its time says, measured by those that
    are done. Less than 100 until it has ended."""
    progress = _progress(run)
    done, left = int(progress.get("completed_count", 0)), int(progress.get("remaining_count", 0))
    if run.get("outcome") == "COMPLETED":
        return 100
    if not done + left:
        return 0
    lasted = [int(one["duration_ms"]) for one in (run.get("steps") or {}).values() if one.get("duration_ms")]
    step = _current(run)
    part = 0.0
    if step.get("status") == "in_progress" and lasted:
        usual = sum(lasted) / len(lasted) / 1000
        elapsed = max(0.0, now - _moment(step.get("started_at"), now))
        part = elapsed / (elapsed + usual) if usual else 0.0  # Half way when it has taken as long as the others did.
    return min(99, int((done + part) * 100 / (done + left)))


def live(run: Mapping[str, Any], now: float) -> str | None:
    """The line of an operation that has taken more than 30 seconds; None before, and where none is under way."""
    step = _current(run)
    if step.get("status") != "in_progress" or run.get("state") not in ("RUNNING", "VALIDATING", "RECOVERING"):
        return None
    elapsed = now - _moment(step.get("started_at"), now)
    if elapsed < LONG:
        return None
    at = _title(step) if is_gate(step.get("id")) else f"{place_of(step.get('id'))}: {_title(step)}"
    return f"{at}, {percent(run, now)} % ({span(elapsed)})"


def where(run: Mapping[str, Any]) -> str:
    """How far the run is, in a few words."""
    progress = _progress(run)
    done, left = progress.get("completed_count", 0), progress.get("remaining_count", 0)
    return f"{done} of {done + left} steps, {progress.get('progress_percent', 0)} %"


def span(length: float) -> str:
    """`length` seconds for people."""
    whole = max(0, int(length))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _progress(run: Mapping[str, Any]) -> Mapping[str, Any]:
    found = run.get("progress")
    return found if isinstance(found, Mapping) else {}


def _current(run: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (run.get("steps") or {}).get(f"step_{run.get('current_step')}")
    return found if isinstance(found, Mapping) else {}


def _names(steps: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(_named(one) for one in steps) or "none"


def _named(one: Mapping[str, Any]) -> str:
    return _title(one) if is_gate(one["step"]) and _title(one) else f"{one['step']} {_title(one)}".rstrip()


def _title(one: Mapping[str, Any]) -> str:
    # A title that begins with its own number is not numbered once more.
    return re.sub(r"^step\s+[\w.-]+:\s*", "", str(one.get("name") or ""), flags=re.IGNORECASE)


def _since(run: Mapping[str, Any], now: float | None) -> str:
    started = _current(run).get("started_at")
    waits = ", waits for you" if run.get("waiting") else ""
    return waits or (f", since {span(now - _moment(started, now))}" if started and now is not None else "")


def _moment(at: object, otherwise: float) -> float:
    try:
        return seconds(at) if isinstance(at, str) else otherwise
    except ValueError:
        return otherwise
