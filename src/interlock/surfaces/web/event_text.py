"""Events as sentences: what a person would say had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from interlock.model.event import Event
from interlock.model.evidence import ended
from interlock.model.names import HUMAN, SYSTEM
from interlock.model.text import named, programs
from interlock.model.workflow import GATE, place_of, spoken
from interlock.surfaces.web.prose import gist

Payload = Mapping[str, Any]
Sentence = Callable[[Payload], str]

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
class EventLine:
    """An event as a page shows it. `tone` is loud, good, quiet or plain."""

    event: Event
    text: str
    tone: str


def line(event: Event) -> EventLine:
    """Return the event with its sentence."""
    payload = event.payload
    if event.type in SENTENCES:
        text = SENTENCES[event.type](payload)
    else:
        said = ", ".join(f"{key} {gist(str(value), 60)}" for key, value in payload.items() if value is not None)
        text = f"{event.type.replace('.', ' ').replace('_', ' ')}{': ' if said else ''}{said}"
    if event.type in LOUD or payload.get("to") == "deadletter":
        tone = "loud"
    elif payload.get("to") == "done" or payload.get("passed") is True:
        tone = "good"
    else:
        tone = "quiet" if event.type in QUIET else "plain"
    return EventLine(event, text, tone)


def entries(events: Iterable[Event]) -> list[EventLine]:
    """Return events, newest first, as a person would tell them.

    What one verb did to one task is one line, without the hops that another event of the same moment explains; letters
    to several are one.
    """
    found: list[EventLine] = []
    for _, some in groupby(events, key=lambda event: (event.at, event.actor, event.task_id)):
        together = list(some)
        letters = [event for event in together if event.type == "message.sent"]
        rest = [event for event in together if event.type != "message.sent"]
        telling = [event for event in rest if event.type not in HOPS and event.type not in QUIET]
        found += [line(event) for event in telling or rest[:1]]
        if letters:
            to = ", ".join(dict.fromkeys(actor(str(event.payload.get("to"))) for event in reversed(letters)))
            found.append(EventLine(letters[0], f"wrote to {to}", "plain"))
    return found


def actor(name: str) -> str:
    """Return who acted, as people say it."""
    return {SYSTEM: "Interlock", HUMAN: "you"}.get(name, name)


def _value(payload: Payload, key: str) -> str:
    found = payload.get(key)
    if found is None:
        return "nobody"
    return place_of(found) if key == "step" else spoken(found) if key in ("choice", "why") else str(found)


def _because(text: str, payload: Payload) -> str:
    reason = gist(str(payload.get("reason") or ""))
    return f"{text}: {reason}" if reason else text


def _with(text: str, *keys: str) -> Sentence:
    """Return a sentence with the values of these keys."""
    return lambda payload: text.format(*(gist(_value(payload, key)) for key in keys))


def _reason(text: str, *keys: str) -> Sentence:
    """Return a sentence with the values of these keys, then the reason."""
    return lambda payload: _because(_with(text, *keys)(payload), payload)


def _list(text: str, key: str, default: str = "") -> Sentence:
    return lambda payload: f"{text}{', '.join(map(str, payload.get(key) or ())) or default}"


def _changed(text: str) -> Sentence:
    return lambda payload: f"{text}: {named(payload.get('changed') or [], 5)}"


def _step(said: Sentence) -> Sentence:
    """Return what is said of a step, then its title; one of the engine's own is called by that alone."""

    def whole(payload: Payload) -> str:
        step, name = payload.get("step"), payload.get("name")
        title = "" if str(step).startswith(GATE) else f": {gist(str(name))}"
        return f"{gist(place_of(step, name))} {said(payload)}{title}"

    return whole


def transitioned(payload: Payload) -> str:
    to = str(payload.get("to"))
    if to == "done":
        return "done"
    text = {"deadletter": "failed", "ready": "ready to begin"}.get(to)
    return _because(text or f"went from {payload.get('from')} to {to}", payload)


def claimed(payload: Payload) -> str:
    forced = ", before its blockers were done" if payload.get("forced") else ""
    return f"taken by {payload.get('owner')}, run {str(payload.get('run')).rpartition('.')[2]}{forced}"


def failed(payload: Payload) -> str:
    again = "is tried again" if payload.get("retry_at") else "given up"
    return f"attempt {payload.get('attempt')} failed and {again}: {gist(str(payload.get('reason') or ''))}"


def verified(payload: Payload) -> str:
    if payload.get("passed"):
        return f"its check passed ({float(payload.get('seconds') or 0):.1f} s)"
    return f"its check {ended(payload)}, round {payload.get('round')}"


SENTENCES: dict[str, Sentence] = {
    "team.created": _with("the project was made"),
    "team.paused": _reason("paused: nothing new starts"),
    "team.resumed": _with("resumed"),
    "member.spawned": _with("{} joined", "name"),
    "member.removed": _reason("a member left"),
    "member.paused": _with("{} is {}", "name", "status"),
    "member.resumed": _with("{} goes on", "name"),
    "session.lost": _with("the program of {} is gone", "member"),
    "task.created": _with("created"),
    "task.updated": _list("edited: ", "fields"),
    "task.transitioned": transitioned,
    "task.claimed": claimed,
    "task.assigned": _with("assigned to {}", "assignee"),
    "task.completed": _with("reported as {}", "outcome"),
    "task.released": _with("given back"),
    "task.reclaimed": _reason("taken back"),
    "task.recovered": _reason("taken up again"),
    "task.failed": failed,
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
    "verify.finished": verified,
    "message.sent": _with("wrote to {}", "to"),
    "question.asked": _with("asked you: {}", "text"),
    "question.answered": _with("answered: {}", "answer"),
    "question.withdrawn": _reason("a question was withdrawn"),
    "shutdown.requested": _with("{} is asked to stop", "subject"),
    "shutdown.granted": _with("agreed to stop"),
    "shutdown.rejected": _reason("will not stop"),
    "shutdown.expired": _with("nobody answered whether to stop"),
    "runner.started": lambda payload: "worker started" if payload.get("endless") else "run started",
    "runner.stopped": _reason("run ended"),
    "plan.started": _with("plan {} started", "path"),
    "agent.idle_without_report": _with("{} stopped and reported nothing", "member"),
    "member.updated": _with("{} was changed", "name"),
    "team.updated": lambda payload: f"settings changed: {', '.join(map(str, payload))}",
    "question.reminded": _with("a question is still open"),
    "merge.finished": _reason("merging ended, {}", "outcome"),
    "access.refused": _reason("a run of {} tried what that may not", "member"),
    "processes.left": lambda payload: (
        f"left running, since `keep_processes` names it: {programs(payload.get('processes') or [])}"
    ),
    "changes.set_aside": _with("{} may only read; what it changed is kept as a patch", "member"),
    "checkout.changed": _changed("your checkout changed meanwhile"),
    "worktree.changed": _changed("its worktree changed, with nobody at work in it"),
    "work.merged": _with("merged the work into {}", "into"),
    "notice.failed": _with("nobody could be notified: {}", "error"),
    "workflow.started": _with("{} begins", "skill"),
    "workflow.preflight": _with("checked what the workflow needs: {}", "overall_status"),
    "workflow.aligned": _with("compared the project's documents: {}", "alignment_status"),
    "workflow.step_started": _step(_with("begins")),
    "workflow.step_completed": _step(_with("is {}", "status")),
    "workflow.step_failed": _reason("{} did not pass its check", "step"),
    "workflow.decided": _with("decided {}, since {}", "choice", "why"),
    "workflow.turn_failed": _reason("a turn in {} came to nothing", "step"),
    "workflow.timeout": _with("a time limit ended a turn in {}", "step"),
    "workflow.recovered": _with("went on after a failure ({})", "recovery_method"),
    "workflow.escalated": _reason("nothing helped in {}, so you are asked", "step"),
    "workflow.evidence_missing": _list("is not completed yet, for ", "missing", "what it must leave is missing"),
    "workflow.story": _with("implements the story {}, since {}", "story", "why"),
    "workflow.iterated": _with("iteration {} of {} in {}", "iteration", "max_iterations", "step"),
    "workflow.examined": _with("{}, round {}: {}", "of", "round", "verdict"),
    "workflow.warning": _with("{}", "text"),
    "workflow.party_round": _with("round {} of a discussion: {} answered", "round_number", "agents_responded"),
    "workflow.party_ended": _with("a discussion ended, {}: {}", "exit_reason", "recommendation"),
    "workflow.feedback": _with("learned ({}): {}", "kind", "text"),
    "workflow.answered": _with("answered the workflow: {}", "answer"),
    "workflow.adjusted": _list("goes on with ", "said", "its own tier"),
    "workflow.said": _list("said: ", "said"),
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
