"""The members of a team at work: a `Worker` for each that has an agent, and the pool of them.

A worker claims tasks, one at a time, and keeps the session of its agent. The session of an agent that takes more than
one prompt may live on: it is kept for the member's next task and for mail that comes between two (`read_mail`), until
it was idle for `session_idle` seconds. One member, one session: a second one is opened only where the first cannot
continue.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Permission, Update
from interlock.core.tasks import claim, review
from interlock.core.unit_of_work import Principal
from interlock.core.waiting import HumanWait, in_thread
from interlock.errors import AgentError, InterlockError, RunLimit
from interlock.lazy_dataclass import dataclass
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.text import plain
from interlock.runner import completion
from interlock.runner.attempt import TaskAttempt
from interlock.runner.context import ActiveRun, RunnerContext
from interlock.runner.executor import Executor
from interlock.runner.member_session import IdleMail, MemberSession
from interlock.runner.picture import Claimable
from interlock.runner.run_processes import new_session

MISSED_SECONDS = 30.0
"""After which an agent that could not be had is looked for again: it may have been installed."""
UNFIT_SECONDS = 600.0
"""After which a member whose program could not start is given tasks again: each attempt costs a task."""


class Worker:
    """Works for one member."""

    def __init__(self, context: RunnerContext, member: Member, executor: Executor) -> None:
        self.member = member
        self._context = context
        self._executor = executor
        self._session: MemberSession | None = None
        self._attempt: TaskAttempt | None = None
        self._halted = False
        self._waiting = 0
        self.unfit: str | None = None
        """Why its program could not start the last time."""
        self.idle_mail = IdleMail(context, member, self._permit, executor.variables)

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
        """Since when its session has had nothing to do, on the event loop's clock; None without a session."""
        return None if self._session is None else self._session.idle_since

    async def claim(self, offer: Claimable) -> tuple[Task, Principal] | None:
        """Claim the next task for this member in a session of its own; None where there is none any more.

        Raises:
            LedgerBusy: the ledger is locked; nothing was claimed.
        """
        self._halted = False
        share, team = self._context.config.share, self._context.workspace.name
        if share is not None and not share.take(team, int(self._context.settings.get("weight"))):
            self._context.asks = True
            return None
        claimed = None
        try:
            claimed = await anyio.to_thread.run_sync(self._claim, offer.review)
        finally:
            if share is not None and claimed is None:
                share.give_back(team)
        if claimed is not None:
            self.idle_mail.worked()
        return claimed

    def _claim(self, reviews: bool) -> tuple[Task, Principal] | None:
        caller = self._principal()
        task = None
        with suppress(RunLimit, _NothingToClaim), self._context.workspace.act(caller) as act:
            shell, labels, only = self.member.agent == "shell", self._context.labels, self._context.config.only
            runner, parallel = self._context.process, self._context.config.parallel or int(act.settings.get("parallel"))
            # What waits for a verdict comes first: the work itself is done already.
            task = review.claim_review(act, runner=runner, parallel=parallel) if reviews else None
            task = task or claim.claim_next(
                act, shell=shell, runner=runner, parallel=parallel, labels=labels, only=only
            )
            if task is None:
                raise _NothingToClaim
        if task is None:
            return None
        caller.run = task.run
        return task, caller

    def _principal(self) -> Principal:
        """Who acts: the session that was kept, if it still lives, else a new one."""
        kept = self._session if self._session is not None and self._session.lasting else None
        return self._context.principal(self.member.name, kept.session if kept is not None else new_session())

    async def _session_of(self, caller: Principal) -> MemberSession:
        if self._session is None or self._session.session != caller.session:
            await self.retire()
            self._session = MemberSession(self._context.workspace, self._executor, str(caller.session))
        return self._session

    async def carry_out(self, task: Task, caller: Principal) -> None:
        """Run a claimed task to its end, whatever that is. Raises nothing but cancellation."""
        session = await self._session_of(caller)
        wait = HumanWait(self._waits)
        run = ActiveRun(self._context, self.member, task, caller, wait, self._context.workdir)
        self._attempt = attempt = TaskAttempt(run, session, self._permit)
        kept = False
        try:
            if self._halted:
                await attempt.cancel()
            kept = await attempt.carry_out()
        finally:
            self._attempt = None
            if kept:
                session.idle_since = anyio.current_time()
            else:
                self._session = None
        if self.member.agent != "shell":  # Whose program is each task's own.
            self.unfit = attempt.unfit

    async def read_mail(self) -> None:
        """Put the mail of a member without a task to its session."""
        self._halted = False
        caller = self._principal()
        session = await self._session_of(caller)

        def heard(update: Update) -> None:
            self._context.publish(self.member.name, "", Update(update.kind, plain(update.text), update.data))

        try:
            await self.idle_mail.read(session, caller, heard)
        except InterlockError as error:
            heard(Update("notice", f"its mail could not be put to it: {error.message}"))
            session.healthy = False
        finally:
            with anyio.CancelScope(shield=True):
                session.idle_since = anyio.current_time()
                if not (session.healthy and session.lasting) or self._halted:
                    await self.retire()

    async def retire(self) -> None:
        """End the session that was kept, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            caller = self._context.principal(self.member.name, session.session)
            with suppress(InterlockError):  # The next scheduler finds that it has ended.
                end = partial(completion.end_session, self._context.workspace, caller)
                await in_thread(end, on_away=lambda away: not self._context.stop.soft)

    async def cancel(self) -> None:
        """End what runs now, at once, and let nothing further begin for this task."""
        self._halted = True
        if self._attempt is not None:
            await self._attempt.cancel()
        elif self._session is not None:
            await self._session.cancel()

    async def park(self, reason: str) -> None:
        """Wait for a person no longer: the session ends, and the answer begins a new run."""
        if self._attempt is not None:
            await self._attempt.park(reason)

    async def _permit(self, permission: Permission) -> str | None:
        """Answer a permission request of the session, whatever it is busy with."""
        requests = self._attempt.permissions if self._attempt is not None else None
        return await (requests or self.idle_mail).permit(permission)

    def _waits(self, begins: bool) -> None:
        self._waiting += 1 if begins else -1
        self._context.wake()


class _NothingToClaim(Exception):
    """Another worker took it; the transaction, with the session it began, is rolled back."""


@dataclass(frozen=True, slots=True)
class MissingAgent:
    """Why a member as it was `hired_as` cannot work, and when (monotonic seconds) that is looked at again."""

    hired_as: tuple[object, ...]
    why: AgentError
    again: float


class WorkerPool:
    """The workers by name. `busy` are those at a task, `beside` those that read mail or close a session."""

    def __init__(
        self, context: RunnerContext, executor_for: Callable[[Member], Executor], busy: Collection[str]
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self.beside: set[str] = set()
        self._context = context
        self._executor_for = executor_for
        self._busy = busy
        self._retiring: list[Worker] = []
        self._missing: dict[str, MissingAgent] = {}

    def update(self, members: Mapping[str, Member]) -> list[str]:
        """Take in the members with an agent, as they are now. Those at work stay as they are until they have finished;
        those whose agent cannot be had here are left out, and looked for again later.

        Returns:
            Why members are newly left out, in sentences.

        Raises:
            AgentError: nobody could work.
        """
        news: list[str] = []
        for name in [name for name in self.workers if name not in members and not self.is_busy(name)]:
            self._retiring.append(self.workers.pop(name))
        news += self._leave_out_unfit()
        for name, member in members.items():
            known = self.workers.get(name)
            if self.is_busy(name) or (known is not None and _hired_as(known.member) == _hired_as(member)):
                continue
            executor = self._executor_of(member, news)
            if known is not None:
                self._retiring.append(self.workers.pop(name))
            if executor is not None:
                self.workers[name] = Worker(self._context, member, executor)
        self._missing = {name: missing for name, missing in self._missing.items() if name in members}
        if not self.workers:
            for missing in self._missing.values():
                raise missing.why
            raise AgentError(
                f"No member of {self._context.workspace.name} has an agent, so nothing can be run. `interlock member "
                "spawn NAME --agent shell` adds one; a plan brings its own."
            )
        return news

    def _leave_out_unfit(self) -> list[str]:
        """Leave out whose program could not start, as long as others can do the work: what fails at once is free again
        at once, and would take every task from those who take their time."""
        news = []
        for name, worker in list(self.workers.items()):
            others = (one for one in self.workers.values() if one.member.agent != "shell" and one.unfit is None)
            if worker.unfit is None or self.is_busy(name) or not any(others) or self._is_wanted(name):
                continue
            why, again = AgentError(worker.unfit), time.monotonic() + UNFIT_SECONDS
            self._missing[name] = MissingAgent(_hired_as(worker.member), why, again)
            self._retiring.append(self.workers.pop(name))
            news.append(f"{name} gets no more tasks for now: its program could not start. {worker.unfit}")
        return news

    def _is_wanted(self, name: str) -> bool:
        """Whether a task waits for this very member."""
        with self._context.workspace.look() as rows:
            waiting = rows.tasks.select(states=["ready", "backlog", "review"])
        return any(name in (one.reserved_for, one.review) for one in waiting)

    def _executor_of(self, member: Member, news: list[str]) -> Executor | None:
        missing = self._missing.get(member.name)
        if missing is not None and missing.hired_as == _hired_as(member) and time.monotonic() < missing.again:
            return None
        try:
            executor = self._executor_for(member)
        except AgentError as error:
            if missing is None or missing.why.message != error.message:
                news.append(f"{member.name} cannot work here: {error.message}")
            self._missing[member.name] = MissingAgent(_hired_as(member), error, time.monotonic() + MISSED_SECONDS)
            return None
        self._missing.pop(member.name, None)
        return executor

    def is_busy(self, name: str) -> bool:
        return name in self._busy or name in self.beside

    def readers(self) -> list[str]:
        """Those whose mail would be put to their agent between two tasks."""
        return sorted(name for name, worker in self.workers.items() if worker.lasting)

    def begin(self, group: TaskGroup, worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
        """Let a member do something that is no task."""

        async def do() -> None:
            try:
                await work()
            finally:
                self.beside.discard(worker.member.name)
                self._context.wake()

        self.beside.add(worker.member.name)
        group.start_soon(do)

    def rest(self, group: TaskGroup, stopped: Collection[str], session_idle: float) -> None:
        """Close the sessions that were idle for so many seconds, and of members who left, `stopped` or changed."""
        for worker in self._retiring:
            group.start_soon(worker.retire)
        self._retiring.clear()
        for name, worker in self.workers.items():
            if worker.idle_since is None or self.is_busy(name):
                continue
            if name in stopped or anyio.current_time() - worker.idle_since >= session_idle:
                self.begin(group, worker, worker.retire)

    async def retire_all(self) -> None:
        """Close every session: none is kept once nobody drives the team."""
        for worker in [*self.workers.values(), *self._retiring]:
            await worker.retire()


def _hired_as(member: Member) -> tuple[object, ...]:
    """What an executor depends on."""
    return member.agent, member.command, member.model, member.permissions, member.env, member.joined_at
