"""Skills that are rendered before they are followed (6.12), the order of sub-steps, and skills that are one prompt."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from interlock.workflow.entry.workflow_entry_wrapper import locate
from interlock.workflow.errors import WorkflowNotRendered
from interlock.workflow.package import packages, rendering
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Invocation, Package
from interlock.workflow.runs import starting
from interlock.workflow.state.document import RunPlan
from scripts.pinned import THIRD
from tests.corpus.conftest import Corpus
from tests.corpus.test_runs import installed as install
from tests.corpus.test_runs import sources
from tests.workflow.stage import DONE, Part, Player, play

SOURCE = re.compile(r"\{\{\.|\{\{config\.|\{workflow\.\w|\[\[bmad-snapshot")


@pytest.mark.parametrize(("skill", "steps"), [("/bmad-build", [1, 2, 3, 4, 5]), ("/bmad-build-auto", [1, 2, 3, 4])])
def test_b4_a_build_is_rendered_and_entered_where_its_workflow_says(
    corpus: Corpus, tmp_path: Path, skill: str, steps: list[int]
) -> None:
    root = install(corpus, THIRD, tmp_path)
    before = sources(root)

    async def part(part: Part) -> str:
        return f"Done.\n{DONE}"

    player = Player(part)
    outcome = play(
        root, player, skill=skill, plan=RunPlan(project=str(root), tier=1, yolo=True, brief="Add a greeting.")
    )
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == steps
    assert not [prompt for prompt in player.prompts if SOURCE.search(prompt)], "no placeholder reached the agent"
    first = player.prompts[0]
    assert f"File: _bmad/render/{skill[1:]}/" in first and "# Step 1:" in first and "Speak in `English`" in first
    assert sources(root) == before


def test_b4_where_a_spec_is_resumed_the_agent_says_which_step_it_leads_to(corpus: Corpus, tmp_path: Path) -> None:
    root = install(corpus, THIRD, tmp_path)

    async def part(part: Part) -> str:
        return '{"step": "completed", "next": "step-04-review.md"}' if part.step == "1" else DONE

    plan = RunPlan(project=str(root), tier=1, yolo=True)
    outcome = play(root, Player(part), skill="/bmad-build-auto", plan=plan)
    assert outcome.state.completed_steps == [1, 4], "a review that has ended does not lead back to the implementation"


def build(root: Path) -> tuple[Package, workflows.Workflow]:
    package = packages.load(str(root))
    found = package.find(Invocation(None, "workflows", "build", "/bmad-build"))
    assert found is not None
    return package, workflows.read(package, found)


def test_b4_without_uv_nothing_is_begun(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = install(corpus, THIRD, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(WorkflowNotRendered) as error:
        rendering.rendered(*build(root))
    assert error.value.code == "workflow_not_rendered" and error.value.details["missing"] == "uv"
    assert starting.preview(locate("/bmad-build", str(root)))["renders"], "it can still be looked at"


def test_b4_a_renderer_that_fails_is_quoted(corpus: Corpus, tmp_path: Path) -> None:
    root = install(corpus, THIRD, tmp_path)
    (root / "_bmad/config.toml").write_text("[core]\n")
    with pytest.raises(WorkflowNotRendered, match=r"ended with 1: HALT: missing config value"):
        rendering.rendered(*build(root))


def test_b5_steps_come_in_numerical_order(installed: list[Package]) -> None:
    orders = {}
    for package in installed:
        for skill in package.of_type("workflows"):
            read = workflows.read(package, skill)
            if read.steps[0].attributes:
                orders[package.version, skill.path] = [one.attributes["n"] for one in read.steps]
    numbers = [[tuple(map(int, one.split("."))) for one in order] for order in orders.values()]
    assert len(orders) > 30 and all(one == sorted(one) for one in numbers)
    assert sum(order[0] == "0.5" for order in orders.values()) == 9, "0.5 comes before 1"


def test_b5_chapters_of_one_skill_follow_each_other(installed: list[Package]) -> None:
    skill = next(one for one in installed[2].skills if one.id == "bmad-qa-generate-e2e-tests")
    titles = [one.title for one in workflows.read(installed[2], skill).steps]
    # Its activation says that it is complete before anything else begins; only then come steps 0 to 5.
    assert titles[5:8] == ["Execute Append Steps", "Detect Test Framework", "Identify Features"]
    assert len(titles) == 12


def test_b13_a_skill_that_is_one_prompt_pretends_to_no_steps(corpus: Corpus, tmp_path: Path) -> None:
    root = install(corpus, THIRD, tmp_path)
    package = packages.load(str(root))
    single = [one for one in package.of_type("workflows") if workflows.read(package, one).one_prompt]
    assert len(single) >= 20

    async def part(part: Part) -> str:
        return f"Done.\n{DONE}"

    player = Player(part)
    play(root, player, skill=single[0].invocation, plan=RunPlan(project=str(root), tier=1, yolo=True))
    assert not re.search(r"^# Step", player.prompts[0], re.MULTILINE)
    assert starting.preview(locate(single[0].invocation, str(root)))["one_prompt"]
