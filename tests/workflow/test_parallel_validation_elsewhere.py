"""What the builder's other workflows make is validated at their end: workflows and modules, each in its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workflow.reviews.parallel_bmb_validation import ParallelBmbValidation
from interlock.workflow.state.document import RunPlan
from tests.workflow.builder import AGENT, Validators, finds, rounds
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play

CREATIONS = "_bmad-output/creations"
STEP = """\
---
name: step-{n:02d}-part
description: a part
nextStepFile: '{next}'
---
# Step {n}

## STEP GOAL

Write it.
"""


def package(root: Path, *names: str) -> Path:
    """A project with workflows of one step each, and the compliance check with its three validations."""
    rows = ["name,description,module,path"]
    for name in (*names, "workflow-compliance-check"):
        folder = root / "_bmad" / "bmb" / "workflows" / name
        (folder / "steps").mkdir(parents=True)
        rows.append(f'"{name}","x","bmb","_bmad/bmb/workflows/{name}/workflow.md"')
        (folder / "workflow.md").write_text(f"---\nname: {name}\n---\n# Make\n\nLoad `steps/step-01-make.md`.\n")
        (folder / "steps" / "step-01-make.md").write_text("# Step 1: Make\n\nMake it. This is the final step.\n")
        if name == "create-module":
            (folder / "validation.md").write_text("# Module\n\n- [ ] module.yaml is there\n")
    steps = root / "_bmad" / "bmb" / "workflows" / "workflow-compliance-check" / "steps"
    for name in (
        "step-02-workflow-validation",
        "step-03-step-validation",
        "step-07-holistic-analysis",
        "step-08-report",
    ):
        (steps / f"{name}.md").write_text(f"# {name}\n\nLook at {{target_workflow_path}}.\n")
    (root / "_bmad" / "_config").mkdir()
    (root / "_bmad" / "_config" / "workflow-manifest.csv").write_text("\n".join(rows) + "\n")
    (root / "_bmad" / "bmb" / "config.yaml").write_text(
        'bmb_creations_output_folder: "{project-root}/_bmad-output/creations"\noutput_folder: _bmad-output\n'
    )
    return root


def write(root: Path, path: str, text: str) -> str:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    return path


def write_workflow(root: Path, folder: str = f"{CREATIONS}/workflows/tea", following: str = "./step-02-part.md") -> str:
    main = write(
        root, f"{folder}/workflow.md", "---\nname: tea\ndescription: tea\n---\n# Tea\n\nLoad step-01-part.md.\n"
    )
    write(root, f"{folder}/steps/step-01-part.md", STEP.format(n=1, next=following))
    write(root, f"{folder}/steps/step-02-part.md", STEP.format(n=2, next=""))
    return main


def make(
    root: Path, name: str, validators: Validators, *acts: str | None, yolo: bool = False
) -> tuple[Outcome, list[str]]:
    """Run the workflow with a maker that says these, one turn after the other; and what it was told."""
    told: list[str] = []

    async def maker(part: Part) -> str:
        told.append(part.prompt)
        said = acts[min(len(told), len(acts)) - 1] if acts else None
        return said or f"Done {len(told)}.\n{DONE}"

    outcome = play(
        root, Player(maker), skill=f"/bmad:bmb:workflows:{name}", subagents=Player(validators),
        examinations=(ParallelBmbValidation(),), plan=RunPlan(project=str(root), tier=1, yolo=yolo),
        desk=MemoryDesk(),
    )  # fmt: skip
    return outcome, told


@pytest.mark.req("BMAD-6.1.1", "BMAD-6.1.3", "BMAD-FR47")
@pytest.mark.parametrize("name", ["create-workflow", "edit-workflow"])
def test_a_workflow_is_looked_at_by_the_validations_of_the_compliance_check(tmp_path: Path, name: str) -> None:
    root = package(tmp_path, name)
    main = write_workflow(root)
    validators = Validators()
    outcome, _ = make(root, name, validators)
    assert outcome.state.outcome == "COMPLETED"
    assert outcome.state.completed_steps == [1, "gate-parallel_validation"]
    assert sorted(validators.attempts) == ["02", "03", "07"] and validators.most == 3
    assert f"Look at {root / main}" in validators.prompts["02"][0]
    assert (rounds(outcome)[0]["compliance_score"], rounds(outcome)[0]["status"]) == (100, "COMPLIANT")


@pytest.mark.req("BMAD-6.4.2", "BMAD-6.4.3", "BMAD-E6.4")
def test_a_path_that_leads_nowhere_goes_back_to_the_maker(tmp_path: Path) -> None:
    root = package(tmp_path, "create-workflow")
    write_workflow(root, following="{project-root}/nowhere/step-09-gone.md")
    told: list[str] = []

    async def maker(part: Part) -> str:
        if "asks for changes" in part.prompt:
            told.append(part.prompt)
            write_workflow(root)
        return f"Done.\n{DONE}"

    outcome = play(
        root, Player(maker), skill="/bmad:bmb:workflows:create-workflow", subagents=Player(Validators()),
        examinations=(ParallelBmbValidation(),),
    )  # fmt: skip
    assert outcome.state.outcome == "COMPLETED" and len(told) == 1
    assert "steps/step-01-part.md: nextStepFile: expected a file that exists" in told[0]
    (finding,) = rounds(outcome)[0]["findings"]
    assert finding["found_by"] == ["standard"] and finding["remediation"]


def test_a_module_is_looked_at_by_its_checklist_and_each_agent_in_it_by_the_standard(tmp_path: Path) -> None:
    root = package(tmp_path, "create-module")
    write(root, f"{CREATIONS}/tea/module.yaml", "code: tea\nname: Tea\n")
    agent = f"{CREATIONS}/tea/agents/poet.agent.yaml"
    write(root, agent, AGENT.format(sidecar="true").replace("    title: Writes verses\n", ""))
    validators = Validators()

    async def maker(part: Part) -> str:
        if "asks for changes" in part.prompt:
            write(root, agent, AGENT.format(sidecar="true"))
        return f"Done.\n{DONE}"

    outcome = play(
        root, Player(maker), skill="/bmad:bmb:workflows:create-module", subagents=Player(validators),
        examinations=(ParallelBmbValidation(),),
    )  # fmt: skip
    assert outcome.state.outcome == "COMPLETED"
    assert "module.yaml is there" in validators.prompts["checklist"][0]
    (finding,) = rounds(outcome)[0]["findings"]
    assert finding["field"] == "agents/poet.agent.yaml: agent.metadata.title"


def test_where_nothing_was_made_the_maker_is_asked_once_and_then_a_human(tmp_path: Path) -> None:
    root = package(tmp_path, "create-workflow")
    outcome, told = make(root, "create-workflow", Validators())
    assert outcome.ending.kind == "parked" and len(told) == 2
    assert "name its main file at the end of your turn" in told[1]
    (asked,) = outcome.desk.asked.values()
    assert asked.kind == "escalation" and "nothing to validate" in asked.text


def test_the_maker_may_name_what_it_made_elsewhere(tmp_path: Path) -> None:
    root = package(tmp_path, "create-workflow")
    main = write_workflow(root, "custom/tea")
    validators = Validators()
    named = f'It is there.\n{{"step": "completed", "outputs": ["{main}"]}}'
    outcome, _ = make(root, "create-workflow", validators, None, named)
    assert outcome.state.outcome == "COMPLETED" and str(root / main) in validators.prompts["02"][0]


def test_with_yolo_a_workflow_that_made_nothing_ends_with_a_warning(tmp_path: Path) -> None:
    root = package(tmp_path, "create-workflow")
    outcome, _ = make(root, "create-workflow", Validators(), yolo=True)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


def test_without_validators_in_the_package_the_standard_alone_is_held_against_it(tmp_path: Path) -> None:
    root = package(tmp_path, "edit-agent")
    write(root, f"{CREATIONS}/poet.agent.yaml", AGENT.format(sidecar="true"))
    validators = Validators()
    outcome, _ = make(root, "edit-agent", validators)
    assert outcome.state.outcome == "COMPLETED" and not validators.began
    assert rounds(outcome)[0]["compliance_score"] == 100


def test_files_that_a_step_names_as_parallel_are_validators_too(tmp_path: Path) -> None:
    root = package(tmp_path, "create-agent")
    steps = root / "_bmad" / "bmb" / "workflows" / "create-agent" / "steps"
    named = "parallel-steps: ['./check-persona.md', './check-menu.md']"
    (steps / "step-01-make.md").write_text(f"---\n{named}\n---\n# Step 1: Make\n\nMake it. This is the final step.\n")
    for name in ("persona", "menu"):
        (steps / f"check-{name}.md").write_text(f"# Check {name}\n\nLook at the {name}.\n")
    write(root, f"{CREATIONS}/poet.agent.yaml", AGENT.format(sidecar="false"))
    validators = Validators({"check-menu": [finds("minor")]})
    outcome, _ = make(root, "create-agent", validators)
    assert outcome.state.outcome == "COMPLETED" and validators.most == 2
    assert [one["label"] for one in rounds(outcome)[0]["validators"]] == ["check-persona", "check-menu"]
