"""Who belongs to a crew: its members with an agent, and the sessions that they keep while they have no task."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

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

MISSED_SECONDS = 30.0
"""After which an agent that could not be had is looked for again: it may have been installed."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a member as it was `hired_as` cannot work, and when (monotonic seconds) that is looked at again."""

    hired_as: tuple[object, ...]
    why: AgentError
    again: float


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
        self._missed: dict[str, Missed] = {}

    def enlist(self, terms: Terms) -> list[str]:
        """Take the members in as they are now; whoever is at work stays as it is until it has finished. The others work
        without those whose agent cannot be had here, which is looked at again later; answers why, in sentences, where
        that is news.

        Raises:
            AgentError: there is nobody who could work.
        """
        with self._workspace.look() as rows:
            members = {m.name: m for m in rows.team.members() if m.role == "member" and m.agent}
        news: list[str] = []
        for name in [name for name in self.workers if name not in members and not self.is_busy(name)]:
            self._retiring.append(self.workers.pop(name))
        for name, member in members.items():
            known = self.workers.get(name)
            if self.is_busy(name) or (known is not None and _hired_as(known.member) == _hired_as(member)):
                continue
            executor = self._hired(member, news)
            if known is not None:
                self._retiring.append(self.workers.pop(name))
            if executor is not None:
                self.workers[name] = Worker(
                    self._workspace, member, executor, terms, self._stop, self._hear, self._rouse
                )
        self._missed = {name: missed for name, missed in self._missed.items() if name in members}
        if not self.workers:
            for missed in self._missed.values():
                raise missed.why
            raise AgentError(
                f"No member of {self._workspace.name} has an agent, so nothing can be run. `interlock member spawn "
                "NAME --agent shell` adds one; a plan brings its own."
            )
        return news

    def _hired(self, member: Member, news: list[str]) -> Executor | None:
        """What carries out the tasks of a member; null where that cannot be had now, and why among the `news`."""
        missed = self._missed.get(member.name)
        if missed is not None and missed.hired_as == _hired_as(member) and time.monotonic() < missed.again:
            return None
        try:
            executor = self._executor_for(member)
        except AgentError as error:
            if missed is None or missed.why.message != error.message:
                news.append(f"{member.name} cannot work here: {error.message}")
            self._missed[member.name] = Missed(_hired_as(member), error, time.monotonic() + MISSED_SECONDS)
            return None
        self._missed.pop(member.name, None)
        return executor

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
