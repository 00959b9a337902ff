"""Each check as it ends on the tree before the work, once for every (tree, setup, command), beside everything else.

Red before and green after is the strongest evidence there is; green before is said beside "verified". Nobody waits for
it but a crew that has nothing else left to do, and that for a bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agent import Update
from interlock.errors import InterlockError
from interlock.model import evidence
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.runner import placing
from interlock.runner.lifesigns import token_of, verifier
from interlock.sessions import Caller
from interlock.tasks import verify
from interlock.workspace import Workspace
from interlock.worktrees.team import Isolation, look, trees
from interlock.worktrees.trees import BEFORE

PATIENCE = 60.0
"""Seconds that a crew with nothing else to do waits for what is under way."""


class Baselines:
    """The checks of one team before the work, one at a time. `rouse` is called when one has ended."""

    def __init__(
        self, workspace: Workspace, hear: Callable[[str, str, Update], None], rouse: Callable[[], None]
    ) -> None:
        self._workspace = workspace
        self._hear = hear
        self._rouse = rouse
        self._wanted: dict[tuple[str, str], Task] = {}
        self._seen: set[tuple[str, str]] = set()
        self._scope: anyio.CancelScope | None = None
        self._alone_since: float | None = None

    @property
    def busy(self) -> bool:
        """Whether one of ours is under way."""
        return self._scope is not None

    @property
    def ending(self) -> bool:
        """Whether one of ours was cancelled, and is being put away."""
        return self._scope is not None and self._scope.cancel_called

    def want(self, task_id: str) -> None:
        """See to the check of a task that has a worktree, if nobody has."""
        with self._workspace.ledger.snapshot() as rows:
            task = rows.tasks.get(task_id)
        tree = str((task.worktree or {}).get("tree") or "") if task is not None else ""
        if task is None or not tree or task.verify is None or (tree, task.verify) in self._seen:
            return
        self._seen.add((tree, task.verify))
        self._wanted[tree, task.verify] = task

    async def take_up(self, group: TaskGroup, busy: Mapping[str, Task], *, over: bool) -> None:
        """Begin the next one, if none is under way; end it where the run is `over`. `busy`: the tasks at work, by
        member."""
        if over:
            self.cancel()
            return
        for task in list(busy.values()):
            await anyio.to_thread.run_sync(self.want, task.id)
        if self._scope is None and self._wanted:
            task = self._wanted.pop(next(iter(self._wanted)))
            self._scope = anyio.CancelScope()
            group.start_soon(self._carry_out, task, self._scope)

    def outstanding(self) -> bool:
        """Whether there is something to wait for, of a crew that has nothing else to do."""
        if not self.busy and not self._wanted:
            return False
        now = anyio.current_time()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since < PATIENCE:
            return True
        self.cancel()
        return False

    def cancel(self) -> None:
        """End the one that runs, and begin no other."""
        self._wanted.clear()
        if self._scope is not None:
            self._scope.cancel()

    async def _carry_out(self, task: Task, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                how = await anyio.to_thread.run_sync(look, self._workspace)
                if await anyio.to_thread.run_sync(self._is_needed, task):
                    await self._run(task, how)
        except InterlockError as error:
            self._hear("", task.id, Update("notice", f"its check was not run on the tree before: {error.message}"))
        finally:
            self._scope = self._alone_since = None
            self._rouse()

    def _is_needed(self, task: Task) -> bool:
        with self._workspace.ledger.snapshot() as rows:
            settings = self._workspace.settings(rows)
            return bool(settings.get("check_before")) and verify.baseline(rows, settings, task) is None

    async def _run(self, task: Task, how: Isolation) -> None:
        token = token_of(verifier())
        found = await anyio.to_thread.run_sync(partial(trees, self._workspace, how, token=token))
        path = found.path(task.id, BEFORE)

        def place() -> str:
            directory = found.detached(path, str((task.worktree or {})["base"]))
            found.copy(how.workdir, directory, how.copy)
            return directory

        try:
            directory = await anyio.to_thread.run_sync(place)
            run = partial(placing.command, self._workspace, how, task, directory=directory, token=token, hear=_unheard)
            ready = how.setup is None or (await run(line=how.setup, kind="before-setup")).passed
            ended = (await run(line=str(task.verify), kind="before")).as_dict() if ready else None
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(found.remove, path)
        await anyio.to_thread.run_sync(self._write_down, task, ended)

    def _write_down(self, task: Task, ended: dict[str, object] | None) -> None:
        with self._workspace.act(Caller(SYSTEM), acknowledge=False) as act:
            unknown = ended is None or evidence.ended(ended) == evidence.NOT_STARTED
            verify.baselined(act, task, None if unknown or ended is None else not ended["passed"])


def _unheard(line: str) -> None:
    """What it prints stands in its log."""
