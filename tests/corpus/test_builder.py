"""The real builder makes an agent: its six validations are held at once, and the run goes on after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.reviews import bmb_artifact
from interlock.workflow.reviews.parallel_bmb_validation import ParallelBmbValidation
from interlock.workflow.state.document import RunPlan
from scripts.pinned import FIRST
from tests.corpus.acting import DONE, Model, changed_sources
from tests.corpus.conftest import Corpus
from tests.corpus.test_runs import installed, sources
from tests.workflow.builder import DIES, LABELS, PASSED, Validators, finds
from tests.workflow.stage import MemoryDesk, Outcome, Part, Player, play

SKILL = "/bmad:bmb:workflows:agent"
FOLDER = "_bmad-output/bmb-creations"
SAMPLES = "src/modules/bmb/workflows/agent/data/reference"


class Architect(Model):
    """Builds the package's own sample of an expert agent, and goes the way of its kind."""

    def __init__(self, root: Path, build: str, made: str, text: str) -> None:
        super().__init__(root, "agent", f"{FOLDER}/agent-plan-journal-keeper.md")
        self.build, self.made, self.text_made = build, root / made, text
        self.seen: list[str] = []
        self.fixes: list[str] = []

    async def __call__(self, part: Part) -> str:
        if part.step:
            self.seen.append(part.step)
        if "asks for changes" in part.prompt:
            self.fixes.append(part.prompt)
            return f"Mended.\n{DONE}"
        if "Which of these follows" in part.prompt:
            wanted = "steps-c/step-01-brainstorm.md" if "step-01-brainstorm" in part.prompt else self.build
            return f'{{"step": "completed", "next": "{wanted}"}}'
        if part.step.startswith("7"):
            self.made.parent.mkdir(parents=True, exist_ok=True)
            self.made.write_text(self.text_made)
        return await super().__call__(part)


def run(root: Path, architect: Architect, validators: Validators) -> Outcome:
    desk = MemoryDesk(answers=lambda asking: "1" if asking.kind == "menu" else "As you think best.")
    plan = RunPlan(project=str(root), tier=1, yolo=True)
    return play(
        root, Player(architect), skill=SKILL, desk=desk, plan=plan, examinations=(ParallelBmbValidation(),),
        subagents=Player(validators),
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.req("BMAD-UO.6", "BMAD-6.1.1", "BMAD-6.1.2", "BMAD-FR45", "BMAD-FR46", "BMAD-NFR14")
def test_the_real_builder_makes_an_expert_agent_and_its_six_validations_are_held_at_once(
    corpus: Corpus, tmp_path: Path
) -> None:
    root = installed(corpus, FIRST, tmp_path)
    before = sources(root)
    sample = corpus.source(FIRST) / SAMPLES / "expert-examples/journal-keeper/journal-keeper.agent.yaml"
    text = sample.read_text(encoding="utf-8")
    architect = Architect(root, "step-07b-build-expert.md", f"{FOLDER}/journal-keeper/journal-keeper.agent.yaml", text)
    validators = Validators({"08c": [finds("major"), PASSED], "08d": [DIES, PASSED]})
    outcome = run(root, architect, validators)
    assert outcome.state.outcome == "COMPLETED", outcome.state.error
    assert validators.most == 6 and sorted(validators.attempts) == list(LABELS)
    assert architect.seen[-2:] == ["7b", "9"] and not {"8a", "8f"} & set(architect.seen)
    done = [str(one) for one in outcome.state.completed_steps]
    assert done[-8:] == ["gate-parallel_validation", "8a", "8b", "8c", "8d", "8e", "8f", "9"]
    first, second = outcome.state.examinations["parallel_validation"]["rounds"]
    assert (first["handling"], first["verdict"]) == ("retry_failed_sequentially", "changes_requested")
    assert second["verdict"] == "approve" and len(architect.fixes) == 1
    prompt = validators.prompts["08b"][0]
    assert "Validate that the agent's metadata properties" in prompt and str(architect.made) in prompt
    assert str(root / "_bmad/bmb/workflows/agent/data/agent-metadata.md") in prompt, "the files that its step refers to"
    assert not changed_sources(root) and sources(root) == before


@pytest.mark.req("BMAD-6.1.3")
def test_a_simple_agent_of_the_real_builder_has_five(corpus: Corpus, tmp_path: Path) -> None:
    root = installed(corpus, FIRST, tmp_path)
    sample = corpus.source(FIRST) / SAMPLES / "simple-examples/commit-poet.agent.yaml"
    text = sample.read_text(encoding="utf-8")
    architect = Architect(root, "step-07a-build-simple.md", f"{FOLDER}/commit-poet.agent.yaml", text)
    validators = Validators()
    outcome = run(root, architect, validators)
    assert outcome.state.outcome == "COMPLETED", outcome.state.error
    assert sorted(validators.attempts) == list(LABELS[:5])
    assert outcome.state.steps["step_8f"].status == "skipped" and not outcome.desk.asked


def test_which_validators_the_builders_workflows_have(corpus: Corpus) -> None:
    package = packages.load(str(corpus.project(FIRST)))
    found = {}
    for skill in package.of_type("workflows"):
        workflow = workflows.read(package, skill)
        if bmb_artifact.makes(workflow):
            found[skill.name] = [one.label for one in bmb_artifact.validators(workflow, package)]
    compliance = ["02", "03", "04", "05", "06", "07"]
    assert found == {
        "agent": list(LABELS),
        "create-module": ["checklist"],
        "create-workflow": compliance,
        "edit-workflow": compliance,
    }


def test_an_edited_agent_is_validated_in_the_place_of_the_steps_after_the_edit_and_not_before(corpus: Corpus) -> None:
    package = packages.load(str(corpus.project(FIRST)))
    skill = next(one for one in package.of_type("workflows") if one.invocation == SKILL)
    workflow = workflows.read(package, skill)
    replaced = {str(step.id): [one.label for one in bmb_artifact.group_of(workflow, step)] for step in workflow.steps}
    assert replaced["e9a"] == ["e09a", "e09b", "e09c", "e09d", "e09e"] == replaced["e9e"]
    assert replaced["8c"] == list(LABELS)
    assert not any(replaced[id] for id in ("e3a", "e3f", "e9f", "v2a", "v3", "7a", "9"))
