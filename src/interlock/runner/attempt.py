"""One run of one task by one member: from the claim to whatever it ends in.

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

from interlock.agents.session import Update
from interlock.clock import iso
from interlock.core.tasks import claim, verify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.core.waiting import HumanWait, in_thread
from interlock.errors import CannotStart, Conflict, InterlockError, InvalidRequest
from interlock.gitwork.staging import tree_of
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes import ref
from interlock.processes.output import plain
from interlock.processes.ref import ProcessRef, alive
from interlock.runner import completion, run_processes, workspace_allocation
from interlock.runner import verify as checking
from interlock.runner.executor import Job, Result
from interlock.runner.job import Permit, PreparedRun, RunnerConfig, prepare, with_prompt
from interlock.runner.member_session import MemberSession
from interlock.runner.permissions import PermissionRequests
from interlock.runner.prompt import prompt_for
from interlock.runner.run_processes import session_token, verifier
from interlock.runner.stdout_messages import StdoutMessages
from interlock.runner.stop import Stop
from interlock.runner.turns import TurnLoop
from interlock.runner.usage import UsageMeter, excess

Value = TypeVar("Value")


class TaskAttempt:
    """The run of `task` that `caller` has claimed, in the session `life`. `waits` is called with true when it begins to
    wait for a person, and with false when it waits no more."""

    def __init__(
        self,
        workspace: Workspace,
        member: Member,
        life: MemberSession,
        terms: RunnerConfig,
        stop: Stop,
        task: Task,
        caller: Principal,
        *,
        permit: Permit,
        on_update: Callable[[str, str, Update], None],
        waits: Callable[[bool], None],
    ) -> None:
        self.asking: PermissionRequests | None = None
        self._workspace = workspace
        self._member = member
        self._life = life
        self._terms = terms
        self._stop = stop
        self._task = task
        self._caller = caller
        self._permit = permit
        self._on_update = on_update
        self._waits = waits
        self._patience = HumanWait(waits)
        self._hearing: StdoutMessages | None = None
        self._talk: TurnLoop | None = None
        self._meter = UsageMeter()
        self._spending = anyio.Event()
        self._in_turn = False
        self._checking: anyio.CancelScope | None = None
        self._place = ""
        self._halted = False
        self._over = False

    async def carry_out(self) -> bool:
        """Run it to its end, whatever that is; true when its session is kept. Raises nothing but cancellation."""
        failure: str | None = None
        counts, permanent, kept = True, False, False
        try:
            await self._rounds()
        except InterlockError as error:
            failure, permanent = error.message, isinstance(error, (CannotStart, InvalidRequest))
        except Exception as error:  # boundary: whatever goes wrong in here concerns this one run
            failure = f"an error in Interlock itself: {type(error).__name__}: {error}"
        except BaseException:
            failure, counts = "was stopped", False
            raise
        finally:
            with anyio.CancelScope(shield=True):
                kept = await self._wind_up(failure, counts, permanent)
        return kept

    async def cancel(self) -> None:
        """End what runs now, at once, and let nothing further begin for this task."""
        self._halted = True
        self._patience.end("was stopped")
        await self._life.cancel()
        if self._checking is not None:
            self._checking.cancel()

    async def park(self, reason: str) -> None:
        """Wait for a person no longer: the session ends, and the answer begins a new run."""
        self._patience.end(reason)
        if self.asking is not None and self.asking.waiting:
            self.asking.parking = True
            await self._life.cancel()

    async def _wind_up(self, failure: str | None, counts: bool, permanent: bool) -> bool:
        """First end the programs, then settle the task if that has not been done, then end the session, unless it is
        kept for more."""
        workspace, task, life = self._workspace, self._task, self._life
        keep = (
            failure is None and life.healthy and life.lasting and self._place == self._terms.workdir
            and not self._halted and not self._stop.soft
        )  # fmt: skip
        try:
            if not keep:
                await life.close()
            if self._hearing is not None:
                await self._hearing.all_heard()
            await in_thread(self._end_orphaned_check)
            if failure is not None:
                self._say("notice", f"this run failed: {failure}" if counts else failure)
                with suppress(Conflict):
                    give_up = partial(completion.give_up, workspace, task, self._caller, failure, counts, permanent)
                    await in_thread(give_up)
            end = completion.end_task if keep else completion.end_session
            await in_thread(partial(end, workspace, self._caller))
        except Exception as error:  # boundary: the run stays open, and the next runner finds it
            self._say("notice", f"the end of this run could not be written down: {error}")
        return keep

    async def _rounds(self) -> None:
        workspace, caller = self._workspace, self._caller
        mark, terms = verifier(), await self._placed()
        if terms is None:
            stopped = Result("cancelled", "", None, None, 0.0)
            await in_thread(partial(completion.settle, workspace, self._task, caller, stopped, verifier=mark))
            return
        talks, needed = self._life.executor.lasts(self._task.type), self._life.executor.variables
        assignment = await in_thread(
            partial(
                prepare, workspace, self._member, self._task, caller, terms, needed, talks=talks, permit=self._permit
            )
        )
        self._place = terms.workdir
        note = partial(self._say, "notice")
        self._hearing = StdoutMessages(workspace, self._task, caller, mark, in_thread, note)
        waits = self._waits
        if self._member.agent != "shell":
            self.asking = PermissionRequests(
                workspace, self._task, caller, terms.workdir, say=note, waits=waits, park=self.park
            )
        if talks:
            self._talk = TurnLoop(
                workspace, self._task, caller, terms, self._meter, assignment.told, say=note, patience=self._patience,
                refused=lambda: self.asking.refused() if self.asking is not None else [],
            )  # fmt: skip
            await in_thread(self._talk.progress.begin)
        assignment.job = replace(assignment.job, patience=self._patience)
        job, mail = assignment.job, assignment.mail
        while True:
            result = await self._while_alive(partial(self._turns, assignment, job, mail))
            await in_thread(partial(self._write_spent, closes=True))

            def settle(result: Result = result) -> Task | None:
                tree = tree_of(self._place) if self._task.command is not None and result.status == "ended" else None
                return completion.settle(
                    workspace, self._task, caller, result, verifier=mark, talks=talks, tree=tree
                )  # fmt: skip

            settled = await in_thread(settle)
            if settled is None or settled.verifying is None:
                return
            checked = await self._verify(settled)
            if checked is None or checked.state != "in-progress" or self._halted or self._stop.hard:
                return
            self._say("notice", f"its check failed, round {checked.rounds}")
            job, mail = with_prompt(assignment.job, prompt_for(checked, [], talks=talks)), []
            if self._talk is not None:
                self._talk.new_round(checked.rounds)

    async def _turns(self, assignment: PreparedRun, job: Job, mail: list[int], group: TaskGroup) -> Result:
        """The first prompt, and what follows it in a session that lasts."""
        result = await self._prompt(assignment, job, mail, group)
        talk = self._talk
        while talk is not None and self._life.lasting and not (self._halted or self._stop.hard):
            if result.status != "ended" and not (result.status == "cancelled" and self._over):
                break
            self._over = False
            following = await talk.following(result)
            if talk.failure is not None:
                return replace(result, status="failed", detail=talk.failure)
            if following is None:
                break
            result = await self._prompt(assignment, with_prompt(job, following.text), following.mail, group)
        return result

    async def _prompt(self, assignment: PreparedRun, job: Job, mail: list[int], group: TaskGroup) -> Result:
        def started(identity: ProcessRef) -> None:
            self._life.process = identity.with_token(assignment.token).as_text()
            group.start_soon(self._note_process)

        self._in_turn = True
        try:
            result = await self._life.prompt(job, self._caller, mail, group, self._updated, started, self._note_session)
        finally:
            self._in_turn = False
        if self._member.agent != "shell":
            self._meter.turn_ended()
        return result

    async def _placed(self) -> RunnerConfig | None:
        """What holds for this run: where the task has a worktree of its own, that is where it works. Null where we were
        stopped before anything could begin."""

        async def place(group: TaskGroup) -> RunnerConfig:
            token = session_token(str(self._caller.session))
            directory = await workspace_allocation.place(self._workspace, self._task, token, self._checked)
            return replace(self._terms, workdir=directory) if directory is not None else self._terms

        terms = None
        with anyio.CancelScope() as scope:
            self._checking = scope
            terms = await self._while_alive(place)
        self._checking = None
        return terms

    async def _while_alive(self, work: Callable[[TaskGroup], Awaitable[Value]]) -> Value:
        """`work`, with heartbeats beside it. What it raises is raised as it is, not as a group."""
        result: Value | None = None
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._heartbeats)
            group.start_soon(self._mind_limits)
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

    async def _heartbeats(self) -> None:
        def beat() -> None:
            with self._workspace.act(self._caller, acknowledge=False) as act:
                claim.heartbeat(act, find(act.rows, self._task.id))

        def pause() -> float:
            with self._workspace.ledger.snapshot() as rows:
                return float(self._workspace.settings(rows).get("heartbeat_ttl")) / 3

        seconds = 1.0
        while True:
            with suppress(InterlockError):
                seconds = await anyio.to_thread.run_sync(pause)
            await anyio.sleep(seconds)
            with suppress(InterlockError):  # A busy ledger is no reason to end a run; the next beat follows.
                await anyio.to_thread.run_sync(beat)
                await self._end_excess()

    async def _mind_limits(self) -> None:
        """Whatever is told to be used in the middle of a turn counts at once."""
        while True:
            await self._spending.wait()
            self._spending = anyio.Event()
            with suppress(InterlockError):
                await self._end_excess()

    async def _end_excess(self) -> None:
        """End a turn that is over a limit; a person is asked about it between two turns."""
        talk = self._talk
        if talk is None or not await anyio.to_thread.run_sync(self._is_over) or not self._in_turn:
            return
        self._over = True
        if not talk.waiting and not (self.asking is not None and self.asking.waiting):
            await self._life.interrupt()

    def _is_over(self) -> bool:
        self._write_spent()
        with self._workspace.ledger.snapshot() as rows:
            run = rows.runs.get(self._task.id, self._task.run)
            now = iso(self._workspace.clock.now())
            return run is not None and excess(rows, self._task, run, self._workspace.settings(rows), now) is not None

    def _write_spent(self, closes: bool = False) -> None:
        if not self._meter.spent and not closes:
            return
        with self._workspace.act(Principal(SYSTEM), acknowledge=False) as act:
            run = act.rows.runs.get(self._task.id, self._task.run)
            if run is not None:
                self._meter.write(act, self._task.id, run, closes=closes)

    async def _verify(self, task: Task) -> Task | None:
        """Run the check; the task as it is then, or null where we were stopped and the next runner has to do it."""
        self._say("notice", f"checking: {task.verify}")
        evidence = None
        with anyio.CancelScope() as scope:
            self._checking = scope
            if self._halted or self._stop.hard:
                scope.cancel()
            evidence = await checking.examine(self._workspace, task, on_line=self._checked)
        self._checking = None
        if evidence is None:
            return None
        found = evidence.as_dict()
        mark = str((task.verifying or {}).get("process"))

        def decide() -> Task:
            with self._workspace.act(self._caller, acknowledge=False) as act:
                return verify.verified(act, find(act.rows, task.id), found, run=task.run, verifier=mark)

        return await in_thread(decide)

    async def _note_process(self) -> None:
        with suppress(InterlockError):  # The token in its environment names it as well.
            await anyio.to_thread.run_sync(self._note_session)

    def _note_session(self) -> None:
        """By which process the run can be ended, and by which id its agent's own session can be resumed."""
        process, session = self._life.process, self._life.agent_session
        with self._workspace.ledger.snapshot() as rows:
            known = rows.runs.get(self._task.id, self._task.run)
        if known is None or (process in (None, known.process) and session in (None, known.agent_session)):
            return
        with self._workspace.act(Principal(SYSTEM), acknowledge=False) as act:
            run = act.rows.runs.get(self._task.id, self._task.run)
            if run is None:
                return
            if process is not None and run.process != process:
                act.rows.runs.update(run, process=process)
                act.event("run.started", self._task.id, run=run.id, process=ref.without_token(process))
            if session is not None:
                act.rows.runs.update(run, agent_session=session)
            if self._member.agent != "shell" and not run.unmetered:
                act.rows.runs.update(run, unmetered=1)  # until its account is closed

    def _end_orphaned_check(self) -> None:
        """A verify that the agent had begun by reporting itself ends with the agent."""
        with self._workspace.ledger.snapshot() as rows:
            current = rows.tasks.get(self._task.id)
            grace = float(self._workspace.settings(rows).get("stop_grace"))
        if current is not None and current.run == self._task.run and current.verifying is not None:
            process = str(current.verifying.get("process") or "")
            if alive(process) is False:
                run_processes.end_verify_program(current, grace)

    def _updated(self, update: Update) -> None:
        said = plain(update.text)
        if update.kind == "text" and self._hearing is not None:
            self._hearing.hear(said)
        self._meter.hear(update)
        if (update.kind == "usage" and "turns" not in update.data) or "retry_at" in update.data:
            self._spending.set()
        if self._talk is not None:
            self._talk.progress.hear(update)
        self._on_update(self._member.name, self._task.id, Update(update.kind, said, update.data))

    def _checked(self, line: str) -> None:
        self._say("text", plain(line))

    def _say(self, kind: Literal["text", "notice"], text: str) -> None:
        self._on_update(self._member.name, self._task.id, Update(kind, text))
