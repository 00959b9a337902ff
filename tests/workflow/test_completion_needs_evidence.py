"""A step is completed when it has left what it names, whatever its agent says; agents here lie as in the audit."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.engine import evidence
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.step import Step
from interlock.workflow.state.document import Proof, RunPlan
from tests.workflow.stage import APC, DONE, MemoryDesk, Outcome, Part, Player, play, project, writes

PLAN = "_bmad-output/plan.md"
WAITING = '{"step": "waiting"}'
STUCK = 'The tests fail.\n{"step": "Stuck"}'


def run(root: Path, part: Any, *, honest: bool = False, **more: Any) -> Outcome:
    return play(root, Player(part, honest=honest), **more)


def proofs(outcome: Outcome, step: int) -> list[tuple[str, str, str]]:
    return [(one.kind, one.subject, one.found) for one in outcome.state.steps[f"step_{step}"].proofs]


@pytest.mark.req("BMAD-FR3", "BMAD-FR17")
def test_an_agent_that_writes_nothing_completes_nothing(tmp_path: Path) -> None:
    """Finding B2: every turn said "completed", nothing was written, and the run was COMPLETED."""
    root = project(tmp_path / "p")
    prompts: list[str] = []

    async def liar(part: Part) -> str:
        prompts.append(part.prompt)
        return DONE

    outcome = run(root, liar, plan=RunPlan(project=str(root), tier=1, yolo=True))
    assert outcome.ending.kind == "parked" and outcome.state.completed_steps == []
    told, again = prompts[1], prompts[2]
    assert f"{PLAN} does not exist" in told and "# Step 1: " not in told, "first it is told what is missing"
    assert f"{PLAN} does not exist" in again and "# Step 1: " in again, "then the step begins again"
    (asked,) = outcome.desk.asked.values()
    assert asked.kind == "escalation" and f"{PLAN} does not exist" in asked.text, "then a human is asked, and told"
    assert outcome.state.documents == [] and len(prompts) == 3
    assert proofs(outcome, 1) == [("document_changed", PLAN, "missing")]
    assert [one["missing"] for one in outcome.desk.of("workflow.evidence_missing")] == [[f"{PLAN} does not exist"]] * 3


def test_a_step_that_is_told_what_is_missing_may_still_leave_it(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if "This is missing" in part.prompt:
            (root / PLAN).parent.mkdir(exist_ok=True)
            with (root / PLAN).open("a") as file:
                file.write("## Part\n")
        return DONE

    outcome = run(root, part)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert (root / PLAN).read_text() == "## Part\n" * 3
    assert outcome.state.steps["step_2"].recovery_method == "tell_what_is_missing"


def test_the_answer_to_the_step_before_does_not_complete_the_next(tmp_path: Path) -> None:
    """Finding B2: "Step 2 is saved." once more completed step 3, since the document existed."""
    root = project(tmp_path / "p")
    well = writes(root)

    async def part(part: Part) -> Any:
        third = part.step == "3" or "This is missing" in part.prompt
        return f"Step 2 is saved.\n{DONE}" if third else await well(part)

    outcome = run(root, part)
    assert outcome.state.completed_steps == [1, 2] and outcome.state.steps["step_3"].files == [PLAN]
    assert "has not changed since the step began" in next(iter(outcome.desk.asked.values())).text


def test_a_turn_that_says_nothing_is_not_done_because_the_document_grows(tmp_path: Path) -> None:
    """Finding B2: from step 2 on a turn without a word was taken for a completed step, since the document was there."""
    root = project(tmp_path / "p")
    well = writes(root)

    async def part(part: Part) -> Any:
        if part.step == "2" or (part.prompt.startswith("Your turn ended") and "step 2" in part.prompt):
            return "Working on it."
        return await well(part)

    outcome = run(root, part)
    assert outcome.ending.kind == "parked" and outcome.state.completed_steps == [1]
    assert "without saying how the step stands" in next(iter(outcome.desk.asked.values())).text


def test_a_word_that_is_none_of_ours_is_not_taken_for_done_whatever_was_written(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    well = writes(root)

    async def part(part: Part) -> Any:
        if part.prompt.startswith("Your turn ended"):
            return STUCK
        said = await well(part)
        return STUCK if part.step == "2" else said

    outcome = run(root, part)
    assert outcome.ending.kind == "parked" and outcome.state.completed_steps == [1]
    assert "'stuck'" in next(iter(outcome.desk.asked.values())).text


def test_what_is_there_already_counts_with_a_reason(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1)
    (root / PLAN).parent.mkdir()
    (root / PLAN).write_text("## Part 1\n")

    async def silent(part: Part) -> str:
        return DONE

    async def reasoned(part: Part) -> str:
        return '{"step": "completed", "unchanged": "part 1 was written yesterday"}'

    assert run(root, silent).ending.kind == "parked"
    outcome = run(root, reasoned)
    assert outcome.state.outcome == "COMPLETED" and proofs(outcome, 1) == [("document_changed", PLAN, "held")]
    assert outcome.state.documents == [] and outcome.state.steps["step_1"].files == [], "it has changed nothing"


def test_a_new_time_stamp_and_our_own_checkpoints_are_no_change(tmp_path: Path) -> None:
    document = tmp_path / "plan.md"
    document.write_text("# Plan\n\nText.\n")
    before = {"plan.md": evidence.content(str(tmp_path), "plan.md")}
    document.write_text("---\ncheckpoints:\n  - {step_id: 1}\n---\n\n# Plan  \n\nText.\n\n")
    assert not evidence.changed(str(tmp_path), before, "plan.md")
    document.write_text("---\nstepsCompleted: [1]\ncheckpoints:\n  - {step_id: 1}\n---\n\n# Plan\n\nText.\n")
    assert evidence.changed(str(tmp_path), before, "plan.md")


SECTIONS = """
When saving to document, append these Level 2 sections:

```markdown
## Success Criteria

### User Success

## Product Scope

## [Name of the feature]
```

Update frontmatter `stepsCompleted: [1]` before loading the next step.
"""


def test_the_sections_and_the_list_of_steps_that_a_step_asks_for_must_be_there(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1, body=SECTIONS)
    (root / PLAN).parent.mkdir()

    async def half(part: Part) -> str:
        (root / PLAN).write_text(f"## 1. Success criteria\n\n{part.turn}\n")
        return DONE

    outcome = run(root, half)
    text = next(iter(outcome.desk.asked.values())).text
    assert "has no section “Product Scope”" in text and "“Success Criteria”" not in text
    assert "does not list this step (1)" in text
    assert [one[2] for one in proofs(outcome, 1)] == ["seen", "seen", "missing", "missing"]
    whole = run(root, Player(half).play, honest=True)
    assert whole.state.outcome == "COMPLETED" and {one[2] for one in proofs(whole, 1)} == {"seen"}


def test_a_step_that_names_nothing_says_so(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1, output="")

    async def part(part: Part) -> str:
        assert "must leave" not in part.prompt
        return DONE

    outcome = run(root, part)
    assert outcome.state.outcome == "COMPLETED"
    assert outcome.state.steps["step_1"].proofs == [Proof("none", "", "seen", "no evidence required by the step")]


def test_a_step_without_a_document_needs_the_file_and_the_command_of_its_text(tmp_path: Path) -> None:
    body = "Write the list to `docs/list.yaml`.\n\nRun all tests."
    root = project(tmp_path / "p", steps=1, output="", body=body)

    async def liar(part: Part) -> str:
        return DONE

    text = next(iter(run(root, liar).desk.asked.values())).text
    assert "docs/list.yaml does not exist" in text and "no result of all tests was given" in text

    async def worker(part: Part) -> str:
        (root / "docs").mkdir(exist_ok=True)
        (root / "docs/list.yaml").write_text("a: 1\n")
        part.tool("completed", kind="execute")
        return DONE

    outcome = run(root, worker)
    assert outcome.state.outcome == "COMPLETED"
    assert proofs(outcome, 1) == [("file_changed", "docs/list.yaml", "seen"), ("command_result", "all tests", "seen")]
    assert outcome.state.steps["step_1"].ran == ["a tool (completed)"]


def test_a_document_whose_name_only_the_agent_knows_is_found_by_its_pattern(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1, output="{output_folder}/story-{{key}}.md")
    (root / "_bmad-output").mkdir()
    (root / "_bmad-output/story-0-1.md").write_text("an old one\n")

    async def part(part: Part) -> str:
        (root / "_bmad-output/story-1-1.md").write_text("# Story\n")
        return DONE

    outcome = run(root, part)
    assert proofs(outcome, 1) == [("document_changed", "_bmad-output/story-1-1.md", "seen")]
    assert outcome.state.steps["step_1"].files == ["_bmad-output/story-1-1.md"]


def test_nothing_of_the_package_itself_is_ever_evidence(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1, output="{project-root}/_bmad/bmm/config.yaml:output}}/plan.md")
    package = packages.load(str(root))
    workflow = workflows.read(package, package.skills[0])
    step = workflow.steps[0]
    assert isinstance(step, Step) and evidence.wanted(workflow, step, {}) == ()


def test_a_step_that_may_not_be_left_out_is_not_skipped(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def skips(part: Part) -> str:
        return '{"step": "skipped", "reason": "it is late"}'

    outcome = run(root, skips)
    assert outcome.ending.kind == "parked" and outcome.state.completed_steps == []
    optional = project(tmp_path / "q", body="If there is nothing new, skip this step.")
    assert run(optional, skips).state.outcome == "COMPLETED"


def test_whether_to_go_on_is_never_a_question_for_a_human(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1)

    async def part(part: Part) -> str:
        return f"I have the draft. Shall I go on?\n{WAITING}" if part.turn < 3 else DONE

    outcome = run(root, part, honest=True)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked

    async def waits(part: Part) -> str:
        return f"The step is completed.\n{WAITING}" if part.turn == 1 else DONE

    assert not run(project(tmp_path / "q", steps=1), waits, honest=True).desk.asked


def test_a_menu_of_the_step_is_answered_before_its_document_exists(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=1, body='Display: "**Select:** [A] Elicit [P] Party Mode [C] Continue"')

    async def part(part: Part) -> str:
        return (
            DONE if part.answer == "C" else f"A draft.\n\n**Select:** [A] Elicit [P] Party Mode [C] Continue\n{WAITING}"
        )

    outcome = run(root, part, honest=True)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


def test_a_menu_that_is_like_the_steps_is_asked_for_as_the_step_gives_it(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=2)
    prompts: list[str] = []

    async def part(part: Part) -> str:
        prompts.append(part.prompt)
        if "This menu is not one of" in part.prompt:
            return f"{APC}\n{WAITING}"
        if part.step == "1":
            return f"Please select an option:\n\n[A] Advanced Elicitation\n[Z] Zoom in\n{WAITING}"
        return DONE

    outcome = run(root, part, honest=True)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert "[C] Continue" in prompts[1]


@pytest.mark.parametrize(
    ("brief", "tier", "asked"), [("", None, 2), ("A garden planner.", None, 0), ("A garden planner.", 2, 2)]
)
def test_where_nobody_chose_a_tier_a_brief_is_not_interrupted(
    tmp_path: Path, brief: str, tier: int | None, asked: int
) -> None:
    """Finding B7: the default tier 2 asked at each fifth step, and after the last one of ten."""
    root = project(tmp_path / "p", steps=11)

    async def part(part: Part) -> str:
        return DONE

    desk = MemoryDesk(answers=lambda asking: "confirm")
    outcome = run(root, part, honest=True, desk=desk, plan=RunPlan(project=str(root), brief=brief, tier=tier))
    assert outcome.state.outcome == "COMPLETED"
    assert [one.kind for one in desk.asked.values()] == ["checkpoint"] * asked


def test_no_checkpoint_comes_after_the_last_step(tmp_path: Path) -> None:
    """Finding B7: after the last step, before what the engine itself adds, a checkpoint still asked."""
    root = project(tmp_path / "p", steps=5)

    async def part(part: Part) -> str:
        return DONE

    plan = RunPlan(project=str(root), tier=2, domain="finance")
    outcome = run(root, part, honest=True, plan=plan)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


def test_kills_of_the_engine_are_no_loop_of_the_agent(tmp_path: Path) -> None:
    """Finding B14: an engine killed four times within one step ended FAILED, `infinite_loop_detected`."""
    root = project(tmp_path / "p", steps=2)
    desk = MemoryDesk()
    well = writes(root)
    deaths = 0

    class Killed(Exception):
        pass

    async def part(part: Part) -> Any:
        nonlocal deaths
        if part.answer == "C" and deaths < 7:
            deaths += 1
            raise Killed
        return await well(part) if part.step != "2" else DONE

    outcome = None
    while outcome is None:
        with contextlib.suppress(BaseExceptionGroup):
            outcome = run(root, part, honest=True, desk=desk, state=desk.saved)
    assert deaths == 7 and outcome.state.outcome == "COMPLETED"
    assert outcome.state.steps["step_1"].interruptions == 7 and outcome.state.completed_steps == [1, 2]
