"""RUNNING: one turn of the step at hand, and what is done about what came back."""

from __future__ import annotations

from interlock.workflow.agents.watch import NESTED_TIMEOUT, PARTY_TIMEOUT, WORKFLOW_TIMEOUT
from interlock.workflow.control import (
    advancing,
    answering,
    brainstorming,
    examining,
    learning,
    machine,
    mending,
    prompts,
    reading,
    standing_in,
    stepping,
    turning,
)
from interlock.workflow.control.context import Ending, RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.reading import Reading
from interlock.workflow.control.stalls import Visits
from interlock.workflow.menu.step_menus import menus_of
from interlock.workflow.party import menu_party, partying
from interlock.workflow.state.document import FAILED, TERMINAL, VALIDATING

NUDGES = 2
LOOP = "infinite_loop_detected"


async def work(run: RunContext) -> Ending | None:
    """One turn and its consequences; an ending where the run leaves this process."""
    state = run.state
    if run.hooks is not None and not await run.hooks.begin():
        return None
    if (party := partying.under_way(run)) is not None:
        await partying.go_on(run, party)
        return None
    if run.examination is not None and state.sent is None:
        return await examining.work(run, run.examination)
    if run.interrupted and state.sent is not None:
        await turning.take_up(run)
    elif state.sent is None:
        await brainstorming.prepare(run)
        await turning.begin(run, run.step, _again(run))
    if await menu_party.ended(run):
        return None
    timeout = await turning.turn(run)
    if run.hooks is not None and run.hooks.halted():
        return None
    if timeout is not None and await _timed_out(run, timeout):
        return None
    if run.left and await menu_party.ended(run):
        return None
    found = turning.read(run)
    learning.collect(state, found.closing, run.desk.now())
    if found.kind in (reading.CAPACITY, reading.CANCELLED):
        kind = "capacity" if found.kind == reading.CAPACITY else "stopped"
        return Ending(kind, found.text, run.heard.retry_at if run.heard else None)
    found = await _went_on(run, found)
    if state.state == TERMINAL or _loops(run, found):
        return None
    await _act(run, found)
    return None


async def _act(run: RunContext, found: Reading) -> None:
    if found.kind in (reading.COMPLETED, reading.SKIPPED, reading.FINISHED):
        menu_party.left(run)
        await _over(run, found)
    elif found.kind == reading.MENU:
        await answering.menu(run, found)
    elif found.kind in (reading.QUESTION, reading.BLOCKED, reading.UNCLEAR) and await menu_party.said(run, found):
        return
    elif found.kind in (reading.QUESTION, reading.BLOCKED):
        await answering.question(run, found)
    elif found.kind in (reading.ERROR, reading.SILENT):
        mending.lost(run, found.text)
    else:
        await _unclear(run, found)


async def _over(run: RunContext, found: Reading) -> None:
    """The step says that it is done. A step with a menu that was never shown is not: its way on was never chosen."""
    run.reading = found
    if run.examination is not None:
        await examining.mended(run, run.examination, found)
        return
    run.move(VALIDATING)
    await advancing.validate(run)


async def _timed_out(run: RunContext, limit: str) -> bool:
    """A limit ended the turn: the workflow's is final, a nested one goes back to its parent; false where the turn is
    to be judged like any other that failed."""
    state = run.state
    state.timeout_error = limit
    run.event("workflow.timeout", step=state.current_step, timeout_error=limit)
    if limit == WORKFLOW_TIMEOUT:
        machine.end(state, FAILED, "the workflow made no progress for too long")
        run.event("workflow.ended", outcome=FAILED, error=state.error, timeout_error=limit)
        await run.save()
        return True
    if limit in (NESTED_TIMEOUT, PARTY_TIMEOUT) and len(state.menu_stack) > 1:
        came_to = menu_party.timed_out(run, run.heard.output if run.heard else "")
        what = str(state.menu_stack[-1].get("within") or "The nested operation").replace("_", " ").capitalize()
        state.menu_stack = [one for one in state.menu_stack if one.get("within") is None]
        run.decide(Decision("timeout", "parent", f"{what} took longer than its limit and was ended"))
        turning.send(run, turning.NESTED, prompts.nested_over(what, came_to))
        await run.save()
        return True
    return False


async def _went_on(run: RunContext, found: Reading) -> Reading:
    """An agent that went on by itself, as the sources tell it to: the steps it has left behind are done.

    The evidence is the document's own list of completed steps, or a tool that read the next step's file.
    """
    for _ in range(len(run.workflow.steps)):
        step, record = run.step, run.record
        following = stepping.following(run.workflow, run.state, step, None, found.entered).step
        if following is None or following.path == step.path or not run.workflow.follow:
            return found
        if found.kind in (reading.ERROR, reading.SILENT, reading.EMPTY) or step.id == stepping.START:
            return found
        over = found.kind in (reading.COMPLETED, reading.FINISHED)
        listed = turning.done_in_document(run, step)
        if over and not (listed and turning.done_in_document(run, following)):
            return found
        if not over and not (found.entered or (listed and _belongs(run, found, following.text))):
            return found
        if standing_in.instead(run, following) is not None:
            # What it began is done by others; of the step before it nothing is known but that it is done.
            return Reading(reading.COMPLETED)
        if not await advancing.stopped(run, reading.COMPLETED):
            return found
        advancing.complete(run, step, record, Reading(reading.COMPLETED, closing=found.closing), "unknown")
        run.decide(Decision("next_step", str(following.id), "the agent went on to it by itself", by="agent"))
        next_record = stepping.record_of(run.state, following)
        run.state.current_step = next_record.id
        stepping.take_over(run.state, following, run.desk.now())
        run.state.sent = None
        turning.send(run, turning.STEP, "")
        found = turning.read(run)
        if found.entered is None and not listed:
            return found
    return found


def _belongs(run: RunContext, found: Reading, text: str) -> bool:
    """Whether what is shown may be the next step's: its menu, or a question after the way on was chosen."""
    answered = bool(run.heard and run.heard.answered)
    return answered and (found.kind != reading.MENU or bool(menus_of(text)))


def _loops(run: RunContext, found: Reading) -> bool:
    """Whether the same state came for the fifth time without a human in between: the run ends (decision 31)."""
    state = run.state
    output = run.heard.output if run.heard else ""
    visits = Visits(state.visits).visit(state.state, str(state.current_step), len(state.menu_stack), output)
    state.visits = dict(list(visits.counts.items())[-500:])
    # A failing turn is counted by its own remedies, which are exhausted sooner.
    if not visits.looping or found.kind in (reading.ERROR, reading.SILENT):
        return False
    machine.end(state, FAILED, LOOP)
    state.error_details = {"step": state.current_step, "kind": found.kind, "said": found.text[-500:]}
    run.decide(Decision("terminate", LOOP, "the same state came for the fifth time"))
    run.event("workflow.ended", outcome=FAILED, error=LOOP, step=state.current_step)
    return True


async def _unclear(run: RunContext, found: Reading) -> None:
    """The turn ended without a word about the step: ask it, then look at what it did."""
    if run.once("nudge", NUDGES):
        run.decide(Decision("unclear", "ask the agent", "its turn ended without saying how the step stands"))
        turning.send(run, turning.NUDGE, prompts.unclear(run.step))
        return
    heard = run.heard
    assert heard is not None
    if found.kind == reading.UNCLEAR and (turning.changed(run) or turning.exists(run) or heard.paths):
        run.decide(Decision("unclear", "done", "it has written its document and asks for nothing", confidence=50))
        await _over(run, Reading(reading.COMPLETED, found.text, found.closing))
        return
    mending.unclear(run, heard)


def _again(run: RunContext) -> str:
    """What a step that is begun once more is told: a human's words about its first result."""
    return str(run.state.recovery.pop("guidance", ""))
