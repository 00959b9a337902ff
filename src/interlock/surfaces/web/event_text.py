"""Events as sentences: what a person would say had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from interlock.clock import seconds
from interlock.lazy_dataclass import dataclass
from interlock.model.event import EVENT_TYPES, Event
from interlock.model.evidence import ended
from interlock.model.names import HUMAN, SYSTEM
from interlock.model.text import named, programs, stuck
from interlock.model.workflow import GATE, place_of, spoken
from interlock.surfaces.web.prose import asked, gist

Payload = Mapping[str, Any]
Sentence = Callable[[Payload], str]

QUIET = frozenset(
    "run.heartbeat run.started run.reported run.spent session.began session.ended message.offered message.delivered "
    "message.acknowledged scheduler.poll protocol.message.received task.completed task.logged verify.started "
    "dependency.met verify.before task.reclaimed delegation.requested group.created worktree.made integration.started "
    "merge.queued merge.started workflow.state workflow.context_loaded workflow.triggered workflow.dequeued "
    "workflow.status_changed workflow.rate_limited workflow.state_rebuilt message.requeued mirror.adopted "
    "ledger.migrated ledger.pruned protocol.message.warning".split()
)
"""Types that say nothing to people which another event does not; the timeline shows them only when asked."""
HOPS = frozenset({"task.transitioned"})
"""What another event of the same moment says better."""
REMINDS = "question.reminded"
LOUD = frozenset(
    "question.asked task.failed task.warning session.lost run.refused review.failed "
    "protocol.message.rejected protocol.message.failed mirror.conflict workflow.escalated workflow.step_failed "
    "workflow.status_cycling workflow.queue_overflow workflow.warning workflow.override_blocked notice.failed "
    "changes.set_aside checkout.changed worktree.changed integration.moved access.refused".split()
)


KINDS = {
    "questions": ("Questions and reviews", "question review permission task.approved task.rejected"),
    "trouble": ("What went wrong", " ".join((*sorted(LOUD - {"question.asked"}), "run.stuck", "limit.reached"))),
    "tasks": ("Tasks", "task dependency delegation verify merge work"),
    "messages": ("Messages", "message"),
    "workflows": ("Workflows", "workflow plan"),
    "team": ("Members and settings", "team member session runner shutdown access"),
}
"""What a timeline can be narrowed to: what it is called, and the types, or the first words of types, in it."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event as a page shows it. `tone` is loud, good, quiet or plain."""

    event: Event
    text: str
    tone: str


def types_of(kind: str, everything: bool = False) -> tuple[str, ...]:
    """Return the types of a kind of `KINDS`, of all for another; without the quiet ones unless `everything`."""
    chosen = KINDS[kind][1].split() if kind in KINDS else None
    return tuple(
        type
        for type in sorted(EVENT_TYPES)
        if (chosen is None or type in chosen or type.partition(".")[0] in chosen) and (everything or type not in QUIET)
    )


def lengths(events: Iterable[Event]) -> dict[int, float]:
    """Return how many seconds after its claim a task was done or failed, by the number of the event that says so."""
    begun: dict[str | None, str] = {}
    found = {}
    for event in sorted(events, key=lambda one: one.seq):
        if event.type == "task.claimed":
            begun[event.task_id] = event.at
        elif event.task_id in begun and (event.type == "task.failed" or event.payload.get("to") == "done"):
            found[event.seq] = seconds(event.at) - seconds(begun[event.task_id])
    return found


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
    to several are one, and so are reminders, of one question or of several in a row, and a change of the checkout that
    several runs were told of.
    """
    found: list[EventLine] = []
    for _, some in groupby(_reminded_once(events), key=lambda event: (event.at, event.actor)):
        tasks: dict[str | None, list[Event]] = {}
        letters: list[Event] = []
        for event in some:
            (letters if event.type == "message.sent" else tasks.setdefault(event.task_id, [])).append(event)
        for rest in tasks.values():
            failed = any(event.type == "task.failed" for event in rest)
            told = [event for event in rest if event.type not in HOPS and event.type not in QUIET]
            telling = [event for event in told if not (failed and event.payload.get("kind") == "escalation")]
            found += [line(event) for event in telling or rest[:1]]
        # What an act tells others by itself is no news beside the act.
        if letters and not any(tasks):
            to = ", ".join(dict.fromkeys(actor(str(event.payload.get("to"))) for event in reversed(letters)))
            found.append(EventLine(letters[0], f"wrote to {to}", "plain"))
    shown: list[EventLine] = []
    for kind, lines in groupby(found, key=_told_together):
        several = list(lines)
        if kind is not None and len(several) > 1:
            first, of_one = several[0], len({one.event.task_id for one in several}) == 1
            reminds = kind == REMINDS
            newest = first.event if of_one and not reminds else replace(first.event, task_id=None)
            text = f"{len(several)} questions are still open" if reminds else first.text
            several = [EventLine(newest, text, first.tone)]
        shown += several
    return shown


def _told_together(told: EventLine) -> str | None:
    """What such lines in a row are told as one by; None for a line that stands by itself."""
    if told.event.type == REMINDS:
        return REMINDS
    return told.text if told.event.type == "checkout.changed" else None


def _reminded_once(events: Iterable[Event]) -> Iterator[Event]:
    """The events with the newest reminder of each question alone."""
    seen = set()
    for event in events:
        if event.type == REMINDS:
            asked = (event.task_id, event.payload.get("id"))
            if asked in seen:
                continue
            seen.add(asked)
        yield event


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


STATES = {
    "done": "done",
    "deadletter": "failed",
    "ready": "ready to start",
    "backlog": "waits for others",
    "in-progress": "work continues",
    "review": "work finished, to be checked",
    "awaiting-response": "waits for an answer",
}
"""What a task is said to be once it has come to a state; `review` in which its check begins is told by the check."""


def transitioned(payload: Payload) -> str:
    to = str(payload.get("to"))
    if to == "done" or payload.get("reason") == "verifying":
        return STATES[to]
    return _because(STATES.get(to, to), payload)


def claimed(payload: Payload) -> str:
    forced = ", before its blockers were done" if payload.get("forced") else ""
    return f"started, run {str(payload.get('run')).rpartition('.')[2]}{forced}"


def failed(payload: Payload) -> str:
    again = "to be tried again" if payload.get("retry_at") else "given up"
    attempt = f"attempt {payload['attempt']} failed" if payload.get("attempt") else "failed"
    return f"{attempt}, {again}: {gist(str(payload.get('reason') or ''))}"


def before(payload: Payload) -> str:
    red = payload.get("red")
    said = "did not finish" if red is None else "failed, as it should" if red else "passed already"
    return f"its check {said} on the tree before the work"


def verified(payload: Payload) -> str:
    if payload.get("passed"):
        return f"its check passed ({float(payload.get('seconds') or 0):.1f} s)"
    return f"its check {ended(payload)}, round {payload.get('round')}"


SENTENCES: dict[str, Sentence] = {
    "team.created": _with("created the project"),
    "team.paused": _reason("paused: nothing new starts"),
    "team.resumed": _with("resumed"),
    "member.spawned": _with("added {}", "name"),
    "member.removed": _reason("removed a member"),
    "member.paused": _with("{} is {}", "name", "status"),
    "member.resumed": _with("{} resumed", "name"),
    "session.lost": _with("found that {}'s program is gone", "member"),
    "task.created": _with("created"),
    "task.updated": _list("edited: ", "fields"),
    "task.transitioned": transitioned,
    "task.claimed": claimed,
    "task.assigned": _with("assigned to {}", "assignee"),
    "task.completed": _with("reported as {}", "outcome"),
    "task.released": _with("returned to the queue"),
    "task.reclaimed": _reason("returned to the queue"),
    "task.recovered": _reason("resumed"),
    "task.failed": failed,
    "run.stuck": lambda payload: (
        f"made no progress, and was {payload.get('action')}: {stuck(payload.get('evidence') or {})}"
    ),
    "task.retried": _with("is tried again"),
    "task.rejected": _reason("changes requested"),
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
    "review.failed": _reason("the review reached no verdict"),
    "setup.started": _with("preparing its worktree: {}", "command"),
    "verify.started": _with("Interlock runs its check: {}", "command"),
    "verify.finished": verified,
    "verify.before": before,
    "message.sent": _with("wrote to {}", "to"),
    "question.asked": lambda payload: f"asked you: {gist(asked(str(payload.get('text') or '')))}",
    "question.answered": _with("answered: {}", "answer"),
    "question.withdrawn": _reason("a question was withdrawn"),
    "shutdown.requested": _with("{} is asked to stop", "subject"),
    "shutdown.granted": _with("agreed to stop"),
    "shutdown.rejected": _reason("will not stop"),
    "shutdown.expired": _with("nobody answered the request to stop"),
    "runner.started": lambda payload: "started a worker" if payload.get("endless") else "started the run",
    "runner.stopped": lambda payload: _reason("stopped a worker" if payload.get("endless") else "ended the run")(
        payload
    ),
    "plan.started": _with("started the plan {}", "path"),
    "agent.idle_without_report": _with("{}'s program ended without a report of its own", "member"),
    "member.updated": _with("{} was changed", "name"),
    "team.updated": lambda payload: f"changed settings: {', '.join(map(str, payload))}",
    "question.reminded": _with("a question is still open"),
    "merge.finished": lambda payload: (
        "merged" if payload.get("outcome") == "merged" else _reason("could not be merged ({})", "outcome")(payload)
    ),
    "access.refused": _reason("a run of {} tried something it is not allowed to", "member"),
    "processes.left": lambda payload: (
        f"left running, since `keep_processes` names it: {programs(payload.get('processes') or [])}"
    ),
    "changes.set_aside": _with("{} may only read; what it changed is kept as a patch", "member"),
    "checkout.changed": _changed("your checkout changed meanwhile"),
    "integration.moved": _with("{} was moved by somebody else, and is put back", "branch"),
    "worktree.changed": _changed("its worktree changed while nobody worked in it"),
    "work.merged": _with("merged the work into {}", "into"),
    "artifacts.kept": _with("kept {} files that are in no commit", "count"),
    "clock.set_back": _with("the clock of the machine was set back by {} s", "seconds"),
    "limit.reached": _with("reached a limit of its {}: {} of {} ({})", "of", "spent", "limit", "measure"),
    "permission.answered": _with("{} was answered: {}", "tool", "answer"),
    "permission.asked": _with("asks to use {}: {}", "tool", "title"),
    "run.capacity": _reason("no capacity is left until {}", "retry_at"),
    "run.waiting": _reason("its program waits for its provider until {}", "retry_at"),
    "run.parked": _reason("its program ended; the answer begins a new run"),
    "run.reminded": _with("{} ended its turn without a report, and was asked for one", "member"),
    "session.prompted": _with("{} was given its messages", "member"),
    "worker.status": _with("worker {} is {}", "worker", "status"),
    "team.shutdown": _with("the team was shut down"),
    "notice.failed": _with("nobody could be notified: {}", "error"),
    "workflow.started": _with("{} started", "skill"),
    "workflow.preflight": _with("checked what the workflow needs: {}", "overall_status"),
    "workflow.aligned": _with("compared the project's documents: {}", "alignment_status"),
    "workflow.step_started": _step(_with("started")),
    "workflow.step_completed": _step(_with("is {}", "status")),
    "workflow.step_failed": _reason("{} did not pass its check", "step"),
    "workflow.decided": _with("decided {}, since {}", "choice", "why"),
    "workflow.turn_failed": _reason("a turn in {} achieved nothing", "step"),
    "workflow.timeout": _with("a time limit ended a turn in {}", "step"),
    "workflow.recovered": _with("continued after a failure ({})", "recovery_method"),
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
    "workflow.adjusted": _list("continues with ", "said", "its own tier"),
    "workflow.said": _list("said: ", "said"),
    "workflow.override_blocked": _with("{}", "message"),
    "workflow.resumed": _with("continues: {}", "text"),
    "workflow.ended": _with("the workflow ended, {}", "outcome"),
    "workflow.curated": _with("what it taught was kept, {} new", "kept"),
    "memory.degraded": _reason("memory is out of reach"),
    "workflow.queued": _with("{} waits for its turn", "skill"),
    "workflow.reprioritised": _with("moved in the queue, to {}", "priority"),
    "workflow.rolled_back": _with("the workflow was rolled back"),
    "delegation.requested": _with("{} handed it to {}", "from_agent", "to_agent"),
    "delegation.accepted": _with("the handoff was accepted"),
    "delegation.rejected": _reason("the handoff failed"),
}
