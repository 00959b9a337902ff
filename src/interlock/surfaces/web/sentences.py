"""Events as sentences: what a person would say had happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from interlock.model.event import Event
from interlock.model.evidence import ended
from interlock.model.names import HUMAN, SYSTEM
from interlock.model.text import named, programs
from interlock.surfaces.web.prose import gist
from interlock.workflow.state.document import GATE, place_of, spoken

QUIET = frozenset(
    "run.heartbeat run.started run.reported session.began session.ended message.offered message.delivered "
    "message.acknowledged scheduler.poll protocol.message.received task.completed task.logged verify.started "
    "dependency.met task.reclaimed delegation.requested group.created worktree.made integration.started merge.queued "
    "merge.started workflow.state workflow.context_loaded workflow.triggered workflow.dequeued workflow.status_changed "
    "workflow.rate_limited workflow.state_rebuilt message.requeued mirror.adopted ledger.migrated "
    "protocol.message.warning".split()
)
"""Types that say nothing to people which another event does not; the timeline shows them only when asked."""
HOPS = frozenset({"task.transitioned"})
"""What another event of the same moment says better."""
LOUD = frozenset(
    "question.asked task.failed task.warning session.lost agent.idle_without_report run.refused review.failed "
    "protocol.message.rejected protocol.message.failed mirror.conflict workflow.escalated workflow.step_failed "
    "workflow.status_cycling workflow.queue_overflow workflow.warning workflow.override_blocked notice.failed "
    "changes.set_aside checkout.changed worktree.changed access.refused".split()
)


@dataclass(frozen=True, slots=True)
class Line:
    """An event as a page shows it. `tone` is loud, good, quiet or plain."""

    event: Event
    text: str
    tone: str


def line(event: Event) -> Line:
    """The event with its sentence."""
    text = _SAID[event.type](event.payload) if event.type in _SAID else _plainly(event)
    tone = "plain"
    if event.type in LOUD or event.payload.get("to") == "deadletter":
        tone = "loud"
    elif event.payload.get("to") == "done" or event.payload.get("passed") is True:
        tone = "good"
    elif event.type in QUIET:
        tone = "quiet"
    return Line(event, text, tone)


def entries(events: Iterable[Event]) -> list[Line]:
    """Events, newest first, as a person would tell them: what one verb did to one task in a line, without the hops that
    another event of the same moment explains; letters to several in one."""
    found: list[Line] = []
    for _, some in groupby(events, key=lambda event: (event.at, event.actor, event.task_id)):
        together = list(some)
        letters = [event for event in together if event.type == "message.sent"]
        rest = [event for event in together if event.type != "message.sent"]
        telling = [event for event in rest if event.type not in HOPS and event.type not in QUIET]
        found += [line(event) for event in telling or rest[:1]]
        if letters:
            to = ", ".join(dict.fromkeys(actor(str(event.payload.get("to"))) for event in reversed(letters)))
            found.append(Line(letters[0], f"wrote to {to}", "plain"))
    return found


def actor(name: str) -> str:
    """Who acted, as people say it."""
    return {SYSTEM: "Interlock", HUMAN: "you"}.get(name, name)


def _plainly(event: Event) -> str:
    payload = ", ".join(f"{key} {gist(str(value), 60)}" for key, value in event.payload.items() if value is not None)
    return f"{event.type.replace('.', ' ').replace('_', ' ')}{': ' if payload else ''}{payload}"


def _moved(payload: Mapping[str, Any]) -> str:
    to, reason = str(payload.get("to")), gist(str(payload.get("reason") or ""))
    if to == "done":
        return "done"
    text = {"deadletter": "failed", "ready": "ready to begin"}.get(to)
    return (text or f"went from {payload.get('from')} to {to}") + (f": {reason}" if reason else "")


def _number(run: object) -> str:
    return str(run).rpartition(".")[2]


def _claimed(payload: Mapping[str, Any]) -> str:
    forced = ", before its blockers were done" if payload.get("forced") else ""
    return f"taken by {payload.get('owner')}, run {_number(payload.get('run'))}{forced}"


def _failed(payload: Mapping[str, Any]) -> str:
    again = "is tried again" if payload.get("retry_at") else "given up"
    return f"attempt {payload.get('attempt')} failed and {again}: {gist(str(payload.get('reason') or ''))}"


def _verified(payload: Mapping[str, Any]) -> str:
    if payload.get("passed"):
        return f"its check passed ({float(payload.get('seconds') or 0):.1f} s)"
    return f"its check {ended(payload)}, round {payload.get('round')}"


def _reason(text: str) -> Any:
    def say(payload: Mapping[str, Any]) -> str:
        reason = gist(str(payload.get("reason") or ""))
        return f"{text}: {reason}" if reason else text

    return say


def _reason_of(text: str, *keys: str) -> Any:
    first = _with(text, *keys)
    return lambda payload: _reason(first(payload))(payload)


def _with(text: str, *keys: str) -> Any:
    return lambda payload: text.format(*(gist(_told(payload, key)) for key in keys))


def _step(said: Any) -> Any:
    """What is said of a step, then its title; one of the engine's own is called by that alone."""

    def whole(payload: Mapping[str, Any]) -> str:
        step, name = payload.get("step"), payload.get("name")
        title = "" if str(step).startswith(GATE) else f": {gist(str(name))}"
        return f"{gist(place_of(step, name))} {said(payload)}{title}"

    return whole


def _told(payload: Mapping[str, Any], key: str) -> str:
    found = payload.get(key)
    if found is None:
        return "nobody"
    return place_of(found) if key == "step" else spoken(found) if key in ("choice", "why") else str(found)


_SAID: dict[str, Any] = {
    "team.created": _with("the project was made"),
    "team.paused": _reason("paused: nothing new starts"),
    "team.resumed": _with("resumed"),
    "member.spawned": _with("{} joined", "name"),
    "member.removed": _reason("a member left"),
    "member.paused": _with("{} is {}", "name", "status"),
    "member.resumed": _with("{} goes on", "name"),
    "session.lost": _with("the program of {} is gone", "member"),
    "task.created": _with("created"),
    "task.updated": lambda payload: f"edited: {', '.join(map(str, payload.get('fields') or ()))}",
    "task.transitioned": _moved,
    "task.claimed": _claimed,
    "task.assigned": _with("assigned to {}", "assignee"),
    "task.completed": _with("reported as {}", "outcome"),
    "task.released": _with("given back"),
    "task.reclaimed": _reason("taken back"),
    "task.recovered": _reason("taken up again"),
    "task.failed": _failed,
    "task.retried": _with("is tried again"),
    "task.rejected": _reason("changes were asked for"),
    "task.approved": _with("approved by {}", "by"),
    "task.blocked": _reason("blocked"),
    "task.unblocked": _with("unblocked"),
    "task.cancelled": _reason("cancelled"),
    "task.deleted": _with("deleted"),
    "task.logged": _with("noted: {}", "text"),
    "task.warning": _reason("warning"),
    "dependency.added": _with("now waits for {}", "on"),
    "dependency.removed": _with("no longer waits for {}", "on"),
    "dependency.met": _with("{}, which it waited for, is done", "on"),
    "review.started": _with("{} reviews it", "member"),
    "review.failed": _reason("the review came to no verdict"),
    "verify.started": _with("Interlock runs its check: {}", "command"),
    "verify.finished": _verified,
    "message.sent": _with("wrote to {}", "to"),
    "question.asked": _with("asked you: {}", "text"),
    "question.answered": _with("answered: {}", "answer"),
    "question.withdrawn": _reason("a question was withdrawn"),
    "shutdown.requested": _with("{} is asked to stop", "subject"),
    "shutdown.granted": _with("agreed to stop"),
    "shutdown.rejected": _reason("will not stop"),
    "shutdown.expired": _with("nobody answered whether to stop"),
    "runner.started": lambda payload: "a worker begins" if payload.get("endless") else "the run begins",
    "runner.stopped": _reason("the run ended"),
    "plan.started": _with("the plan {} begins", "path"),
    "agent.idle_without_report": _with("{} stopped and reported nothing", "member"),
    "member.updated": _with("{} was changed", "name"),
    "team.updated": lambda payload: f"settings changed: {', '.join(map(str, payload))}",
    "question.reminded": _with("a question is still open"),
    "merge.finished": _reason_of("merging ended, {}", "outcome"),
    "access.refused": _reason_of("a run of {} tried what that may not", "member"),
    "processes.left": lambda payload: (
        f"left running, since `keep_processes` names it: {programs(payload.get('processes') or [])}"
    ),
    "changes.set_aside": _with("{} may only read; what it changed is kept as a patch", "member"),
    "checkout.changed": lambda payload: f"your checkout changed meanwhile: {named(payload.get('changed') or [], 5)}",
    "worktree.changed": lambda payload: (
        f"its worktree changed, with nobody at work in it: {named(payload.get('changed') or [], 5)}"
    ),
    "work.merged": _with("merged the work into {}", "into"),
    "notice.failed": _with("nobody could be notified: {}", "error"),
    "workflow.started": _with("{} begins", "skill"),
    "workflow.preflight": _with("checked what the workflow needs: {}", "overall_status"),
    "workflow.aligned": _with("compared the project's documents: {}", "alignment_status"),
    "workflow.step_started": _step(_with("begins")),
    "workflow.step_completed": _step(_with("is {}", "status")),
    "workflow.step_failed": _reason_of("{} did not pass its check", "step"),
    "workflow.decided": _with("decided {}, since {}", "choice", "why"),
    "workflow.turn_failed": _reason_of("a turn in {} came to nothing", "step"),
    "workflow.timeout": _with("a time limit ended a turn in {}", "step"),
    "workflow.recovered": _with("went on after a failure ({})", "recovery_method"),
    "workflow.escalated": _reason_of("nothing helped in {}, so you are asked", "step"),
    "workflow.iterated": _with("iteration {} of {} in {}", "iteration", "max_iterations", "step"),
    "workflow.examined": _with("{}, round {}: {}", "of", "round", "verdict"),
    "workflow.warning": _with("{}", "text"),
    "workflow.party_round": _with("round {} of a discussion: {} answered", "round_number", "agents_responded"),
    "workflow.party_ended": _with("a discussion ended, {}: {}", "exit_reason", "recommendation"),
    "workflow.feedback": _with("learned ({}): {}", "kind", "text"),
    "workflow.answered": _with("answered the workflow: {}", "answer"),
    "workflow.adjusted": lambda payload: f"goes on with {', '.join(map(str, payload.get('said') or ['its own tier']))}",
    "workflow.said": lambda payload: f"said: {', '.join(map(str, payload.get('said') or ()))}",
    "workflow.override_blocked": _with("{}", "message"),
    "workflow.resumed": _with("goes on: {}", "text"),
    "workflow.ended": _with("the workflow ended, {}", "outcome"),
    "workflow.curated": _with("what it taught was kept, {} new", "kept"),
    "memory.degraded": _reason("memory is out of reach"),
    "workflow.queued": _with("{} waits for its turn", "skill"),
    "workflow.reprioritised": _with("moved in the queue, to {}", "priority"),
    "workflow.rolled_back": _with("the workflow went back"),
    "delegation.requested": _with("{} hands it to {}", "from_agent", "to_agent"),
    "delegation.accepted": _with("the handoff was accepted"),
    "delegation.rejected": _reason("the handoff came to nothing"),
}
