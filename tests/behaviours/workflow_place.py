"""A team with a project of its own, where the state of workflow runs is kept, for the tests of `workflow.state`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.clock import ManualClock
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.model.names import SYSTEM
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import RUNNING, RunPlan, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager, state_path

SKILL = "/bmad:bmm:workflows:create-prd"
OUTPUT = "_bmad-output"
AT = "2026-11-21T03:35:13.000Z"
NAMES = {1: "Init", 2: "Discovery", 3: "Success", 4: "Journeys", 5: "Complete"}


class StatePlace:
    """One workspace, its clock and a project directory."""

    def __init__(self, root: Path, clock: ManualClock | None = None) -> None:
        from interlock.wakeup.inprocess import InProcessNotifier
        from interlock.wiring import connect

        self.clock = clock or ManualClock()
        self.project = root / "project"
        self.project.mkdir(exist_ok=True)
        self.home = connect(str(root / "home"), clock=self.clock, notifier=InProcessNotifier())
        self.team = self.home.create_team("flows") if "flows" not in self.home.teams() else self.home.team("flows")
        self.workspace: Workspace = self.team._workspace  # type: ignore[attr-defined]
        self.states = WorkflowStateManager(self.workspace.ledger, self.clock)

    def close(self) -> None:
        self.home.close()

    def act(self, work: Callable[[UnitOfWork], Any], name: str = SYSTEM) -> Any:
        """One verb."""
        with self.workspace.act(Principal(name)) as act:
            return work(act)

    def state(self, id: str = "bmm-create-prd-1", steps: int = 5) -> WorkflowState:
        """A run that has begun, not yet saved."""
        return WorkflowState(
            id, SKILL, workflow_hash="h1", state=RUNNING, plan_of_steps=list(range(1, steps + 1)),
            plan=RunPlan(project=str(self.project), output_folder=OUTPUT),
        )  # fmt: skip

    def save(self, state: WorkflowState) -> WorkflowState:
        """Commit it and write its file."""
        self.act(lambda act: self.states.save(act, state))
        assert self.states.mirror(state) == []
        return state

    def load(self, id: str = "bmm-create-prd-1") -> WorkflowState:
        with self.workspace.look() as rows:
            return self.states.load(rows, id)

    def through(self, state: WorkflowState, *steps: int) -> WorkflowState:
        """Complete these steps, and begin the next."""
        for step in steps:
            step_tracking.begin(state, step, NAMES[step], AT)
            step_tracking.complete(state, step, AT)
        following = max(steps, default=0) + 1
        if following in NAMES:
            step_tracking.begin(state, following, NAMES[following], AT)
        return state

    def file(self, state: WorkflowState) -> dict[str, Any]:
        """The mirrored file."""
        found: dict[str, Any] = json.loads(Path(state_path(state)).read_bytes())
        return found
