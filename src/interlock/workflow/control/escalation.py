"""A human is asked what the engine cannot settle, and what was called for is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.workflow.control import asking, machine
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.ports import Asking
from interlock.workflow.state.document import FAILED, WAITING_USER, Waiting

OPTIONS = ("retry", "skip", "stop")
WHAT_NOW = "What should be done: retry, skip, stop, or something else (say it)?"
PARTY_OPTIONS = ("continue", "retry", "stop")
PARTY = "party_mode"


def triggered(run: RunContext, what: str, why: str) -> None:
    """Record that something was called for, once for each visit of a step."""
    state, record = run.state, run.record
    at = run.desk.now()
    state.triggers.append({"what": what, "step": record.id, "visit": record.visit, "why": why, "at": at})
    run.event("workflow.triggered", what=what, step=record.id, why=why, hash=state.recovery.get("hash"))


async def ask(run: RunContext, purpose: str, kind: str, text: str, options: tuple[str, ...]) -> None:
    """Put a question to a human; the run waits."""
    state = run.state
    entry = asking.new_entry(state, run.record, purpose, text, run.desk.now())
    state.waiting = Waiting(entry["key"], purpose, text, list(options))
    run.move(WAITING_USER)
    state.waiting.question_id = await run.save(Asking(entry["key"], kind, text, options))
    state.waiting.asked_at = run.desk.now()


async def escalate(
    run: RunContext,
    text: str,
    reason: str,
    tried: Sequence[Mapping[str, Any]] = (),
    error: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Ask a human about the step at hand. `error` is the code of the limit that was reached, `details` what there is to
    say about it."""
    details = details or {}
    if error is not None:
        run.state.error, run.state.error_details = error, {"step": run.state.current_step, **details}
        pattern = f" ({details['pattern']})" if details.get("pattern") else ""
        attempts = f"\n\nSo far:\n{details['attempts']}" if details.get("attempts") else ""
        text = f"{text}\n\n{error}{pattern}{attempts}"
    run.event("workflow.escalated", step=run.record.id, reason=reason, tried=[dict(one) for one in tried], error=error)
    await ask(run, "escalation", "escalation", f"{text}\n\n{WHAT_NOW}", OPTIONS)


def exhausted(run: RunContext, error: str, details: Mapping[str, Any]) -> None:
    """The run ends: its loop came to its limit (BMAD-5.10.1). The summary of the attempts is in `error_details`."""
    state = run.state
    state.error_details = {"step": state.current_step, **details}
    machine.end(state, FAILED, error)
    run.event("workflow.ended", outcome=FAILED, error=error, step=state.current_step, **details)
