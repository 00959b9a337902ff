"""Taking up what processes left that are gone, as a crew sees to it: beside everything else it does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agent import Update
from interlock.errors import InterlockError
from interlock.model.task import Run, Task
from interlock.runner import checking
from interlock.runner.findings import Eyes, Finding
from interlock.runner.scheduler import Scheduler
from interlock.workspace import Workspace

PAUSE = 5.0
"""Seconds before a check is tried again that could not be run."""


class Aftercare:
    """Recovers runs, one batch at a time, and runs abandoned checks. `rouse` is called when something has ended."""

    def __init__(
        self,
        workspace: Workspace,
        scheduler: Scheduler,
        eyes: Eyes,
        hear: Callable[[str, str, Update], None],
        rouse: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._scheduler = scheduler
        self._eyes = eyes
        self._hear = hear
        self._rouse = rouse
        self._rechecking: dict[str, anyio.CancelScope] = {}
        self.recovering = False

    @property
    def busy(self) -> bool:
        """Whether something is being taken up."""
        return bool(self._rechecking) or self.recovering

    async def look(self, group: TaskGroup) -> None:
        """Begin to take up whatever was left: ending programs takes its time."""
        if self.recovering:
            return
        found, verifying = await anyio.to_thread.run_sync(lambda: (self._scheduler.look(), self._scheduler.verifies()))
        for one in verifying:
            if one.task is not None and one.run is not None and one.task.id not in self._rechecking:
                self._rechecking[one.task.id] = scope = anyio.CancelScope()
                group.start_soon(self._recheck, one.task, one.run, scope)
        if found:
            self.recovering = True
            group.start_soon(self._take_up, found)

    def cancel(self) -> None:
        """Stop the checks that run."""
        for scope in self._rechecking.values():
            scope.cancel()

    async def _take_up(self, found: list[Finding]) -> None:
        def take_up() -> None:
            self._scheduler.written_down(self._scheduler.carry_out(found))

        try:
            await anyio.to_thread.run_sync(take_up)
        except InterlockError as error:
            self._hear("", "", Update("notice", f"what nobody works on was not taken up: {error.message}"))
            await anyio.sleep(1.0)
        finally:
            self.recovering = False
            self._rouse()

    async def _recheck(self, task: Task, run: Run, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                hear = partial(self._hear, run.member, task.id)
                await checking.recheck(self._workspace, task, run, partial(self._eyes.gone, run), hear)
        except Exception as error:  # boundary: one task's check must not end the others' work
            self._hear(run.member, task.id, Update("notice", f"its check could not be run: {error}"))
            await anyio.sleep(PAUSE)
        finally:
            del self._rechecking[task.id]
            self._rouse()
