"""Who belongs to a crew: its members with an agent, and the sessions that they keep while they have no task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agent import Update
from interlock.errors import AgentError
from interlock.executor import Executor
from interlock.model.team import Member
from interlock.runner.assignment import Terms
from interlock.runner.stop import Stop
from interlock.runner.worker import Worker
from interlock.workspace import Workspace


class Roster:
    """The workers by name. `busy` are those at a task, `beside` those that read mail or close a session."""

    def __init__(
        self,
        workspace: Workspace,
        executor_for: Callable[[Member], Executor],
        stop: Stop,
        hear: Callable[[str, str, Update], None],
        rouse: Callable[[], None],
        busy: Collection[str],
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self.beside: set[str] = set()
        self._workspace = workspace
        self._executor_for = executor_for
        self._stop = stop
        self._hear = hear
        self._rouse = rouse
        self._busy = busy
        self._retiring: list[Worker] = []

    def enlist(self, terms: Terms) -> None:
        """Take the members in as they are now; whoever is at work stays as it is until it has finished."""
        with self._workspace.look() as rows:
            members = {m.name: m for m in rows.team.members() if m.role == "member" and m.agent}
        for name in [name for name in self.workers if name not in members and not self.is_busy(name)]:
            self._retiring.append(self.workers.pop(name))
        for name, member in members.items():
            known = self.workers.get(name)
            if not self.is_busy(name) and (known is None or _hired_as(known.member) != _hired_as(member)):
                executor = self._executor_for(member)
                if known is not None:
                    self._retiring.append(known)
                self.workers[name] = Worker(
                    self._workspace, member, executor, terms, self._stop, self._hear, self._rouse
                )
        if not self.workers:
            raise AgentError(
                f"No member of {self._workspace.name} has an agent, so nothing can be run. `interlock member spawn "
                "NAME --agent shell` adds one; a plan brings its own."
            )

    def is_busy(self, name: str) -> bool:
        """Whether somebody has something to do."""
        return name in self._busy or name in self.beside

    def readers(self) -> list[str]:
        """Those whose mail would be put to their agent between two tasks."""
        return sorted(name for name, worker in self.workers.items() if worker.lasting)

    def has_mail(self, worker: Worker) -> bool:
        """Whether that member, which has no task, is to read its mail now."""
        with self._workspace.ledger.snapshot() as rows:
            return worker.postbox.waits(rows)

    def begin(self, group: TaskGroup, worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
        """Let a member do something that is no task."""
        self.beside.add(worker.member.name)
        group.start_soon(self._do_beside, worker, work)

    async def rest(self, group: TaskGroup) -> None:
        """Close the sessions that were idle for long enough, and those of members who left, stopped or changed."""
        for worker in self._retiring:
            group.start_soon(worker.retire)
        self._retiring.clear()
        kept = {name: worker for name, worker in self.workers.items() if worker.idle_since and not self.is_busy(name)}
        if not kept:
            return

        def look() -> tuple[float, set[str]]:
            with self._workspace.ledger.snapshot() as rows:
                stopped = {member.name for member in rows.team.members() if member.status == "stopped"}
                return float(self._workspace.settings(rows).get("session_idle")), stopped

        patience, stopped = await anyio.to_thread.run_sync(look)
        for name, worker in kept.items():
            idle = anyio.current_time() - (worker.idle_since or 0.0)
            if (idle >= patience or name in stopped) and not self.is_busy(name):
                self.begin(group, worker, worker.retire)

    async def all_home(self) -> None:
        """No session is kept once nobody drives the team."""
        for worker in [*self.workers.values(), *self._retiring]:
            await worker.retire()

    async def _do_beside(self, worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self.beside.discard(worker.member.name)
            self._rouse()


def _hired_as(member: Member) -> tuple[object, ...]:
    """What an executor depends on."""
    return member.agent, member.command, member.model, member.permissions, member.env, member.joined_at
