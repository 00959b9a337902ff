"""`interlock workflow status` while several validators look at what was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.core.unit_of_work import Principal
from interlock.model.names import SYSTEM
from interlock.wiring import connect
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import RUNNING, RunPlan, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager
from tests.surfaces.cli.conftest import Interlock


@pytest.mark.req("BMAD-6.1.4")
def test_the_status_of_a_run_says_which_validators_are_complete_in_progress_and_pending(
    interlock: Interlock, here: Path
) -> None:
    interlock("team", "create", "flows")
    home = connect()
    workspace = home.team("flows")._workspace  # type: ignore[attr-defined]
    state = WorkflowState("run-1", "/bmad:bmb:workflows:agent", state=RUNNING, plan=RunPlan(project=str(here)))
    state.task_id = home.team("flows").create_task(state.skill, type="WORKFLOW").id
    step_tracking.begin(state, "gate-parallel_validation", "Parallel validation", "2026-11-21T03:00:00.000Z")
    stand = {
        "08a": ("plan traceability", "completed"),
        "08b": ("metadata", "in_progress"),
        "08c": ("persona", "pending"),
    }
    validators = {label: {"name": name, "status": status} for label, (name, status) in stand.items()}
    state.examinations = {
        "parallel_validation": {"rounds": [], "now": {"round": 1, "validators": validators}},
        "code_review": {"rounds": [], "status": "not reviewed"},
    }
    with workspace.act(Principal(SYSTEM)) as act:
        WorkflowStateManager(workspace.ledger, workspace.clock).save(act, state)
    home.close()
    shown = interlock("workflow", "status").out
    for line in ("08a  plan traceability: completed", "08b  metadata: in progress", "08c  persona: pending"):
        assert line in shown
    assert "code review: not reviewed" in shown
    now = interlock("--json", "workflow", "status").json["examinations"]["parallel_validation"]["now"]
    assert [one["status"] for one in now["validators"].values()] == ["completed", "in_progress", "pending"]
