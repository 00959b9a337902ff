"""`interlock analyze preflight` and `artifact`, on a small package made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.conftest import Interlock

WORKFLOW = """\
name: make-it
description: "Makes it"
config_source: "{project-root}/_bmad/bmm/config.yaml"
output_folder: "{config_source}:output_folder"
user_name: "{config_source}:user_name"
installed_path: "{project-root}/_bmad/bmm/workflows/make-it"
instructions: "{installed_path}/instructions.md"
"""
SKILL = "/bmad:bmm:workflows:make-it"


@pytest.fixture
def package(here: Path) -> Path:
    """A project with a package of one workflow, everything configured."""
    folder = here / "_bmad" / "bmm" / "workflows" / "make-it"
    folder.mkdir(parents=True)
    (here / "_bmad" / "_config").mkdir()
    (here / "_bmad" / "_config" / "workflow-manifest.csv").write_text(
        'name,description,module,path\n"make-it","Makes it","bmm","_bmad/bmm/workflows/make-it/workflow.yaml"\n'
    )
    (folder / "workflow.yaml").write_text(WORKFLOW)
    (folder / "instructions.md").write_text('<step n="1" goal="Make it"><action>Do.</action></step>\n')
    configure(here, output_folder="{project-root}/out", user_name="Ada")
    return here


def configure(here: Path, **values: str) -> None:
    lines = "".join(f'{name}: "{value}"\n' for name, value in values.items())
    (here / "_bmad" / "bmm" / "config.yaml").write_text(lines)


def require(here: Path, more: str) -> None:
    (here / "_bmad/bmm/workflows/make-it/workflow.yaml").write_text(WORKFLOW + more)


def check(found: Any, name: str) -> Any:
    return next(one for one in found["checks"] if one["name"] == name)


@pytest.mark.req("BMAD-1.2.4", "BMAD-FR14")
def test_a_workflow_that_has_all_it_needs_is_ready(interlock: Interlock, package: Path) -> None:
    found = interlock("analyze", "preflight", SKILL, "--dir", ".").json
    assert (found["overall_status"], found["status"], found["missing"]) == ("READY", "PASSED", [])
    assert found["checks_passed_percent"] == 100 and all(one["status"] == "PASSED" for one in found["checks"])


@pytest.mark.req("BMAD-1.2.1", "BMAD-FR14")
@pytest.mark.parametrize("value", [None, ""])
def test_a_setting_that_is_missing_or_empty_is_named(interlock: Interlock, package: Path, value: str | None) -> None:
    configure(package, user_name="Ada", **({} if value is None else {"output_folder": value}))
    answer = interlock("analyze", "preflight", SKILL, "--dir", ".")
    found = answer.json
    assert answer.code == 0
    assert (found["overall_status"], found["status"], found["missing"]) == ("FAILED", "FAILED", ["output_folder"])
    assert check(found, "configuration")["remediation"] == "Set output_folder in _bmad/bmm/config.yaml."


@pytest.mark.req("BMAD-E1.1")
def test_every_required_setting_is_missed_when_it_is_not_there(interlock: Interlock, package: Path) -> None:
    names = {f"key_{number}": f"value {number}" for number in range(8)}
    require(package, "".join(f'{name}: "{{config_source}}:{name}"\n' for name in names))
    everything = {**names, "output_folder": "out", "user_name": "Ada"}
    for left_out in everything:
        configure(package, **{name: value for name, value in everything.items() if name != left_out})
        assert interlock("analyze", "preflight", SKILL).json["missing"] == [left_out]
    (package / "_bmad" / "bmm" / "config.yaml").unlink()
    assert set(interlock("analyze", "preflight", SKILL).json["missing"]) == set(everything)


@pytest.mark.req("BMAD-1.2.2")
def test_a_required_server_is_looked_for_in_the_project(interlock: Interlock, package: Path) -> None:
    require(package, "requires: {mcp: [forgetful]}\n")
    absent = check(interlock("analyze", "preflight", SKILL).json, "mcp")
    assert (absent["status"], absent["missing"]) == ("FAILED", ["forgetful"]) and absent["remediation"]
    (package / ".mcp.json").write_text('{"mcpServers": {"forgetful": {"command": "x"}}}')
    assert check(interlock("analyze", "preflight", SKILL).json, "mcp")["status"] == "PASSED"
    (package / ".mcp.json").unlink()
    assert check(interlock("analyze", "preflight", SKILL, "--mcp", "Forgetful").json, "mcp")["status"] == "PASSED"


@pytest.mark.req("BMAD-1.2.3")
def test_required_documents_are_listed_when_they_are_there(interlock: Interlock, package: Path) -> None:
    require(package, 'requires:\n  documents: ["{output_folder}/prd.md", "{output_folder}/*architecture*.md"]\n')
    (package / "out").mkdir()
    (package / "out" / "prd.md").write_text("FR1")
    found = check(interlock("analyze", "preflight", SKILL).json, "documents")
    assert (found["status"], found["missing"]) == ("FAILED", ["out/*architecture*.md"])
    (package / "out" / "the-architecture.md").write_text("ADR-1")
    found = check(interlock("analyze", "preflight", SKILL).json, "documents")
    assert (found["status"], found["validated_files"]) == ("PASSED", ["out/prd.md", "out/the-architecture.md"])


@pytest.mark.usefixtures("package")
def test_a_name_that_is_that_of_several_is_not_called_missing(interlock: Interlock, here: Path) -> None:
    with (here / "_bmad" / "_config" / "workflow-manifest.csv").open("a") as manifest:
        manifest.write('"make-it","Makes it","bmgd","_bmad/bmgd/workflows/make-it/workflow.yaml"\n')
    found = interlock("analyze", "preflight", "make-it").json
    other = "/bmad:bmgd:workflows:make-it"
    assert found["error"] == "workflow_not_found" and found["nearest"] == [SKILL, other]
    assert found["message"] == f"make-it is the name of several: {SKILL}, {other}. Say which one."


def test_optional_inputs_never_fail(interlock: Interlock, package: Path) -> None:
    require(package, 'input_file_patterns:\n  prd: {whole: "{output_folder}/*prd*.md", load_strategy: FULL_LOAD}\n')
    assert interlock("analyze", "preflight", SKILL).json["overall_status"] == "READY"


@pytest.mark.req("BMAD-UO.1")
def test_before_a_start_one_sees_what_is_missing_and_which_rules_apply(interlock: Interlock, package: Path) -> None:
    (package / "_bmad/bmm/workflows/make-it/checklist.md").write_text("- [ ] a\n- [ ] b\n- [ ] c\n")
    require(package, 'validation: "{installed_path}/checklist.md"\ntemplate: "{installed_path}/template.md"\n')
    found = interlock("analyze", "preflight", SKILL).json
    assert found["missing"] == ["_bmad/bmm/workflows/make-it/template.md"] and found["remediation"]
    rules = interlock("analyze", "validation", "_bmad/bmm/workflows/make-it/workflow.yaml").json
    assert (rules["validation_type"], rules["checkbox_count"]) == ("checklist-based", 3)


def test_a_workflow_that_is_not_there_is_an_error_with_the_nearest(interlock: Interlock, package: Path) -> None:
    answer = interlock("analyze", "preflight", "/bmad:bmm:workflows:make-its")
    assert answer.code == 0 and answer.json["error"] == "workflow_not_found" and answer.json["nearest"] == [SKILL]
    assert interlock("analyze", "preflight", "/bmad:nothing").json["error"] == "invalid_skill_path"


@pytest.mark.req("BMAD-2a.6.5")
def test_a_broken_definition_is_reported_with_its_line(interlock: Interlock, package: Path) -> None:
    require(package, "broken: [\n")
    found = interlock("analyze", "preflight", SKILL).json
    assert found["error"] == "config_parse_error" and found["line"] >= 8 and found["path"].endswith("workflow.yaml")


def test_a_workflow_beside_the_installed_ones_is_found_without_a_row(interlock: Interlock, package: Path) -> None:
    folder = package / "_bmad" / "bmm" / "workflows" / "mine"
    folder.mkdir()
    (folder / "workflow.md").write_text("---\nname: my-own\ndescription: x\n---\n# Mine\n\n## 1. Do\n\nDo it.\n")
    assert interlock("analyze", "preflight", "/bmad:bmm:workflows:my-own").json["overall_status"] == "READY"


AGENT = """\
agent:
  metadata: {id: ada, name: Ada, title: Analyst, icon: A, hasSidecar: true}
  persona: {role: Analyst, identity: Looks closely, communication_style: Plain, principles: [Look twice]}
  critical_actions: [Load the sidecar]
  menu:
    - {trigger: look, description: Look, action: look}
"""


@pytest.mark.req("BMAD-6.4.1", "BMAD-6.4.5")
def test_an_agent_that_keeps_to_the_standard_scores_100(interlock: Interlock, here: Path) -> None:
    (here / "ada.agent.yaml").write_text(AGENT)
    found = interlock("analyze", "artifact", "ada.agent.yaml").json
    assert (found["compliance_score"], found["status"], found["issues"]) == (100, "COMPLIANT", [])


@pytest.mark.req("BMAD-6.4.1", "BMAD-6.4.3")
@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("role: Analyst, ", "", "agent.persona.role"),
        ("principles: [Look twice]", "principles: []", "agent.persona.principles"),
        ("  critical_actions: [Load the sidecar]\n", "", "agent.critical_actions"),
        ("action: look", "", "agent.menu[0]"),
        ("trigger: look", "trigger: LookAt", "agent.menu[0].trigger"),
        ("id: ada, ", "", "agent.metadata.id"),
        ("icon: A", 'icon: ""', "agent.metadata.icon"),
    ],
)
def test_each_part_of_an_agent_is_checked(interlock: Interlock, here: Path, old: str, new: str, field: str) -> None:
    (here / "ada.agent.yaml").write_text(AGENT.replace(old, new))
    found = interlock("analyze", "artifact", "ada.agent.yaml").json
    assert found["status"] == "NON_COMPLIANT" and found["compliance_score"] < 100
    assert [issue["field"] for issue in found["issues"]] == [field]
    assert all(found["issues"][0][part] for part in ("field", "expected", "actual", "remediation"))


@pytest.mark.req("BMAD-6.4.2", "BMAD-6.4.3", "BMAD-6.4.5")
def test_a_workflow_is_checked_for_its_paths_template_and_frontmatter(interlock: Interlock, package: Path) -> None:
    path = "_bmad/bmm/workflows/make-it/workflow.yaml"
    assert interlock("analyze", "artifact", path).json["status"] == "COMPLIANT"
    require(package, 'template: "{installed_path}/template.md"\n')
    found = interlock("analyze", "artifact", path).json
    assert [issue["field"] for issue in found["issues"]] == ["default_output_file", "template"]
    require(package, "broken: [\n")
    assert [issue["field"] for issue in interlock("analyze", "artifact", path).json["issues"]] == ["frontmatter"]


@pytest.mark.req("BMAD-6.4.2")
def test_a_step_is_checked_for_its_structure(interlock: Interlock, here: Path) -> None:
    step = here / "step-01-look.md"
    head = "---\nname: step-01-look\ndescription: Looks\n---\n"
    rules = "- IF A: look again\n- IF C: load, then execute {nextStepFile}\n"
    step.write_text(f"{head}# Step 1\n\n## GOAL\n\nDisplay: [A] Again [C] Continue\n\n{rules}")
    assert interlock("analyze", "artifact", "step-01-look.md").json["status"] == "COMPLIANT"
    step.write_text(f"{head}Display: [A] Again [C] Continue [X] Exit\n\n{rules}")
    found = interlock("analyze", "artifact", "step-01-look.md").json
    assert [issue["field"] for issue in found["issues"]] == ["structure.title", "structure.goal", "menu.X"]
