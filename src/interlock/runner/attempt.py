"""One run of one task by one member: from the claim to its end, whatever that is.

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
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Update
from interlock.clock import iso
from interlock.core.tasks import claim, verify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.core.waiting import in_thread
from interlock.errors import Conflict, InterlockError
from interlock.gitwork.staging import tree_of
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.text import plain
from interlock.processes import ref
from interlock.processes.ref import ProcessRef, alive
from interlock.runner import completion, run_processes, workspace_allocation
from interlock.runner.context import ActiveRun
from interlock.runner.executor import Job, Result, failed
from interlock.runner.job import Permit, prepare
from interlock.runner.member_session import MemberSession
from interlock.runner.permissions import PermissionRequests
from interlock.runner.prompt import prompt_for
from interlock.runner.run_processes import session_token, verifier
from interlock.runner.stdout_messages import StdoutMessages
from interlock.runner.turns import TurnLoop
from interlock.runner.usage import excess
from interlock.runner.verify import examine

Value = TypeVar("Value")


class TaskAttempt:
    """A claimed run, carried out in `session`, which is opened with `permit`."""

    def __init__(self, run: ActiveRun, session: MemberSession, permit: Permit) -> None:
        self.permissions: PermissionRequests | None = None
        self.unfit: str | None = None
        """Why the member's program could not start, and would not on another try."""
        self._run = run
        self._task = run.task
        self._workspace = run.workspace
        self._session = session
        self._permit = permit
        self._messages: StdoutMessages | None = None
        self._turns: TurnLoop | None = None
        self._usage_told = anyio.Event()
        self._in_turn = False
        self._own_work: anyio.CancelScope | None = None
        """The setup or the check that runs beside the agent's session."""
        self._checked_here: Task | None = None
        """The task after a check that was carried out here, the last one."""
        self._halted = False
        self._interrupted = False
        self._away = ""
        """What was said last of a ledger that is away."""

    async def carry_out(self) -> bool:
        """Run it to its end; True when its session is kept. Raises nothing but cancellation."""
        failure: Result | None = None
        kept = False
        try:
            await self._rounds()
        except Exception as error:  # boundary: whatever goes wrong in here concerns this one run
            failure = failed(error)
        except BaseException:
            failure = Result("cancelled", "", None, "stopped", 0.0)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                kept = await self._wind_up(failure)
        return kept

    async def cancel(self) -> None:
        """End what runs now, at once, and let nothing further begin for this task."""
        self._halted = True
        self._run.wait.end("stopped")
        await self._session.cancel()
        if self._own_work is not None:
            self._own_work.cancel()

    async def park(self, reason: str) -> None:
        """Wait for a person no longer: the session ends, and the answer begins a new run."""
        self._run.wait.end(reason)
        if self.permissions is not None and self.permissions.waiting:
            self.permissions.parking = True
            await self._session.cancel()

    @property
    def _stopped(self) -> bool:
        return self._halted or self._run.context.stop.hard

    async def _wind_up(self, failure: Result | None) -> bool:
        """End the programs first, then settle the task if that has not been done, then end the session, unless it is
        kept for more."""
        run, session = self._run, self._session
        keep = (
            failure is None and session.healthy and session.lasting and run.workdir == run.context.workdir
            and not self._halted and not run.context.stop.soft
        )  # fmt: skip
        try:
            if not keep:
                await session.close()
            if self._messages is not None:
                await self._messages.all_heard()
            if self._checked_here is None or self._checked_here.state == "in-progress":
                await self._kept(self._end_orphaned_check)
            if failure is not None:
                waits = failure.status in completion.WAITS
                said = completion.reason_of(failure) if waits else str(failure.detail)
                run.say(f"this run failed: {said}" if failure.status == "failed" else said)
                with suppress(Conflict):
                    await self._kept(partial(completion.give_up, self._workspace, self._task, run.caller, failure))
            end = completion.end_task if keep else completion.end_session
            await self._kept(partial(end, self._workspace, run.caller))
        except Exception as error:  # boundary: the run stays open, and the next runner finds it
            run.say(f"the end of this run could not be written down: {error}")
        return keep

    async def _rounds(self) -> None:
        run, task, mark = self._run, self._task, verifier()
        settle = partial(completion.settle, self._workspace, task, run.caller, verifier=mark)
        if not await self._allocate_workdir():
            await self._kept(partial(settle, Result("cancelled", "", None, None, 0.0)))
            return
        executor = self._session.executor
        talks = executor.lasts(task.type)
        prepared = await in_thread(partial(prepare, run, executor.variables, talks=talks, permit=self._permit))
        self._messages = StdoutMessages(run, mark)
        if run.member.agent != "shell":
            self.permissions = PermissionRequests(run, self.park)
        if talks:
            take_refused: Callable[[], list[str]] = list
            if self.permissions is not None:
                take_refused = self.permissions.take_refused
            self._turns = TurnLoop(run, prepared.told, take_refused)
            await in_thread(self._turns.progress.begin)
        job, mail = prepared.job, prepared.mail
        while True:
            result = await self._while_alive(partial(self._prompt_until_done, job, mail, prepared.token))
            self.unfit = result.detail if result.permanent else None
            await self._kept(partial(self._write_usage, closes=True))

            def settled(result: Result = result) -> Task | None:
                tree = tree_of(run.workdir) if task.command is not None and result.status == "ended" else None
                return settle(result, talks=talks, tree=tree)

            current = await self._kept(settled)
            if current is None or current.verifying is None:
                return
            self._checked_here = checked = await self._verify(current)
            if checked is None or checked.state != "in-progress" or self._stopped:
                return
            run.say(f"its check failed, round {checked.rounds}")
            job, mail = replace(prepared.job, prompt=prompt_for(checked, [], talks=talks)), []
            if self._turns is not None:
                self._turns.new_round(checked.rounds)

    async def _prompt_until_done(self, job: Job, mail: list[int], token: str, group: TaskGroup) -> Result:
        """The first prompt, and what follows it in a session that lasts."""
        result = await self._prompt(job, mail, token, group)
        turns = self._turns
        while turns is not None and self._session.lasting and not self._stopped:
            if result.status != "ended" and not (result.status == "cancelled" and self._interrupted):
                break
            self._interrupted = False
            following = await turns.following(result)
            if turns.failure is not None:
                return replace(result, status="failed", detail=turns.failure)
            if following is None:
                break
            result = await self._prompt(replace(job, prompt=following.text), following.mail, token, group)
        return result

    async def _prompt(self, job: Job, mail: list[int], token: str, group: TaskGroup) -> Result:
        async def note_process() -> None:
            with suppress(InterlockError):  # The token in its environment names it as well.
                await anyio.to_thread.run_sync(self._note_session)

        def started(identity: ProcessRef) -> None:
            self._session.process = identity.with_token(token).as_text()
            group.start_soon(note_process)

        self._in_turn = True
        try:
            result = await self._session.prompt(
                job, self._run.caller, mail, group, self._updated, started, self._note_session
            )
        finally:
            self._in_turn = False
        if self._run.member.agent != "shell" and not result.permanent:  # What never started has spent nothing.
            self._run.meter.turn_ended(whole=result.status == "ended")
        return result

    async def _allocate_workdir(self) -> bool:
        """Have the place where the run works, its own worktree where the task has one; False where we were stopped
        before anything could begin."""

        async def place(group: TaskGroup) -> str:
            token = session_token(str(self._run.caller.session))
            how = self._run.context.isolation
            own = await workspace_allocation.place(self._workspace, how, self._task, token, self._checked)
            return own or self._run.workdir

        placed = False
        with anyio.CancelScope() as self._own_work:
            self._run.workdir = await self._while_alive(place)
            placed = True
        self._own_work = None
        return placed

    async def _while_alive(self, work: Callable[[TaskGroup], Awaitable[Value]]) -> Value:
        """`work`, with heartbeats beside it. What it raises is raised as it is, not as a group."""
        result: Value | None = None
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._heartbeats)
            group.start_soon(self._mind_limits)
            if self._messages is not None:
                group.start_soon(self._messages.listen)
            if self._stopped:
                await self.cancel()
            try:
                result = await work(group)
                if self._messages is not None:
                    await self._messages.all_heard()
            except Exception as error:  # boundary: of a task group, raised again outside it
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert result is not None
        return result

    async def _heartbeats(self) -> None:
        def beat() -> None:
            with self._run.act() as act:
                claim.heartbeat(act, find(act.rows, self._task.id))

        while True:
            await anyio.sleep(float(self._run.context.settings.get("heartbeat_ttl")) / 3)
            with suppress(InterlockError):  # A busy ledger is no reason to end a run; the next beat follows.
                await anyio.to_thread.run_sync(beat)
                await self._end_excess()

    async def _mind_limits(self) -> None:
        """What is reported to be used in the middle of a turn counts at once."""
        while True:
            await self._usage_told.wait()
            self._usage_told = anyio.Event()
            with suppress(InterlockError):
                await self._end_excess()

    async def _end_excess(self) -> None:
        """End a turn that is over a limit, or only repeats itself; what is to be done is found between two turns."""
        if self._turns is None:
            return
        over = self._turns.progress.repeating or await anyio.to_thread.run_sync(self._exceeds_limit)
        if not over or not self._in_turn:
            return
        self._interrupted = True
        if not self._run.wait.waiting:
            await self._session.interrupt()

    def _exceeds_limit(self) -> bool:
        self._write_usage()
        with self._workspace.ledger.snapshot() as rows:
            run = rows.runs.get(self._task.id, self._task.run)
            now = iso(self._workspace.clock.now())
            return run is not None and excess(rows, self._task, run, self._workspace.settings(rows), now) is not None

    def _write_usage(self, closes: bool = False) -> None:
        if not self._run.meter.unwritten and not (closes and self._run.member.agent != "shell"):
            return
        with self._workspace.act(Principal(SYSTEM)) as act:
            run = act.rows.runs.get(self._task.id, self._task.run)
            if run is not None:
                self._run.meter.write(act, self._task.id, run, closes=closes)

    async def _verify(self, task: Task) -> Task | None:
        """Run the check; the task as it is then, or None where we were stopped and the next runner has to do it."""
        self._run.say(f"checking: {task.verify}")
        evidence = None
        with anyio.CancelScope() as scope:
            self._own_work = scope
            if self._stopped:
                scope.cancel()
            evidence = await examine(self._workspace, task, on_line=self._checked)
        self._own_work = None
        if evidence is None:
            return None
        found = evidence.as_dict()
        mark = str((task.verifying or {}).get("process"))

        def decide() -> Task:
            with self._run.act() as act:
                return verify.verified(act, find(act.rows, task.id), found, run=task.run, verifier=mark)

        return await self._kept(decide)

    async def _kept(self, verb: Callable[[], Value]) -> Value:
        """Have written down how something ended, however long the ledger is away, unless we are ended meanwhile."""
        return await in_thread(verb, on_away=self._waits_for_ledger, repeatable=True)

    def _waits_for_ledger(self, away: Exception) -> bool:
        if str(away) != self._away:
            self._away = str(away)
            self._run.say(f"it waits for the ledger: {away}")
        return not self._halted

    def _note_session(self) -> None:
        """Write down by which process the run can be ended, and by which id its agent's own session can be resumed."""
        process, session = self._session.process, self._session.agent_session
        with self._workspace.act(Principal(SYSTEM)) as act:
            run = act.rows.runs.get(self._task.id, self._task.run)
            if run is None:
                return
            if process is not None and run.process != process:
                act.rows.runs.update(run, process=process)
                act.event("run.started", self._task.id, run=run.id, process=ref.without_token(process))
            if session is not None and run.agent_session != session:
                act.rows.runs.update(run, agent_session=session)
            if self._run.member.agent != "shell" and not run.unmetered:
                act.rows.runs.update(run, unmetered=1)  # until its account is closed

    def _end_orphaned_check(self) -> None:
        """End a verify that the agent had begun by reporting itself: it ends with the agent."""
        with self._workspace.ledger.snapshot() as rows:
            current = rows.tasks.get(self._task.id)
            grace = float(self._workspace.settings(rows).get("stop_grace"))
        if current is None or current.run != self._task.run or current.verifying is None:
            return
        if alive(str(current.verifying.get("process") or "")) is False:
            run_processes.end_verify_program(current, grace)

    def _updated(self, update: Update) -> None:
        said = plain(update.text)
        if update.kind == "text" and self._messages is not None:
            self._messages.hear(said)
        self._run.meter.hear(update)
        if (update.kind == "usage" and "turns" not in update.data) or "retry_at" in update.data:
            self._usage_told.set()
        if self._turns is not None:
            self._turns.progress.hear(update)
            if self._turns.progress.repeating:
                self._usage_told.set()
        if update.kind != "error":
            self._run.context.publish(self._run.member.name, self._task.id, Update(update.kind, said, update.data))

    def _checked(self, line: str) -> None:
        self._run.say(plain(line), "text")
