"""Automation Controller: takes an agent through every step of a workflow, whatever the agent does (FR1–FR3, FR16–FR18).

It carries out what the reducer decides (`reducer.reduce`) and hands back what came of it. The state is written down
before every prompt and with every question and step that is done, in one transaction each, so the process may be killed
at any moment. Whatever happens, the run ends in TERMINAL or waits for a human, and nothing waits longer than its limit.
"""

from __future__ import annotations

import copy
import pickle
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import anyio

from interlock.errors import AgentError
from interlock.workflow.engine import documents, effects
from interlock.workflow.engine.context import Binding, Draft, Inquiry, Postponed
from interlock.workflow.engine.examination import Examined
from interlock.workflow.engine.ports import Asking, Superseded
from interlock.workflow.engine.questions import kind_of
from interlock.workflow.engine.reducer import LOOP, Log, reduce
from interlock.workflow.engine.run_writer import RunWriter
from interlock.workflow.engine.runtime import Hooks, Runtime
from interlock.workflow.engine.subagent_registry import RunRegistry
from interlock.workflow.state.document import FAILED, RUNNING

TURNS = 5000
"""Times that one process asks what is due; a workflow of 45 steps takes three hundred. The last guard, below everything
that is more precise."""

T = TypeVar("T")


class AutomationController:
    """Drives one run. Not shared among tasks; `cancel` may be called from another one. What the run meets is kept in
    `log`, where one is given."""

    def __init__(self, run: Draft, runtime: Runtime, log: Log | None = None) -> None:
        self.run_ = run
        self._runtime = runtime
        self._writer = RunWriter(run, runtime)
        self._log = log
        self._stopped = False
        self._lost: Superseded | None = None
        """That a subagent found the run to be somebody else's."""
        self._looked = False
        """Whether nothing was carried out since the session's document was read."""
        if runtime.dispatcher is not None:
            runtime.dispatcher.registry = RunRegistry(self._writer.apply, self._keep_subagents)

    async def run(self) -> effects.Ending:
        """Work until the run has ended, waits for a human or capacity, was stopped, or belongs to somebody else."""
        run, desk, hooks, writer = self.run_, self._runtime.desk, self._runtime.hooks, self._writer
        working = hooks.at_work(self._runtime, writer.apply, writer.save) if hooks is not None else nullcontext()
        async with working:
            try:
                ending = await self._handle(effects.Signal.TAKEN_UP)
                for _ in range(TURNS):
                    if ending is not None:
                        return ending
                    if self._stopped:
                        return effects.Ending("stopped")
                    if not self._looked:
                        run.session = await desk.session()
                    if hooks is None or run.state.state != RUNNING or await self._hooks_begun(hooks):
                        ending = await self._handle(effects.Signal.DUE)
                run.end(FAILED, LOOP)
                await writer.save()
                return effects.Ending("failed", LOOP)
            except Superseded as error:
                return effects.Ending("superseded", str(error))
            except Postponed as waits:
                return waits.ending
            finally:
                try:
                    if self._runtime.dispatcher is not None:
                        await self._runtime.dispatcher.close()
                finally:
                    await self._runtime.pool.close()

    async def _keep_subagents(self) -> None:
        """Save what is known of them. A run that is somebody else's now stops them."""
        try:
            await self._writer.save_soon()
        except Superseded as error:
            self._lost = error
            if self._runtime.dispatcher is not None:
                await self._runtime.dispatcher.cancel()

    async def cancel(self) -> None:
        """End the turn under way and let no further one begin."""
        self._stopped = True
        if self._runtime.dispatcher is not None:
            await self._runtime.dispatcher.cancel()
        if self._runtime.hooks is not None:
            self._runtime.hooks.cancel()
        await self._runtime.pool.cancel()

    async def _handle(self, event: effects.Event) -> effects.Ending | None:
        """Reduce an event, carry out what follows from it, and so on; an ending where the run leaves this process."""
        todo: deque[effects.Event | effects.Effect] = deque([event])
        while todo:
            one = todo.popleft()
            if isinstance(one, effects.LetGo):
                return one.ending
            if isinstance(one, effects.Event):
                todo.extendleft(reversed(self._reduced(one)))
                continue
            self._looked = False
            try:
                came = await (self._perform(one) if self._log is None else self._logged(self._perform(one), self._log))
            except AgentError as error:
                came = effects.AgentRefused(error.message)
            if self._lost is not None:
                raise self._lost
            if came is not None:
                todo.appendleft(came)
        return None

    def _reduced(self, event: effects.Event) -> tuple[effects.Effect, ...]:
        run = self.run_
        run.at = self._runtime.desk.now()
        if self._log is not None:
            observed: list[tuple[str, Any]] = []
            self._log.entries.append((copy.deepcopy(event), run.at, copy.deepcopy(run.session), observed))
            run.observing = partial(_observe, run, observed)
        try:
            return reduce(run, event)
        finally:
            run.observing = None

    async def _hooks_begun(self, hooks: Hooks) -> bool:
        return await (hooks.begin() if self._log is None else self._logged(hooks.begin(), self._log))

    async def _logged(self, work: Awaitable[T], log: Log) -> T:
        """Do it, and log what it has changed of the state by itself."""
        state = self.run_.state
        before = {name: pickle.dumps(getattr(state, name)) for name in state.__slots__}
        try:
            return await work
        finally:
            now = {name: pickle.dumps(getattr(state, name)) for name in before}
            if changed := {name: pickle.loads(kept) for name, kept in now.items() if kept != before[name]}:
                log.entries.append((effects.StateChanged(changed), self._runtime.desk.now(), {}, []))

    async def _perform(self, effect: effects.Effect) -> effects.Event | None:
        run, state, runtime = self.run_, self.run_.state, self._runtime
        match effect:
            case effects.Save(asking):
                await self._writer.save(asking)
            case effects.Act.OPEN_SESSION:
                return effects.SessionReady(await runtime.pool.ready(), runtime.pool.agent_session)
            case effects.SendPrompt():
                return await self._turn(effect)
            case effects.KeepCheckpoint(reason, then):
                step, at = run.record.id, run.now
                await self._apart(partial(runtime.checkpoints.create, state, step=step, reason=reason, at=at))
                return then
            case effects.EndStep(status, then):
                return then if runtime.hooks is None or await runtime.hooks.stop(status) else None
            case effects.Act.AWAIT_REPLY:
                return await self._reply()
            case effects.AdmitMenu(menu):
                id, step = state.workflow_id, run.record.id
                run.session, admitted = await run.wishes.admit(menu, id, step, runtime)
                return admitted
            case effects.ChangeSession(change, after):
                run.session = await runtime.desk.change_session(change)
                return after
            case effects.Remember(learned):
                await run.wishes.remember(run.knowledge, learned)
            case effects.FindFix(failure):
                return effects.FixKnown(await run.knowledge.fix(failure))
            case effects.LearnFix(failure, fix):
                await run.knowledge.learn(failure, fix)
            case effects.Pause(seconds):
                await anyio.sleep(seconds)
            case effects.Act.NOTE_PROGRESS:
                runtime.pool.progressed()
            case effects.Act.REATTACH:
                return await self._reattach()
            case effects.Examine(number):
                return await self._examine(number)
            case effects.Act.DISCUSS:
                came = await run.party.hold(run.party.discussion(run), runtime, self._writer.note)
                return effects.DiscussionEnded(came)
            case effects.Act.BIND:
                missing = (why for one in run.examinations if isinstance(one, Binding) and (why := one.bind(run)))
                return effects.Bound(next(missing, None))
            case effects.Act.LIST_CHECKPOINTS:
                await self._apart(partial(runtime.checkpoints.finished, state))
            case effects.LetGo():
                raise AssertionError("nothing comes after it")
        return None

    async def _apart(self, work: Callable[[], T]) -> T:
        """Do something that blocks beside the event loop, where the session's document is read with it."""
        came, self.run_.session = await self._runtime.desk.apart(work)
        self._looked = True
        return came

    async def _turn(self, prompt: effects.SendPrompt) -> effects.TurnEnded:
        """Send a prompt, and wait for the end of the turn and for the hooks of its tools."""
        run, runtime = self.run_, self._runtime
        text = runtime.hooks.records.with_context(run.state, prompt.text) if runtime.hooks is not None else prompt.text
        ask = partial(runtime.pool.prompt, text, nested=prompt.nested, answered=prompt.answered)
        if prompt.party:
            ended, left = await run.party.during(
                run.state.workflow_id, dict(run.state.party), runtime, lambda stop: ask(party=True, stop=stop)
            )
        else:
            ended, left = await ask(), False
        if runtime.hooks is not None:
            await runtime.hooks.settle()
            if ended.heard.stop == "end":
                runtime.hooks.records.told(run.state)
            runtime.hooks.halted()
        written = [path for path in (documents.relative(run.root, one) for one in ended.written) if path]
        paths = list(dict.fromkeys([*documents.existing(run.root, run.outputs), *written]))
        await self._apart(partial(runtime.checkpoints.wrote, run.state, paths))
        return effects.TurnEnded(ended.heard, ended.timeout, ended.written, ended.ran, left, runtime.pool.agent_session)

    async def _reattach(self) -> effects.Reattached:
        run, runtime = self.run_, self._runtime
        if run.state.agent_session and await runtime.pool.ready():
            return effects.Reattached(True)
        kept = await self._apart(partial(runtime.checkpoints.restore, run.state))
        return effects.Reattached(False, None if kept is None else tuple(kept))

    async def _reply(self) -> effects.Event:
        """The answer where there is one, or comes while the session is kept open for it; otherwise the run is parked
        (decision 30)."""
        runtime, waiting = self._runtime, self.run_.state.waiting
        assert waiting is not None
        if waiting.question_id is None:
            await self._writer.save(Asking(waiting.key, kind_of(waiting.purpose), waiting.text, tuple(waiting.options)))
        question = waiting.question_id
        reply = await runtime.desk.reply(question) if question else None
        if reply is None and question and runtime.pool.live:
            reply = await runtime.desk.wait(question, self.run_.limits.selection)
        if reply is None:
            return effects.Signal.UNANSWERED
        return effects.Replied(*reply)

    async def _examine(self, number: int) -> effects.ExaminationEnded:
        run, runtime = self.run_, self._runtime
        assert run.examination is not None
        found = await self._apart(partial(self._writer.apply, run.examination.begin, number))
        if not isinstance(found, Examined):
            said = await found.ask(runtime, self._writer.note)
            found = await self._apart(partial(self._writer.apply, self._judged, found, said))
        stopped = runtime.dispatcher is not None and runtime.dispatcher.stopped
        if runtime.hooks is not None and not stopped:
            await runtime.hooks.settle()
            runtime.hooks.halted()
        return effects.ExaminationEnded(number, found, stopped)

    def _judged(self, run: Draft, asked: Inquiry, said: object) -> Examined:
        found = asked.judge(run, said)
        if found.written:
            run.record.files = list(dict.fromkeys([*run.record.files, *found.written]))
            self._runtime.checkpoints.wrote(run.state, found.written)
        return found


def _observe(run: Draft, kept: list[tuple[str, Any]], what: str, look: Callable[[], Any]) -> Any:
    """Look, and keep what was seen; what is looked at meanwhile is part of it."""
    observing, run.observing = run.observing, None
    try:
        value = look()
    finally:
        run.observing = observing
    kept.append((what, copy.deepcopy(value)))
    return value
