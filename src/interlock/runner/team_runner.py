"""The main job: a crew of members works off the ready queue until nothing can proceed without a person.

Nobody leads: the crew only pulls what the ledger lets it claim, so a second crew, a person at a terminal or an agent
with its own session may work in the same team at the same time. One crew per team drives the *plan* (see `office`).

One task of the event loop decides (`_turns`): it starts what may start, sleeps until something has changed, and looks
again. Everything that takes time goes on beside it, so that a stop is always heeded at once.

A member whose session waits for a person takes nobody's place. While anything else goes on, the session lives; a crew
that is not endless ends when nothing can proceed without a person, after `hold` seconds of nothing but waiting.

How a crew sees the processes that runs hang on: of its own runs it knows who is at them.

Whether there is anything left that goes on without a person.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from interlock.agents.session import Update
from interlock.clock import iso, seconds
from interlock.core.reports.needs import may_take
from interlock.core.tasks.review import reviewer_of
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import AgentError, InterlockError, LedgerBusy
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes import ref
from interlock.processes.ref import alive
from interlock.runner import environment, registration, usage, workspace_allocation
from interlock.runner.checkout_watch import CheckoutWatch
from interlock.runner.executor import Executor
from interlock.runner.job import RunnerConfig
from interlock.runner.merge_queue import MergeQueue
from interlock.runner.recovery_scan import LivenessProbe
from interlock.runner.scheduler import RecoveryWorker, Scheduler
from interlock.runner.stop import Stop, heed
from interlock.runner.verify import BaselineChecks
from interlock.runner.worker import Worker, WorkerPool
from interlock.storage.ledger import Rows
from interlock.wakeup.notifier import woken

LOOK_AGAIN = 5.0
"""Seconds between two looks at everything, however quiet it is: dead runners, stopped verifies."""
SPARE_THREADS = 8


class TeamRunner:
    """The members of one team that have an agent, and what each is doing.

    `executor_for` makes the executor of a member, or raises `AgentError` when its agent cannot be used here. `until` is
    in seconds since the epoch. `take_over`: also from a runner of another machine. `endless`: wait
    for new work where there is none; several such crews may be in one team, beside one that drives its plan. `shared`:
    its process is a server, which stopping one team must not end. `idle`: also while nobody has an agent that can be
    had, to take up what nobody works on. `limits`: what this run may use
    (`spending.MEASURES` but for time) before nothing new starts. `hold`: see above, in seconds; by default sessions
    wait until `hold_time` is over.
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
        limits: Mapping[str, float] | None = None,
        hold: float | None = None,
        shared: bool = False,
        idle: bool = False,
    ) -> None:
        self._workspace = workspace
        self._home = home
        self._parallel = parallel
        self._until = until
        self.stop = stop or Stop()
        self._on_update = on_update
        self._take_over = take_over
        self._endless = endless
        self._limits = dict(limits or {})
        self._hold = hold
        self._began = iso(workspace.clock.now())
        self._quiet_since: float | None = None
        self._shared = shared
        self._idle = idle
        self._without: str | None = None  # why nobody could work, at the last look
        self._dismissed: set[str] = set()
        self._busy: dict[str, Task] = {}
        self._roster = WorkerPool(workspace, executor_for, self.stop, self._hear, self._roused, self._busy)
        self._workers = self._roster.workers
        self._own = ref.current().as_text()
        self._eyes = TeamProbe(self._own, self.drives, self.at, take_over=take_over)
        self._scheduler = Scheduler(workspace, interval=LOOK_AGAIN, eyes=self._eyes)
        self._merges = MergeQueue(workspace, self._next_merge, self._eyes.merges, self._hear, self._roused)
        self._after = RecoveryWorker(workspace, self._scheduler, self._eyes, self._hear, self._roused)
        self._before = BaselineChecks(workspace, self._hear, self._roused)
        self._rouse = anyio.Event()
        self._deaf: Exception | None = None

    async def work(self) -> str:
        """Work until nothing can proceed, the time is up, or somebody stops us; answers why it ended.

        Raises:
            AgentError: no member has an agent that can be run here, and it is not `idle`; nothing was begun.
            WorktreeRefused, GitFailed: it works in worktrees, and they cannot be had.
            RunnerAlive: another runner drives this team.
            Exception: what `on_update` raised first; the work went on without it.
        """
        terms = await anyio.to_thread.run_sync(self._terms)
        await self._enlist(terms, needed=not self._idle)
        await anyio.to_thread.run_sync(workspace_allocation.begin, self._workspace)
        sign_off = await anyio.to_thread.run_sync(self._sign_on)
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
            return partial(registration.leave, self._workspace, registration.join(self._workspace, shared=self._shared))
        registration.sign_on(self._workspace, take_over=self._take_over)
        return partial(registration.sign_off, self._workspace)

    def _terms(self) -> RunnerConfig:
        workspace = self._workspace
        with workspace.look() as rows:
            team = rows.team.get()
        return RunnerConfig(
            home=self._home,
            bin=environment.command_directory(workspace.directory),
            workdir=team.workdir or os.getcwd(),
            parallel=self._parallel,
            runner=self._own,
        )

    async def _until_quiet(self, terms: RunnerConfig) -> str:
        reason: str | None = None
        failure: Exception | None = None
        watch = CheckoutWatch(self._workspace)
        await anyio.to_thread.run_sync(watch.look)
        async with anyio.create_task_group() as group:
            await group.start(self._watch)
            group.start_soon(watch.go_on)
            group.start_soon(heed, self.stop, self._end_now, self._roused)
            try:
                reason = await self._turns(group, terms)
            except Exception as error:  # boundary: raised again once everybody's work has been put away
                failure = error
                self.stop.request("failed", now=True)
                await self._all_idle()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._roster.all_home()
            group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(watch.look)
        if failure is not None or reason is None:
            raise failure or RuntimeError("the crew ended without a reason")
        return reason

    async def _watch(self, *, task_status: TaskStatus[None]) -> None:
        """Rouse us at every change of tasks and members, and when mail comes for a member whose agent would read it."""
        workspace, started = self._workspace, False
        while True:
            readers = self._roster.readers()
            topics = ["tasks", "members", *(f"inbox:{name}" for name in readers)]
            with workspace.notifier.waiter(workspace.name, topics, workspace.ledger.watch()) as waiter:
                if not started:
                    task_status.started()
                    started = True
                self._rouse.set()
                while readers == self._roster.readers():
                    try:
                        await woken(waiter, LOOK_AGAIN)
                    except InterlockError:
                        await anyio.sleep(1.0)  # A busy ledger, or none any more: the turn will see which.
                    self._rouse.set()

    def _roused(self) -> None:
        self._rouse.set()

    async def _end_now(self) -> None:
        for name in [*self._busy, *self._roster.beside]:
            if name in self._workers:
                await self._workers[name].cancel()
        self._after.cancel()
        self._merges.cancel()
        self._before.cancel()

    async def _turns(self, group: TaskGroup, terms: RunnerConfig) -> str:
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

    async def _turn(self, group: TaskGroup, terms: RunnerConfig) -> str | None:
        """Start whatever may start now; the reason to end, once there is one and nobody is at work."""
        ending = (self.stop.reason or "stopped") if self.stop.soft else "time is up" if self._time_is_up() else None
        ending = ending or await anyio.to_thread.run_sync(self._limit_reached)
        await self._end_superseded()
        await self._dismiss(group)
        if not self.stop.hard:  # What was finished is merged, also when nothing new begins.
            await self._merges.take_up(group)
        if ending is None:
            await self._after.look(group)
            # Where all are gone, or changed to what we cannot run, who is still at work finishes.
            await self._enlist(terms, needed=False)
            await self._dispatch(group)
            await self._roster.rest(group)
            if not self._occupied and not self._endless and await anyio.to_thread.run_sync(self._nothing_left):
                ending = None if self._before.outstanding() else "finished"
        await self._before.take_up(group, self._busy, over=ending is not None)
        await self._park_the_waiting(ending)
        return None if self._occupied else ending

    @property
    def _occupied(self) -> bool:
        return bool(self._busy or self._roster.beside or self._after.busy or self._merges.busy or self._before.ending)

    def _at_work(self) -> int:
        """How many places are taken; a session that waits for a person takes none."""
        return len(self._roster.beside) + sum(
            not self._workers[name].waiting for name in self._busy if name in self._workers
        )

    async def _dispatch(self, group: TaskGroup) -> None:
        parallel = self._parallel or int(await anyio.to_thread.run_sync(self._setting, "parallel"))
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, 2 * parallel + SPARE_THREADS)
        for name, worker in list(self._workers.items()):
            if self._at_work() >= parallel or self.stop.soft or self._after.recovering:
                return
            if self._roster.is_busy(name):
                continue
            claimed = await worker.claim()
            if claimed is not None:
                self._busy[name] = claimed[0]
                group.start_soon(self._work_on, worker, *claimed)
            elif worker.lasting and await anyio.to_thread.run_sync(self._roster.has_mail, worker):
                self._roster.begin(group, worker, worker.read_mail)

    async def _park_the_waiting(self, ending: str | None) -> None:
        """Where all who are at work wait for a person, and nothing else can be done, let them wait no longer."""
        waiting = [self._workers[name] for name in self._busy if name in self._workers and self._workers[name].waiting]
        others = len(waiting) < len(self._busy) or self._roster.beside or self._after.busy or self._merges.busy
        if not waiting or (ending is None and (self._endless or others or not await self._only_people_left())):
            self._quiet_since = None
            return
        now = anyio.current_time()
        self._quiet_since = now if self._quiet_since is None else self._quiet_since
        if ending is not None or (self._hold is not None and now - self._quiet_since >= self._hold):
            for worker in waiting:
                await worker.park(ending or "nothing else is left to do")

    async def _only_people_left(self) -> bool:
        return await anyio.to_thread.run_sync(self._nothing_left)

    async def _work_on(self, worker: Worker, task: Task, caller: Principal) -> None:
        try:
            await worker.carry_out(task, caller)
            with suppress(InterlockError):  # Otherwise it is done when it is merged.
                await anyio.to_thread.run_sync(self._before.want, task.id)
                await anyio.to_thread.run_sync(workspace_allocation.put_away, self._workspace, task)
        finally:
            del self._busy[worker.member.name]
            self._rouse.set()

    async def _enlist(self, terms: RunnerConfig, *, needed: bool) -> None:
        try:
            news = await anyio.to_thread.run_sync(self._roster.enlist, terms)
            self._without = None
        except AgentError as error:
            if needed:
                raise
            news = [] if error.message == self._without else [error.message]
            self._without = error.message
        for sentence in news:
            self._hear("", "", Update("notice", sentence))

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

    async def _dismiss(self, group: TaskGroup) -> None:
        """Let members go whose shutdown was granted: they may end by themselves, then they are ended."""
        if not self._busy:
            return

        def stopped() -> list[str]:
            with self._workspace.ledger.snapshot() as rows:
                return [member.name for member in rows.team.members() if member.status == "stopped"]

        for name in await anyio.to_thread.run_sync(stopped):
            if name in self._busy and name not in self._dismissed:
                self._dismissed.add(name)
                group.start_soon(self._see_off, name, self._busy[name])

    async def _see_off(self, name: str, task: Task) -> None:
        try:
            await anyio.sleep(float(await anyio.to_thread.run_sync(self._setting, "stop_grace")))
            if self._busy.get(name) is task:
                self._hear(name, task.id, Update("notice", "its shutdown was granted; it is ended now"))
                await self._workers[name].cancel()
        finally:
            self._dismissed.discard(name)
            self._rouse.set()

    async def _all_idle(self) -> None:
        while self._occupied:
            self._rouse = anyio.Event()
            if self._occupied:
                await self._rouse.wait()

    def at(self, task: Task) -> bool:
        """Whether one of our workers is at that task."""
        return any(one.id == task.id for one in list(self._busy.values()))

    def drives(self, run: Run) -> bool:
        """Whether one of our workers is at that run."""
        return any((task.id, task.run) == (run.task_id, run.number) for task in list(self._busy.values()))

    def _next_merge(self) -> Task | None:
        found = self._scheduler.next_merge()
        return None if found is None else found.task

    def _nothing_left(self) -> bool:
        crew = [worker.member for worker in self._workers.values()]
        with self._workspace.look() as rows:
            return nothing_left(rows, crew, unattended=bool(self._workspace.settings(rows).get("unattended")))

    def _setting(self, name: str) -> Any:
        with self._workspace.ledger.snapshot() as rows:
            return self._workspace.settings(rows).get(name)

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

    def _limit_reached(self) -> str | None:
        """The limit of this whole run that is used up, in words."""
        if not self._limits:
            return None
        now = iso(self._workspace.clock.now())
        self._began = min(self._began, now)  # A clock that was set back must not hide what is spent from now on.
        with self._workspace.ledger.snapshot() as rows:
            spent = rows.runs.spent(now, since=self._began)
        for measure, limit in self._limits.items():
            if limit is not None and spent[measure] >= limit:
                used = usage.amount(measure, spent[measure])
                return f"{used} are used up, of {usage.amount(measure, limit)}"
        return None

    def _time_is_up(self) -> bool:
        return self._until is not None and self._workspace.clock.now() >= self._until

    def _hear(self, member: str, task_id: str, update: Update) -> None:
        """Pass on what somebody said. A listener that fails once is asked no more: the work must not suffer from it."""
        if self._deaf is None:
            try:
                self._on_update(member, task_id, update)
            except Exception as error:  # boundary: foreign code; `work` raises it in the end
                self._deaf = error


class TeamProbe(LivenessProbe):
    """A crew knows of its own runs which of them somebody is at (`drives` a run, is `at` a task), and may have been
    told that another machine is gone.

    A run of ours that no worker is at: this process has driven the team before and was stopped, or could not write down
    how the run ended.
    """

    def __init__(self, own: str, drives: Callable[[Run], bool], at: Callable[[Task], bool], *, take_over: bool) -> None:
        self.own = own
        self._drives = drives
        self._at = at
        self._take_over = take_over

    def alive(self, process: str) -> bool | None:
        found = alive(process)
        return False if found is None and self._take_over else found

    def at(self, task: Task) -> bool:
        return self._at(task)

    def gone(self, run: Run) -> bool:
        return not self._drives(run) if run.runner == self.own else super().gone(run)


READY_LOOKED_AT = 10_000

LOST = frozenset({"reclaimed", "cancelled", "deleted", "superseded", "expired"})
"""Outcomes of a run whose task was taken away from it."""


def nothing_left(rows: Rows, crew: Sequence[Member], *, unattended: bool = False) -> bool:
    """Whether no task is ready, now or after its delay, that a member of the crew could take, and nobody else with a
    living process is at work, whose result could make one so. A pause ends nothing: whoever made it ends it."""
    here = {member.name for member in rows.team.members() if member.status != "stopped"}
    crew = [member for member in crew if member.name in here]
    names = {member.name for member in crew}
    ready = rows.tasks.ready(READY_LOOKED_AT)
    if any(may_take(task, member.name, member.agent) for task in ready for member in crew):
        return False
    reviews = rows.tasks.select(states=["review"])
    if any(reviewer_of(rows, task) in names and not rows.questions.open(task.id) for task in reviews):
        return False
    for task in rows.tasks.merging():
        state = task.merging or {}
        if any(alive(str(state[who])) for who in ("process", "held") if state.get(who)):
            return False
    if any(one.reversible and one.default is not None for one in rows.questions.open()) and unattended:
        return False  # Its default will be taken.
    return not any(_at_work(rows, run) for run in rows.runs.open())


def _at_work(rows: Rows, run: Run) -> bool:
    """Whether that run goes on by itself: a runner's, a verify, or a member's whose session has a living process.

    People, and members at a plain command line, have none: their tasks wait for a person.
    """
    task = rows.tasks.get(run.task_id)
    if task is None or task.run != run.number:
        return False
    if task.state == "review" and not task.under_way:
        # A review, unless it waits for a permission.
        return run.runner is not None and bool(alive(run.runner)) and not rows.questions.open(task.id)
    if task.state == "review":
        return task.verifying is not None and bool(alive(str(task.verifying.get("process") or "")))
    if task.state != "in-progress":
        return False
    if run.runner is not None:
        return bool(alive(run.runner))
    member = rows.team.member(run.member)
    return (
        member is not None
        and member.role == "member"
        and any(
            session == run.session and process is not None and alive(process)
            for session, process in rows.sessions.living(run.member)
        )
    )
