"""A task's run of a workflow opened for work: its state and definition, as they are now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError, WorkflowNotFound
from interlock.runner.executor import HumanWait, Job
from interlock.workflow.agents.pool import AgentPool
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from interlock.workflow.control import machine
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.examination import Examination
from interlock.workflow.control.hooking import Hooking
from interlock.workflow.control.ports import Knowledge
from interlock.workflow.definition import overlay
from interlock.workflow.definition.files import Files
from interlock.workflow.definition.package import Package
from interlock.workflow.definition.workflow import Workflow
from interlock.workflow.examinations.code_review import CodeReview
from interlock.workflow.examinations.parallel_bmb_validation import ParallelBmbValidation
from interlock.workflow.examinations.pre_final_review import PreFinalReview
from interlock.workflow.personal import hooks
from interlock.workflow.personal.hook_runner import HookRunner
from interlock.workflow.personal.profiles import Profile
from interlock.workflow.running import saying, starting
from interlock.workflow.running.desk import LedgerDesk, ThreadedCheckpoints
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import FAILED, WorkflowState
from interlock.workflow.state.rollback import Rollback
from interlock.workflow.state.store import Store
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

EXAMINATIONS: tuple[Examination, ...] = (
    ParallelBmbValidation(),
    CodeReview(anyio.to_thread.run_sync),
    PreFinalReview(),
)
"""Those that there are, in the order in which they come after a workflow's last step."""


@dataclass(frozen=True)
class Prepared:
    """Everything but the agent. `ceiling` is the absolute limit of a turn in seconds, `said` a line for the log,
    `subagents` how many there are at once, `max_model` the largest class of model they get; `hooked` says whether hooks
    may be run."""

    package: Package
    workflow: Workflow
    state: WorkflowState
    limits: Limits
    ceiling: float
    task_id: str
    said: str
    subagents: int
    max_model: str
    hooked: bool = True

    def context(
        self,
        workspace: Workspace,
        caller: Principal,
        pool: AgentPool,
        knowledge: Knowledge,
        dispatcher: SubagentDispatcher | None = None,
        patience: HumanWait | None = None,
        hooks: Hooking | None = None,
    ) -> RunContext:
        """What the controller works with. The life of a run that was begun in no chat is that of the process that
        drives the team (`caller.process`): all workflows of one `interlock run`, `work` or `up` share it."""
        session = saying.session_of(self.state)
        chat = self.state.plan.session not in ("", self.state.workflow_id)
        life = self.state.plan.session if chat else f"life:{caller.process or caller.session}"
        return RunContext(
            self.workflow, self.package, self.state, pool,
            LedgerDesk(workspace, caller, self.task_id, store_of(workspace), session, life, patience), self.limits,
            checkpoints=ThreadedCheckpoints(CheckpointKeeper(), workspace.clock), knowledge=knowledge,
            thresholds=self._thresholds, dispatcher=dispatcher, examinations=EXAMINATIONS, hooks=hooks,
            profiles=self._profiles,
        )  # fmt: skip

    def hooks(self, job: Job) -> Hooking | None:
        """The hooks of the run, where it has some and they are switched on."""
        if not self.hooked or not hooks.everywhere(self.package.files, self.workflow):
            return None
        name = self.state.workflow_id
        runner = HookRunner(self.package.root, job.environment, name, secrets=job.secrets, stop_grace=job.stop_grace)
        return Hooking(self.package, self.workflow, runner, os.path.dirname(job.log))

    @property
    def config(self) -> dict[str, object]:
        """The configuration of the workflow's module."""
        return dict(self.package.config(self.workflow.module))

    def _thresholds(self) -> Mapping[str, Any]:
        """What the overlay file says now, so that a change counts at the next decision."""
        skill = self.workflow.skill
        found = overlay.read(Files(self.package.root), skill.module, skill.name).workflow.get("thresholds")
        return found if isinstance(found, Mapping) else {}

    def _profiles(self) -> Mapping[str, Profile]:
        """The project's own, as they are now. A file that cannot be used has none: what named them says so."""
        try:
            return saying.profiles_in(self.package.root)
        except InterlockError:
            return {}


def store_of(workspace: Workspace) -> Store:
    """Where the states of a team's runs are kept."""
    return WorkflowStateManager(workspace.ledger, workspace.clock)


def prepare(workspace: Workspace, caller: Principal, task_id: str, workdir: str) -> Prepared:
    """The run of that task, new where it has none yet; one that has failed is taken up again.

    Raises:
        InvalidRequest, WorkflowNotFound: its workflow is not installed (any more).
        StateUnreadable: its state is damaged; the message says how to start afresh.
        RollbackRefused: an interrupted rollback cannot be finished.
    """
    store = store_of(workspace)
    with workspace.act(caller, acknowledge=False) as act:
        task = find(act.rows, task_id)
        if task.workflow is not None:
            state = store.load(act.rows, task.workflow)
        else:
            state = starting.for_task(act, store, task, workdir)
        if state.outcome == FAILED:
            machine.reopen(state)
        settings = act.settings
        limits = Limits(
            silence=float(settings.get("workflow_silence")),
            nested=float(settings.get("workflow_nested")),
            workflow=float(settings.get("workflow_timeout")),
            selection=float(settings.get("workflow_selection")),
            grace=float(settings.get("stop_grace")),
            party_round=float(settings.get("workflow_party_round")),
            sync_wait=float(settings.get("workflow_sync_wait")),
            menu_interval=float(settings.get("workflow_menu_interval")),
            menu_pause=int(settings.get("workflow_menu_pause")),
        )
        subagents, max_model = int(settings.get("workflow_subagents")), str(settings.get("workflow_max_model"))
        ceiling, hooked = float(settings.get("workflow_ceiling")), bool(settings.get("workflow_hooks"))
    # A rollback that was killed between state and files is finished before anything builds on them.
    Rollback(workspace, caller, store).finish(state)
    try:
        found = starting.locate(state.skill, state.plan.project or workdir)
    except WorkflowNotFound as error:
        raise WorkflowNotFound(
            f"{error.message} Its run {state.workflow_id} cannot go on.", skill=state.skill
        ) from error
    steps = len(state.completed_steps)
    said = f"workflow {state.workflow_id}: {'goes on' if steps else 'begins'} ({state.skill}, {steps} steps done)"
    return Prepared(found.package, found.workflow, state, limits, ceiling, task_id, said, subagents, max_model, hooked)
