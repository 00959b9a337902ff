"""The main job: the members of a team work off the ready queue until nothing can proceed without a person.

Nobody leads: a runner only pulls what the ledger lets it claim, so a second runner, a person at a terminal or an agent
with its own session may work in the same team at the same time. One runner per team drives the *plan* (see
`registration`).

One task of the event loop decides (`_turns`): it starts what may start, sleeps until something has changed, and looks
again. Everything that takes time runs beside it, so that a stop is always heeded at once.

A member whose session waits for a person takes no place. While anything else runs, the session lives; a runner
that is not endless ends when nothing can proceed without a person, after `hold` seconds of nothing but waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from interlock.clock import iso, seconds
from interlock.core import workers
from interlock.core.reports.needs import may_take
from interlock.core.tasks.review import reviewer_of
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.core.workers import Waits
from interlock.errors import AgentError, CommitUnknown, InterlockError, LedgerBusy, WorkerNotFound, passes
from interlock.gitwork.isolation import Isolation, isolation_of
from interlock.model.driving import Stop, Update
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Member, Outstanding
from interlock.model.worker import FULL, WorkerRecord
from interlock.processes import ref
from interlock.processes.ref import alive
from interlock.runner import registration, usage, workspace_allocation
from interlock.runner.checkout_watch import CheckoutWatch
from interlock.runner.context import RunnerConfig, RunnerContext
from interlock.runner.environment import command_directory
from interlock.runner.executor import Executor
from interlock.runner.merge_queue import MergeQueue
from interlock.runner.picture import LOST, TeamPicture, driven, offers
from interlock.runner.recovery_scan import LivenessProbe, RecoveryScan
from interlock.runner.scheduler import RecoveryWorker, Remains, Scheduler
from interlock.runner.verify import BaselineChecks
from interlock.runner.worker import Worker, WorkerPool
from interlock.settings import Settings
from interlock.storage.away import AWAY_SECONDS, goes_on
from interlock.storage.ledger import Rows
from interlock.wakeup.notifier import woken

LOOK_AGAIN = 5.0
"""Seconds between two looks at everything, however quiet it is: dead runners, stopped verifies."""
BEAT = 30.0
"""Seconds after which a worker shows again that it lives."""
SPARE_THREADS = 8
READY_LOOKED_AT = 10_000


class TeamRunner:
    """The members of one team that have an agent, and what each is doing.

    Args:
        executor_for: makes the executor of a member, or raises `AgentError` when its agent cannot be used here.
        home: passed to agents, so that they find the same ledger.
        on_update: hears everything the agents say, and what concerns the run as a whole.
    """

    def __init__(
        self,
        workspace: Workspace,
        executor_for: Callable[[Member], Executor],
        config: RunnerConfig,
        *,
        home: str,
        stop: Stop | None = None,
        on_update: Callable[[Update], None] = lambda update: None,
    ) -> None:
        own = ref.current().as_text()
        self.stop = stop or Stop()
        self._workspace = workspace
        self._config = config
        self._context = RunnerContext(
            workspace=workspace, config=config, home=home, stop=self.stop, process=own,
            bin=command_directory(workspace.directory), workdir="", on_update=on_update, wake=self._wake,
            settings=workspace.home_settings,
        )  # fmt: skip
        self._began = iso(workspace.clock.now())
        self._quiet_since: float | None = None
        self._nobody: str | None = None  # why nobody could work, at the last look
        self._dismissed: set[str] = set()
        self._busy: dict[str, Task] = {}
        self._pool = WorkerPool(self._context, executor_for, self._busy)
        self._workers = self._pool.workers
        self._probe = RunnerProbe(own, self.drives, self.at, take_over=config.take_over)
        self._scheduler = Scheduler(workspace, interval=LOOK_AGAIN, probe=self._probe)
        self._merges = MergeQueue(self._context, self._probe.merges)
        self._baselines = BaselineChecks(self._context)
        self._recovery = RecoveryWorker(self._context, self._scheduler, self._probe, self._baselines)
        self._rouse = anyio.Event()

    async def work(self) -> str:
        """Work until nothing can proceed, the time is up, or a stop is requested; answers why it ended.

        Raises:
            AgentError: no member has an agent that can be run here, and it is not `idle`; nothing was begun.
            WorktreeRefused, GitFailed: it works in worktrees, and they cannot be had.
            RunnerAlive: another runner drives this team.
            Exception: what `on_update` raised first; the work continued without it.
        """

        def begin() -> tuple[Settings, Isolation, Mapping[str, Member]]:
            with self._workspace.look() as rows:
                settings = self._workspace.settings(rows)
                return settings, isolation_of(rows, settings), driven(rows.team.members(), self._config.members)

        goes_on.set(lambda: not self.stop.hard)
        self._context.settings, how, members = await anyio.to_thread.run_sync(begin)
        self._context.isolation, self._context.workdir = how, how.workdir
        await self._update_pool(members, needed=not self._config.idle)
        await anyio.to_thread.run_sync(workspace_allocation.begin, self._workspace, how)
        sign_off = await anyio.to_thread.run_sync(self._sign_on)
        reason, ended = "failed", False
        try:
            while not ended:  # It decides, closes sessions, signs off: what comes in between is done as well.
                reason = await self._until_quiet()
                ended = await self._end(sign_off, reason)
        finally:
            if self._config.share is not None:
                self._config.share.leave(self._workspace.name)
            if not ended:
                await self._end(sign_off, "failed")
        if self._context.listener_error is not None:
            raise self._context.listener_error
        return reason

    async def _end(self, sign_off: Callable[[str], bool], reason: str) -> bool:
        with anyio.CancelScope(shield=True), suppress(InterlockError):
            return await anyio.to_thread.run_sync(sign_off, reason)
        return True  # It cannot be written down: the entry goes when this process does.

    def _sign_on(self) -> Callable[[str], bool]:
        if self._config.endless:
            self._context.worker, session = registration.join(self._workspace, self._enter, shared=self._config.shared)
            return partial(registration.leave, self._workspace, self._context.worker, session)
        self._context.worker = registration.sign_on(self._workspace, self._enter, take_over=self._config.take_over)
        return partial(registration.sign_off, self._workspace, self._context.worker, self._nothing_left_in)

    def _enter(self, act: UnitOfWork, own: str) -> WorkerRecord:
        config, labels = self._config, self._config.labels
        if labels is None:
            labels = str(act.settings.get("labels")).replace(",", " ").split()
        return workers.begin(
            act, own, name=config.name, labels=labels, members=config.members, parallel=config.parallel,
            load=workers.load(),
        )  # fmt: skip

    async def _until_quiet(self) -> str:
        reason: str | None = None
        failure: Exception | None = None
        watch = CheckoutWatch(self._workspace, lambda: self._context.isolation)
        await anyio.to_thread.run_sync(watch.look)
        async with anyio.create_task_group() as group:
            await group.start(self._watch)
            group.start_soon(watch.run)
            group.start_soon(_heed, self.stop, self._end_now, self._wake)
            try:
                reason = await self._turns(group)
            except Exception as error:  # boundary: raised again once everybody's work has been put away
                failure = error
                self.stop.request("failed", now=True)
                while self._occupied:
                    self._rouse = anyio.Event()
                    if self._occupied:
                        await self._rouse.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._pool.retire_all()
            group.cancel_scope.cancel()
        if watch.on:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(watch.look)
        if failure is not None or reason is None:
            raise failure or RuntimeError("the runner ended without a reason")
        return reason

    async def _watch(self, *, task_status: TaskStatus[None]) -> None:
        """Wake us at every change of tasks and members, and when mail comes for a member whose agent would read it."""
        workspace, started = self._workspace, False
        while True:
            readers = self._pool.readers()
            topics = ["tasks", "members", *(f"inbox:{name}" for name in readers)]
            with workspace.notifier.waiter(workspace.name, topics, workspace.ledger.watch()) as waiter:
                if not started:
                    task_status.started()
                    started = True
                self._wake()
                while readers == self._pool.readers():
                    try:
                        await woken(waiter, LOOK_AGAIN)
                    except InterlockError:
                        await anyio.sleep(1.0)  # A busy ledger, or none any more: the turn will see which.
                    self._wake()

    def _wake(self) -> None:
        self._rouse.set()

    async def _end_now(self) -> None:
        for name in [*self._busy, *self._pool.beside]:
            if name in self._workers:
                await self._workers[name].cancel()
        self._recovery.cancel()
        self._merges.cancel()
        self._baselines.cancel()

    async def _turns(self, group: TaskGroup) -> str:
        away: tuple[str, float] | None = None
        while True:
            # Made before the turn: whatever happens during it is looked at in the next one.
            self._rouse = anyio.Event()
            pause = LOOK_AGAIN
            try:
                seen = await anyio.to_thread.run_sync(self._scheduler.read, self._picture)
                reason = await self._turn(group, seen)
                if reason is not None:
                    return reason
                pause = self._seconds_until(seen.later)
                if away is not None:
                    self._context.notice("the ledger is there again")
                    away = None
            except LedgerBusy as error:
                self._context.notice(error.message)
            except Exception as error:  # boundary: raised again, unless it passes: who is at work goes on until then
                told, since = away or ("", anyio.current_time())
                over = anyio.current_time() - since > AWAY_SECONDS or (self.stop.soft and not self._occupied)
                if over or not (isinstance(error, CommitUnknown) or passes(error)):
                    raise
                if str(error) != told:
                    self._context.notice(str(error))
                away = str(error), since
            with anyio.move_on_after(pause):
                await self._rouse.wait()

    def _picture(self, scan: RecoveryScan) -> TeamPicture:
        """Everything that a turn rests on, as it is now."""
        rows, there = scan.rows, scan.there
        settings, now = self._workspace.settings(rows), iso(self._workspace.clock.now())
        busy, context = dict(self._busy), self._context
        runs = {name: rows.runs.get(task.id, task.run) for name, task in busy.items()}
        everybody = rows.team.members()
        members = driven(everybody, self._config.members)
        free = [member for name, member in members.items() if not self._pool.is_busy(name)]
        in_review = rows.tasks.select(states=["review"]) if there.review else []
        open_runs = rows.runs.open() if there.driven and free else []
        offered = offers(rows, free, open_runs, settings, now, context, in_review)
        readers = [self._workers[one.name] for one in free if one.name in self._workers and one.name not in offered]
        if self._config.limits:
            self._began = min(self._began, now)  # A clock that was set back must not hide what is spent from now on.
        worker = context.worker
        may_end = not (self._workers.keys() & offered or self._config.endless or self._occupied)
        return TeamPicture(
            settings=settings,
            isolation=isolation_of(rows, settings),
            worker=None if worker is None else rows.team.workers().get(worker.name),
            spent=rows.runs.spent(now, since=self._began) if self._config.limits else {},
            members=members,
            stopped={one.name for one in everybody if one.status == "stopped"},
            current=[task for one in busy.values() if (task := rows.tasks.get(one.id)) is not None],
            nothing_left=may_end and self._nothing_left_in(rows, there),
            lost=[name for name, run in runs.items() if run is not None and run.outcome in LOST],
            offers=offered,
            mail=[one.member.name for one in readers if one.lasting and one.idle_mail.waits(rows)],
            remains=Remains.of(scan),
            later=[at for at in (there.ready_after, *(one.not_before for one in in_review)) if at],
        )

    async def _turn(self, group: TaskGroup, seen: TeamPicture) -> str | None:
        """Start whatever may start now; the reason to end, once there is one and nobody is at work."""
        until = self._config.until
        over = until is not None and self._workspace.clock.now() >= until
        ending = (self.stop.reason or "stopped") if self.stop.soft else "time is up" if over else None
        self._context.settings, self._context.isolation = seen.settings, seen.isolation
        ending = ending or self._used_up(seen.spent)
        ending = ending or await self._beat(seen.worker)
        await self._end_superseded(seen)
        self._dismiss(group, seen)
        if not self.stop.hard:  # What was finished is merged, also when nothing new begins.
            self._merges.begin(group, None if seen.remains.merge is None else seen.remains.merge.task)
        if ending is None:
            self._recovery.begin(group, seen.remains)
            # Where all are gone, or changed to what we cannot run, those still at work finish.
            await self._update_pool(seen.members, needed=False)
            if self._context.worker is None or self._context.worker.status in ("active", FULL):
                await self._dispatch(group, seen)
            self._pool.rest(group, seen.stopped, float(seen.settings.get("session_idle")))
            # Who has ended a turn while we looked around may have written to somebody whose mail we had looked at.
            if seen.nothing_left and not self._occupied and not self._rouse.is_set():
                ending = None if self._baselines.outstanding() else registration.FINISHED
        await self._looked()
        self._baselines.begin_next(group, seen.current, over=ending is not None)
        if not self.stop.hard:  # Who is ended at once asks nothing any more, and leaves no question.
            await self._park_the_waiting(ending)
        return None if self._occupied else ending

    async def _beat(self, worker: WorkerRecord | None) -> str | None:
        """Show, from time to time, that this worker lives; why it is to end."""
        worker = worker or self._context.worker
        if worker is None:
            return None
        if self._workspace.clock.now() - seconds(worker.beat_at) >= BEAT:
            with suppress(WorkerNotFound):
                worker = await anyio.to_thread.run_sync(registration.beat, self._workspace, worker)
        self._context.worker = worker
        return "drained" if worker.status == "draining" else None

    @property
    def _occupied(self) -> bool:
        return bool(
            self._busy or self._pool.beside or self._recovery.busy or self._merges.busy or self._baselines.ending
        )

    def _waiting_workers(self) -> list[Worker]:
        """Those at a task that wait for a person: they take no place among those at work."""
        return [self._workers[name] for name in self._busy if name in self._workers and self._workers[name].waiting]

    async def _looked(self) -> None:
        """Tell the other teams of this process how many runs are open here, and everybody if one waits for theirs."""
        share, asks = self._config.share, self._context.asks
        self._context.asks = False
        if share is None:
            return
        share.looked(self._workspace.name, self._at_work, asks=asks)
        worker = self._context.worker
        if worker is not None and worker.status == ("active" if asks else FULL):
            with suppress(WorkerNotFound):
                self._context.worker = await anyio.to_thread.run_sync(
                    registration.fill, self._workspace, worker, FULL if asks else "active"
                )

    @property
    def _at_work(self) -> int:
        return len(self._pool.beside) + len(self._busy) - len(self._waiting_workers())

    async def _dispatch(self, group: TaskGroup, seen: TeamPicture) -> None:
        parallel = self._config.parallel or int(seen.settings.get("parallel"))
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, 2 * parallel + SPARE_THREADS)
        taken: set[str] = set()
        for name, worker in list(self._workers.items()):
            if self._at_work >= parallel or self.stop.soft or self._recovery.recovering:
                return
            if self._pool.is_busy(name):
                continue
            offer = seen.offers.get(name)
            # Somebody has that one, or what a run used that ended meanwhile may be all there was: the next turn sees.
            spent = bool(self._config.limits) and (taken or self._rouse.is_set())
            if offer is not None and (spent or offer.task_id in taken):
                self._wake()
                continue
            claimed = None if offer is None else await worker.claim(offer)
            if claimed is not None:
                taken.add(claimed[0].id)
                self._busy[name] = claimed[0]
                self._workers[name] = self._workers.pop(name)  # The others come first now.
                group.start_soon(self._work_on, worker, *claimed)
            elif name in seen.mail:
                self._pool.begin(group, worker, worker.read_mail)

    async def _park_the_waiting(self, ending: str | None) -> None:
        """Where all who are at work wait for a person, and nothing else can be done, let them wait no longer."""
        waiting = self._waiting_workers()
        others = len(waiting) < len(self._busy) or self._pool.beside or self._recovery.busy or self._merges.busy
        if not waiting or (ending is None and (self._config.endless or others or not await self._nothing_left())):
            self._quiet_since = None
            return
        now = anyio.current_time()
        self._quiet_since = now if self._quiet_since is None else self._quiet_since
        hold = self._config.hold
        if ending is not None or (hold is not None and now - self._quiet_since >= hold):
            for worker in waiting:
                await worker.park(ending or "nothing else is left to do")

    async def _work_on(self, worker: Worker, task: Task, caller: Principal) -> None:
        try:
            await worker.carry_out(task, caller)
            with suppress(InterlockError):  # Otherwise it is done when it is merged.
                if task.worktree is not None or self._context.isolation.on:
                    ended = await anyio.to_thread.run_sync(workspace_allocation.put_away, self._workspace, task)
                    self._baselines.want(ended)
        finally:
            del self._busy[worker.member.name]
            self._wake()

    async def _update_pool(self, members: Mapping[str, Member], *, needed: bool) -> None:
        before = set(self._workers)
        try:
            news = await anyio.to_thread.run_sync(self._pool.update, members)
            self._nobody = None
        except AgentError as error:
            if needed:
                raise
            news = [] if error.message == self._nobody else [error.message]
            self._nobody = error.message
        for sentence in news:
            self._context.notice(sentence)
        if not before.issuperset(self._workers):
            self._wake()  # Whether they have mail was not looked at yet.

    async def _end_superseded(self, seen: TeamPicture) -> None:
        """End the programs of runs that were taken away: cancelled, reassigned, deleted."""
        for name in seen.lost:
            if name in self._busy and name in self._workers:
                await self._workers[name].cancel()

    def _dismiss(self, group: TaskGroup, seen: TeamPicture) -> None:
        """Let members go whose shutdown was granted: they may end by themselves, then they are ended."""

        async def see_off(name: str, task: Task) -> None:
            try:
                await anyio.sleep(float(seen.settings.get("stop_grace")))
                if self._busy.get(name) is task:
                    self._context.notice("its shutdown was granted; it is ended now", name, task.id)
                    await self._workers[name].cancel()
            finally:
                self._dismissed.discard(name)
                self._wake()

        for name in seen.stopped:
            if name in self._busy and name not in self._dismissed:
                self._dismissed.add(name)
                group.start_soon(see_off, name, self._busy[name])

    def at(self, task: Task) -> bool:
        """Whether one of our workers is at that task."""
        return any(one.id == task.id for one in list(self._busy.values()))

    def drives(self, run: Run) -> bool:
        """Whether one of our workers is at that run."""
        return any((task.id, task.run) == (run.task_id, run.number) for task in list(self._busy.values()))

    async def _nothing_left(self) -> bool:
        def look() -> bool:
            with self._workspace.look() as rows:
                return self._nothing_left_in(rows)

        return await anyio.to_thread.run_sync(look)

    def _nothing_left_in(self, rows: Rows, there: Outstanding | None = None) -> bool:
        members = [worker.member for worker in self._workers.values()]
        settings, now = self._workspace.settings(rows), iso(self._workspace.clock.now())
        return nothing_left(rows, there or rows.outstanding(now), members, settings, now, self._config.only)

    def _seconds_until(self, later: Collection[str]) -> float:
        """How long to sleep at most: until a task's delay is over, or the time is up."""
        now = self._workspace.clock.now()
        pauses = [LOOK_AGAIN, *(seconds(moment) - now for moment in later)]
        if self._config.until is not None and self._config.until > now:
            pauses.append(self._config.until - now)
        return max(0.01, min(pauses))

    def _used_up(self, spent: Mapping[str, float]) -> str | None:
        """The limit of this whole run that is used up, in words."""
        for measure, limit in self._config.limits.items():
            if limit is not None and spent[measure] >= limit:
                used = usage.amount(measure, spent[measure])
                return f"{used} are used up, of {usage.amount(measure, limit)}"
        return None


class RunnerProbe(LivenessProbe):
    """How a runner sees the processes that runs hang on: it knows of its own runs which of them a worker is at
    (`drives` a run, is `at` a task), and may have been told that another machine is gone.

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


def nothing_left(
    rows: Rows, there: Outstanding, members: Sequence[Member], settings: Settings, now: str,
    only: Collection[str] | None = None,
) -> bool:  # fmt: skip
    """Whether nothing proceeds without a person: no task is ready (of those with the plan keys `only`), now or after
    its delay, that one of `members` could take and for whose labels a worker lives, and nobody is at work whose result
    could make one so. A pause ends nothing: it is lifted by a person."""
    here = {member.name for member in rows.team.members() if member.status != "stopped"}
    members = [member for member in members if member.name in here]
    names = {member.name for member in members}
    ready = [task for task in rows.tasks.ready(READY_LOOKED_AT) if only is None or task.plan_key in only]
    takeable = [task for task in ready if any(may_take(task, one.name, one.agent) for one in members)]
    waits = Waits(rows, settings, now) if any(task.labels for task in takeable) else None
    if any(waits is None or waits.unlabelled(task) is None for task in takeable):
        return False
    reviews = rows.tasks.select(states=["review"]) if there.review else ()
    if any(reviewer_of(rows, task) in names and not rows.questions.open(task.id) for task in reviews):
        return False
    for task in rows.tasks.merging() if there.merging else ():
        state = task.merging or {}
        if any(alive(str(state[who])) for who in ("process", "held") if state.get(who)):
            return False
    questions = rows.questions.open() if there.questions and settings.get("unattended") else ()
    if any(one.reversible and one.default is not None for one in questions):
        return False  # Its default will be taken.
    return not ((there.driven or there.by_hand) and any(_proceeds(rows, run) for run in rows.runs.open()))


def _proceeds(rows: Rows, run: Run) -> bool:
    """Whether that run proceeds by itself: a runner's, a verify, or a member's whose session has a living process.

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
        return alive(run.runner) is not False  # On another machine: until its lease ends.
    member = rows.team.member(run.member)
    sessions = rows.sessions.living(run.member) if member is not None and member.role == "member" else []
    return any(session == run.session and process is not None and alive(process) for session, process in sessions)


async def _heed(stop: Stop, end_now: Callable[[], Awaitable[None]], rouse: Callable[[], None]) -> None:
    """Hear a stop from a signal handler or another thread, for ever: `end_now` when it is a hard one, and `rouse`."""
    loop, heard = asyncio.get_running_loop(), anyio.Event()

    def ring() -> None:
        # No pipe: where the run ends meanwhile, its number would be another file by the time it is written to.
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(lambda: heard.set())

    silence = stop.listen(ring)
    try:
        while True:
            if stop.hard:
                await end_now()
            if stop.soft:
                rouse()
            await heard.wait()
            heard = anyio.Event()
    finally:
        silence()
