"""The review before the end of a large project's workflow: several perspectives, and nothing goes round it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.workflow import executor
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.reviews.pre_final_review import PreFinalReview, verdict_of
from interlock.workflow.state.document import RunPlan
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play, project, script, writes
from tests.workflow.test_party_runs import HOSTED, line, party_mode, round_of, voices

GATE = "gate-pre_final_review"


def verdict(position: str, *findings: dict[str, str], fixed: str = "") -> str:
    table = {"recommendation": f"{position} it", "position": position, "confidence": 80, "findings": list(findings)}
    return json.dumps({**table, "earlier": [{"finding": fixed, "verdict": "fixed"}] if fixed else []})


def run(tmp_path: Path, subagents: Player, *, tier: int = 3, author: Player | None = None, **more: Any) -> Outcome:
    root = more.pop("root", None) or project(tmp_path / "p")
    plan = RunPlan(project=str(root), tier=tier, yolo=more.pop("yolo", False))
    desk = more.pop("desk", None) or MemoryDesk(answers=lambda asking: "yes")
    author = author or Player(writes(root))
    return play(root, author, plan=plan, desk=desk, subagents=subagents, examinations=(PreFinalReview(),), **more)


@pytest.mark.req("BMAD-5.3.4", "BMAD-FR21c")
@pytest.mark.parametrize(("tier", "reviewed"), [(0, False), (2, False), (3, True), (4, True)])
def test_from_tier_3_on_several_perspectives_review_before_the_end(tmp_path: Path, tier: int, reviewed: bool) -> None:
    everybody = voices(lambda name, number: verdict("approve"))
    outcome = run(tmp_path, everybody, tier=tier)
    assert outcome.state.outcome == "COMPLETED" and bool(everybody.prompts) is reviewed
    assert (GATE in outcome.state.completed_steps) is reviewed
    if reviewed:
        (round,) = outcome.state.examinations["pre_final_review"]["rounds"]
        assert round["verdict"] == "approve" and len(round["perspectives"]) >= 2
        assert "plan.md" in everybody.prompts[0] and "is about to be closed" in everybody.prompts[0]


def test_it_is_one_of_the_examinations_of_every_run() -> None:
    assert any(isinstance(one, PreFinalReview) for one in executor.EXAMINATIONS)


@pytest.mark.req("BMAD-5.3.4")
def test_changes_that_are_requested_go_to_the_maker_and_are_reviewed_again(tmp_path: Path) -> None:
    root, mended = project(tmp_path / "p"), []
    author = writes(root)

    async def part(part: Part) -> str:
        if "Pre-final review asks for changes" in part.prompt:
            mended.append(part.prompt)
            return f"Mended.\n{DONE}"
        return str(await author(part))

    finding = {"severity": "major", "title": "Part 2 names no date", "location": "plan.md:3", "fix": "name it"}

    async def voice(part: Part) -> str:
        return verdict("approve", fixed="F1") if mended else verdict("request changes", finding)

    outcome = run(tmp_path, Player(voice), author=Player(part), root=root)
    assert outcome.state.outcome == "COMPLETED" and len(mended) == 1
    assert mended[0].count("Part 2 names no date") == 1 and "name it" in mended[0], "found by three, told once"
    rounds = outcome.state.examinations["pre_final_review"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]
    assert len(rounds[0]["findings"][0]["found_by"]) == 3


@pytest.mark.req("BMAD-5.3.4")
@pytest.mark.parametrize("end", ["yolo", "finished"])
def test_neither_yolo_nor_an_early_end_goes_round_it(tmp_path: Path, end: str) -> None:
    everybody = voices(lambda name, number: verdict("approve"))
    author = Player(script('{"step": "finished"}')) if end == "finished" else None
    outcome = run(tmp_path, everybody, author=author, yolo=end == "yolo")
    assert outcome.state.outcome == "COMPLETED" and GATE in outcome.state.completed_steps and everybody.prompts


def test_a_step_that_a_human_skips_does_not_skip_it(tmp_path: Path) -> None:
    everybody = voices(lambda name, number: verdict("approve"))
    desk = MemoryDesk(answers=lambda asking: "skip" if asking.kind == "escalation" else "yes")
    author = Player(script('{"step": "failed", "reason": "no"}'))
    outcome = run(tmp_path, everybody, author=author, desk=desk)
    assert outcome.state.outcome == "COMPLETED" and GATE in outcome.state.completed_steps and everybody.prompts


@pytest.mark.req("BMAD-5.3.4")
@pytest.mark.parametrize(
    ("says", "why"),
    [
        (lambda name, number: verdict("block", {"severity": "blocking", "title": "It loses data"}), "It loses data"),
        (lambda name, number: verdict("approve") if name == "Leif" else "It depends.", "1 of at least 2 perspectives"),
        (lambda name, number: verdict("request changes"), "3 rounds of changes"),
    ],
)
def test_what_it_blocks_is_put_to_a_human(tmp_path: Path, says: Any, why: str) -> None:
    root = project(tmp_path / "p")
    author = writes(root)

    async def part(part: Part) -> str:
        return DONE if "asks for changes" in part.prompt else str(await author(part))

    desk = MemoryDesk(answers=lambda asking: "stop" if asking.kind == "escalation" else "yes")
    outcome = run(tmp_path, voices(says), author=Player(part), root=root, desk=desk)
    assert outcome.state.outcome == "FAILED"
    (asked,) = [one for one in desk.asked.values() if one.kind == "escalation"]
    assert why in asked.text


def test_one_blocking_finding_keeps_a_majority_from_closing(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    author, seen = writes(root), []

    def says(name: str, number: int) -> str:
        seen.append(name)
        lost = {"severity": "critical", "title": "It loses data"}
        return verdict("approve", lost) if name == "Rowan" and len(seen) <= 3 else verdict("approve", fixed="F1")

    async def part(part: Part) -> str:
        return DONE if "asks for changes" in part.prompt else str(await author(part))

    outcome = run(tmp_path, voices(says), author=Player(part), root=root)
    rounds = outcome.state.examinations["pre_final_review"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]


def test_what_one_round_of_the_discussion_found_the_next_does_not_forget(tmp_path: Path) -> None:
    """B1: an answer that no longer names a blocking finding is no verdict on it."""
    root = project(tmp_path / "p")
    author, mended = writes(root), []

    async def part(part: Part) -> str:
        if "asks for changes" in part.prompt:
            mended.append(part.prompt)
            return DONE
        return str(await author(part))

    async def voice(part: Part) -> str:
        lost = {"severity": "critical", "title": "It loses data"}
        if mended:
            return verdict("approve", fixed="F1" if len(mended) > 1 else "")
        return verdict("request changes" if "Leif" in part.prompt[:40] else "approve", *([lost] if round_of_text(
            part.prompt) == 1 else []))  # fmt: skip

    outcome = run(tmp_path, Player(voice), author=Player(part), root=root)
    rounds = outcome.state.examinations["pre_final_review"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "changes_requested", "approve"]
    assert "It loses data" in mended[0] and "It loses data" in mended[1]
    assert [one["verdict"] for one in rounds[2]["closed"]] == ["fixed"]


def test_the_installed_party_mode_reviews_where_there_is_one(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    party_mode(root)
    spoken = HOSTED.format(one=line("Close it", "approve", agent="Architect"), two=line("Close it", "A", agent="Dev"))
    host = Player(script(spoken))
    outcome = run(tmp_path, host, root=root)
    assert outcome.state.outcome == "COMPLETED" and len(host.sessions) == 1
    (round,) = outcome.state.examinations["pre_final_review"]["rounds"]
    assert set(round["perspectives"]) == {"Architect", "Dev"}


@pytest.mark.parametrize(("voice", "outcome", "asked"), [(verdict("approve"), "COMPLETED", 0), ("Hm.", "FAILED", 2)])
def test_a_host_that_cannot_be_read_gives_way_and_nobody_is_asked_again_and_again(
    tmp_path: Path, voice: str, outcome: str, asked: int
) -> None:
    """The voices are asked by themselves; where they cannot be read either, a human is asked twice, and no more."""
    root = project(tmp_path / "p")
    party_mode(root)

    async def part(part: Part) -> str:
        return "Hm." if "You are the host of Party Mode" in part.prompt or "*exit" in part.prompt else voice

    author = writes(root)

    async def maker(part: Part) -> str:
        return DONE if "is blocked" in part.prompt or "asks for" in part.prompt else str(await author(part))

    desk = MemoryDesk(answers=lambda asking: "Carry on" if asking.kind == "escalation" else "yes")
    found = run(tmp_path, Player(part), author=Player(maker), root=root, desk=desk)
    assert found.state.outcome == outcome
    assert len([one for one in found.desk.asked.values() if one.kind == "escalation"]) == asked
    assert found.state.error == ("not_reviewed" if asked else None)


@pytest.mark.long
def test_killed_at_any_save_it_goes_on_with_the_round_it_was_in(tmp_path: Path) -> None:
    def says(name: str, number: int) -> str:
        return verdict("request changes") if number == 1 and name == "Leif" else verdict("approve")

    whole = run(tmp_path / "whole", voices(says))
    assert whole.state.outcome == "COMPLETED"
    for at in range(2, whole.desk.saves + 1):
        root = project(tmp_path / str(at) / "p")
        desk = MemoryDesk(answers=lambda asking: "yes", die_at=at)
        run(tmp_path / str(at), voices(says), root=root, desk=desk)
        saved = desk.saved
        assert saved is not None
        reviewing = saved.party.get("status") == "running"
        before = len(saved.party.get("rounds", ()))
        everybody = voices(says)
        desk = MemoryDesk(answers=lambda asking: "yes", replies=desk.replies)
        again = run(tmp_path / str(at), everybody, root=root, state=saved, desk=desk)
        assert again.state.outcome == "COMPLETED", at
        assert len(again.state.examinations["pre_final_review"]["rounds"]) == 1, at
        if reviewing:
            assert {round_of_text(prompt) for prompt in everybody.prompts} <= set(range(before + 1, 3)), at


def round_of_text(prompt: str) -> int:
    return round_of(Part(prompt, None, lambda update: None, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("position", "recommendation", "wanted"),
    [
        ("A", "", "approve"),
        ("A: approve", "", "approve"),
        ("approve with comments", "", "approve"),
        ("B", "x", "changes_requested"),
        ("request changes before approval", "", "changes_requested"),
        ("C", "x", "blocked"),
        ("reject", "", "blocked"),
        ("", "Ship it", "approve"),
        ("", "Rewrite the scope", "changes_requested"),
        ("a matter of taste", "accept", "approve"),
    ],
)
def test_what_a_voice_says_is_a_verdict(position: str, recommendation: str, wanted: str) -> None:
    assert verdict_of(Contribution("Ada", "", recommendation, position)) == wanted
