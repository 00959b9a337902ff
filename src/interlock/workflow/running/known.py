"""What memory knows of a run's project and of its failures, and what the run adds to it (FR31, FR35, FR19d).

Memory is optional: where it cannot be asked, the run begins with an empty context and every failure is a new one.
"""

from __future__ import annotations

import os
from contextlib import suppress

from interlock.memory import Memory, MemoryStore, MemoryUnavailable
from interlock.workflow.control.ports import Knowledge
from interlock.workflow.definition.variables import is_set
from interlock.workflow.definition.workflow import Workflow
from interlock.workflow.entry.context_pre_loader import ContextPreLoader
from interlock.workflow.state.document import WorkflowState

FIX = "type:fix_pattern"
RELEVANT = 50.0  # of 100: what fits a failure less is no fix for it


def about(state: WorkflowState, workflow: Workflow, memory: MemoryStore | None) -> Knowledge:
    """The knowledge for that run. Never raises."""
    if memory is None:
        return Knowledge()
    project = project_of(state, workflow)
    words = [workflow.skill.name.replace("-", " "), workflow.skill.description, state.plan.arguments, state.plan.brief]
    loaded = ContextPreLoader(memory).load(project, [one for one in words if one][:4])

    def fix(failure: str) -> str | None:
        try:
            found = memory.recall(failure, project_id=project, tags=[FIX], limit=1).memories
        except MemoryUnavailable:
            return None
        return found[0].content if found and found[0].relevance >= RELEVANT else None

    def learn(failure: str, helped: str) -> None:
        name = f"workflow_id:{state.workflow_id}"
        content = f"{failure}\n\nWhat helped: {helped}"
        with suppress(MemoryUnavailable):
            memory.remember(Memory(f"Fix: {failure[:80]}", content, 7, tags=(FIX, name), project_id=project))

    return Knowledge(loaded.context, loaded.relevance, fix, learn)


def project_of(state: WorkflowState, workflow: Workflow) -> str:
    """The project's name in its configuration, else that of its directory."""
    name = workflow.variables.value("project_name")
    return name if name is not None and is_set(name) else os.path.basename(state.plan.project)
