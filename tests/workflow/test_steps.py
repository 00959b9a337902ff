"""An agent is taken through every step; a human is asked only where an author, or nobody else, says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import APC, DONE, MemoryDesk, Part, Player, play, project, script, writes


def yes(_: Any) -> str:
    return "yes"


def document(root: Path) -> str:
    return (root / "_bmad-output" / "plan.md").read_text()


@pytest.mark.req("BMAD-2a.2.1", "BMAD-FR3", "BMAD-2b.10.2")
def test_a_step_with_the_verdict_passed_leads_to_the_next_without_a_prompt_to_anybody(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    passed = 'All is well.\n{"step": "completed", "verdict": "PASSED"}'
    outcome = play(root, Player(script(passed)))
    assert outcome.ending.kind == "completed" and outcome.state.outcome == "COMPLETED"
    assert outcome.state.completed_steps == [1, 2, 3] and not outcome.desk.asked
    assert [outcome.state.steps[f"step_{n}"].verdict for n in (1, 2, 3)] == ["PASSED"] * 3


@pytest.mark.req("BMAD-2a.2.2", "BMAD-FR6")
def test_a_step_with_oversight_pauses_for_a_human_before_the_next(tmp_path: Path) -> None:
    root = project(tmp_path / "p", front="oversight: required\n")
    waiting = play(root, Player(writes(root)))
    assert waiting.ending.kind == "parked" and waiting.state.state == "WAITING_USER"
    assert waiting.state.completed_steps == [1] and document(root) == "## Part 1\n"
    assert [one.kind for one in waiting.desk.asked.values()] == ["checkpoint"]
    desk = MemoryDesk(answers=yes)
    done = play(project(tmp_path / "q", front="oversight: required\n"), Player(writes(tmp_path / "q")), desk=desk)
    assert done.state.outcome == "COMPLETED" and len(desk.asked) == 3


@pytest.mark.req("BMAD-FR6", "BMAD-NFR14")
def test_oversight_may_stand_in_an_overlay_so_that_the_sources_stay_as_they_are(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    (root / "interlock.workflows.yaml").write_text(
        "workflows:\n  bmm/make-plan:\n    steps:\n      2: {oversight: required}\n"
    )
    outcome = play(root, Player(writes(root)))
    assert outcome.ending.kind == "parked" and outcome.state.completed_steps == [1, 2]


@pytest.mark.req("BMAD-2a.2.3", "BMAD-FR16", "BMAD-E2b.4")
def test_a_step_that_fails_its_validation_is_mended_before_a_human_is_asked(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    turns = [
        '{"step": "completed", "verdict": "FAILED", "issues": ["no scope"]}',
        '{"step": "completed", "verdict": "PASSED"}',
    ]
    player = Player(script(*turns))
    outcome = play(root, player)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert "no scope" in player.prompts[1] and "validation failed" in player.prompts[1]


@pytest.mark.req("BMAD-2a.2.4", "BMAD-FR2", "BMAD-UO.2b")
def test_a_workflow_without_oversight_runs_to_its_end_with_only_a_summary(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=6)
    outcome = play(root, Player(writes(root)), plan=RunPlan(project=str(root), tier=1))
    assert outcome.ending.kind == "completed" and not outcome.desk.asked
    assert "6 steps" in outcome.ending.summary and "0 questions" in outcome.ending.summary
    assert document(root) == "".join(f"## Part {n}\n" for n in range(1, 7))


def test_the_agent_gets_the_frame_once_and_then_each_step_alone(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    player = Player(writes(root))
    play(root, player, plan=RunPlan(project=str(root), tier=1, brief="A garden planner"))
    steps = [one for one in player.prompts if "# Step " in one]
    assert len(steps) == 3 and "A garden planner" in steps[0] and "How this run works" in steps[0]
    assert all("A garden planner" not in one for one in steps[1:])
    assert "# Step 3" not in steps[1] and str(root / "_bmad-output/plan.md") in steps[1]
    assert len(player.sessions) == 1


def test_a_program_without_memory_is_told_everything_with_each_prompt(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        assert "How this run works" in part.prompt
        if "## Now" in part.prompt:
            assert "[P] Party Mode" in part.prompt and part.prompt.rpartition("## Now\n\n")[2].startswith("C")
            return DONE
        return f"{APC}\n" + '{"step": "waiting"}' if "final step" not in part.prompt else DONE

    player = Player(part, lasting=False)
    outcome = play(root, player)
    assert outcome.state.outcome == "COMPLETED" and len(player.sessions) == 5


def test_an_agent_that_loads_the_next_step_itself_is_followed(tmp_path: Path) -> None:
    """The sources tell it to; the document's own list of steps shows how far it went."""
    root = project(tmp_path / "p")
    out = root / "_bmad-output" / "plan.md"

    async def part(part: Part) -> str:
        out.parent.mkdir(exist_ok=True)
        if part.answer.startswith("C"):
            out.write_text("---\nstepsCompleted: [1]\n---\n")
            part.tool("completed", str(root / "_bmad/bmm/workflows/make-plan/steps/step-02-part.md"), kind="read")
            return f"On to part 2.\n{APC}" if part.turn == 2 else DONE
        return APC if part.turn == 1 else DONE

    outcome = play(root, Player(part))
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == [1, 2, 3]
    assert any(one["why"] == "the agent went on to it by itself" for one in outcome.state.decisions)


def test_an_agent_that_does_the_whole_workflow_in_one_turn_is_believed_by_its_document(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        out = root / "_bmad-output" / "plan.md"
        out.parent.mkdir(exist_ok=True)
        out.write_text("---\nstepsCompleted: [1, 2, 3]\n---\nAll parts.\n")
        return '{"step": "finished"}'

    outcome = play(root, Player(part))
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == [1, 2, 3]


def test_a_step_may_be_skipped_and_a_branch_taken_that_the_agent_names(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=4, body="This part is optional.")
    turns = ['{"step": "skipped", "reason": "optional"}', '{"step": "completed", "next": "step-04-part.md"}', DONE]
    outcome = play(root, Player(script(*turns)))
    assert outcome.state.outcome == "COMPLETED" and outcome.state.completed_steps == [1, 2, 4]
    assert outcome.state.steps["step_1"].status == "skipped"
    assert outcome.state.steps["step_1"].reason == "optional"


@pytest.mark.req("BMAD-E3.7", "BMAD-E3.8", "BMAD-NFR11")
def test_running_a_finished_workflow_again_writes_nothing_and_prompts_nobody(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    done = play(root, Player(writes(root)))
    before, document_before = done.state.as_dict(), document(root)
    player, desk = Player(writes(root)), MemoryDesk()
    again = play(root, player, desk=desk, state=done.state)
    assert again.ending.kind == "completed" and not player.prompts and desk.saves == 0
    assert again.state.as_dict() == before and document(root) == document_before


@pytest.mark.req("BMAD-E3.7", "BMAD-NFR11")
def test_the_same_steps_with_the_same_input_give_the_same_records(tmp_path: Path) -> None:
    seen = []
    for name in ("a", "b"):
        root = project(tmp_path / name)
        outcome = play(root, Player(writes(root)))
        seen.append([(one.id, one.status, one.output_hash, one.files) for one in outcome.state.steps.values()])
    assert seen[0] == seen[1]
