"""The mail of a member without a task: put to its session as a prompt of its own.

Agents could go on answering each other for ever. So a member gets `mail_turns` such prompts in a row, and then only
those with mail of a person, until it had a task again. After a turn that did not end well the mail waits, longer each
time. A member that is paused or stopped gets none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import anyio
import anyio.to_thread

from interlock import mailbox
from interlock.agent import Permission, Update
from interlock.executor import Job, Result
from interlock.ledger import Rows
from interlock.model.message import Message
from interlock.model.team import Member
from interlock.processes import Identity
from interlock.runner.assignment import Permit, Terms, for_mail
from interlock.runner.conversation import is_person, worth_a_prompt
from interlock.runner.life import Life
from interlock.runner.lifesigns import lives
from interlock.runner.permits import judge, pick
from interlock.runner.prompt import mail_prompt
from interlock.runner.spending import Meter
from interlock.sessions import Caller
from interlock.tasks.claim import may_be_given_work
from interlock.workspace import Workspace

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 3600.0


class Postbox:
    """Of one member. `permit` is what its sessions are opened with."""

    def __init__(
        self, workspace: Workspace, member: Member, terms: Terms, permit: Permit, needed: tuple[str, ...] = ()
    ) -> None:
        self._workspace = workspace
        self._member = member
        self._terms = terms
        self._permit = permit
        self._needed = needed
        self._in_a_row = 0
        self._failed = 0
        self._not_before = 0.0
        self._job: Job | None = None

    def worked(self) -> None:
        """The member had a task."""
        self._in_a_row = 0

    def waits(self, rows: Rows) -> bool:
        """Whether there is mail that the member is to be prompted with now."""
        settings = self._workspace.settings(rows)
        few = self._in_a_row < int(settings.get("mail_turns"))
        return (
            self._workspace.clock.monotonic() >= self._not_before
            and worth_a_prompt(rows, self._member.name, few)
            and may_be_given_work(rows, self._member.name, settings)
        )

    async def read(self, life: Life, caller: Caller, on_update: Callable[[Update], None]) -> None:
        """Put what waits to `life`.

        Raises:
            InterlockError: the ledger could not be used, or the program's environment cannot be made.
        """
        mail = await anyio.to_thread.run_sync(partial(self._offered, caller))
        if not mail:
            life.healthy = life.lasting
            return
        numbers = [message.n for message in mail]
        meter = Meter()

        def heard(update: Update) -> None:
            meter.hear(update)
            on_update(update)

        def started(identity: Identity) -> None:
            """Its session is found by its token."""

        prompt = mail_prompt(mail, None)
        self._job = await anyio.to_thread.run_sync(
            partial(for_mail, self._workspace, self._member, caller, self._terms, prompt, self._permit, self._needed)
        )
        async with anyio.create_task_group() as group:
            result = await life.prompt(self._job, caller, numbers, group, heard, started)
        meter.turn_ended()
        await anyio.to_thread.run_sync(partial(self._noted, caller, mail, result, meter))

    async def permit(self, permission: Permission) -> str | None:
        """Outside of a task there is no task to ask a person about: what a policy does not allow is refused."""

        def policy() -> tuple[str, list[str]]:
            with self._workspace.ledger.snapshot() as rows:
                settings = self._workspace.settings(rows)
                member = rows.team.member(self._member.name)
                own = member.permissions if member is not None else None
                return own or str(settings.get("permissions")), str(settings.get("allowed_commands")).splitlines()

        named, commands = await anyio.to_thread.run_sync(policy)
        workdir = self._job.workdir if self._job is not None else self._terms.workdir
        allowed = judge(named, permission, workdir, commands).verdict == "allow"
        return pick(permission.choices, allow=allowed)

    def _offered(self, caller: Caller) -> list[Message]:
        with self._workspace.act(caller, acknowledge=False) as act:
            mail = mailbox.offer(act, self._terms.runner, lives, count=mailbox.INJECT_COUNT, size=mailbox.INJECT_BYTES)
            people = any(is_person(act.rows, message.sender) for message in mail)
        self._in_a_row = 0 if people else self._in_a_row + 1
        return mail

    def _noted(self, caller: Caller, mail: list[Message], result: Result, meter: Meter) -> None:
        if result.status == "ended":
            self._failed, self._not_before = 0, 0.0
        else:
            pause = min(FIRST_PAUSE * 2**self._failed, LONGEST_PAUSE)
            if result.retry_at is not None:
                pause = max(pause, result.retry_at - time.time())
            self._failed = min(self._failed + 1, 10)
            self._not_before = self._workspace.clock.monotonic() + pause
        with self._workspace.act(caller, acknowledge=False) as act:
            act.event(
                "session.prompted", member=self._member.name, session=act.session, ids=[one.id for one in mail],
                stop=result.status, detail=result.detail, **meter.take(),
            )  # fmt: skip
