"""Automation Controller: takes an agent through every step of a workflow, whatever the agent does (FR1–FR3, FR16–FR18).

An explicit state machine (`machine.py`): each turn of the loop does what the present state asks for and moves on. The
state is written down before every prompt and with every question and step that is done, in one transaction each, so
the process may be killed at any moment. Whatever happens, the run ends in TERMINAL or waits for a human, and nothing
waits longer than its limit.
"""

from __future__ import annotations

from interlock.errors import AgentError
from interlock.workflow.control import adjusting, documents, initializing, machine, mending, prompts, replying, working
from interlock.workflow.control.context import Ending, Postponed, RunContext
from interlock.workflow.control.ports import Superseded
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
                adjusting.look(run)
                ending = await self._turn()
                if run.lost is not None:
                    raise run.lost
                if ending is not None:
                    return ending
            machine.end(run.state, FAILED, working.LOOP)
            run.event("workflow.ended", outcome=FAILED, error=working.LOOP)
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
        if state.current_step is not None:
            offered = resuming.offer(state, run.workflow.hash)
            state.resumed = offered.indicator
            run.event("workflow.resumed", from_step=offered.from_step, text=offered.indicator)
            if offered.problem is not None:
                await replying.ask_about_change(run, offered.text)
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
            await initializing.initialize(run)
        elif now == RUNNING:
            try:
                return await working.work(run)
            except AgentError as error:
                self._cannot_start(error)
            except Postponed as waits:
                return waits.ending
        elif now == WAITING_USER:
            return await replying.wait(run)
        elif now == FAILED:
            await mending.recover(run)
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
        missing = [path for path in state.documents if not documents.existing(run.root, [path])]
        if open_ or missing:
            what = f"steps {open_} are not done" if open_ else f"{', '.join(missing)} is gone"
            machine.end(state, FAILED, f"the final validation failed: {what}")
        else:
            machine.end(state, COMPLETED)
            state.curated = None  # also where it was completed before, and taken back
        run.event("workflow.ended", outcome=state.outcome, error=state.error, documents=list(state.documents))

    async def _ended(self) -> Ending:
        run = self.run_
        if run.unsaved:
            await run.save()
        kind = {COMPLETED: "completed", CANCELLED: "cancelled"}.get(str(run.state.outcome), "failed")
        text = prompts.summary(run.state) if kind != "failed" else str(run.state.error)
        return Ending(kind, text)
