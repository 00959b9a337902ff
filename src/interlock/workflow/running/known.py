"""What memory knows of a run's project and of its failures, and what the run adds to it (FR31, FR35, FR19d).

Memory is optional: where it cannot be asked, the run begins with an empty context and every failure is a new one, and
an event says so.
"""

from __future__ import annotations

import os
from functools import partial

import anyio.to_thread

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError, InvalidRequest
from interlock.memory.store import Log, MemoryStore, OpenMemory
from interlock.model.names import SYSTEM
from interlock.workflow.control.ports import Choices, Knowledge
from interlock.workflow.definition.variables import is_set
from interlock.workflow.definition.workflow import Workflow
from interlock.workflow.entry.context_pre_loader import ContextPreLoader
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin
from interlock.workflow.menu.decision_memory import DecisionMemory
from interlock.workflow.personal.patterns import Choice, Feedback
from interlock.workflow.state import files
from interlock.workflow.state.document import WorkflowState

TOLD = 20  # different troubles of one run that are logged


def opened(open_memory: OpenMemory | None, workspace: Workspace, state: WorkflowState, log: Log) -> MemoryStore | None:
    """The memory for a run's project, as the settings say; null where they make no sense, which is logged."""
    if open_memory is None:
        return None
    project = state.plan.project
    try:
        with workspace.ledger.snapshot() as rows:
            settings = workspace.settings(rows)
        return open_memory(settings, project, files.output_folder(project, state.plan.output_folder), log)
    except InvalidRequest as error:
        log(error.message, "open")
        return None


def about(
    state: WorkflowState, workflow: Workflow, memory: MemoryStore | None, log: Log = lambda *_: None
) -> Knowledge:
    """The knowledge for that run. Never raises."""
    if memory is None:
        return Knowledge()
    origin = origin_of(state, workflow)
    words = [workflow.skill.name.replace("-", " "), workflow.skill.description, state.plan.arguments, state.plan.brief]
    loaded = ContextPreLoader(memory, log).load(origin.project_id, [one for one in words if one][:4])
    bridge = MemoryBridge(memory, origin, log)

    async def fix(failure: str) -> str | None:
        return await anyio.to_thread.run_sync(partial(bridge.fix, failure))

    async def learn(failure: str, helped: str) -> None:
        await anyio.to_thread.run_sync(partial(bridge.fixed, failure, helped))

    decisions = DecisionMemory(memory, origin.project_id, log, run=origin.workflow_id)

    async def keep(one: Choice | Feedback) -> None:
        kept = partial(decisions.chose, one) if isinstance(one, Choice) else partial(decisions.learn, one)
        await anyio.to_thread.run_sync(kept)

    choices = Choices(decisions.load(state.skill), keep)
    return Knowledge(loaded.context, loaded.relevance, fix, learn, loaded.servers, choices)


def origin_of(state: WorkflowState, workflow: Workflow) -> Origin:
    """Where the memories of a run come from: its project has the name of its configuration, else of its directory."""
    name = workflow.variables.value("project_name")
    project = name if name is not None and is_set(name) else os.path.basename(state.plan.project)
    return Origin(project, state.workflow_id, state.skill)


def degraded(workspace: Workspace, task_id: str | None, workflow_id: str) -> Log:
    """Notes each trouble with memory as an event, once for a run."""
    told: set[tuple[str, str]] = set()

    def log(reason: str, operation: str) -> None:
        if (reason, operation) in told or len(told) >= TOLD:
            return
        told.add((reason, operation))
        try:
            with workspace.act(Principal(SYSTEM)) as act:
                act.event(
                    "memory.degraded", task_id, reason=reason[:1000], operation=operation, workflow_id=workflow_id
                )
        except InterlockError:
            return  # The ledger is busy or gone: memory's troubles are not worth waiting for it.

    return log
