"""Every real step file is read, and what follows which is known."""

from __future__ import annotations

import posixpath

from interlock.workflow.package import files, next_steps, step
from interlock.workflow.package.workflow import Workflow
from scripts.pinned import FIRST, SECOND
from tests.corpus.conftest import Corpus

BROKEN = {
    "step-09-celebrate.md",  # an unquoted {a}/b-{c}.md
    "project-context-template.md",
    "step-file.md",
    "workflow.md",  # bmb/docs/workflows/templates
}


def test_all_244_step_files_are_steps_and_one_has_a_broken_frontmatter(corpus: Corpus) -> None:
    root = corpus.project(FIRST)
    paths = list(corpus.step_files(FIRST))
    faults = []
    for path in paths:
        settings = files.read(path.read_text(encoding="utf-8"), path.name)
        name = path.relative_to(root).as_posix()
        read = step.of_file(name, settings)
        assert step.is_step_file(name) and read.id and read.title and read.text.strip()
        faults += [(path.name, settings.fault.line)] if settings.fault else []
    assert len(paths) == 244 and faults == [("step-09-celebrate.md", 8)]


def test_exactly_the_known_files_have_a_broken_frontmatter(corpus: Corpus) -> None:
    root = corpus.project(FIRST) / "_bmad"
    broken = {
        path.name
        for path in sorted((*root.rglob("*.md"), *root.rglob("*.yaml")))
        if files.read(path.read_text(encoding="utf-8"), path.name).fault
    }
    assert broken == BROKEN


def test_a_step_is_known_by_its_file_name(corpus: Corpus) -> None:
    path = next(path for path in corpus.step_files(FIRST) if path.name == "step-08a-plan-traceability.md")
    read = step.of_file(path.name, files.read(path.read_text(encoding="utf-8"), path.name))
    assert read.id == "8a" and str(read.settings["name"]).startswith("step-07a")


def test_ids_are_unique_within_each_folder_of_steps(definitions: list[Workflow]) -> None:
    for workflow in definitions:
        ids = [(posixpath.dirname(one.path), one.id) for one in workflow.steps if one.path in workflow.follow]
        double = {one for one in ids if ids.count(one) > 1}
        # Upstream has two "step 2" of market research; everything else is told apart by number and letter.
        assert {posixpath.basename(folder) for folder, _ in double} <= {"market-steps"}


def test_no_step_leads_nowhere(definitions: list[Workflow]) -> None:
    dangling = [way for workflow in definitions for ways in workflow.follow.values() for way in ways if not way.exists]
    assert not dangling


def test_every_chain_of_steps_comes_to_an_end(definitions: list[Workflow]) -> None:
    lengths = {}
    for workflow in definitions:
        for entry in workflow.entries:
            chain = next_steps.chain(entry, workflow.follow)
            lengths[f"{workflow.skill.name}/{posixpath.basename(entry)}"] = len(chain)
            open_ends = [way for way in workflow.follow[chain[-1]] if way.exists and way.path not in chain]
            assert not open_ends, (chain[-1], open_ends)
    assert lengths["create-prd/step-01-init.md"] == 11
    assert lengths["create-epics-and-stories/step-01-validate-prerequisites.md"] == 4
    assert lengths["create-architecture/step-01-init.md"] == 8
    print(f"\n{len(lengths)} chains of {sum(lengths.values())} steps")


def test_each_mode_of_the_agent_workflow_has_its_own_entry(definitions: list[Workflow]) -> None:
    agent = next(one for one in definitions if one.skill.name == "agent")
    assert [posixpath.basename(path) for path in agent.entries] == [
        "step-01-brainstorm.md",
        "e-01-load-existing.md",
        "v-01-load-review.md",
    ]


def test_a_branch_is_named_by_its_setting(definitions: list[Workflow]) -> None:
    agent = next(one for one in definitions if one.skill.name == "agent")
    structure = next(one for one in agent.steps if posixpath.basename(one.path).startswith("step-08e"))
    keys = {way.key for way in agent.after(structure) if way.via == "branch"}
    assert {"nextStepFileExpert", "nextStepFileSimple"} <= keys


def test_the_hash_of_a_workflow_changes_with_its_files(definitions: list[Workflow]) -> None:
    hashes = [one.hash for one in definitions]
    assert len(set(hashes)) == len(hashes)


def test_a_broken_frontmatter_of_the_second_generation_is_survived(corpus: Corpus) -> None:
    broken = [
        path.name for path in corpus.step_files(SECOND) if files.read(path.read_text(encoding="utf-8"), path.name).fault
    ]
    assert broken == ["step-v-07-implementation-leakage-validation.md"]
