"""Settings of a workflow, wherever its author or the project has put them, and what they change in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import APC, DONE, MemoryDesk, Part, Player, play, project, script, writes


def as_yaml(root: Path) -> Path:
    """The workflow of `project` as a `workflow.yaml` with instructions."""
    folder = root / "_bmad/bmm/workflows/make-plan"
    for path in (folder / "steps").iterdir():
        path.unlink()
    (folder / "workflow.md").unlink()
    (folder / "workflow.yaml").write_text(
        'name: make-plan\nconfig_source: "{project-root}/_bmad/bmm/config.yaml"\n'
        'output_folder: "{config_source}:output_folder"\nuser_name: "{config_source}:user_name"\n'
        'installed_path: "{project-root}/_bmad/bmm/workflows/make-plan"\n'
        'instructions: "{installed_path}/instructions.xml"\n'
        'default_output_file: "{output_folder}/plan.md"\n'
    )
    (folder / "instructions.xml").write_text(
        "<workflow>\n<critical>Speak to {user_name}.</critical>\n"
        '<step n="1" goal="Collect">\n<action>Read.</action>\n</step>\n'
        '<step n="2" goal="Write" optional="true">\n<action>Write to {default_output_file}.</action>\n</step>\n'
        "</workflow>\n"
    )
    manifest = root / "_bmad/_config/workflow-manifest.csv"
    manifest.write_text(manifest.read_text().replace("workflow.md", "workflow.yaml"))
    return root


@pytest.mark.req("BMAD-2a.6.1")
def test_a_workflow_yaml_is_parsed_and_its_settings_are_applied(tmp_path: Path) -> None:
    root = as_yaml(project(tmp_path / "p"))
    player = Player(script(DONE, '{"step": "skipped", "reason": "optional"}'))
    outcome = play(root, player)
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == [1, 2]
    assert "Speak to Ada." in player.prompts[0] and "- user_name: Ada" in player.prompts[0]
    assert str(root / "_bmad-output/plan.md") in player.prompts[1] and 'optional="true"' in player.prompts[1]


@pytest.mark.req("BMAD-2a.6.2")
def test_the_frontmatter_of_a_workflow_md_is_applied(tmp_path: Path) -> None:
    root = project(tmp_path / "p", workflow="domain: finance\noversight: required\n")
    outcome = play(root, Player(writes(root)))
    assert outcome.state.plan.domain == "finance"
    package = packages.load(str(root))
    assert workflows.read(package, package.skills[0]).settings["oversight"] == "required"


@pytest.mark.req("BMAD-2a.6.3", "BMAD-2a.6.4", "BMAD-FR37")
@pytest.mark.parametrize(("module", "called"), [("bmm", False), ("bmb", True)])
def test_the_builders_thresholds_are_in_force_in_its_module_only(tmp_path: Path, module: str, called: bool) -> None:
    root = project(tmp_path / "p", workflow=f"module: {module}\n")
    outcome = play(root, Player(script(f"Critical: 9\n{APC}", DONE)))
    assert outcome.state.module == module
    assert bool(outcome.state.triggers) == called


@pytest.mark.req("BMAD-2a.7.3", "BMAD-FR38", "BMAD-FR39")
def test_a_workflow_may_set_its_own_thresholds(tmp_path: Path) -> None:
    careful = project(tmp_path / "p", workflow="thresholds: {automatic: 90}\n")
    outcome = play(careful, Player(writes(careful)))
    assert outcome.ending.kind == "parked" and [one.kind for one in outcome.desk.asked.values()] == ["menu"]
    default = project(tmp_path / "q")
    assert play(default, Player(writes(default))).state.outcome == "COMPLETED"


@pytest.mark.req("BMAD-2a.7.5", "BMAD-FR38")
def test_thresholds_that_change_count_at_the_next_decision(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=5, output="")
    limits: dict[str, Any] = {}
    elsewhere = writes(root)  # no step names an output, so C is 85 sure

    async def part(part: Part) -> Any:
        if part.step == "3":
            limits["automatic"] = 90
        return await elsewhere(part)

    desk = MemoryDesk()
    outcome = play(root, Player(part), desk=desk, thresholds=lambda: limits)
    assert outcome.ending.kind == "parked" and outcome.state.current_step == 3
    assert outcome.state.completed_steps == [1, 2]


@pytest.mark.req("BMAD-2a.7.4", "BMAD-FR39")
@pytest.mark.parametrize(
    ("domain", "gates"),
    [
        ("healthcare", ["gate-privacy_review", "gate-safety_review", "gate-audit_trail"]),
        ("finance", ["gate-security_review", "gate-compliance_review", "gate-audit_trail"]),
        (None, []),
    ],
)
def test_a_regulated_domain_adds_validation_gates(tmp_path: Path, domain: str | None, gates: list[str]) -> None:
    root = project(tmp_path / "p")
    plan = RunPlan(project=str(root), tier=1, domain=domain)
    player = Player(script(DONE))
    outcome = play(root, player, plan=plan, desk=MemoryDesk(answers=lambda asking: "yes"))
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == [1, 2, 3, *gates]
    if domain == "healthcare":
        assert any("personal and health data" in one for one in player.prompts)


@pytest.mark.req("BMAD-2a.7.4")
def test_a_gate_that_fails_is_mended_before_the_workflow_ends(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    failed = '{"step": "completed", "verdict": "FAILED", "issues": ["names in clear text"]}'
    turns = [DONE, DONE, DONE, failed, '{"step": "completed", "verdict": "PASSED"}']
    plan = RunPlan(project=str(root), tier=1, domain="healthcare")
    player = Player(script(*turns))
    outcome = play(root, player, plan=plan, desk=MemoryDesk(answers=lambda asking: "yes"))
    assert outcome.state.outcome == "COMPLETED" and "names in clear text" in player.prompts[4]


@pytest.mark.req("BMAD-UO.2a", "BMAD-FR39")
def test_a_run_classifies_its_project_and_suggests_a_tier(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    (root / "src").mkdir()
    (root / "pyproject.toml").write_text("")
    plan = RunPlan(project=str(root), brief="Fix a typo in the readme")
    outcome = play(root, Player(writes(root)), plan=plan)
    assert (outcome.state.plan.project_type, outcome.state.plan.tier) == ("brownfield", 0)
    decided = {one["kind"]: one["why"] for one in outcome.state.decisions}
    assert "typo" in decided["tier"] and "pyproject.toml" in decided["project_type"]


@pytest.mark.req("BMAD-FR40", "BMAD-FR3")
def test_an_authors_own_pattern_decides_before_everything_else(tmp_path: Path) -> None:
    patterns = "  success_pattern: 'Quality Gate: PASSED'\n  failure_pattern: 'Quality Gate: FAILED'\n"
    front = f"validation:\n  type: custom\n{patterns}"
    root = project(tmp_path / "p", workflow=front)
    turns = [f"Quality Gate: FAILED\n{DONE}", f"Quality Gate: PASSED\n{DONE}"]
    outcome = play(root, Player(script(*turns)))
    assert outcome.state.outcome == "COMPLETED"
    assert outcome.state.steps["step_1"].recovery_method == "heuristic_fixes"
