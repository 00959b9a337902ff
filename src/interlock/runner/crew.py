"""The main job: a crew of members works off the ready queue until nothing can proceed without a person.

Nobody leads: the crew only pulls what the ledger lets it claim, so a second crew, a person at a terminal or an agent
with its own session may work in the same team at the same time. One crew per team drives the *plan* (see `office`).

One task of the event loop decides (`_turns`): it starts what may start, sleeps until something has changed, and looks
again. Everything that takes time goes on beside it, so that a stop is always heeded at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock import processes
from interlock.agent import Update
from interlock.clock import iso, seconds
from interlock.errors import AgentError, InterlockError, LedgerBusy
from interlock.executor import Executor
from interlock.model.task import Run, Task
from interlock.model.team import Member
from interlock.notifier import woken
from interlock.runner import launcher, office, placing, rechecking
from interlock.runner.assignment import Terms
from interlock.runner.crew_eyes import CrewEyes
from interlock.runner.findings import Finding
from interlock.runner.merge_queue import MergeQueue
from interlock.runner.outlook import LOST, nothing_left
from interlock.runner.scheduler import Scheduler
from interlock.runner.stop import Stop
from interlock.runner.worker import Worker
from interlock.sessions import Caller
from interlock.workspace import Workspace

if TYPE_CHECKING:
    from interlock.notifier import Waiter

LOOK_AGAIN = 5.0
"""Seconds between two looks at everything, however quiet it is: dead runners, stopped verifies."""
SPARE_THREADS = 8


class Crew:
    """The members of one team that have an agent, and what each is doing.

    `executor_for` makes the executor of a member, or raises `AgentError` when its agent cannot be used here. `until` is
    in seconds since the epoch. `take_over`: also from a runner of another machine. `endless`: wait
    for new work where there is none; several such crews may be in one team, beside one that drives its plan. `shared`:
    its process is a server, which stopping one team must not end.
    """

    def __init__(
        self,
        workspace: Workspace,
        executor_for: Callable[[Member], Executor],
        *,
        home: str,
        parallel: int | None = None,
        until: float | None = None,
        stop: Stop | None = None,
        on_update: Callable[[str, str, Update], None] = lambda member, task, update: None,
        take_over: bool = False,
        endless: bool = False,
        shared: bool = False,
    ) -> None:
        self._workspace = workspace
        self._executor_for = executor_for
        self._home = home
        self._parallel = parallel
        self._until = until
        self.stop = stop or Stop()
        self._on_update = on_update
        self._take_over = take_over
        self._endless = endless
        self._shared = shared
        self._dismissed: set[str] = set()
        self._workers: dict[str, Worker] = {}
        self._busy: dict[str, Task] = {}
        self._rechecking: dict[str, anyio.CancelScope] = {}
        self._recovering = False
        self._own = processes.current().as_text()
        self._eyes = CrewEyes(self._own, self.drives, self.at, take_over=take_over)
        self._scheduler = Scheduler(workspace, interval=LOOK_AGAIN, eyes=self._eyes)
        self._merges = MergeQueue(workspace, self._scheduler, self._eyes, self._hear, lambda: self._rouse.set())
        self._rouse = anyio.Event()
        self._deaf: Exception | None = None

    async def work(self) -> str:
        """Work until nothing can proceed, the time is up, or somebody stops us; answers why it ended.

        Raises:
            AgentError: no member has an agent, or one has an agent that cannot be run here; nothing was begun.
            WorktreeRefused, GitFailed: it works in worktrees, and they cannot be had.
            RunnerAlive: another runner drives this team.
            Exception: what `on_update` raised first; the work went on without it.
        """
        terms = await anyio.to_thread.run_sync(self._terms)
        await anyio.to_thread.run_sync(self._enlist, terms)
        await anyio.to_thread.run_sync(placing.begin, self._workspace)
        sign_off = await anyio.to_thread.run_sync(self._sign_on)
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, 2 * terms.parallel + SPARE_THREADS)
        reason = "failed"
        try:
            reason = await self._until_quiet(terms)
        finally:
            # Where it cannot be written down, the entry goes when this process does.
            with anyio.CancelScope(shield=True), suppress(InterlockError):
                await anyio.to_thread.run_sync(sign_off, reason)
        if self._deaf is not None:
            raise self._deaf
        return reason

    def _sign_on(self) -> Callable[[str], None]:
        if self._endless:
            return partial(office.leave, self._workspace, office.join(self._workspace, shared=self._shared))
        office.sign_on(self._workspace, take_over=self._take_over)
        return partial(office.sign_off, self._workspace)

    def _terms(self) -> Terms:
        workspace = self._workspace
        with workspace.look() as rows:
            team = rows.team.get()
            settings = workspace.settings(rows)
        return Terms(
            home=self._home,
            bin=launcher.directory(workspace.directory),
            workdir=team.workdir or os.getcwd(),
            parallel=self._parallel or int(settings.get("parallel")),
            runner=self._own,
            heartbeat=float(settings.get("heartbeat_ttl")) / 3,
            stop_grace=float(settings.get("stop_grace")),
        )

    def _enlist(self, terms: Terms) -> None:
        """Take the members in as they are now; whoever is at work stays as it is until it has finished."""
        with self._workspace.look() as rows:
            members = {m.name: m for m in rows.team.members() if m.role == "member" and m.agent}
        for name in [name for name in self._workers if name not in members and name not in self._busy]:
            del self._workers[name]
        for name, member in members.items():
            known = self._workers.get(name)
            if name not in self._busy and (known is None or _hired_as(known.member) != _hired_as(member)):
                executor = self._executor_for(member)
                self._workers[name] = Worker(self._workspace, member, executor, terms, self.stop, self._hear)
        if not self._workers:
            raise AgentError(
                f"No member of {self._workspace.name} has an agent, so nothing can be run. `interlock member spawn "
                "NAME --agent shell` adds one; a plan brings its own."
            )

    async def _until_quiet(self, terms: Terms) -> str:
        workspace = self._workspace
        reason: str | None = None
        failure: Exception | None = None
        with workspace.notifier.waiter(workspace.name, ["tasks", "members"], workspace.ledger.watch()) as waiter:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, waiter)
                group.start_soon(self._heed_stop)
                try:
                    reason = await self._turns(group, terms)
                except Exception as error:  # boundary: raised again once everybody's work has been put away
                    failure = error
                    self.stop.request("failed", now=True)
                    await self._all_idle()
                group.cancel_scope.cancel()
        if failure is not None or reason is None:
            raise failure or RuntimeError("the crew ended without a reason")
        return reason

    async def _watch(self, waiter: Waiter) -> None:
        while True:
            try:
                await woken(waiter, 3600.0)
            except InterlockError:
                await anyio.sleep(1.0)  # A busy ledger, or none any more: the turn will see which.
            self._rouse.set()

    async def _turns(self, group: TaskGroup, terms: Terms) -> str:
        while True:
            # Made anew before the turn: whatever happens during it is looked at in the next one.
            self._rouse = anyio.Event()
            pause = LOOK_AGAIN
            try:
                reason = await self._turn(group, terms)
                if reason is not None:
                    return reason
                pause = await anyio.to_thread.run_sync(self._patience)
            except LedgerBusy as error:
                self._hear("", "", Update("notice", error.message))
            with anyio.move_on_after(pause):
                await self._rouse.wait()

    async def _turn(self, group: TaskGroup, terms: Terms) -> str | None:
        """Start whatever may start now; the reason to end, once there is one and nobody is at work."""
        ending = (self.stop.reason or "stopped") if self.stop.soft else "time is up" if self._time_is_up() else None
        await self._end_superseded()
        await self._dismiss(group, terms)
        if not self.stop.hard:  # What was finished is merged, also when nothing new begins.
            await self._merges.take_up(group)
        if ending is None:
            await self._recover(group)
            await self._renew(terms)
            await self._dispatch(group, terms)
            if not self._occupied and not self._endless and await anyio.to_thread.run_sync(self._nothing_left):
                ending = "finished"
        return None if self._occupied else ending

    @property
    def _occupied(self) -> bool:
        return bool(self._busy or self._rechecking or self._recovering or self._merges.busy)

    async def _dispatch(self, group: TaskGroup, terms: Terms) -> None:
        for name, worker in self._workers.items():
            if len(self._busy) >= terms.parallel or self.stop.soft or self._recovering:
                return
            if name not in self._busy:
                claimed = await worker.claim()
                if claimed is not None:
                    self._busy[name] = claimed[0]
                    group.start_soon(self._work_on, worker, *claimed)

    async def _work_on(self, worker: Worker, task: Task, caller: Caller) -> None:
        try:
            await worker.carry_out(task, caller)
            with suppress(InterlockError):  # Otherwise it is done when it is merged.
                await anyio.to_thread.run_sync(placing.put_away, self._workspace, task)
        finally:
            del self._busy[worker.member.name]
            self._rouse.set()

    async def _renew(self, terms: Terms) -> None:
        try:
            await anyio.to_thread.run_sync(self._enlist, terms)
        except AgentError as error:
            # Somebody came while we run whom we cannot run: no reason to send the others home.
            self._hear("", "", Update("notice", error.message))

    async def _end_superseded(self) -> None:
        """End the programs of runs that were taken away: cancelled, reassigned, deleted."""
        busy = dict(self._busy)

        def lost() -> list[str]:
            with self._workspace.ledger.snapshot() as rows:
                runs = {name: rows.runs.get(task.id, task.run) for name, task in busy.items()}
            return [name for name, run in runs.items() if run is not None and run.outcome in LOST]

        if busy:
            for name in await anyio.to_thread.run_sync(lost):
                if self._busy.get(name) is busy[name]:
                    await self._workers[name].cancel()

    async def _dismiss(self, group: TaskGroup, terms: Terms) -> None:
        """Let members go whose shutdown was granted: they may end by themselves, then they are ended."""
        if not self._busy:
            return

        def stopped() -> list[str]:
            with self._workspace.ledger.snapshot() as rows:
                return [member.name for member in rows.team.members() if member.status == "stopped"]

        for name in await anyio.to_thread.run_sync(stopped):
            if name in self._busy and name not in self._dismissed:
                self._dismissed.add(name)
                group.start_soon(self._see_off, name, self._busy[name], terms.stop_grace)

    async def _see_off(self, name: str, task: Task, grace: float) -> None:
        try:
            await anyio.sleep(grace)
            if self._busy.get(name) is task:
                self._hear(name, task.id, Update("notice", "its shutdown was granted; it is ended now"))
                await self._workers[name].cancel()
        finally:
            self._dismissed.discard(name)
            self._rouse.set()

    async def _heed_stop(self) -> None:
        """Hear a stop from a signal handler or another thread, and end everything when it is a hard one."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        os.set_blocking(theirs, False)

        def ring() -> None:
            try:
                os.write(theirs, b"!")
            except BlockingIOError:
                pass  # It is full of requests already.

        silence = self.stop.listen(ring)
        try:
            while True:
                if self.stop.hard:
                    for name in list(self._busy):
                        await self._workers[name].cancel()
                    for scope in self._rechecking.values():
                        scope.cancel()
                    self._merges.cancel()
                if self.stop.soft:
                    self._rouse.set()
                await anyio.wait_readable(ours)
                os.read(ours, 4096)
        finally:
            silence()
            os.close(ours)
            os.close(theirs)

    async def _all_idle(self) -> None:
        while self._occupied:
            self._rouse = anyio.Event()
            if self._occupied:
                await self._rouse.wait()

    async def _recover(self, group: TaskGroup) -> None:
        """Take up what processes left that are gone: beside everything else, since ending programs takes its time."""
        if self._recovering:
            return
        found, verifying = await anyio.to_thread.run_sync(lambda: (self._scheduler.look(), self._scheduler.verifies()))
        for one in verifying:
            if one.task is not None and one.run is not None and one.task.id not in self._rechecking:
                self._rechecking[one.task.id] = scope = anyio.CancelScope()
                group.start_soon(self._recheck, one.task, one.run, scope)
        if found:
            self._recovering = True
            group.start_soon(self._take_up, found)

    async def _take_up(self, found: list[Finding]) -> None:
        def take_up() -> None:
            self._scheduler.written_down(self._scheduler.carry_out(found))

        try:
            await anyio.to_thread.run_sync(take_up)
        except InterlockError as error:
            self._hear("", "", Update("notice", f"what nobody works on was not taken up: {error.message}"))
            await anyio.sleep(1.0)
        finally:
            self._recovering = False
            self._rouse.set()

    async def _recheck(self, task: Task, run: Run, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                hear = partial(self._hear, run.member, task.id)
                await rechecking.recheck(self._workspace, task, run, partial(self._eyes.gone, run), hear)
        except Exception as error:  # boundary: one task's check must not end the others' work
            self._hear(run.member, task.id, Update("notice", f"its check could not be run: {error}"))
            await anyio.sleep(LOOK_AGAIN)
        finally:
            del self._rechecking[task.id]
            self._rouse.set()

    def at(self, task: Task) -> bool:
        """Whether one of our workers is at that task."""
        return any(one.id == task.id for one in list(self._busy.values()))

    def drives(self, run: Run) -> bool:
        """Whether one of our workers is at that run."""
        return any((task.id, task.run) == (run.task_id, run.number) for task in list(self._busy.values()))

    def _nothing_left(self) -> bool:
        crew = [worker.member for worker in self._workers.values()]
        with self._workspace.look() as rows:
            unattended = bool(self._workspace.settings(rows).get("unattended"))
            return nothing_left(rows, crew, unattended=unattended)

    def _patience(self) -> float:
        now = self._workspace.clock.now()
        with self._workspace.ledger.snapshot() as rows:
            later = [rows.tasks.ready_after(iso(now))]
            later += [task.not_before for task in rows.tasks.select(states=["review"])]
        moments = [LOOK_AGAIN]
        moments += [seconds(moment) - now for moment in later if moment is not None]
        if self._until is not None and self._until > now:
            moments.append(self._until - now)
        return max(0.01, min(moments))

    def _time_is_up(self) -> bool:
        return self._until is not None and self._workspace.clock.now() >= self._until

    def _hear(self, member: str, task_id: str, update: Update) -> None:
        """Pass on what somebody said. A listener that fails once is asked no more: the work must not suffer from it."""
        if self._deaf is None:
            try:
                self._on_update(member, task_id, update)
            except Exception as error:  # boundary: foreign code; `work` raises it in the end
                self._deaf = error


def _hired_as(member: Member) -> tuple[object, ...]:
    """What an executor depends on."""
    return member.agent, member.command, member.model, member.permissions, member.env, member.joined_at
