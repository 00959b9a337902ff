"""Batches of continues, and the checkpoints between them, by tier and by confidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.engine.ports import Asking, Knowledge
from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import MemoryDesk, Outcome, Part, Player, play, project, writes


def run(tmp_path: Path, tier: int, *, steps: int = 12, answers: Any = lambda asking: "yes", **more: Any) -> Outcome:
    root = project(tmp_path / "p", steps=steps)
    plan = RunPlan(project=str(root), tier=tier)
    return play(root, Player(writes(root)), desk=MemoryDesk(answers=answers), plan=plan, **more)


@pytest.mark.req("BMAD-2b.6.1", "BMAD-FR12a", "BMAD-2a.7.1")
@pytest.mark.parametrize("tier", [0, 1])
def test_tiers_0_and_1_run_through(tmp_path: Path, tier: int) -> None:
    outcome = run(tmp_path, tier)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked


@pytest.mark.req("BMAD-2b.6.2", "BMAD-2b.6.3", "BMAD-2b.6.4", "BMAD-FR12a", "BMAD-E2b.7", "BMAD-2a.7.2")
@pytest.mark.parametrize(("tier", "after"), [(2, [5, 10]), (3, [3, 6, 9]), (4, list(range(1, 12)))])
def test_a_checkpoint_follows_each_batch_of_the_tier(tmp_path: Path, tier: int, after: list[int]) -> None:
    done: list[int] = []
    desk: list[Asking] = []

    def answer(asking: Asking) -> str:
        desk.append(asking)
        done.append(asking.data["done"] if "done" in asking.data else len(desk))
        return "confirm"

    outcome = run(tmp_path, tier, answers=answer)
    assert outcome.state.outcome == "COMPLETED"
    assert [entry["step"] for entry in outcome.state.asked] == after
    assert all(one.kind == "checkpoint" for one in desk)


@pytest.mark.req("BMAD-2b.6.5")
def test_the_checkpoint_sums_the_batch_up_and_offers_the_details(tmp_path: Path) -> None:
    outcome = run(tmp_path, 3, answers=lambda asking: None)
    (asked,) = outcome.desk.asked.values()
    assert "3 steps done" in asked.text and "Part 1" in asked.text
    assert "details" in asked.options and "Step 3" in str(asked.context)


@pytest.mark.req("BMAD-2b.6.6", "BMAD-NFR3")
def test_continues_in_a_row_take_one_entry_of_the_history(tmp_path: Path) -> None:
    outcome = run(tmp_path, 1)
    assert len(outcome.state.menu_history) == 1 and outcome.state.menu_history[0]["count"] == 11
    batched = sum(len(str(entry)) for entry in outcome.state.menu_history)
    unbatched = 11 * len(str(outcome.state.menu_history[0]))
    assert batched < unbatched / 5


@pytest.mark.req("BMAD-NFR3")
def test_an_agent_reads_less_than_it_would_of_the_whole_workflow_at_each_step(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=12, body="Lorem ipsum dolor sit amet. " * 100)
    player = Player(writes(root))
    play(root, player, plan=RunPlan(project=str(root), tier=1))
    whole = sum(len(path.read_text()) for path in root.rglob("step-*.md"))
    assert max(len(one) for one in player.prompts) < whole / 3


@pytest.mark.req("BMAD-2b.7.1", "BMAD-2b.7.2", "BMAD-2b.7.3", "BMAD-FR12b", "BMAD-E2b.6")
@pytest.mark.parametrize(
    ("verdict", "relevance", "format", "options"),
    [
        ("PASSED", 95.0, "minimal", ("confirm", "stop")),
        ("PASSED", None, "summary", ("confirm", "details", "stop")),
        ("PARTIAL", 10.0, "full_audit_trail", ("approve", "reject", "stop")),
    ],
)
def test_the_format_follows_the_confidence(
    tmp_path: Path, verdict: str | None, relevance: float | None, format: str, options: tuple[str, ...]
) -> None:
    root = project(tmp_path / "p", steps=4)
    line = '{"step": "completed"}' if verdict is None else f'{{"step": "completed", "verdict": "{verdict}"}}'

    async def part(part: Part) -> str:
        return f"Part {part.step} is written.\n{line}"

    plan = RunPlan(project=str(root), tier=3)
    outcome = play(root, Player(part), plan=plan, knowledge=Knowledge(relevance=relevance))
    (asked,) = outcome.desk.asked.values()
    assert asked.data["format"] == format and asked.options == options
    assert ("Everything that was done" in asked.text) == (format == "full_audit_trail")


@pytest.mark.req("BMAD-2b.7.4")
def test_every_checkpoint_can_be_unfolded(tmp_path: Path) -> None:
    replies = iter(["details", "confirm", "confirm", "confirm"])
    outcome = run(tmp_path, 3, answers=lambda asking: next(replies))
    asked = list(outcome.desk.asked.values())
    assert all(one.context or "Step 1" in one.text for one in asked)
    assert "1. Step 1: Part 1" in asked[1].text and outcome.state.outcome == "COMPLETED"


def test_a_human_who_does_not_accept_has_the_last_step_done_again(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=5)
    replies = iter(["The goals are missing", "confirm", "confirm", "confirm"])
    player = Player(writes(root))
    desk = MemoryDesk(answers=lambda asking: next(replies))
    outcome = play(root, player, desk=desk, plan=RunPlan(project=str(root), tier=3))
    again = [one for one in player.prompts if "The goals are missing" in one]
    assert len(again) == 1 and "# Step 3" in again[0] and outcome.state.steps["step_3"].visit == 2
    assert outcome.state.outcome == "COMPLETED"
    after = list(desk.asked.values())[1].text
    assert after.startswith("3 steps done: ") and after.count("Part 3") == 1, "done twice, it is one step still"


def test_nobody_answers_and_the_run_is_parked_after_its_time_not_failed(tmp_path: Path) -> None:
    outcome = run(tmp_path, 4, answers=lambda asking: None)
    assert outcome.ending.kind == "parked" and outcome.seconds == 300.0 and outcome.state.outcome is None
