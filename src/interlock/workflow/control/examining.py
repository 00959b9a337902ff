"""An examination as a step of a run: examine, let the maker mend what was found, examine again, until it is approved.

The rounds are kept in `state.examinations`, so a run that is killed goes on with the round it was in.
"""

from __future__ import annotations

from interlock.workflow.control import advancing, mending, prompts, reading, turning
from interlock.workflow.control.closing import Closing
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.examination import APPROVE, CHANGES, Examination, Examined
from interlock.workflow.control.reading import Reading
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import RUNNING


async def work(run: RunContext, examination: Examination) -> None:
    """One round, and what it calls for."""
    state, record = run.state, run.record
    kept = state.examinations.setdefault(examination.name, {"rounds": []})
    number = len(kept["rounds"]) + 1
    if number == 1:
        step_tracking.begin(state, record.id, record.name, run.desk.now())
        run.event("workflow.step_started", step=record.id, name=record.name, visit=record.visit)
    await run.save()
    found = await examination.examine(run, number)
    if run.dispatcher is not None and run.dispatcher.stopped:
        return  # It was not looked at to the end; the round begins again with the run.
    if run.hooks is not None:
        await run.hooks.settle()
        if run.hooks.halted():
            return
    kept["rounds"].append({**found.as_dict(), "at": run.desk.now()})
    run.decide(
        Decision(
            "examination", found.verdict, found.summary, by="agent", basis={"of": examination.name, "round": number}
        )
    )
    run.event("workflow.examined", step=record.id, of=examination.name, round=number, verdict=found.verdict)
    if found.verdict == APPROVE:
        await _approved(run, found)
    elif found.verdict == CHANGES:
        await run.checkpoints.create(state, step=record.id, reason=f"before the findings of round {number} are mended")
        turning.send(run, turning.FIX, prompts.findings(record.name, found))
        run.move(RUNNING)
        await run.save()
    else:
        await mending.blocked(run, found)


async def _approved(run: RunContext, found: Examined) -> None:
    closing = Closing(found.summary, step=reading.COMPLETED, verdict="PASS")
    await advancing.done(run, Reading(reading.COMPLETED, found.summary, closing), "success")
