"""The main job: a crew of members works off the ready queue until nothing can proceed without a person.

Nobody leads: the crew only pulls what the ledger lets it claim, so a second crew, a person at a terminal or an agent
with its own session may work in the same team at the same time. One crew per team drives the *plan*, so that a second
`interlock run` shows the first one's board.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock import processes
from interlock.agent import Update
from interlock.clock import seconds
from interlock.errors import AgentError, RunnerAlive
from interlock.executor import Executor
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.notifier import woken
from interlock.reports import may_take
from interlock.runner import recovery
from interlock.runner.environment import allowed_environment
from interlock.runner.stop import Stop
from interlock.runner.verification import verify
from interlock.runner.worker import Terms, Worker
from interlock.sessions import Caller
from interlock.tasks import finish
from interlock.tasks.find import find
from interlock.workspace import Workspace

READY_LOOKED_AT = 10_000
LOOK_AGAIN = 5.0
"""Seconds between two looks at everything, however quiet it is: runs of dead runners, stopped verifies."""


def sign_on(workspace: Workspace) -> str:
    """Become the team's runner; answers this process as text.

    Raises:
        RunnerAlive: another living process is it.
    """
    own = processes.current().as_text()
    with workspace.act(Caller(SYSTEM)) as act:
        team = act.rows.team.get()
        if team.runner is not None and team.runner != own and recovery.lives(team.runner) is not False:
            raise RunnerAlive(
                f"Another runner drives {workspace.name} already (process {team.runner.split('|')[2]}). "
                "`interlock status` shows what it does; `interlock stop` ends it.",
                runner=team.runner,
            )
        act.rows.team.update(team, runner=own)
        act.event("runner.started", process=own)
    return own


def sign_off(workspace: Workspace, reason: str) -> None:
    """No longer be the team's runner."""
    with workspace.act(Caller(SYSTEM)) as act:
        team = act.rows.team.get()
        if team.runner == processes.current().as_text():
            act.rows.team.update(team, runner=None)
            act.event("runner.stopped", reason=reason)


class Crew:
    """The members of one team that have an agent, and what each is doing.

    `executor_for` makes the executor of a member, or raises `AgentError` when its agent cannot be used here.
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
    ) -> None:
        self._workspace = workspace
        self._executor_for = executor_for
        self._home = home
        self._parallel = parallel
        self._until = until
        self.stop = stop or Stop()
        self._on_update = on_update
        self._workers: dict[str, Worker] = {}
        self._busy: set[str] = set()

    async def work(self) -> str:
        """Work until nothing can proceed, the time is up, or somebody stops us; answers why it ended.

        Raises:
            RunnerAlive: another runner drives this team.
        """
        runner = await anyio.to_thread.run_sync(sign_on, self._workspace)
        reason = "failed"
        try:
            await anyio.to_thread.run_sync(self._enlist, runner)
            reason = await self._until_quiet()
            return reason
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(sign_off, self._workspace, reason)

    def _enlist(self, runner: str) -> None:
        with self._workspace.look() as rows:
            team = rows.team.get()
            settings = self._workspace.settings(rows)
            members = [member for member in rows.team.members() if member.role == "member" and member.agent]
        terms = Terms(self._home, team.workdir or ".", self._parallel or settings.get("parallel"), runner)
        self._parallel = terms.parallel
        for member in members:
            executor = self._executor_for(member)
            self._workers[member.name] = Worker(self._workspace, member, executor, terms, self.stop, self._on_update)
        if not self._workers:
            raise AgentError(
                "No member of this team has an agent, so nothing can be run. `interlock member spawn` adds one."
            )

    async def _until_quiet(self) -> str:
        workspace = self._workspace
        topics = ["tasks"]
        # A stop may come from a signal handler or another thread: it rings the same bell as a change of the ledger.
        self.stop.listen(lambda: workspace.notifier.notify(workspace.name, topics))
        reason: str | None = None
        with workspace.notifier.waiter(workspace.name, topics, workspace.ledger.watch()) as waiter:
            async with anyio.create_task_group() as group:
                while (reason := await self._turn(group)) is None:
                    await woken(waiter, await anyio.to_thread.run_sync(self._patience))
        return reason or "stopped"

    async def _turn(self, group: TaskGroup) -> str | None:
        """Start whatever may start now; the reason to end, once there is one and nobody is at work."""
        if self.stop.hard:
            for name in self._busy:
                await self._workers[name].cancel()
        ending = (self.stop.reason or "stopped") if self.stop.soft else "time is up" if self._time_is_up() else None
        if ending is None:
            await anyio.to_thread.run_sync(self._recover)
            await self._dispatch(group)
            if not self._busy and await anyio.to_thread.run_sync(self._nothing_left):
                ending = "finished"
        return ending if not self._busy else None

    async def _dispatch(self, group: TaskGroup) -> None:
        for name, worker in self._workers.items():
            if name not in self._busy and not self.stop.soft:
                claimed = await worker.claim()
                if claimed is not None:
                    self._busy.add(name)
                    group.start_soon(self._work_on, worker, *claimed)

    async def _work_on(self, worker: Worker, task: Task, caller: Caller) -> None:
        try:
            await worker.carry_out(task, caller)
        finally:
            self._busy.discard(worker.member.name)
            self._workspace.notifier.notify(self._workspace.name, ["tasks"])

    def _recover(self) -> None:
        recovery.take_up(self._workspace)
        for task in recovery.unverified(self._workspace):
            self._verify_again(task)

    def _verify_again(self, task: Task) -> None:
        """Run the verify that a process which is gone had begun."""
        caller = Caller(SYSTEM)
        with self._workspace.act(caller) as act:
            current = find(act.rows, task.id)
            if current.verifying != task.verifying:
                return
            finish.take_up_verify(act, current, processes.current().as_text())
            settings = act.settings
            workdir = act.rows.team.get().workdir or "."
        environment, hidden = allowed_environment(os.environ, names=task.metadata.get("env", ()))
        evidence = verify(
            str(task.verify), workdir=workdir, environment=environment, secrets=hidden,
            timeout=settings.get("verify_timeout"), output_bytes=settings.get("output_bytes"),
            stop_grace=settings.get("stop_grace"),
        )  # fmt: skip
        with self._workspace.act(caller) as act:
            current = finish.verified(act, find(act.rows, task.id), evidence.as_dict(), run=task.run)
            if current.state == "in-progress":
                # Its author's program is gone as well, so a new run takes the findings up.
                finish.fail(act, current, "its check failed after its runner was gone", counts=False)

    def _nothing_left(self) -> bool:
        """Whether no task is ready, now or after its delay, that a member of this crew could take."""
        with self._workspace.look() as rows:
            return not any(
                may_take(task, worker.member.name, worker.member.agent)
                for task in rows.tasks.ready(READY_LOOKED_AT)
                for worker in self._workers.values()
            )

    def _patience(self) -> float:
        now = self._workspace.clock.now()
        with self._workspace.ledger.snapshot() as rows:
            retry_at = rows.tasks.ready_after()
        moments = [LOOK_AGAIN]
        if retry_at is not None and not self.stop.soft:
            moments.append(max(0.01, seconds(retry_at) - now))
        if self._until is not None:
            moments.append(max(0.01, self._until - now))
        return min(moments)

    def _time_is_up(self) -> bool:
        return self._until is not None and self._workspace.clock.now() >= self._until
