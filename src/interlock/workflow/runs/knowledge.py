"""What memory knows of a run's project and of its failures, and what the run adds to it (FR31, FR35, FR19d).

Memory is optional: where it cannot be asked, the run begins with an empty context and every failure is a new one, and
an event says so.
"""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError, InvalidRequest
from interlock.memory.store import Log, MemoryStore, OpenMemory
from interlock.model.names import SYSTEM
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.entry.context_pre_loader import ContextPreLoader
from interlock.workflow.memory.memory_bridge import MemoryBridge, origin_of
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.preferences.application import Choices
from interlock.workflow.preferences.patterns import Choice, Feedback
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

    async def keep(one: Choice | Feedback) -> None:
        await anyio.to_thread.run_sync(partial(bridge.keep, one))

    choices = Choices(bridge.learned(state.skill), keep)
    return Knowledge(loaded.context, loaded.relevance, fix, learn, loaded.servers, choices)


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
