"""The merges of one team, as a crew sees to them: one at a time, beside everything else it does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agent import Update
from interlock.model.task import Task
from interlock.runner import merging
from interlock.runner.findings import Eyes
from interlock.runner.scheduler import Scheduler
from interlock.workspace import Workspace


class MergeQueue:
    """Takes up the next merge when none is under way. `rouse` is called when one has ended."""

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
        self._scope: anyio.CancelScope | None = None

    @property
    def busy(self) -> bool:
        """Whether a merge of ours is under way."""
        return self._scope is not None

    async def take_up(self, group: TaskGroup) -> None:
        """Begin the next merge, if there is one and none is under way."""
        if self._scope is not None:
            return
        found = await anyio.to_thread.run_sync(self._scheduler.next_merge)
        if found is not None and found.task is not None:
            self._scope = anyio.CancelScope()
            group.start_soon(self._merge, found.task, self._scope)

    def cancel(self) -> None:
        """Put the merge that is under way back into the queue."""
        if self._scope is not None:
            self._scope.cancel()

    async def _merge(self, task: Task, scope: anyio.CancelScope) -> None:
        hear = partial(self._hear, task.owner or "", task.id)
        try:
            with scope:
                if not await merging.take_up(self._workspace, task, self._eyes.merges, hear):
                    await anyio.sleep(0.5)  # Somebody else was faster; they wake us when they have finished.
        except Exception as error:  # boundary: one task's merge must not end the others' work; it waits again
            hear(Update("notice", f"its merge could not be carried out: {error}"))
            with scope:
                await anyio.sleep(5.0)
        finally:
            self._scope = None
            self._rouse()
