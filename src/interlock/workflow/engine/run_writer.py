"""Changes a run beside its events, and writes it down: for what must be kept while somebody still waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

import anyio

from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.ports import Asking
from interlock.workflow.engine.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


class RunWriter:
    """The one that writes a run; several may have something to be written at once."""

    def __init__(self, run: Draft, runtime: Runtime) -> None:
        self._run = run
        self._runtime = runtime
        self._saving = anyio.Lock()
        self._wanted = self._written = 0

    def apply(self, change: Callable[Concatenate[Draft, P], T], /, *given: P.args, **named: P.kwargs) -> T:
        """See `context.Apply`."""
        self._run.at = self._runtime.desk.now()
        return change(self._run, *given, **named)

    async def note(self, change: Callable[Concatenate[Draft, P], T], /, *given: P.args, **named: P.kwargs) -> T:
        """See `context.Note`."""
        came = self.apply(change, *given, **named)
        await self.save_soon()
        return came

    async def save(self, asking: Asking | None = None) -> None:
        """Write down the state with everything decided since the last save; a question is held where a session lives
        that can go on with the answer.

        Raises:
            Superseded: the run is somebody else's now.
        """
        async with self._saving:  # Subagents at work at once save too.
            await self._save(asking)

    async def save_soon(self) -> None:
        """The same, for several at once: what one of them writes, none writes again."""
        self._wanted += 1
        mine = self._wanted
        async with self._saving:
            if self._written < mine:
                await self._save()

    async def _save(self, asking: Asking | None = None) -> None:
        wanted, state, events = self._wanted, self._run.state, self._run.taken()
        if asking is not None:
            asking = replace(asking, held=self._runtime.pool.live and self._run.limits.selection > 0)
        question = await self._runtime.desk.save(state, events, asking)
        if asking is not None and state.waiting is not None:
            state.waiting.question_id = question
            state.waiting.asked_at = state.waiting.asked_at or state.updated_at
        self._written = wanted
