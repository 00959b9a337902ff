"""`interlock workflow queue` and `rollback`, as people and programs see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.core.unit_of_work import Principal
from interlock.model.names import SYSTEM
from interlock.wiring import connect
from interlock.workflow.agents.records import SubagentRecord
from interlock.workflow.state import step_tracking
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import RUNNING, RunPlan, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager
from tests.surfaces.cli.conftest import Interlock
from tests.workflow.stage import SKILL as PLAN
from tests.workflow.stage import project

SKILL = "/bmad:bmm:workflows:dev-story"


@pytest.fixture
def team(interlock: Interlock) -> None:
    interlock("team", "create", "flows")


def queue(interlock: Interlock) -> list[tuple[int, str, str]]:
    found = interlock("--json", "workflow", "queue", "list").json["queue"]
    return [(one["position"], one["task_id"], one["priority"]) for one in found]


@pytest.mark.usefixtures("team")
def test_the_queue_is_shown_and_changed(interlock: Interlock) -> None:
    assert "No workflow waits" in interlock("workflow", "queue", "list").out
    assert "has its turn at once" in interlock("workflow", "queue", "add", SKILL).out
    one = interlock("--json", "workflow", "queue", "add", SKILL, "--priority", "low").json["task_id"]
    two = interlock("--json", "workflow", "queue", "add", SKILL).json["task_id"]
    assert queue(interlock) == [(1, two, "normal"), (2, one, "low")]
    assert "at place 1" in interlock("workflow", "queue", "reprioritise", one, "critical").out
    assert interlock("workflow", "queue", "list").out.splitlines()[0].split()[:3] == ["1", one, "critical"]
    assert "cancelled" in interlock("workflow", "queue", "remove", two).out
    assert interlock("--json", "workflow", "queue", "clear").json == {"cancelled": [one]}
    refused = interlock("--json", "workflow", "queue", "remove", two)
    assert (refused.code, refused.error["error"]) == (1, "queue_entry_not_found")


@pytest.mark.usefixtures("team")
def test_a_workflow_is_queued_by_the_name_by_which_it_is_run(interlock: Interlock, here: Path) -> None:
    project(here)
    assert "make-plan" in interlock("workflow", "queue", "add", "make-plan").out
    assert interlock("--json", "task", "list").json["tasks"][0]["subject"] == "/bmad:bmm:workflows:make-plan"
    refused = interlock("workflow", "queue", "add", "make-plans")
    assert refused.code == 1 and "make-plan" in refused.err
    refused = interlock("--json", "workflow", "queue", "add", "/bmad:make-plan")
    assert (refused.code, refused.error["error"]) == (1, "invalid_skill_path")
    assert len(interlock("--json", "task", "list").json["tasks"]) == 1


def test_the_menus_that_are_listed_are_those_that_lead_on(interlock: Interlock, here: Path) -> None:
    project(here)
    with (here / "_bmad/bmm/workflows/make-plan/steps/step-01-part.md").open("a") as step:
        step.write('\n- IF A: ask the user: "Accept these changes? (y/n)"\n')
    asked = interlock("--json", "workflow", "show", "make-plan").json["steps"][0]["menus"]
    assert sorted(asked) == [["A", "P", "C"], ["y", "n"]]
    assert "Step 1: Part 1  [A P C]" in interlock("workflow", "show", "make-plan").out


def test_a_package_that_lists_nothing_is_not_called_missing(interlock: Interlock, here: Path) -> None:
    (here / "_bmad").mkdir()
    assert "no `_bmad` directory here or above lists any" in interlock("workflow", "list").out


def run_of_three_steps(here: Path) -> None:
    """A run whose steps have written a document, as the controller would have left it."""
    home = connect()
    workspace = home.team("flows")._workspace  # type: ignore[attr-defined]
    states, keeper = WorkflowStateManager(workspace.ledger, workspace.clock), CheckpointKeeper()
    state = WorkflowState("run-1", SKILL, state=RUNNING, plan_of_steps=[1, 2, 3], plan=RunPlan(project=str(here)))
    task = home.team("flows").create_task(SKILL, type="WORKFLOW")
    state.task_id = task.id
    told = SubagentRecord("reviewer-tests", "code_review", "reviewer", "sonnet", "s-7", n=1).as_dict()
    state.subagents = [told, {**told, "label": "08a", "n": 2, "status": "completed"}]
    document = here / "_bmad-output" / "story.md"
    document.parent.mkdir()
    for step in (1, 2, 3):
        at = f"2026-11-21T03:00:0{step}.000Z"
        step_tracking.begin(state, step, f"Step {step}", at)
        keeper.create(state, step=step, reason=f"before step {step}", at=at)
        document.write_text(f"as of step {step}\n")
        state.documents = ["_bmad-output/story.md"]
        keeper.wrote(state, state.documents)
        step_tracking.complete(state, step, at, files=state.documents)
    with workspace.act(Principal(SYSTEM)) as act:
        states.save(act, state)
    home.close()


@pytest.mark.usefixtures("team")
@pytest.mark.req("BMAD-FR23c")
def test_a_runs_subagents_are_shown_with_what_they_can_be_resumed_by(interlock: Interlock, here: Path) -> None:
    run_of_three_steps(here)
    found = interlock("--json", "workflow", "status").json["subagents"]
    assert [(one["label"], one["status"], one["agent_id"], one["model"]) for one in found] == [
        ("reviewer-tests", "working", "s-7", "sonnet"),
        ("08a", "completed", "s-7", "sonnet"),
    ]
    assert "subagents at work: reviewer-tests (reviewer)\n" in interlock("workflow", "status").out


@pytest.mark.usefixtures("team")
@pytest.mark.req("BMAD-E3.4")
def test_a_run_is_rolled_back_and_that_is_undone(interlock: Interlock, here: Path) -> None:
    run_of_three_steps(here)
    document = here / "_bmad-output" / "story.md"
    whole = document.read_bytes()
    listed = interlock("workflow", "rollback").out
    assert "Step 3" in listed and "Step 1" in listed and "2026-11-21T03:00:01" in listed
    points = interlock("--json", "workflow", "rollback", "run-1").json["checkpoints"]
    assert [one["step_id"] for one in points] == [3, 2, 1]
    preview = interlock("--json", "workflow", "rollback", "--to", "2", "--dry-run").json
    assert (preview["restored"], preview["rolled_back"]) == (["_bmad-output/story.md"], [2, 3])
    assert document.read_bytes() == whole
    done = interlock("--json", "workflow", "rollback", "--to", "2").json
    assert done["left"] == [] and "as of step 1" in document.read_text()
    now = interlock("--json", "workflow", "status").json
    assert (now["current_step"], now["steps"]["step_3"]["status"]) == (2, "rolled_back")
    assert "undone" in interlock("workflow", "rollback", "--undo").out
    assert document.read_bytes() == whole


@pytest.mark.usefixtures("team")
def test_what_others_changed_is_left_and_named(interlock: Interlock, here: Path) -> None:
    run_of_three_steps(here)
    document = here / "_bmad-output" / "story.md"
    document.write_text("mine\n")
    out = interlock("workflow", "rollback", "--to", "2").out
    assert "_bmad-output/story.md: changed since the run last wrote it" in out
    assert document.read_text() == "mine\n"
    interlock("workflow", "rollback", "--undo")
    interlock("workflow", "rollback", "--to", "2", "--include", "_bmad-output/story.md")
    assert "as of step 1" in document.read_text()


@pytest.mark.usefixtures("team")
def test_a_run_at_work_is_not_rolled_back_under_its_agent(interlock: Interlock, here: Path) -> None:
    run_of_three_steps(here)
    interlock("member", "spawn", "ada")
    interlock("task", "next", "--as", "ada")
    refused = interlock("--json", "workflow", "rollback", "--to", "2")
    assert refused.error["error"] == "rollback_refused" and "stop --member ada" in refused.error["message"]
    assert "as of step 3" in (here / "_bmad-output" / "story.md").read_text()


@pytest.mark.usefixtures("team")
def test_a_run_that_has_ended_goes_on_as_a_new_task(interlock: Interlock, here: Path) -> None:
    run_of_three_steps(here)
    interlock("member", "spawn", "ada")
    task = interlock("--json", "task", "next", "--as", "ada").json["id"]
    interlock("task", "complete", task, "--as", "ada")
    interlock("workflow", "rollback", "--to", "3")
    again = interlock("--json", "workflow", "status").json["task_id"]
    assert again != task and interlock("--json", "task", "show", again).json["state"] == "ready"


def test_a_workflow_says_which_of_its_hooks_would_not_run_and_why(interlock: Interlock, tmp_path: Path) -> None:
    root = project(tmp_path / "app")
    (root / "scripts").mkdir()
    (root / "scripts/fine.sh").write_text("#!/bin/sh\n")
    (root / "scripts/fine.sh").chmod(0o755)
    (root / "scripts/plain.sh").write_text("#!/bin/sh\n")
    stop = [
        "scripts/fine.sh",
        "scripts/gone.sh",
        "scripts/plain.sh",
        "/bin/true",
        {"command": "true | true", "shell": True},
    ]
    overlay = {"workflows": {"bmm/make-plan": {"hooks": {"Stop": stop}}}}
    (root / "interlock.workflows.yaml").write_text(json.dumps(overlay))
    shown = interlock("workflow", "show", PLAN, "--dir", str(root)).out
    assert [line.split("will not run: ")[1] for line in shown.splitlines() if "will not run" in line] == [
        "scripts/gone.sh is no file of the project: a hook names one by its path from the project's root; an "
        "interpreter is named by the script's own first line.",
        "scripts/plain.sh is not executable: `chmod +x scripts/plain.sh`.",
        "/bin/true lies outside the project (or in its .git), so it is not run: put a script into the project and name "
        "that.",
    ]
    hooks = interlock("--json", "workflow", "show", PLAN, "--dir", str(root)).json["hooks"]
    assert [one["fault"] is None for one in hooks] == [True, False, False, False, True]
