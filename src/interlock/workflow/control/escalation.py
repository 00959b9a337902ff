"""A human is asked what the engine cannot settle, and what was called for is recorded."""

from __future__ import annotations

from interlock.workflow.control import asking
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.ports import Asking
from interlock.workflow.state.document import WAITING_USER, Waiting

OPTIONS = ("retry", "skip", "stop")
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
