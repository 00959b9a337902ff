"""One member at work: the tasks that it claims, one at a time, and the session of its agent.

The session of an agent that takes more than one prompt may live on: it is kept for the member's next task and for mail
that comes between two (`read_mail`), until it was idle for `session_idle` seconds. One member, one session: a second
one is opened only where the first cannot go on.

Who belongs to a crew: its members with an agent, and the sessions that they keep while they have no task.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Permission, Update
from interlock.clock import iso
from interlock.core.tasks import claim, review
from interlock.core.tasks import review as reviewers
from interlock.core.unit_of_work import Principal, Workspace
from interlock.core.waiting import in_thread
from interlock.errors import AgentError, InterlockError, RunLimit
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes.output import plain
from interlock.runner import completion
from interlock.runner.attempt import TaskAttempt
from interlock.runner.executor import Executor
from interlock.runner.job import RunnerConfig
from interlock.runner.member_session import IdleMail, MemberSession
from interlock.runner.run_processes import new_session
from interlock.runner.stop import Stop


class Worker:
    """Works for one member. `rouse` is called when it begins to wait for a person, and when it does so no more."""

    def __init__(
        self,
        workspace: Workspace,
        member: Member,
        executor: Executor,
        terms: RunnerConfig,
        stop: Stop,
        on_update: Callable[[str, str, Update], None],
        rouse: Callable[[], None] = lambda: None,
    ) -> None:
        self.member = member
        self._workspace = workspace
        self._executor = executor
        self._terms = terms
        self._stop = stop
        self._on_update = on_update
        self._rouse = rouse
        self._life: MemberSession | None = None
        self._attempt: TaskAttempt | None = None
        self._halted = False
        self._waiting = 0
        self.postbox = IdleMail(workspace, member, terms, self._permit, executor.variables)

    @property
    def lasting(self) -> bool:
        """Whether its agent takes more than one prompt."""
        return self._executor.lasts()

    @property
    def waiting(self) -> bool:
        """Whether its session lives and waits for a person."""
        return self._waiting > 0

    @property
    def idle_since(self) -> float | None:
        """Since when a session of it lives without anything to do, on the event loop's clock; null without one."""
        return None if self._life is None else self._life.idle_since

    async def claim(self) -> tuple[Task, Principal] | None:
        """Claim the next task for this member in a session of its own; null where there is none.

        Raises:
            LedgerBusy: the ledger is locked; nothing was claimed.
        """
        self._halted = False
        claimed = await anyio.to_thread.run_sync(self._next_task)
        if claimed is not None:
            self.postbox.worked()
        return claimed

    def _next_task(self) -> tuple[Task, Principal] | None:
        shell = self.member.agent == "shell"
        workspace = self._workspace
        with workspace.look() as rows:  # Most looks find nothing; they need not wait for the team's writer.
            if not claim.may_be_given_work(rows, self.member.name, workspace.settings(rows)):
                return None
            reviews = bool(reviewers.waiting_for(rows, self.member.name))
            if (
                not reviews
                and rows.tasks.next_ready(self.member.name, shell=shell, now=iso(workspace.clock.now())) is None
            ):
                return None
        caller = self._caller()
        task = None
        with suppress(RunLimit, _Nothing), workspace.act(caller) as act:
            runner, parallel = self._terms.runner, self._terms.parallel or int(act.settings.get("parallel"))
            # What waits for a verdict comes first: somebody has done it already.
            task = review.claim_review(act, runner=runner, parallel=parallel) if reviews else None
            task = task or claim.claim_next(act, shell=shell, runner=runner, parallel=parallel)
            if task is None:
                raise _Nothing
        if task is None:
            return None
        caller.run = task.run
        return task, caller

    def _caller(self) -> Principal:
        """Who acts: the session that was kept, if it still lives, else a new one."""
        kept = self._life if self._life is not None and self._life.lasting else None
        session = kept.session if kept is not None else new_session()[0]
        return Principal(self.member.name, session, face="runner", process=self._terms.runner)

    async def read_mail(self) -> None:
        """Put the mail of a member without a task to its session."""
        self._halted = False
        caller = self._caller()
        life = await self._life_of(caller)

        def heard(update: Update) -> None:
            self._on_update(self.member.name, "", Update(update.kind, plain(update.text), update.data))

        try:
            await self.postbox.read(life, caller, heard)
        except InterlockError as error:
            heard(Update("notice", f"its mail could not be put to it: {error.message}"))
            life.healthy = False
        finally:
            with anyio.CancelScope(shield=True):
                life.idle_since = anyio.current_time()
                if not (life.healthy and life.lasting) or self._halted:
                    await self.retire()

    async def retire(self) -> None:
        """End the session that was kept, if there is one."""
        life, self._life = self._life, None
        if life is not None:
            await life.close()
            caller = Principal(self.member.name, life.session, face="runner", process=self._terms.runner)
            with suppress(InterlockError):  # The next scheduler finds that it has ended.
                await in_thread(partial(completion.end_session, self._workspace, caller))

    async def carry_out(self, task: Task, caller: Principal) -> None:
        """Run a claimed task to its end, whatever that is. Raises nothing but cancellation."""
        life = await self._life_of(caller)
        self._attempt = attempt = TaskAttempt(
            self._workspace, self.member, life, self._terms, self._stop, task, caller,
            permit=self._permit, on_update=self._on_update, waits=self._waits,
        )  # fmt: skip
        kept = False
        try:
            if self._halted:
                await attempt.cancel()
            kept = await attempt.carry_out()
        finally:
            self._attempt = None
            if kept:
                life.idle_since = anyio.current_time()
            else:
                self._life = None

    async def cancel(self) -> None:
        """End what runs now, at once, and let nothing further begin for this task."""
        self._halted = True
        if self._attempt is not None:
            await self._attempt.cancel()
        elif self._life is not None:
            await self._life.cancel()

    async def park(self, reason: str) -> None:
        """Wait for a person no longer: the session ends, and the answer begins a new run."""
        if self._attempt is not None:
            await self._attempt.park(reason)

    async def _life_of(self, caller: Principal) -> MemberSession:
        """The session that `caller` names: the one that is kept, or a new one in its place."""
        if self._life is None or self._life.session != caller.session:
            await self.retire()
            self._life = MemberSession(self._workspace, self._executor, str(caller.session))
        return self._life

    async def _permit(self, permission: Permission) -> str | None:
        """Answer a permission request of the session, whatever it is busy with."""
        asking = self._attempt.asking if self._attempt is not None else None
        return await (asking.permit(permission) if asking is not None else self.postbox.permit(permission))

    def _waits(self, begins: bool) -> None:
        self._waiting += 1 if begins else -1
        self._rouse()


class _Nothing(Exception):
    """Somebody else took it; the transaction, with the session it began, is rolled back."""


MISSED_SECONDS = 30.0
"""After which an agent that could not be had is looked for again: it may have been installed."""


@dataclass(frozen=True, slots=True)
class MissingAgent:
    """Why a member as it was `hired_as` cannot work, and when (monotonic seconds) that is looked at again."""

    hired_as: tuple[object, ...]
    why: AgentError
    again: float


class WorkerPool:
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
        self._missed: dict[str, MissingAgent] = {}

    def enlist(self, terms: RunnerConfig) -> list[str]:
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
            self._missed[member.name] = MissingAgent(_hired_as(member), error, time.monotonic() + MISSED_SECONDS)
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
