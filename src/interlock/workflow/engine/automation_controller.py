"""Automation Controller: takes an agent through every step of a workflow, whatever the agent does (FR1–FR3, FR16–FR18).

An explicit state machine (`machine.py`): each turn of the loop does what the present state asks for and moves on. The
state is written down before every prompt and with every question and step that is done, in one transaction each, so
the process may be killed at any moment. Whatever happens, the run ends in TERMINAL or waits for a human, and nothing
waits longer than its limit.

FAILED and RECOVERING: what a failure calls for, carried out (BMAD-2b.8, 2b.12).

RUNNING: one turn of the step at hand, and what is done about what came back.
"""

from __future__ import annotations

import anyio

from interlock.errors import AgentError
from interlock.workflow.agents.pool import NESTED_TIMEOUT, PARTY_TIMEOUT, WORKFLOW_TIMEOUT
from interlock.workflow.engine import (
    brainstorming,
    evidence,
    initialization,
    machine,
    menu_answers,
    prompts,
    questions,
    recovery,
    replies,
    reviews,
    steps,
    transitions,
    turn_interpreter,
    turns,
)
from interlock.workflow.engine.context import Ending, Postponed, RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.loop_back_handler import Visits
from interlock.workflow.engine.ports import Superseded
from interlock.workflow.engine.prompts import fix
from interlock.workflow.engine.turn_interpreter import Heard, Reading
from interlock.workflow.menus.step_menus import menus_of
from interlock.workflow.party import in_a_step
from interlock.workflow.preferences import application
from interlock.workflow.preferences.preferences import LEARNED
from interlock.workflow.state import resume as resuming
from interlock.workflow.state.document import (
    CANCELLED,
    COMPLETED,
    COMPLETING,
    FAILED,
    IDLE,
    INITIALIZING,
    RECOVERING,
    RUNNING,
    TERMINAL,
    VALIDATING,
    WAITING_USER,
)


def lost(run: RunContext, why: str) -> None:
    """The agent's turn failed: it died, was silent, could not be spoken to."""
    recovery.failed(run.state, recovery.TRANSIENT, why)
    run.event("workflow.turn_failed", step=run.state.current_step, reason=why)
    run.move(FAILED)


def unclear(run: RunContext, heard: Heard) -> None:
    """The agent ends its turns without a word about the step."""
    why = "the agent ends its turns without saying how the step stands"
    recovery.failed(run.state, recovery.UNCLEAR, why, output=heard.output)
    run.move(FAILED)


async def recover(run: RunContext) -> None:
    """One remedy: try again, fix, call Party Mode, or ask a human."""
    state = run.state
    run.move(RECOVERING)
    reason = str(state.recovery.get("reason", ""))
    known = await run.knowledge.fix(recovery.signature(state.recovery))
    template = run.workflow.variables.value("template") or run.step.settings.get("template")
    unwanted = application.unwanted_fixes(run)
    remedy = recovery.remedy(state, fix_known=known is not None, template=bool(template), unwanted=unwanted)
    pattern = application.fix(run, remedy.strategy) if remedy.action == recovery.FIX else None
    source = LEARNED if unwanted and remedy.action in (recovery.FIX, recovery.ASK) else None
    run.decide(
        Decision(
            "recovery", remedy.strategy or remedy.action, remedy.why, basis={"recovery": dict(state.recovery)},
            source=source, pattern=pattern,
        )
    )  # fmt: skip
    if remedy.action == recovery.ASK:
        await _escalate(run, remedy.error)
    elif remedy.action == recovery.END:
        questions.exhausted(run, str(remedy.error), state.recovery.get("details", {}))
    elif remedy.action == recovery.PARTY:
        await in_a_step.call(run, in_a_step.STALL, remedy.why)
    elif remedy.action in (recovery.TELL, recovery.BEGIN_AGAIN):
        recovery.trying(state, remedy.strategy)
        run.record.status, run.record.error = "in_progress", None
        text = prompts.missing(run.step, state.recovery["issues"])
        if remedy.action == recovery.TELL:
            turns.send(run, turns.NUDGE, text)
        else:
            state.recovery["guidance"], state.sent = text, None
        run.move(RUNNING)
    elif remedy.action == recovery.RETRY:
        recovery.trying(state, remedy.strategy)
        await run.save()
        await anyio.sleep(remedy.pause)
        # The turn that was lost may have done anything: the step goes on in its session, or begins again.
        run.interrupted = True
        run.move(RUNNING)
    else:
        await run.checkpoints.create(state, step=run.record.id, reason=f"before a fix of step {run.record.id}")
        recovery.trying(state, remedy.strategy)
        hint = {"memory_patterns": known or "", "template_fixes": str(template or "")}.get(remedy.strategy, "")
        findings = "\n".join([reason, *(f"- {one}" for one in state.recovery.get("issues", []))])
        run.record.status, run.record.error = "in_progress", None
        turns.send(run, turns.FIX, fix(remedy.strategy, findings, hint))
        run.move(RUNNING)


async def _escalate(run: RunContext, error: str | None) -> None:
    state, record = run.state, run.record
    record.error = str(state.recovery.get("reason", ""))[:2000]
    text = f"{steps.called(record)}, of {state.skill}, cannot go on: {recovery.report(state)}"
    tried = list(state.recovery.get("tried", []))
    await questions.escalate(run, text, record.error, tried, error, state.recovery.get("details", {}))


NUDGES = 2
LOOP = "infinite_loop_detected"


async def work(run: RunContext) -> Ending | None:
    """One turn and its consequences; an ending where the run leaves this process."""
    state = run.state
    if run.hooks is not None and not await run.hooks.begin():
        return None
    if (party := in_a_step.under_way(run)) is not None:
        await in_a_step.go_on(run, party)
        return None
    if run.examination is not None and state.sent is None:
        return await reviews.work(run, run.examination)
    if run.interrupted and state.sent is not None:
        await turns.take_up(run)
    elif state.sent is None:
        await brainstorming.prepare(run)
        await turns.begin(run, run.step, _again(run))
    if await in_a_step.ended(run):
        return None
    timeout = await turns.turn(run)
    if run.hooks is not None and run.hooks.halted():
        return None
    if timeout is not None and await _timed_out(run, timeout):
        return None
    if run.left and await in_a_step.ended(run):
        return None
    found = turns.read(run)
    recovery.collect(state, found.closing, run.desk.now())
    if found.kind in (turn_interpreter.CAPACITY, turn_interpreter.CANCELLED):
        kind = "capacity" if found.kind == turn_interpreter.CAPACITY else "stopped"
        return Ending(kind, found.text, run.heard.retry_at if run.heard else None)
    found = await _went_on(run, found)
    if state.state == TERMINAL or _loops(run, found):
        return None
    await _act(run, found)
    return None


async def _act(run: RunContext, found: Reading) -> None:
    if found.kind in (turn_interpreter.COMPLETED, turn_interpreter.SKIPPED, turn_interpreter.FINISHED):
        in_a_step.left(run)
        await _over(run, found)
    elif found.kind == turn_interpreter.MENU:
        await menu_answers.menu(run, found)
    elif found.kind in (
        turn_interpreter.QUESTION,
        turn_interpreter.BLOCKED,
        turn_interpreter.UNCLEAR,
    ) and await in_a_step.said(run, found):
        return
    elif found.kind in (turn_interpreter.QUESTION, turn_interpreter.BLOCKED):
        await menu_answers.question(run, found)
    elif found.kind in (turn_interpreter.ERROR, turn_interpreter.SILENT):
        lost(run, found.text)
    else:
        await _unclear(run, found)


async def _over(run: RunContext, found: Reading) -> None:
    """The step says that it is done. A step with a menu that was never shown is not: its way on was never chosen."""
    run.reading = found
    if run.examination is not None:
        await reviews.mended(run, run.examination, found)
        return
    run.move(VALIDATING)
    await transitions.validate(run)


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
        came_to = in_a_step.timed_out(run, run.heard.output if run.heard else "")
        what = str(state.menu_stack[-1].get("within") or "The nested operation").replace("_", " ").capitalize()
        state.menu_stack = [one for one in state.menu_stack if one.get("within") is None]
        run.decide(Decision("timeout", "parent", f"{what} took longer than its limit and was ended"))
        turns.send(run, turns.NESTED, prompts.nested_over(what, came_to))
        await run.save()
        return True
    return False


async def _went_on(run: RunContext, found: Reading) -> Reading:
    """An agent that went on by itself, as the sources tell it to: the steps it has left behind are done.

    The evidence is the document's own list of completed steps, or a tool that read the next step's file.
    """
    for _ in range(len(run.workflow.steps)):
        step, record = run.step, run.record
        following = steps.following(run.workflow, run.state, step, None, found.entered).step
        if following is None or following.path == step.path or not run.workflow.follow:
            return found
        if (
            found.kind in (turn_interpreter.ERROR, turn_interpreter.SILENT, turn_interpreter.EMPTY)
            or step.id == steps.START
        ):
            return found
        over = found.kind in (turn_interpreter.COMPLETED, turn_interpreter.FINISHED)
        listed = turns.done_in_document(run, step)
        if over and not (listed and turns.done_in_document(run, following)):
            return found
        if not over and not (found.entered or (listed and _belongs(run, found, following.text))):
            return found
        if transitions.instead(run, following) is not None:
            # What it began is done by others; of the step before it nothing is known but that it is done.
            return Reading(turn_interpreter.COMPLETED)
        done = Reading(turn_interpreter.COMPLETED, closing=found.closing)
        proofs = evidence.look(run.workflow, step, record, done, run.state.plan.values)
        if evidence.missing(proofs):
            return done  # Of the step that it has left behind: what is missing is said to it.
        if not await transitions.stopped(run, turn_interpreter.COMPLETED):
            return found
        record.proofs = proofs
        transitions.complete(run, step, record, done, "unknown")
        run.decide(Decision("next_step", str(following.id), "the agent went on to it by itself", by="agent"))
        next_record = steps.record_of(run.state, following)
        run.state.current_step = next_record.id
        steps.take_over(run.state, following, run.desk.now())
        wanted = evidence.wanted(run.workflow, following, run.state.plan.values)
        now = evidence.snapshot(run.root, wanted)
        # What it wrote in the same turn counts where the document itself says that it belongs to that step.
        inherits = turns.done_in_document(run, following)
        next_record.before = {path: record.before.get(path, old) if inherits else old for path, old in now.items()}
        run.state.sent = None
        turns.send(run, turns.STEP, "")
        found = turns.read(run)
        if found.entered is None and not listed:
            return found
    return found


def _belongs(run: RunContext, found: Reading, text: str) -> bool:
    """Whether what is shown may be the next step's: its menu, or a question after the way on was chosen."""
    answered = bool(run.heard and run.heard.answered)
    return answered and (found.kind != turn_interpreter.MENU or bool(menus_of(text)))


def _loops(run: RunContext, found: Reading) -> bool:
    """Whether the same state came for the fifth time without a human in between: the run ends (decision 31)."""
    state = run.state
    output = run.heard.output if run.heard else ""
    visits = Visits(state.visits).visit(state.state, str(state.current_step), len(state.menu_stack), output)
    state.visits = dict(list(visits.counts.items())[-500:])
    # A failing turn is counted by its own remedies, which are exhausted sooner.
    if not visits.looping or found.kind in (turn_interpreter.ERROR, turn_interpreter.SILENT):
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
        turns.send(run, turns.NUDGE, prompts.unclear(run.step))
        return
    heard, state = run.heard, run.state
    assert heard is not None
    done = Reading(turn_interpreter.COMPLETED, found.text, found.closing)
    proofs = evidence.look(run.workflow, run.step, run.record, done, state.plan.values)
    written = any(evidence.changed(run.root, run.record.before, path) for path in run.record.files)
    if found.kind == turn_interpreter.UNCLEAR and (evidence.seen(proofs) or (proofs == [evidence.NOTHING] and written)):
        run.decide(Decision("unclear", "done", "it has left what it must and asks for nothing", confidence=50))
        await _over(run, done)
        return
    unclear(run, heard)


def _again(run: RunContext) -> str:
    """What a step that is begun once more is told: a human's words about its first result."""
    return str(run.state.recovery.pop("guidance", ""))


TURNS = 2000
"""Turns of one run; a workflow of 45 steps takes a hundred. The last guard, below everything that is more precise."""


class AutomationController:
    """Drives one run. Not shared among tasks; `cancel` may be called from another one."""

    def __init__(self, run: RunContext) -> None:
        self.run_ = run
        self._stopped = False

    async def run(self) -> Ending:
        """Work until the run has ended, waits for a human or capacity, was stopped, or belongs to somebody else."""
        if self.run_.hooks is None:
            return await self._run()
        async with self.run_.hooks.at_work(self.run_):
            return await self._run()

    async def _run(self) -> Ending:
        run = self.run_
        try:
            await self._take_up()
            for _ in range(TURNS):
                if self._stopped:
                    return Ending("stopped")
                if run.state.state == TERMINAL:
                    return await self._ended()
                run.session = await run.desk.session()
                turns.look(run)
                ending = await self._turn()
                if run.lost is not None:
                    raise run.lost
                if ending is not None:
                    return ending
            machine.end(run.state, FAILED, LOOP)
            run.event("workflow.ended", outcome=FAILED, error=LOOP)
            return await self._ended()
        except Superseded as error:
            return Ending("superseded", str(error))
        finally:
            try:
                if run.dispatcher is not None:
                    await run.dispatcher.close()
            finally:
                await run.pool.close()

    async def cancel(self) -> None:
        """End the turn under way and let no further one begin."""
        self._stopped = True
        if self.run_.dispatcher is not None:
            await self.run_.dispatcher.cancel()
        if self.run_.hooks is not None:
            self.run_.hooks.cancel()
        await self.run_.pool.cancel()

    async def _take_up(self) -> None:
        """What was going on when the state was last written."""
        run = self.run_
        state = run.state
        if state.state == TERMINAL:
            return
        if state.state in (RUNNING, VALIDATING, RECOVERING, FAILED) and state.sent is not None:
            run.interrupted = True
            # A kill of the engine is no loop of the agent: what the step says once more is not counted twice.
            here = str(state.current_step)
            state.visits = {key: count for key, count in state.visits.items() if key.split("|")[1] != here}
            run.record.interruptions += 1
        if state.current_step is not None:
            offered = resuming.offer(state, run.workflow.hash)
            state.resumed = offered.indicator
            run.event("workflow.resumed", from_step=offered.from_step, text=offered.indicator)
            if offered.problem is not None:
                await replies.ask_about_change(run, offered.text)
                return
        if state.state in (VALIDATING, FAILED, RECOVERING):
            # Nothing is written within these; after a kill, or when a human takes it up again, the step goes on.
            state.state = RUNNING
        if state.state == INITIALIZING:
            state.state = IDLE

    async def _turn(self) -> Ending | None:
        run = self.run_
        now = run.state.state
        if now == IDLE:
            await initialization.initialize(run)
        elif now == RUNNING:
            try:
                return await work(run)
            except AgentError as error:
                self._cannot_start(error)
            except Postponed as waits:
                return waits.ending
        elif now == WAITING_USER:
            return await replies.wait(run)
        elif now == FAILED:
            await recover(run)
        elif now == COMPLETING:
            await self._complete()
        else:
            machine.move(run.state, RUNNING)
        return None

    def _cannot_start(self, error: AgentError) -> None:
        """The program is missing or broken: trying again would not help, and no human can answer it here."""
        state = self.run_.state
        state.error_details = {"reason": error.message, "step": state.current_step}
        machine.end(state, FAILED, error.message)
        self.run_.event("workflow.ended", outcome=FAILED, error=error.message)

    async def _complete(self) -> None:
        """The final validation: every step is done, and a document that was promised is there."""
        run = self.run_
        state = run.state
        open_ = [one.id for one in state.steps.values() if one.status in ("failed", "in_progress")]
        missing = [path for path in state.documents if not steps.existing(run.root, [path])]
        if open_ or missing:
            what = f"steps {open_} are not done" if open_ else f"{', '.join(missing)} is gone"
            machine.end(state, FAILED, f"the final validation failed: {what}")
        else:
            machine.end(state, COMPLETED)
            await run.checkpoints.finished(state)
            state.curated = None  # also where it was completed before, and taken back
        run.event("workflow.ended", outcome=state.outcome, error=state.error, documents=list(state.documents))

    async def _ended(self) -> Ending:
        run = self.run_
        if run.unsaved:
            await run.save()
        kind = {COMPLETED: "completed", CANCELLED: "cancelled"}.get(str(run.state.outcome), "failed")
        text = prompts.summary(run.state) if kind != "failed" else str(run.state.error)
        return Ending(kind, text)
