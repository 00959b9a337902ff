"""One member at one task: from the claim to whatever it ends in.

    claim ──> execute ──ended──> complete ──verify──> done, or on to review
                 │                            └──failed──> the same run again, with the findings
                 └──failed, killed, timeout──> an attempt is used up; the task is tried again later
                 └──cancelled (we stop)──────> given back, nothing is used up

The ledger's verbs are plain functions, so they run in worker threads; this module only waits.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from interlock import mailbox, processes
from interlock.agent import Update
from interlock.errors import Conflict, InterlockError, RunLimit
from interlock.executor import Execution, Executor, Job, Result
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.runner import recovery
from interlock.runner.environment import allowed_environment
from interlock.runner.prompt import prompt_for
from interlock.runner.stop import Stop
from interlock.runner.verification import verify_async
from interlock.sessions import Caller, acknowledged
from interlock.tasks import claim, finish
from interlock.tasks.find import find
from interlock.workspace import Workspace

OUTPUT_TAIL = 4000
SUMMARY_TAIL = 600


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every run of one runner. `home` is passed to agents so that they find the same ledger."""

    home: str
    workdir: str
    parallel: int
    runner: str


class Worker:
    """Carries tasks out for one member, one at a time."""

    def __init__(
        self,
        workspace: Workspace,
        member: Member,
        executor: Executor,
        terms: Terms,
        stop: Stop,
        on_update: Callable[[str, str, Update], None],
    ) -> None:
        self.member = member
        self._workspace = workspace
        self._executor = executor
        self._terms = terms
        self._stop = stop
        self._on_update = on_update
        self._execution: Execution | None = None
        self._checking: anyio.CancelScope | None = None

    async def claim(self) -> tuple[Task, Caller] | None:
        """Claim the next task for this member in a session of its own; null where there is none."""
        session = f"run:{self._workspace.clock.new_id()}"
        caller = Caller(self.member.name, session, face="runner", process=self._terms.runner)

        def next_task() -> Task | None:
            shell = self.member.agent == "shell"
            with self._workspace.look() as rows:
                now = _now(self._workspace)
                if rows.tasks.next_ready(self.member.name, shell=shell, now=now) is None:
                    return None
            try:
                with self._workspace.act(caller) as act:
                    return claim.claim_next(act, shell=shell, runner=self._terms.runner, parallel=self._terms.parallel)
            except RunLimit:
                return None

        task = await anyio.to_thread.run_sync(next_task)
        if task is None:
            return None
        caller.run = task.run
        return task, caller

    async def carry_out(self, task: Task, caller: Caller) -> None:
        """Run a claimed task to its end, whatever that is. Whoever stops us, the task is not left hanging."""
        try:
            await self._rounds(task, caller)
        except InterlockError as error:
            await self._settle_failure(task, caller, error.message)
        finally:
            with anyio.CancelScope(shield=True):
                if self._execution is not None:
                    await self._execution.close()
                self._execution = None
                await anyio.to_thread.run_sync(self._end_session, caller)

    async def cancel(self) -> None:
        """End what runs now, at once."""
        if self._execution is not None:
            await self._execution.cancel()
        if self._checking is not None:
            self._checking.cancel()

    async def _rounds(self, task: Task, caller: Caller) -> None:
        job, mail = await anyio.to_thread.run_sync(self._job, task, caller)
        self._execution = self._executor.start(job)
        result = await self._with_heartbeats(task, caller, partial(self._first, task, job, mail, caller))
        while True:
            current = await anyio.to_thread.run_sync(self._settle, task, caller, result)
            if current is None or current.verifying is None:
                return
            current = await self._verify(current, caller, job)
            if current is None or current.state != "in-progress" or self._stop.hard:
                return
            self._say(current, "notice", f"its check failed, round {current.rounds}")
            result = await self._with_heartbeats(current, caller, partial(self._again, current, job))

    async def _first(self, task: Task, job: Job, mail: list[int], caller: Caller) -> Result:
        if self._execution is None:
            raise RuntimeError("no execution")

        def started(identity: processes.Identity) -> None:
            self._note_process(task, caller, recovery.written(identity, job.environment[processes.RUN_TOKEN]))

        result = await self._execution.run(partial(self._updated, task), started)
        if mail:
            await anyio.to_thread.run_sync(self._mail_was_read, caller, mail)
        return result

    async def _again(self, task: Task, job: Job) -> Result:
        """The findings go to the same session; where it keeps none, to a new program in the same run."""
        prompt = prompt_for(task, [])
        if self._execution is not None:
            result = await self._execution.again(prompt, partial(self._updated, task))
            if result is not None:
                return result
            await self._execution.close()
        again = _with(job, prompt=prompt)
        self._execution = self._executor.start(again)
        return await self._execution.run(partial(self._updated, task))

    async def _with_heartbeats(self, task: Task, caller: Caller, work: Callable[[], Any]) -> Result:
        settings = await anyio.to_thread.run_sync(self._team_settings)
        interval = settings.get("heartbeat_ttl") / 3
        async with anyio.create_task_group() as group:
            group.start_soon(self._heartbeat, task, caller, interval)
            if self._stop.hard:
                await self.cancel()
            result: Result = await work()
            group.cancel_scope.cancel()
        return result

    async def _heartbeat(self, task: Task, caller: Caller, interval: float) -> None:
        while True:
            await anyio.sleep(interval)
            with suppress(InterlockError):  # A busy ledger is no reason to end a run; the next beat follows.
                await anyio.to_thread.run_sync(self._beat, task, caller)

    def _beat(self, task: Task, caller: Caller) -> None:
        with self._workspace.act(caller, acknowledge=False) as act:
            claim.heartbeat(act, find(act.rows, task.id))

    async def _verify(self, task: Task, caller: Caller, job: Job) -> Task | None:
        settings = await anyio.to_thread.run_sync(self._team_settings)
        self._say(task, "notice", f"checking: {task.verify}")
        evidence = None
        with anyio.CancelScope() as self._checking:
            evidence = await verify_async(
                str(task.verify), workdir=job.workdir, environment=job.environment, secrets=job.secrets,
                timeout=settings.get("verify_timeout"), output_bytes=job.output_bytes, stop_grace=job.stop_grace,
            )  # fmt: skip
        self._checking = None
        if evidence is None:
            return None  # Stopped in the middle: the next runner takes the verify up again.
        found = evidence.as_dict()

        def decide() -> Task:
            with self._workspace.act(caller, acknowledge=False) as act:
                return finish.verified(act, find(act.rows, task.id), found, run=task.run)

        return await anyio.to_thread.run_sync(decide)

    def _job(self, task: Task, caller: Caller) -> tuple[Job, list[int]]:
        settings = self._team_settings()
        mail = []
        if self.member.agent != "shell":
            with self._workspace.act(caller, acknowledge=False) as act:
                mail = mailbox.offer(
                    act, self._terms.runner, recovery.lives, count=mailbox.INJECT_COUNT, size=mailbox.INJECT_BYTES
                )
        token = secrets.token_hex(16)
        environment, hidden = allowed_environment(
            os.environ,
            names=task.metadata.get("env", ()),
            extra={
                "INTERLOCK_HOME": self._terms.home,
                "INTERLOCK_TEAM": self._workspace.name,
                "INTERLOCK_MEMBER": self.member.name,
                "INTERLOCK_SESSION": str(caller.session),
                "INTERLOCK_RUN": str(task.run),
                "INTERLOCK_TASK": task.id,
                processes.RUN_TOKEN: token,
            },
        )
        # Agents report through the `interlock` that started them, wherever that was installed.
        own = os.path.dirname(os.path.abspath(sys.argv[0] or sys.executable))
        environment["PATH"] = os.pathsep.join([environment.get("PATH", os.defpath), own])
        log = os.path.join(self._workspace.directory, "runs", task.id, f"output.{task.run}.log")
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        job = Job(
            team=self._workspace.name,
            task_id=task.id,
            run_id=str(task.run_id),
            member=self.member.name,
            session_id=str(caller.session),
            prompt=prompt_for(task, mail),
            command=task.command,
            workdir=self._terms.workdir,
            environment=environment,
            log=log,
            time_limit=float(task.metadata.get("timeout", settings.get("task_timeout"))),
            stop_grace=float(settings.get("stop_grace")),
            output_bytes=int(settings.get("output_bytes")),
            secrets=hidden,
        )
        return job, [message.n for message in mail]

    def _settle(self, task: Task, caller: Caller, result: Result) -> Task | None:
        """Turn how the program ended into a verb. Null when nothing is left to do for this run."""
        with self._workspace.act(caller, acknowledge=False) as act:
            current = find(act.rows, task.id)
            if current.run != task.run or current.state != "in-progress" or current.owner != self.member.name:
                return None  # The agent reported by itself, or the task was taken from it.
            tail = result.output[-OUTPUT_TAIL:].strip()
            if result.status == "ended":
                summary = tail[-SUMMARY_TAIL:] or None
                return finish.complete(act, current, summary=summary, verifier=self._terms.runner)
            finish.fail(
                act, current, _reason(result), counts=result.status not in ("cancelled", "capacity"), output=tail
            )
            return None

    async def _settle_failure(self, task: Task, caller: Caller, reason: str) -> None:
        def fail() -> None:
            with suppress(Conflict), self._workspace.act(caller, acknowledge=False) as act:
                current = find(act.rows, task.id)
                if current.run == task.run and current.state == "in-progress":
                    finish.fail(act, current, reason)

        await anyio.to_thread.run_sync(fail)

    def _mail_was_read(self, caller: Caller, numbers: list[int]) -> None:
        """The turn that had the mail in its prompt has ended: handed over and seen."""
        with self._workspace.act(caller, acknowledge=False) as act:
            mailbox.deliver(act, numbers)
            acknowledged(act)

    def _end_session(self, caller: Caller) -> None:
        with suppress(InterlockError), self._workspace.act(caller, acknowledge=False) as act:
            act.rows.team.end_session(act.name, act.session, act.at)
            act.event("session.ended", member=act.name, session=act.session)

    def _note_process(self, task: Task, caller: Caller, process: str) -> None:
        with self._workspace.act(Caller(SYSTEM), acknowledge=False) as act:
            run = act.rows.runs.get(task.id, task.run)
            if run is not None:
                act.rows.runs.update(run, process=process)
                act.event("run.started", task.id, run=run.id, process=process.partition("#")[0])

    def _team_settings(self) -> Any:
        with self._workspace.ledger.snapshot() as rows:
            return self._workspace.settings(rows)

    def _updated(self, task: Task, update: Update) -> None:
        self._on_update(self.member.name, task.id, update)

    def _say(self, task: Task, kind: Any, text: str) -> None:
        self._on_update(self.member.name, task.id, Update(kind, text))


def _reason(result: Result) -> str:
    if result.status == "failed" and result.exit_code is not None:
        return f"ended with exit code {result.exit_code}"
    words = {
        "failed": "could not be carried out",
        "killed": "was killed from outside",
        "timeout": "took longer than its time limit",
        "cancelled": "was stopped",
        "capacity": "its provider has no capacity left",
    }
    return f"{words[result.status]}: {result.detail}" if result.detail else words[result.status]


def _with(job: Job, **changes: Any) -> Job:
    from dataclasses import replace

    return replace(job, **changes)


def _now(workspace: Workspace) -> str:
    from interlock.clock import iso

    return iso(workspace.clock.now())
