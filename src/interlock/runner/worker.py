"""One member at work: the tasks that it claims, one at a time, and the session of its agent.

The session of an agent that takes more than one prompt may live on: it is kept for the member's next task and for mail
that comes between two (`read_mail`), until it was idle for `session_idle` seconds. One member, one session: a second
one is opened only where the first cannot go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread

from interlock.agent import Permission, Update
from interlock.clock import iso
from interlock.errors import InterlockError, RunLimit
from interlock.executor import Executor
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.output import plain
from interlock.runner import settling
from interlock.runner.assignment import Terms
from interlock.runner.attempt import Attempt
from interlock.runner.life import Life
from interlock.runner.lifesigns import new_session
from interlock.runner.postbox import Postbox
from interlock.runner.stop import Stop
from interlock.runner.threads import in_thread
from interlock.sessions import Caller
from interlock.tasks import claim, review, reviewers
from interlock.workspace import Workspace


class Worker:
    """Works for one member. `rouse` is called when it begins to wait for a person, and when it does so no more."""

    def __init__(
        self,
        workspace: Workspace,
        member: Member,
        executor: Executor,
        terms: Terms,
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
        self._life: Life | None = None
        self._attempt: Attempt | None = None
        self._halted = False
        self._waiting = 0
        self.postbox = Postbox(workspace, member, terms, self._permit, executor.variables)

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

    async def claim(self) -> tuple[Task, Caller] | None:
        """Claim the next task for this member in a session of its own; null where there is none.

        Raises:
            LedgerBusy: the ledger is locked; nothing was claimed.
        """
        self._halted = False
        claimed = await anyio.to_thread.run_sync(self._next_task)
        if claimed is not None:
            self.postbox.worked()
        return claimed

    def _next_task(self) -> tuple[Task, Caller] | None:
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

    def _caller(self) -> Caller:
        """Who acts: the session that was kept, if it still lives, else a new one."""
        kept = self._life if self._life is not None and self._life.lasting else None
        session = kept.session if kept is not None else new_session()[0]
        return Caller(self.member.name, session, face="runner", process=self._terms.runner)

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
            caller = Caller(self.member.name, life.session, face="runner", process=self._terms.runner)
            with suppress(InterlockError):  # The next scheduler finds that it has ended.
                await in_thread(partial(settling.end_session, self._workspace, caller))

    async def carry_out(self, task: Task, caller: Caller) -> None:
        """Run a claimed task to its end, whatever that is. Raises nothing but cancellation."""
        life = await self._life_of(caller)
        self._attempt = attempt = Attempt(
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

    async def _life_of(self, caller: Caller) -> Life:
        """The session that `caller` names: the one that is kept, or a new one in its place."""
        if self._life is None or self._life.session != caller.session:
            await self.retire()
            self._life = Life(self._workspace, self._executor, str(caller.session))
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
