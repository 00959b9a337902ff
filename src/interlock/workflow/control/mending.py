"""FAILED and RECOVERING: what a failure calls for, carried out (BMAD-2b.8, 2b.12)."""

from __future__ import annotations

import anyio

from interlock.workflow.control import escalation, recovering, stepping, turning, wishes
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.prompts import fix
from interlock.workflow.control.reading import Heard
from interlock.workflow.party import partying
from interlock.workflow.personal.preferences import LEARNED
from interlock.workflow.state.document import FAILED, RECOVERING, RUNNING


def lost(run: RunContext, why: str) -> None:
    """The agent's turn failed: it died, was silent, could not be spoken to."""
    recovering.failed(run.state, recovering.TRANSIENT, why)
    run.event("workflow.turn_failed", step=run.state.current_step, reason=why)
    run.move(FAILED)


def unclear(run: RunContext, heard: Heard) -> None:
    """The agent ends its turns without a word about the step."""
    why = "the agent ends its turns without saying how the step stands"
    recovering.failed(run.state, recovering.UNCLEAR, why, output=heard.output)
    run.move(FAILED)


async def recover(run: RunContext) -> None:
    """One remedy: try again, fix, call Party Mode, or ask a human."""
    state = run.state
    run.move(RECOVERING)
    reason = str(state.recovery.get("reason", ""))
    known = await run.knowledge.fix(recovering.signature(state.recovery))
    template = run.workflow.variables.value("template") or run.step.settings.get("template")
    unwanted = wishes.unwanted_fixes(run)
    remedy = recovering.remedy(state, fix_known=known is not None, template=bool(template), unwanted=unwanted)
    pattern = wishes.fix(run, remedy.strategy) if remedy.action == recovering.FIX else None
    source = LEARNED if unwanted and remedy.action in (recovering.FIX, recovering.ASK) else None
    run.decide(
        Decision(
            "recovery", remedy.strategy or remedy.action, remedy.why, basis={"recovery": dict(state.recovery)},
            source=source, pattern=pattern,
        )
    )  # fmt: skip
    if remedy.action == recovering.ASK:
        await _escalate(run, remedy.error)
    elif remedy.action == recovering.END:
        escalation.exhausted(run, str(remedy.error), state.recovery.get("details", {}))
    elif remedy.action == recovering.PARTY:
        await partying.call(run, partying.STALL, remedy.why)
    elif remedy.action == recovering.RETRY:
        recovering.trying(state, remedy.strategy)
        await run.save()
        await anyio.sleep(remedy.pause)
        # The turn that was lost may have done anything: the step goes on in its session, or begins again.
        run.interrupted = True
        run.move(RUNNING)
    else:
        await run.checkpoints.create(state, step=run.record.id, reason=f"before a fix of step {run.record.id}")
        recovering.trying(state, remedy.strategy)
        hint = {"memory_patterns": known or "", "template_fixes": str(template or "")}.get(remedy.strategy, "")
        findings = "\n".join([reason, *(f"- {one}" for one in state.recovery.get("issues", []))])
        run.record.status, run.record.error = "in_progress", None
        turning.send(run, turning.FIX, fix(remedy.strategy, findings, hint))
        run.move(RUNNING)


async def _escalate(run: RunContext, error: str | None) -> None:
    state, record = run.state, run.record
    record.error = str(state.recovery.get("reason", ""))[:2000]
    text = f"{stepping.called(record)}, of {state.skill}, cannot go on: {recovering.report(state)}"
    tried = list(state.recovery.get("tried", []))
    await escalation.escalate(run, text, record.error, tried, error, state.recovery.get("details", {}))
