"""A task's run of a workflow opened for work: its state and definition, as they are now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.core.waiting import HumanWait
from interlock.errors import InterlockError, WorkflowNotFound
from interlock.lazy_dataclass import dataclass
from interlock.runner.executor import Job
from interlock.workflow.agents.pool import AgentPool
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from interlock.workflow.engine import machine
from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.engine.context import Draft, Examination
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.entry import workflow_entry_wrapper
from interlock.workflow.hooks import definitions
from interlock.workflow.hooks.moments import Hooking
from interlock.workflow.hooks.runner import HookRunner
from interlock.workflow.package import overlay, rendering
from interlock.workflow.package.files import Files
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.party import in_a_step
from interlock.workflow.preferences import application
from interlock.workflow.preferences.profiles import Profile
from interlock.workflow.runs import override_commands, starting
from interlock.workflow.runs.desk import LedgerDesk
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import COMPLETED, FAILED, WorkflowState
from interlock.workflow.state.rollback import Rollback
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager


@dataclass(frozen=True)
class Prepared:
    """Everything but the agent. `ceiling` is the absolute limit of a turn in seconds, `said` a line for the log,
    `subagents` how many there are at once, `max_model` the largest class of model they get; `hooked` says whether hooks
    may be run, `in_documents` that the documents of a finished run list its checkpoints.
    `lane` is that of a story, `base` the commit that its worktree began with. `reviewer` names the agent that reviews
    code where it is another one, `reviewer_model` its model; both may be empty."""

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
    in_documents: bool = True
    lane: starting.Lane | None = None
    base: str | None = None
    reviewer: str = ""
    reviewer_model: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether another skill of its lane follows, in the same run of the task."""
        return self.lane is not None and self.lane.after(self.state.skill) is not None

    def controller(
        self,
        workspace: Workspace,
        caller: Principal,
        pool: AgentPool,
        knowledge: Knowledge,
        dispatcher: SubagentDispatcher | None = None,
        patience: HumanWait | None = None,
        hooks: Hooking | None = None,
        *,
        examinations: tuple[Examination, ...],
    ) -> AutomationController:
        """What takes the run as far as it goes. The life of a run that was begun in no chat is that of the process that
        drives the team (`caller.process`): all workflows of one `interlock run`, `work` or `up` share it."""
        session = override_commands.session_of(self.state)
        chat = self.state.plan.session not in ("", self.state.workflow_id)
        life = self.state.plan.session if chat else f"life:{caller.process or caller.session}"
        run = Draft(
            workflow=self.workflow, package=self.package, state=self.state, limits=self.limits, party=in_a_step,
            wishes=application, knowledge=knowledge, thresholds=self._thresholds, profiles=self._profiles,
            examinations=examinations, staffed=dispatcher is not None,
        )  # fmt: skip
        desk = LedgerDesk(workspace, caller, self.task_id, store_of(workspace), session, life, patience)
        checkpoints = CheckpointKeeper(in_documents=self.in_documents)
        return AutomationController(run, Runtime(pool, desk, checkpoints, dispatcher, hooks))

    def hooks(self, job: Job) -> Hooking | None:
        """The hooks of the run, where it has some and they are switched on."""
        if not self.hooked or not definitions.everywhere(self.package.files, self.workflow):
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
        found = overlay.read_overlay(Files(self.package.root), skill.module, skill.name).workflow.get("thresholds")
        return found if isinstance(found, Mapping) else {}

    def _profiles(self) -> Mapping[str, Profile]:
        """The project's own, as they are now. A file that cannot be used has none: what named them says so."""
        try:
            return override_commands.profiles_in(self.package.root)
        except InterlockError:
            return {}


def store_of(workspace: Workspace) -> WorkflowStateManager:
    """Where the states of a team's runs are kept."""
    return WorkflowStateManager(workspace.ledger, workspace.clock)


def prepare(workspace: Workspace, caller: Principal, task_id: str, workdir: str) -> Prepared:
    """The run of that task, new where it has none yet; one that has failed is taken up again.

    Raises:
        InvalidRequest, WorkflowNotFound: its workflow is not installed (any more).
        WorkflowNotRendered: its package could not render it.
        StateUnreadable: its state is damaged; the message says how to start afresh.
        RollbackRefused: an interrupted rollback cannot be finished.
    """
    store = store_of(workspace)
    with workspace.act(caller, acknowledge=False) as act:
        task = find(act.rows, task_id)
        lane = starting.lane_of(task.body)
        if task.workflow is not None:
            state = store.load(act.rows, task.workflow)
            following = lane.after(state.skill) if lane and state.outcome == COMPLETED else None
            state = (
                starting.for_link(act, store, task, lane, following, workdir, state) if lane and following else state
            )
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
        in_documents = bool(settings.get("workflow_document_checkpoints"))
        reviewer, model = str(settings.get("workflow_reviewer")), str(settings.get("workflow_reviewer_model"))
        ceiling, hooked = float(settings.get("workflow_ceiling")), bool(settings.get("workflow_hooks"))
    # A rollback that was killed between state and files is finished before anything builds on them.
    Rollback(workspace, caller, store).finish(state)
    try:
        found = workflow_entry_wrapper.locate(state.skill, state.plan.project or workdir)
    except WorkflowNotFound as error:
        raise WorkflowNotFound(
            f"{error.message} Its run {state.workflow_id} cannot go on.", skill=state.skill
        ) from error
    workflow = rendering.rendered(found.package, found.workflow)
    steps = len(state.completed_steps)
    said = f"workflow {state.workflow_id}: {'goes on' if steps else 'begins'} ({state.skill}, {steps} steps done)"
    base = str(task.worktree["base"]) if task.worktree else None
    return Prepared(
        found.package, workflow, state, limits, ceiling, task_id, said, subagents, max_model, hooked, in_documents,
        lane, base, reviewer.strip(), model.strip(),
    )  # fmt: skip
