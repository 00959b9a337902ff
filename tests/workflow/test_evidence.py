"""How far a result can be trusted: what was measured is a number, and where nothing was people are told just that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.workflow.engine import confidence_signals
from interlock.workflow.engine.confidence_calculator import calculate
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.reviews.code_review import CodeReview
from interlock.workflow.reviews.pre_final_review import PreFinalReview
from interlock.workflow.state.document import RunPlan, StepRecord
from tests.workflow.reviewed import SKILL, SMALL, Developer, issue, said, story_project
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play, project, script, writes
from tests.workflow.test_pre_final_review import verdict

FOUR = ("validation_verdict", "memory_match", "reviewer_agreement", "party_mode")


def checkpoints(outcome: Outcome) -> list[str]:
    return [one.text for one in outcome.desk.asked.values() if one.kind == "checkpoint"]


@pytest.mark.req("BMAD-2b.7.3", "BMAD-2b.11.3", "BMAD-FR19g")
def test_a_checkpoint_that_no_signal_says_anything_about_shows_no_number(tmp_path: Path) -> None:
    root = project(tmp_path / "p", output="")
    desk = MemoryDesk(answers=lambda asking: "approve")
    outcome = play(root, Player(script(DONE)), plan=RunPlan(project=str(root), tier=4), desk=desk)
    first = checkpoints(outcome)[0]
    assert "no evidence" in first and "%" not in first
    assert "Everything that was done" in first and "approve / reject" in first, "the format of the default, 25"
    record = outcome.state.as_dict()["steps"]["step_1"]
    assert record["confidence"] == 25.0 and "evidence" not in record, "the formula's default stays, for machines"


@pytest.mark.req("BMAD-2b.7.3", "BMAD-2b.11.4")
def test_a_checkpoint_shows_what_was_measured(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    desk = MemoryDesk(answers=lambda asking: "approve")
    plan = RunPlan(project=str(root), tier=4)
    outcome = play(root, Player(writes(root)), plan=plan, desk=desk, knowledge=Knowledge(relevance=90.0))
    assert "confidence 80.8 %" in checkpoints(outcome)[0] and "no evidence" not in checkpoints(outcome)[0]
    record = outcome.state.steps["step_1"]
    assert record.evidence == ["validation_verdict", "memory_match"] and record.confidence == 80.8


def test_a_batch_names_the_steps_without_evidence_and_shows_all_of_them(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=4, output="")
    turns = ['{"step": "completed", "verdict": "PASSED"}', DONE, '{"step": "completed", "verdict": "PASSED"}', DONE]
    desk = MemoryDesk(answers=lambda asking: "approve")
    outcome = play(root, Player(script(*turns)), plan=RunPlan(project=str(root), tier=3), desk=desk)
    (shown,) = checkpoints(outcome)
    assert "confidence 50 %, no evidence for Step 2: Part 2." in shown and "Everything that was done" in shown


@pytest.mark.parametrize(
    ("kept", "measured"), [({}, False), ({"confidence": 25.0}, False), ({"confidence": 60.0}, True)]
)
def test_records_from_before_are_judged_by_their_number(kept: dict[str, Any], measured: bool) -> None:
    assert confidence_signals.measured(StepRecord(1, "x", **kept)) is measured
    assert confidence_signals.measured(StepRecord(1, "x", confidence=25.0, evidence=["party_mode"]))


MODELS = {"haiku": "small", "sonnet": "middle", "opus": "large"}


def reviewed(tmp_path: Path, says: Any, *, models: dict[str, str] | None = None, **more: Any) -> Outcome:
    """A story of a large project, with its code review and the review before the end."""
    root = story_project(tmp_path)

    async def others(part: Part) -> str:
        return verdict("approve") if "about to be closed" in part.prompt else str(says(part))

    desk = MemoryDesk(answers=lambda asking: "yes")
    plan = RunPlan(project=str(root), tier=3)
    return play(
        root, Player(Developer(root)), skill=SKILL, plan=plan, desk=desk, subagents=Player(others), models=models,
        examinations=(CodeReview(), PreFinalReview()), **more,
    )  # fmt: skip


@pytest.mark.req("BMAD-2b.11.1", "BMAD-2b.11.2", "BMAD-FR19e", "BMAD-E2b.6")
def test_all_five_signals_count_for_the_last_review_of_the_work(tmp_path: Path) -> None:
    outcome = reviewed(tmp_path, lambda part: said(*SMALL), models=MODELS, knowledge=Knowledge(relevance=90.0))
    assert outcome.state.outcome == "COMPLETED"
    review, final = (outcome.state.steps[f"step_gate-{name}"] for name in ("code_review", "pre_final_review"))
    assert set(review.evidence) == {"validation_verdict", "memory_match", "reviewer_agreement", "model_selection"}
    assert set(final.evidence) == {*FOUR, "model_selection"}
    kept = outcome.state.examinations["code_review"]["rounds"][-1]["signals"]
    assert kept["reviewer_agreement"] == 100.0 and kept["model_selection"] in (70.0, 85.0, 100.0)
    signals = {
        "validation_verdict": 100.0, "memory_match": 90.0, **kept,
        **outcome.state.examinations["pre_final_review"]["rounds"][-1]["signals"],
    }  # fmt: skip
    assert final.confidence == calculate(signals, 3).score


@pytest.mark.req("BMAD-2b.11.1")
def test_a_program_that_knows_no_classes_of_models_gives_four_signals(tmp_path: Path) -> None:
    outcome = reviewed(tmp_path, lambda part: said(*SMALL), knowledge=Knowledge(relevance=90.0))
    assert set(outcome.state.steps["step_gate-pre_final_review"].evidence) == set(FOUR)
    assert all(one["model_signal"] is None for one in outcome.state.subagents)


def test_what_reviewers_said_before_something_was_mended_counts_no_longer(tmp_path: Path) -> None:
    asked: list[str] = []

    async def others(part: Part) -> str:
        if "about to be closed" not in part.prompt:
            return said(*SMALL)
        asked.append(part.prompt)
        return (
            verdict("request changes", issue("A gap", "major")) if len(asked) <= 3 else verdict("approve", fixed="F1")
        )

    root = story_project(tmp_path)
    outcome = play(
        root, Player(Developer(root)), skill=SKILL, plan=RunPlan(project=str(root), tier=3),
        desk=MemoryDesk(answers=lambda asking: "yes"), subagents=Player(others),
        examinations=(CodeReview(), PreFinalReview()),
    )  # fmt: skip
    assert outcome.state.outcome == "COMPLETED"
    assert outcome.state.steps["step_gate-code_review"].evidence == ["validation_verdict", "reviewer_agreement"]
    assert outcome.state.steps["step_gate-pre_final_review"].evidence == ["validation_verdict", "party_mode"]


def test_the_least_of_the_models_that_answered_in_a_round_counts() -> None:
    def one(n: int, signal: float | None, status: str = "completed") -> dict[str, Any]:
        return {"n": n, "model_signal": signal, "status": status}

    entries = [one(1, 20.0), one(2, 100.0), one(3, 70.0), one(4, None), one(5, 10.0, "failed")]
    assert confidence_signals.models(entries, 1) == {"model_selection": 70.0}
    assert confidence_signals.models(entries, 3) == {} and confidence_signals.models([{}], 0) == {}
