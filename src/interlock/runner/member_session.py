"""One session of a member: its program, opened when first prompted, and the mail in its prompts.

Mail is *offered* before the prompt, *delivered* when the prompt begins, *acknowledged* when the turn ended well. Where
the turn did not, nobody can tell what was seen: a lasting session gives its mail back at once, marked when it is
offered again; that of a program that takes one prompt goes back when its session ends.

A member without a task reads its mail as a prompt of its own. Agents could answer each other for ever, so a member gets
`mail_turns` such prompts in a row, and then only those with mail of a person, until it has had a task again. After a
turn that did not end well the mail waits, longer each time. A member that is paused or stopped gets none.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Permission, Update, ignore
from interlock.clock import iso
from interlock.core import mailbox
from interlock.core.tasks.claim import may_be_given_work
from interlock.core.unit_of_work import Principal, Workspace, acknowledged
from interlock.errors import InterlockError
from interlock.model.message import Message
from interlock.model.team import Member
from interlock.processes.ref import ProcessRef
from interlock.runner import run_processes
from interlock.runner.context import RunnerContext
from interlock.runner.executor import Execution, Executor, Job, Result
from interlock.runner.job import Permit, for_mail, is_person, offer_mail, same_surroundings, worth_a_prompt
from interlock.runner.permissions import judge, pick, policy_of
from interlock.runner.prompt import mail_prompt
from interlock.runner.usage import UsageMeter, out_of_mail
from interlock.storage.ledger import Rows

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 3600.0


class MemberSession:
    """One session. `session` is its id; `healthy` says that its last turn ended well; `process` is its program, as the
    ledger names it."""

    def __init__(self, workspace: Workspace, executor: Executor, session: str) -> None:
        self.session = session
        self.executor = executor
        self.healthy = False
        self.idle_since = 0.0
        self.process: str | None = None
        self._workspace = workspace
        self._execution: Execution | None = None
        self._job: Job | None = None
        self._halted = False
        self._talks = False
        self._on_update: Callable[[Update], None] = lambda update: None
        self._left: set[int] = set()

    @property
    def lasting(self) -> bool:
        """Whether it takes another prompt."""
        return self._execution is not None and self._execution.lasting

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of it."""
        return None if self._execution is None else self._execution.agent_session

    async def prompt(
        self,
        job: Job,
        caller: Principal,
        mail: Sequence[int],
        group: TaskGroup,
        on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None] = ignore,
        on_begun: Callable[[], None] = lambda: None,
    ) -> Result:
        """Put `job.prompt` to the session, or to a new program where it takes no more or was started for other
        surroundings. `on_begun` is called in a worker thread once the prompt has begun."""
        self.healthy = started = False
        self._talks = talks = self.executor.lasts(job.kind)

        def starts(identity: ProcessRef) -> None:
            nonlocal started
            started = True
            on_start(identity)

        async def begin() -> None:
            def deliver() -> None:
                on_begun()
                if mail:
                    with self._workspace.act(caller) as act:
                        mailbox.deliver(act, mail)

            with suppress(InterlockError):  # It is done when the turn ends.
                await anyio.to_thread.run_sync(deliver)

        def begins() -> None:
            if talks:
                group.start_soon(begin)

        if self._execution is not None and self._job is not None:
            if self.lasting and talks and same_surroundings(job, self._job):
                result = await self._turn(
                    self._execution.again(job.prompt, on_update, begins, job.log), caller, mail, lambda: False
                )
                if result is not None:
                    return result
            await self._execution.close()
        self._job, self._on_update = job, on_update
        self._execution = execution = self.executor.start(job)
        if self._halted:
            await execution.cancel()
        result = await self._turn(execution.run(on_update, starts, begins), caller, mail, lambda: started and not talks)
        assert result is not None
        if not self.lasting:
            await self._note_left()
        return result

    async def _turn(
        self, running: Awaitable[Result | None], caller: Principal, mail: Sequence[int], seen: Callable[[], bool]
    ) -> Result | None:
        """Await a turn and settle its mail; None where the session did not take it. `seen`: whether the mail counts as
        seen where it did not end well."""
        result, refused = None, False
        try:
            result = await running
            refused = result is None
        finally:
            if not refused:
                self.healthy = result is not None and result.status == "ended"
                with anyio.CancelScope(shield=True), suppress(InterlockError):  # Else it is offered again.
                    await anyio.to_thread.run_sync(self._settle_mail, caller, mail, self.healthy or seen())
        return result

    async def interrupt(self) -> None:
        """End the running turn."""
        if self._execution is not None:
            await self._execution.interrupt()

    async def cancel(self) -> None:
        """End what runs, and let no further turn begin."""
        self._halted = True
        if self._execution is not None:
            await self._execution.cancel()

    async def close(self) -> None:
        """Leave nothing of its program."""
        self._halted = True
        if self._execution is not None:
            await self._execution.close()
            await self._note_left()

    def _settle_mail(self, caller: Principal, mail: Sequence[int], seen: bool) -> None:
        if not mail and not (self.healthy and self._talks):
            return
        with self._workspace.act(caller) as act:
            if seen:
                mailbox.deliver(act, mail)
            else:
                mailbox.give_back(act, mail, "the turn that it was in did not end well")
            if self.healthy:
                acknowledged(act)

    async def _note_left(self) -> None:
        """Tell of the daemons that its program has left behind and the user keeps, once of each."""
        if self.process is None or self._job is None:
            return
        task = self._job.task_id or None
        note = partial(run_processes.note_left, self._workspace, self.process, task, self._left)
        with suppress(InterlockError):
            left = await anyio.to_thread.run_sync(partial(note, member=self._job.member, run=self._job.run_id))
            if left:
                self._on_update(Update("notice", f"left running, since keep_processes names it: {left}"))


class IdleMail:
    """The mail of one member without a task. `permit` is what its sessions are opened with."""

    def __init__(self, context: RunnerContext, member: Member, permit: Permit, needed: tuple[str, ...] = ()) -> None:
        self._context = context
        self._member = member
        self._permit = permit
        self._needed = needed
        self._in_a_row = 0
        self._failed = 0
        self._not_before = 0.0
        self._job: Job | None = None
        self._told: set[str] = set()

    def worked(self) -> None:
        """Note that the member had a task."""
        self._in_a_row = 0

    def waits(self, rows: Rows) -> bool:
        """Whether there is mail that the member is to be prompted with now."""
        settings = self._context.workspace.settings(rows)
        few = self._in_a_row < int(settings.get("mail_turns"))
        return (
            self._context.workspace.clock.monotonic() >= self._not_before
            and worth_a_prompt(rows, self._member.name, few)
            and may_be_given_work(rows, self._member.name, settings)
            and not self._used_up(rows)
        )

    def _used_up(self, rows: Rows) -> bool:
        """Whether the member has reached a limit of its own; said once of each."""
        over = out_of_mail(rows, self._member.name, iso(self._context.workspace.clock.now()))
        if over is not None and over.measure not in self._told:
            self._told.add(over.measure)
            self._context.notice(f"{self._member.name} used {over.as_text()}: its mail waits for its next task.")
        return over is not None

    async def read(self, session: MemberSession, caller: Principal, on_update: Callable[[Update], None]) -> None:
        """Put what waits to `session`.

        Raises:
            InterlockError: the ledger could not be used, or the program's environment cannot be made.
        """
        mail = await anyio.to_thread.run_sync(self._offered, caller)
        if not mail:
            session.healthy = session.lasting
            return
        meter = UsageMeter()

        def heard(update: Update) -> None:
            meter.hear(update)
            on_update(update)

        self._job = await anyio.to_thread.run_sync(
            for_mail, self._context, self._member, caller, mail_prompt(mail, None), self._permit, self._needed
        )
        number = await anyio.to_thread.run_sync(self._turn_begins, caller)
        async with anyio.create_task_group() as group:
            result = await session.prompt(self._job, caller, [message.n for message in mail], group, heard)
        meter.turn_ended(whole=result.status == "ended")
        await anyio.to_thread.run_sync(self._turn_ended, caller, mail, result, meter, number)

    async def permit(self, permission: Permission) -> str | None:
        """Answer by the policy alone: without a task there is nothing to ask a person about, so the rest is refused."""

        def policy() -> tuple[str, list[str]]:
            with self._context.workspace.ledger.snapshot() as rows:
                settings = self._context.workspace.settings(rows)
                member = rows.team.member(self._member.name)
                return policy_of(member, settings), str(settings.get("allowed_commands")).splitlines()

        named, commands = await anyio.to_thread.run_sync(policy)
        workdir = self._job.workdir if self._job is not None else self._context.workdir
        return pick(permission.choices, allow=judge(named, permission, workdir, commands).verdict == "allow")

    def _offered(self, caller: Principal) -> list[Message]:
        mail = offer_mail(self._context, caller)
        with self._context.workspace.ledger.snapshot() as rows:
            people = any(is_person(rows, message.sender) for message in mail)
        self._in_a_row = 0 if people else self._in_a_row + 1
        return mail

    def _turn_begins(self, caller: Principal) -> int:
        """Open the account of the prompt: the number of its run, which belongs to no task."""
        with self._context.workspace.act(caller) as act:
            return act.rows.runs.begin_aside(self._member.name, str(act.session), act.at)

    def _turn_ended(
        self, caller: Principal, mail: list[Message], result: Result, meter: UsageMeter, number: int
    ) -> None:
        workspace = self._context.workspace
        if result.status == "ended":
            self._failed, self._not_before = 0, 0.0
        else:
            pause = min(FIRST_PAUSE * 2**self._failed, LONGEST_PAUSE)
            if result.retry_at is not None:
                pause = max(pause, result.retry_at - time.time())
            self._failed = min(self._failed + 1, 10)
            self._not_before = workspace.clock.monotonic() + pause
        with workspace.act(caller) as act:
            run = act.rows.runs.get("", number)
            assert run is not None
            act.rows.runs.update(run, ended_at=act.at)
            spent = meter.add(act, run, closes=True)
            act.event(
                "session.prompted", member=self._member.name, session=act.session, ids=[one.id for one in mail],
                stop=result.status, detail=result.detail, **spent,
            )  # fmt: skip
