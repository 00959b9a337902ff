"""Carries out a task of type WORKFLOW: the automation controller takes the member's agent through every step.

The run's state is kept in the ledger with the task, so any later run of the same task goes on where this one was, in
this process or another. A pause for a human is held while the agent's session is kept open for it, `workflow_selection`
seconds at most; then it ends this run, and the answer begins the next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread

from interlock.agents.session import Agent, Opening, Update, allowing, ignore
from interlock.core.tasks.transition import WORKFLOW
from interlock.core.unit_of_work import Principal, Workspace
from interlock.core.waiting import in_thread
from interlock.errors import InterlockError
from interlock.memory.store import OpenMemory
from interlock.processes.ref import ProcessRef
from interlock.runner.environment import allowed_environment
from interlock.runner.executor import Execution, Job, Result, begun, failed
from interlock.runner.executors import AgentExecutor
from interlock.workflow.agents.pool import AgentPool
from interlock.workflow.agents.subagent import Staffing
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.engine.context import Examination
from interlock.workflow.engine.effects import Ending
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.hooks.moments import Hooking
from interlock.workflow.memory import post_workflow_curator
from interlock.workflow.reviews.code_review import CodeReview
from interlock.workflow.reviews.delivered import Delivered
from interlock.workflow.reviews.parallel_bmb_validation import ParallelBmbValidation
from interlock.workflow.reviews.pre_final_review import PreFinalReview
from interlock.workflow.runs import knowledge as known
from interlock.workflow.runs import opening
from interlock.workflow.state.sprint_status_watcher import watched
from interlock.workflow.stories import settling, spec
from interlock.workflow.stories.spec import BuildResult

Hire = Callable[[str], tuple[AgentExecutor, Mapping[str, str]]]
"""What an agent that somebody names is, and what its program calls the classes of models. Raises AgentError where it is
not known or not installed, InvalidRequest where it names nothing."""
EXAMINATIONS: tuple[Examination, ...] = (
    BuildResult(),
    Delivered(),
    ParallelBmbValidation(),
    CodeReview(spec.about),
    PreFinalReview(),
)
"""Those that there are, in the order in which they come after a workflow's last step; a story's own come first."""
LETTING_GO = 12.0
"""Seconds that the end of a session waits for what its run taught to be kept."""
STATUS: dict[str, Literal["ended", "failed", "cancelled", "capacity"]] = {
    "completed": "ended",
    "parked": "ended",
    "failed": "failed",
    "capacity": "capacity",
}


class WorkflowExecutor:
    """For members with an agent: workflows here, everything else by `others`. `models` are what the agent's program
    calls the classes of models; `hire` makes another agent a reviewer."""

    def __init__(
        self,
        others: AgentExecutor,
        workspace_of: Callable[[str], Workspace],
        memory: OpenMemory | None = None,
        models: Mapping[str, str] | None = None,
        hire: Hire | None = None,
    ) -> None:
        self._models = models or {}
        self._hire = hire
        self._others = others
        self._workspace_of = workspace_of
        self._memory = memory

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of its agent's."""
        return self._others.variables

    def lasts(self, kind: str | None = None) -> bool:
        """A workflow leads the agent's sessions itself."""
        return kind != WORKFLOW and self._others.lasts(kind)

    def start(self, job: Job) -> Execution:
        """An execution of `job`, not yet running."""
        if job.kind == WORKFLOW:
            workspace = self._workspace_of(job.team)
            return WorkflowExecution(self._others.agent, job, workspace, self._memory, self._models, self._hire)
        return self._others.start(job)


class WorkflowExecution(Execution):
    """One run of the task; the workflow's own run may have begun in an earlier one."""

    def __init__(
        self, agent: Agent, job: Job, workspace: Workspace, memory: OpenMemory | None = None,
        models: Mapping[str, str] | None = None, hire: Hire | None = None,
    ) -> None:  # fmt: skip
        self._models = models or {}
        self._hire = hire
        self._agent = agent
        self._open_memory = memory
        self._let_go: Callable[[], None] | None = None
        self._job = job
        self._workspace = workspace
        self._controller: AutomationController | None = None
        self._pool: AgentPool | None = None
        self._dispatcher: SubagentDispatcher | None = None
        self._stopped = False

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of its session, once there is one."""
        return self._pool.agent_session if self._pool is not None else None

    async def run(
        self,
        on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None] = ignore,
        on_prompt: Callable[[], None] = begun,
    ) -> Result:
        """Take the workflow as far as it goes, and a story through every skill of its lane."""
        job = self._job
        caller = Principal(
            job.member, job.session_id, int(job.run_id.rpartition(".")[2]), face="runner", process=job.runner
        )
        while True:
            began = time.monotonic()
            opened = await self._opened(caller, on_update, on_start)
            if isinstance(opened, Result):
                return replace(opened, seconds=time.monotonic() - began)
            prepared, controller = opened
            if self._stopped:
                return Result("cancelled", "", None, None, time.monotonic() - began)
            on_update(Update("notice", prepared.said))
            on_prompt()
            async with watched(self._workspace, prepared.package.root, prepared.config):
                ending = await controller.run()
            over = ending.kind == "completed" and prepared.lane is not None
            if over and not prepared.goes_on:
                try:
                    await in_thread(partial(settling.leave, self._workspace, caller, prepared))
                except InterlockError as error:
                    return _resumable(error, time.monotonic() - began)
            if self._stopped or not (over and prepared.goes_on):
                return _result(ending, time.monotonic() - began)
            await self._end_sessions()

    async def _opened(
        self, caller: Principal, on_update: Callable[[Update], None], on_start: Callable[[ProcessRef], None]
    ) -> tuple[opening.Prepared, AutomationController] | Result:
        """The next workflow of the task with what takes it as far as it goes; how the run ends, where it cannot be
        opened."""
        job = self._job
        try:
            prepared = await in_thread(partial(opening.prepare, self._workspace, caller, job.task_id, job.workdir))
            own = await in_thread(partial(settling.enter, self._workspace, prepared))
        except InterlockError as error:
            return _resumable(error)
        hooks = prepared.hooks(job)
        knowledge = await in_thread(partial(self._known, prepared))
        try:
            pool, dispatcher = await in_thread(partial(self._staffed, prepared, hooks, on_update, on_start))
        except InterlockError as error:
            return replace(ended := _resumable(error), detail=f"the setting workflow_reviewer: {ended.detail}")
        self._pool, self._dispatcher = pool, dispatcher
        self._controller = prepared.controller(
            self._workspace,
            caller,
            pool,
            knowledge,
            dispatcher,
            patience=job.patience,
            hooks=hooks,
            examinations=(*own, *EXAMINATIONS),
        )
        return prepared, self._controller

    async def cancel(self) -> None:
        """End the turn under way; the run can go on later from the step it is at."""
        self._stopped = True
        if self._controller is not None:
            await self._controller.cancel()

    async def close(self) -> None:
        """End the agent's sessions."""
        self._stopped = True
        await self._end_sessions()

    async def _end_sessions(self) -> None:
        if self._dispatcher is not None:
            await self._dispatcher.close()
        if self._pool is not None:
            await self._pool.close()
        let_go, self._let_go = self._let_go, None
        if let_go is not None:
            # The task is settled by now. Whatever takes longer has limits of its own, and is waited for by nobody.
            with anyio.move_on_after(LETTING_GO):
                await anyio.to_thread.run_sync(let_go, abandon_on_cancel=True)

    def _staffed(
        self, prepared: opening.Prepared, hooks: Hooking | None, on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None],
    ) -> tuple[AgentPool, SubagentDispatcher]:  # fmt: skip
        """The sessions of the run's own agent, and those of its subagents; none is open yet.

        Raises:
            InterlockError: another agent is to review, and it cannot be had.
        """
        job, watched = self._job, (lambda agent: agent) if hooks is None else hooks.tools.watched
        ours = allowing([server.name for server in job.mcp], job.permit)
        permit = ours if hooks is None else hooks.tools.guarded(ours)
        opened = Opening(
            session_id=job.session_id, member=job.member, workdir=prepared.package.root, environment=job.environment,
            log=job.log, time_limit=prepared.ceiling, stop_grace=job.stop_grace, output_bytes=job.output_bytes,
            secrets=job.secrets, on_start=on_start, permit=permit, model=job.model, mcp=job.mcp,
        )  # fmt: skip
        own = Staffing(watched(self._agent), opened, self._models)
        reviewer = replace(own, opening=replace(opened, model=prepared.reviewer_model or opened.model))
        if prepared.reviewer and self._hire is not None:
            hired, models = self._hire(prepared.reviewer)
            environment, secrets = allowed_environment(os.environ, names=hired.variables, extra=job.environment)
            opened = replace(
                opened, environment=environment, secrets=tuple({*job.secrets, *secrets}),
                model=prepared.reviewer_model or None,
            )  # fmt: skip
            reviewer = Staffing(watched(hired.agent), opened, models)
        pool = AgentPool(own.agent, own.opening, prepared.limits, on_update, resume=prepared.state.agent_session)
        dispatcher = SubagentDispatcher(
            own, on_update, prepared.subagents, limits=prepared.limits, max_model=prepared.max_model, reviewer=reviewer
        )
        return pool, dispatcher

    def _known(self, prepared: opening.Prepared) -> Knowledge:
        """What memory knows of this run; it is kept open until the end of it."""
        workspace, state = self._workspace, prepared.state
        log = known.degraded(workspace, prepared.task_id, state.workflow_id)
        memory = known.opened(self._open_memory, workspace, state, log)
        if memory is not None:
            self._let_go = partial(
                post_workflow_curator.let_go, workspace, opening.store_of(workspace), memory, state, log
            )
        return known.about(state, prepared.workflow, memory, log)


def _resumable(error: InterlockError, seconds: float = 0.0) -> Result:
    """How the run ended that `error` has ended; it can always be resumed."""
    return replace(failed(error, seconds), permanent=False)


def _result(ending: Ending, seconds: float) -> Result:
    status = STATUS.get(ending.kind, "cancelled")
    if status in ("failed", "capacity"):
        return Result(status, "", None, ending.summary, seconds, ending.retry_at)
    return Result(status, ending.summary, None, None, seconds, ending.retry_at)
