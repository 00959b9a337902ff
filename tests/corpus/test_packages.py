"""Real packages are found, told apart, and everything that their manifests and commands name is there."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import pytest

from interlock.workflow.entry.preflight_validation import validate
from interlock.workflow.entry.workflow_entry_wrapper import Malformed, detect
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Invocation, Package
from scripts.pinned import FIRST, SECOND, THIRD
from tests.corpus.commands import commands as commands_of
from tests.corpus.conftest import Corpus


def test_the_three_generations_are_told_apart(installed: list[Package]) -> None:
    assert [(one.generation, one.version) for one in installed] == [(1, FIRST), (2, SECOND), (3, THIRD)]


def test_modules_are_read_from_a_list_of_names_and_from_a_list_of_descriptions(installed: list[Package]) -> None:
    assert [one.modules for one in installed] == [
        ("core", "bmm", "bmb", "bmgd", "cis"),
        ("core", "bmm"),
        ("core", "bmm"),
    ]


def test_all_70_rows_of_the_workflow_manifest_lead_to_a_file(first: Package) -> None:
    rows = first.of_type("workflows")
    assert len(rows) == 70 and all(first.files.exists(row.path) for row in rows)


@pytest.mark.req("BMAD-E2a.6", "BMAD-FR41", "BMAD-FR36")
def test_all_70_workflows_are_read_with_their_settings_and_steps(first: Package) -> None:
    read = [workflows.read(first, row) for row in first.of_type("workflows")]
    assert [sum(one.kind == kind for one in read) for kind in ("yaml", "md")] == [49, 21]
    assert all(one.steps and one.first for one in read)


def test_all_96_commands_are_invocations_that_resolve_to_the_file_they_name(first: Package) -> None:
    commands = list(commands_of(first))
    names = [skill.key for skill in first.skills]
    assert len(commands) == 96
    for command in commands:
        invocation = detect(command.invocation, names)
        assert isinstance(invocation, Invocation), command
        found = first.find(invocation)
        assert found and found.path == command.target, command


def test_every_command_of_the_later_generations_resolves_too(installed: list[Package]) -> None:
    for package in installed[1:]:
        commands = list(commands_of(package))
        assert len(commands) == {2: 42, 3: 50}[package.generation]
        for command in commands:
            invocation = detect(command.invocation)
            assert isinstance(invocation, Invocation), command
            found = package.find(invocation)
            assert found and found.path == command.target, command


def test_a_name_that_two_modules_have_is_resolved_by_its_module(first: Package) -> None:
    names = [skill.name for skill in first.of_type("workflows")]
    twice = {name for name in names if names.count(name) > 1}
    assert len(twice) == 12
    for name in twice:
        found = [first.find(Invocation(module, "workflows", name, "")) for module in ("bmm", "bmgd")]
        assert found[0] and found[1] and found[0].path != found[1].path


def test_a_workflow_of_the_first_generation_is_found_in_the_third_by_its_old_name(installed: list[Package]) -> None:
    found = installed[2].find(Invocation("bmm", "workflows", "dev-story", "/bmad:bmm:workflows:dev-story"))
    assert found and found.id == "bmad-dev-story"


@pytest.mark.parametrize("name", ["implementation-readiness", "test-design", "brainstorming"])
def test_a_command_that_upstream_cites_but_does_not_have_is_not_found(first: Package, name: str) -> None:
    assert first.find(Invocation("bmm", "workflows", name, "")) is None


def test_no_template_in_upstream_text_is_taken_for_an_invocation(corpus: Corpus, first: Package) -> None:
    names = [skill.key for skill in first.skills]
    lines = {
        line
        for path in (corpus.project(FIRST) / "_bmad").rglob("*.md")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "/bmad:" in line and "{{" in line.partition("/bmad:")[2].partition(" ")[0]
    }
    assert lines and not [line for line in lines if isinstance(detect(line, names), (Invocation, Malformed))]


def test_reading_everything_leaves_every_file_as_its_manifest_says(corpus: Corpus, first: Package) -> None:
    again = packages.load(first.root)
    for skill in again.of_type("workflows"):
        validate(again, workflows.read(again, skill))
    root = Path(first.root) / "_bmad"
    with (root / "_config" / "files-manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    changed = [
        row["path"] for row in rows if hashlib.sha256((root / row["path"]).read_bytes()).hexdigest() != row["hash"]
    ]
    assert len(rows) == 656 and not changed


def test_preflight_is_ready_but_where_upstream_forgot_a_setting(installed: list[Package]) -> None:
    failed = {
        f"{package.generation} {skill.invocation}": result.missing
        for package in installed
        for skill in package.of_type("workflows")
        if not (result := validate(package, workflows.read(package, skill))).ready
    }
    # Four workflows of one module look up a key that its configuration does not have; they say so.
    assert failed == {
        f"1 /bmad:bmgd:workflows:{name}": ("user_skill_level",)
        for name in ("code-review", "correct-course", "dev-story", "retrospective")
    }
