"""One member at one task: from the claim to whatever it ends in.

    claim ──> execute ──ended──> complete ──verify──> done, or on to review
                 │                            └──failed──> the same run again, with the findings
                 └──failed, killed, timeout──> an attempt is used up; the task is tried again later
                 └──cancelled (we stop)──────> given back, nothing is used up

Whatever happens on the way, a bug of ours included, the programs are ended first and the task is settled then: no run
is left hanging while its runner lives, and no other worker is touched. The ledger's verbs are plain functions, so they
run in worker threads; this module only waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock import mailbox
from interlock.agent import Update
from interlock.clock import iso
from interlock.errors import Conflict, InterlockError, LedgerBusy, RunLimit
from interlock.executor import Execution, Executor, Result
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.output import plain
from interlock.processes import Identity
from interlock.runner import checking, placing, recovery, settling
from interlock.runner.assignment import Assignment, Terms, prepare, with_prompt
from interlock.runner.hearing import Hearing
from interlock.runner.lifesigns import lives, new_session, session_token, verifier, written
from interlock.runner.prompt import prompt_for
from interlock.runner.stop import Stop
from interlock.sessions import Caller, acknowledged
from interlock.tasks import claim, finish, review
from interlock.tasks.find import find
from interlock.workspace import Workspace

BUSY_TRIES = 30
"""How often a verdict is offered to a ledger that stays locked; each time waits for `busy_timeout`."""

Value = TypeVar("Value")


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
        self._hearing: Hearing | None = None
        self._checking: anyio.CancelScope | None = None
        self._halted = False

    async def claim(self) -> tuple[Task, Caller] | None:
        """Claim the next task for this member in a session of its own; null where there is none.

        Raises:
            LedgerBusy: the ledger is locked; nothing was claimed.
        """
        self._halted = False
        return await anyio.to_thread.run_sync(self._next_task)

    def _next_task(self) -> tuple[Task, Caller] | None:
        shell = self.member.agent == "shell"
        workspace = self._workspace
        with workspace.look() as rows:  # Most looks find nothing; they need not wait for the team's writer.
            if not claim.may_be_given_work(rows, self.member.name, workspace.settings(rows)):
                return None
            reviews = bool(review.waiting_for(rows, self.member.name))
            if (
                not reviews
                and rows.tasks.next_ready(self.member.name, shell=shell, now=iso(workspace.clock.now())) is None
            ):
                return None
        session, _ = new_session()
        caller = Caller(self.member.name, session, face="runner", process=self._terms.runner)
        task = None
        with suppress(RunLimit, _Nothing), workspace.act(caller) as act:
            runner, parallel = self._terms.runner, self._terms.parallel
            # What waits for a verdict comes first: somebody has done it already.
            task = review.claim_review(act, runner=runner, parallel=parallel) if reviews else None
            task = task or claim.claim_next(act, shell=shell, runner=runner, parallel=parallel)
            if task is None:
                raise _Nothing
        if task is None:
            return None
        caller.run = task.run
        return task, caller

    async def carry_out(self, task: Task, caller: Caller) -> None:
        """Run a claimed task to its end, whatever that is. Raises nothing but cancellation."""
        failure: str | None = None
        counts = True
        try:
            await self._rounds(task, caller)
        except InterlockError as error:
            failure = error.message
        except Exception as error:  # boundary: whatever goes wrong in here concerns this one run
            failure = f"an error in Interlock itself: {type(error).__name__}: {error}"
        except BaseException:
            failure, counts = "was stopped", False
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._wind_up(task, caller, failure, counts)

    async def cancel(self) -> None:
        """End what runs now, at once, and let nothing further begin for this task."""
        self._halted = True
        if self._execution is not None:
            await self._execution.cancel()
        if self._checking is not None:
            self._checking.cancel()

    async def _wind_up(self, task: Task, caller: Caller, failure: str | None, counts: bool) -> None:
        """First end the programs, then settle the task if that has not been done, then end the session."""
        try:
            if self._execution is not None:
                await self._execution.close()
            if self._hearing is not None:
                await self._hearing.all_heard()
            await self._in_thread(partial(self._end_orphaned_check, task))
            if failure is not None:
                self._say(task, "notice", f"this run failed: {failure}" if counts else failure)
                with suppress(Conflict):
                    await self._in_thread(partial(settling.give_up, self._workspace, task, caller, failure, counts))
            await self._in_thread(partial(settling.end_session, self._workspace, caller))
        except Exception as error:  # boundary: the run stays open, and the next runner finds it
            self._say(task, "notice", f"the end of this run could not be written down: {error}")
        finally:
            self._execution = self._hearing = None

    async def _rounds(self, task: Task, caller: Caller) -> None:
        terms, needed = await self._placed(task, caller), self._executor.variables
        assignment = await self._in_thread(partial(prepare, self._workspace, self.member, task, caller, terms, needed))
        mark = verifier()
        self._hearing = Hearing(
            self._workspace, task, caller, mark, self._in_thread, partial(self._say, task, "notice")
        )
        try:
            self._execution = self._executor.start(assignment.job)
            result = await self._while_alive(task, caller, partial(self._first, task, assignment))
        finally:
            await self._mail_was_read(caller, assignment)
        while True:
            current = await self._in_thread(
                partial(settling.settle, self._workspace, task, caller, result, verifier=mark)
            )
            if current is None or current.verifying is None:
                return
            current = await self._verify(current, caller)
            if current is None or current.state != "in-progress" or self._halted or self._stop.hard:
                return
            self._say(current, "notice", f"its check failed, round {current.rounds}")
            result = await self._while_alive(current, caller, partial(self._again, current, assignment))

    async def _placed(self, task: Task, caller: Caller) -> Terms:
        """What holds for this run: where the task has a worktree of its own, that is where it works."""

        async def place(group: TaskGroup) -> Terms:
            token = session_token(str(caller.session))
            directory = await placing.place(self._workspace, task, token, partial(self._checked, task))
            return replace(self._terms, workdir=directory) if directory is not None else self._terms

        terms = self._terms
        with anyio.CancelScope() as scope:
            self._checking = scope
            terms = await self._while_alive(task, caller, place)
        self._checking = None
        return terms  # Where we were stopped, nothing of it is begun.

    async def _first(self, task: Task, assignment: Assignment, group: TaskGroup) -> Result:
        assert self._execution is not None

        def started(identity: Identity) -> None:
            assignment.started = True
            group.start_soon(self._note_process, task, written(identity, assignment.token))

        result = await self._execution.run(partial(self._updated, task), started)
        assignment.turn_ended = result.status == "ended"
        return result

    async def _again(self, task: Task, assignment: Assignment, group: TaskGroup) -> Result:
        """The findings go to the same session; where it keeps none, to a new program in the same run."""
        prompt = prompt_for(task, [])
        if self._execution is not None:
            result = await self._execution.again(prompt, partial(self._updated, task))
            if result is not None:
                return result
            await self._execution.close()
        self._execution = self._executor.start(with_prompt(assignment.job, prompt))
        if self._halted or self._stop.hard:
            await self._execution.cancel()
        return await self._first(task, assignment, group)

    async def _while_alive(self, task: Task, caller: Caller, work: Callable[[TaskGroup], Awaitable[Value]]) -> Value:
        """`work`, with heartbeats beside it. What it raises is raised as it is, not as a group."""
        result: Value | None = None
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._heartbeats, task, caller)
            if self._hearing is not None:
                group.start_soon(self._hearing.listen)
            if self._halted or self._stop.hard:
                await self.cancel()
            try:
                result = await work(group)
                if self._hearing is not None:
                    await self._hearing.all_heard()
            except Exception as error:  # boundary: of a task group, raised again outside it
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert result is not None
        return result

    async def _heartbeats(self, task: Task, caller: Caller) -> None:
        def beat() -> None:
            with self._workspace.act(caller, acknowledge=False) as act:
                claim.heartbeat(act, find(act.rows, task.id))

        while True:
            await anyio.sleep(self._terms.heartbeat)
            with suppress(InterlockError):  # A busy ledger is no reason to end a run; the next beat follows.
                await anyio.to_thread.run_sync(beat)

    async def _verify(self, task: Task, caller: Caller) -> Task | None:
        """Run the check; the task as it is then, or null where we were stopped and the next runner has to do it."""
        self._say(task, "notice", f"checking: {task.verify}")
        evidence = None
        with anyio.CancelScope() as scope:
            self._checking = scope
            if self._halted or self._stop.hard:
                scope.cancel()
            evidence = await checking.examine(self._workspace, task, on_line=partial(self._checked, task))
        self._checking = None
        if evidence is None:
            return None
        found = evidence.as_dict()
        mark = str((task.verifying or {}).get("process"))

        def decide() -> Task:
            with self._workspace.act(caller, acknowledge=False) as act:
                return finish.verified(act, find(act.rows, task.id), found, run=task.run, verifier=mark)

        return await self._in_thread(decide)

    async def _note_process(self, task: Task, process: str) -> None:
        def note() -> None:
            with self._workspace.act(Caller(SYSTEM), acknowledge=False) as act:
                run = act.rows.runs.get(task.id, task.run)
                if run is not None:
                    act.rows.runs.update(run, process=process)
                    act.event("run.started", task.id, run=run.id, process=process.partition("#")[0])

        with suppress(InterlockError):  # The token in its environment names it as well.
            await anyio.to_thread.run_sync(note)

    async def _mail_was_read(self, caller: Caller, assignment: Assignment) -> None:
        """Mail in the prompt of a program that began was handed over, and seen once its turn has ended well."""
        numbers = assignment.mail

        def deliver() -> None:
            with self._workspace.act(caller, acknowledge=False) as act:
                if not assignment.started and not assignment.turn_ended:
                    mailbox.give_back(act, numbers, "the program did not start")
                    return
                mailbox.deliver(act, numbers)
                if assignment.turn_ended:
                    acknowledged(act)

        if numbers:
            with anyio.CancelScope(shield=True), suppress(InterlockError):  # Then it is offered again, marked so.
                await anyio.to_thread.run_sync(deliver)

    def _end_orphaned_check(self, task: Task) -> None:
        """A verify that the agent had begun by reporting itself ends with the agent."""
        with self._workspace.ledger.snapshot() as rows:
            current = rows.tasks.get(task.id)
        if current is not None and current.run == task.run and current.verifying is not None:
            process = str(current.verifying.get("process") or "")
            if lives(process) is False:
                recovery.end_verify_program(current, self._terms.stop_grace)

    async def _in_thread(self, verb: Callable[[], Value]) -> Value:
        """`verb` in a worker thread, again and again while the ledger is locked: a result must not get lost."""
        for _ in range(BUSY_TRIES - 1):
            with suppress(LedgerBusy):
                return await anyio.to_thread.run_sync(verb)
        return await anyio.to_thread.run_sync(verb)

    def _updated(self, task: Task, update: Update) -> None:
        said = plain(update.text)
        if update.kind == "text" and self._hearing is not None:
            self._hearing.hear(said)
        self._on_update(self.member.name, task.id, Update(update.kind, said, update.data))

    def _checked(self, task: Task, line: str) -> None:
        self._say(task, "text", plain(line))

    def _say(self, task: Task, kind: Literal["text", "notice"], text: str) -> None:
        self._on_update(self.member.name, task.id, Update(kind, text))


class _Nothing(Exception):
    """Somebody else took it; the transaction, with the session it began, is rolled back."""
