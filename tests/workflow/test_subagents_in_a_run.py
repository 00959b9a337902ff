"""A run that gives work to subagents: what it keeps of them, and what becomes of them when it is killed or stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from interlock.workflow import panel
from interlock.workflow.agents.assignment import Assignment, Report
from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.engine.context import Draft, Note
from interlock.workflow.engine.examination import APPROVE, Examined
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.engine.subagent_registry import KEPT
from interlock.workflow.reviews import reviewers
from interlock.workflow.state.document import RunPlan
from tests.workflow import virtual
from tests.workflow.stage import MemoryDesk, Part, Player, play, project, writes
from tests.workflow.subagents import Staff, run_all

APPROVED = {"verdict": "approve", "summary": "fine", "findings": []}


class Review:
    """Four reviewers look at the plan, each once."""

    name, title = "peer_review", "Review"

    def __init__(self, work: list[Assignment] | None = None) -> None:
        self.work = work if work is not None else reviewers.fork("Review _bmad-output/plan.md.")
        self.reports: list[Report] = []

    def called_for(self, run: Draft) -> str | None:
        return "every plan gets one"

    def begin(self, run: Draft, round: int) -> Review:
        return self

    async def ask(self, runtime: Runtime, note: Note) -> list[Report]:
        assert runtime.dispatcher is not None
        self.reports = await run_all(runtime.dispatcher, self.work)
        return self.reports

    def judge(self, run: Draft, said: list[Report]) -> Examined:
        read = {one.label: reviewers.answer(one.text, one.label).findings for one in said}
        return Examined(APPROVE, "reviewed", panel.merge(read))


def reviewer(seconds: float = 10.0) -> Staff:
    """Each finds the same thing, and one of its own."""

    async def part(part: Part) -> str:
        mine = next(one.name for one in reviewers.EMPHASES if one.text in part.prompt)
        await virtual.passes(seconds + len(mine))  # not all at the same time
        found = [
            {"severity": "minor", "title": "part 2 has no date", "location": "plan.md:3"},
            {"severity": "minor", "title": f"only {mine} sees this", "location": f"{mine}.md:1"},
        ]
        return json.dumps({**APPROVED, "findings": found})

    return Staff(part, resumes=True)


@pytest.mark.req("BMAD-5.8.1", "BMAD-5.8.2", "BMAD-5.8.3", "BMAD-FR23b", "BMAD-FR22", "BMAD-5.5.1")
def test_four_reviewers_judge_by_themselves_and_their_findings_are_brought_together(tmp_path: Path) -> None:
    root, staff, review = project(tmp_path), reviewer(), Review()
    outcome = play(root, Player(writes(root)), examinations=(review,), subagents=staff)
    assert outcome.ending.kind == "completed", outcome.ending
    assert len(staff.sessions) == staff.most == 4 and staff.alive == 0
    assert outcome.seconds == 10 + len("maintainability")  # all at once
    assert all("sees this" not in prompt for prompt in staff.prompts)
    found = outcome.state.examinations["peer_review"]["rounds"][0]["findings"]
    assert len(found) == 5
    shared = next(one for one in found if one["title"] == "part 2 has no date")
    assert shared["found_by"] == sorted(one.label for one in review.work)


@pytest.mark.req("BMAD-5.8.4", "BMAD-FR23c", "BMAD-FR23a", "BMAD-5.6.2")
def test_every_subagent_is_kept_with_what_it_can_be_resumed_by(tmp_path: Path) -> None:
    root = project(tmp_path)
    staff = reviewer()
    outcome = play(root, Player(writes(root)), examinations=(Review(),), subagents=staff)
    assert outcome.desk.saved is not None
    assert all("You are an adversarial reviewer" in prompt for prompt in staff.prompts)
    kept = outcome.desk.saved.subagents
    assert [(one["label"], one["status"], one["role"], one["agent_id"]) for one in kept] == [
        ("reviewer-correctness", "completed", "reviewer-correctness", "s1"),
        ("reviewer-security", "completed", "reviewer-security", "s2"),
        ("reviewer-tests", "completed", "reviewer-tests", "s3"),
        ("reviewer-maintainability", "completed", "reviewer-maintainability", "s4"),
    ]
    assert all(one["started"] < one["ended"] for one in kept)
    decided = [one for one in outcome.state.decisions if one["kind"] == "subagent"]
    assert len(decided) == 4 and "standard code_review at tier 1" in decided[0]["why"]
    assert [one["status"] for one in outcome.desk.of("workflow.subagent_ended")] == ["completed"] * 4


@pytest.mark.req("BMAD-5.6.1", "BMAD-5.6.3", "BMAD-5.6.4", "BMAD-FR23")
def test_work_is_routed_to_the_packages_agents_and_the_unknown_with_a_warning(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "_bmad" / "_config" / "agent-manifest.csv").write_text(
        "name,displayName,title,icon,role,identity,communicationStyle,principles,module,path\n"
        '"tea","Murat","Test Architect","","Tester","","","","bmm",""\n'
        '"analyst","Mary","Business Analyst","","Analyst","","","","bmm",""\n'
    )
    staff = Staff(lambda part: _says("fine"))
    work = [
        Assignment("checklist", "Check it.", "validation"),
        Assignment("brainstorm", "Ideas?", "creative"),
        Assignment("sing", "A song.", "karaoke"),
        Assignment("own", "You are nobody in particular. Hm?", "creative"),
    ]
    outcome = play(root, Player(writes(root)), examinations=(Review(work),), subagents=staff)
    assert outcome.ending.kind == "completed", outcome.ending
    validates, creates, sings, own = staff.prompts
    assert validates.startswith("You are Murat, Test Architect.") and "You validate" in validates
    assert creates.startswith("You are Mary, Business Analyst.") and "many directions" in creates
    assert sings.startswith("You do the work described below")
    assert own == "You are nobody in particular. Hm?"
    (warned,) = outcome.desk.of("workflow.subagent_unrouted")
    assert (warned["label"], warned["kind"]) == ("sing", "karaoke")


async def _says(text: str) -> str:
    return text


@pytest.mark.long
@pytest.mark.req("BMAD-5.8.4", "BMAD-FR23c")
@pytest.mark.parametrize("resumes", [True, False])
def test_killed_at_any_save_the_review_goes_on_in_the_sessions_that_were_open(tmp_path: Path, resumes: bool) -> None:
    whole = play(
        project(tmp_path / "whole"), Player(writes(tmp_path / "whole")), examinations=(Review(),), subagents=reviewer()
    )
    taken_up = 0
    for die_at in range(1, whole.desk.saves + 1):
        root = project(tmp_path / f"die-{die_at}")
        desk, first = MemoryDesk(die_at=die_at), reviewer()
        first.resumes = resumes
        killed = play(root, Player(writes(root)), desk=desk, examinations=(Review(),), subagents=first)
        assert killed.ending.kind == "superseded" and first.alive == 0
        desk.die_at = None
        before = {one["label"]: one["agent_id"] for one in (desk.saved.subagents if desk.saved else [])
                  if one["status"] == "working"}  # fmt: skip
        second = reviewer()
        second.resumes = resumes
        again = play(
            root, Player(writes(root)), desk=desk, state=desk.saved, examinations=(Review(),), subagents=second
        )
        assert again.ending.kind == "completed", again.ending
        asked = {one.resume for one in second.openings} - {None}
        assert asked == {id for id in before.values() if id is not None}
        taken_up += sum(prompt.startswith("You were interrupted.") for prompt in second.prompts)
        assert len(again.state.examinations["peer_review"]["rounds"]) == 1
        assert not [one for one in again.state.subagents if one["status"] == "working"]
    assert taken_up >= 8 if resumes else taken_up == 0


def test_a_run_that_is_stopped_ends_its_subagents_and_reviews_again_when_it_is_taken_up(tmp_path: Path) -> None:
    root, desk, staff = project(tmp_path), MemoryDesk(), reviewer(1000)

    async def stop(controller: AutomationController) -> None:
        while staff.alive < 4:
            await virtual.passes(1)
        await controller.cancel()

    stopped = play(root, Player(writes(root)), desk=desk, examinations=(Review(),), subagents=staff, meanwhile=stop)
    assert stopped.ending.kind == "stopped" and staff.alive == 0 and stopped.seconds < 10
    assert stopped.state.examinations["peer_review"]["rounds"] == []
    assert not desk.asked
    second = reviewer()
    again = play(root, Player(writes(root)), desk=desk, state=desk.saved, examinations=(Review(),), subagents=second)
    assert again.ending.kind == "completed"
    assert {one.resume for one in second.openings} == {"s1", "s2", "s3", "s4"}


def test_of_many_subagents_the_latest_are_kept_and_those_at_work(tmp_path: Path) -> None:
    root = project(tmp_path)
    work = [Assignment(f"w{n}", "Check it.", "validation") for n in range(KEPT + 30)]
    staff = Staff(lambda part: _says("fine"))
    outcome = play(root, Player(writes(root)), examinations=(Review(work),), subagents=staff)
    assert len(outcome.state.subagents) == KEPT and outcome.state.subagents[-1]["n"] == KEPT + 30


@pytest.mark.req("BMAD-5.7.5")
def test_max_model_of_the_overlay_or_the_run_caps_what_is_chosen(tmp_path: Path) -> None:
    root = project(tmp_path)
    work = [Assignment("deep", "Think.", "analysis", complexity="complex")]

    def chosen(thresholds: dict[str, str]) -> str:
        outcome = play(
            root, Player(writes(root)), examinations=(Review(work),), subagents=Staff(lambda part: _says("fine")),
            thresholds=lambda: thresholds,
        )  # fmt: skip
        return str(next(one for one in outcome.state.decisions if one["kind"] == "subagent")["why"])

    assert "max_model" not in chosen({})
    assert "no larger than max_model" in chosen({"max_model": "haiku"})
    assert "max_model" not in chosen({"max_model": "enormous"})


@pytest.mark.req("BMAD-FR23a", "BMAD-E5.4", "BMAD-5.7.1", "BMAD-5.7.2", "BMAD-5.7.3", "BMAD-5.7.4")
@pytest.mark.parametrize(
    ("kind", "complexity", "tier", "chosen"),
    [
        ("validation", "simple", 0, "haiku"),
        ("validation", "simple", 1, "haiku"),
        ("analysis", "complex", 3, "opus"),
        ("analysis", "complex", 4, "opus"),
        ("implementation", "standard", 2, "sonnet"),
        ("implementation", "simple", 0, "sonnet"),
        ("implementation", "complex", 1, "opus"),
    ],
)
def test_the_model_follows_from_the_work_and_the_runs_tier(
    tmp_path: Path, kind: str, complexity: Literal["simple", "complex"], tier: int, chosen: str
) -> None:
    root, staff = project(tmp_path), Staff(lambda part: _says("fine"))
    work = [Assignment("work", "Do it.", kind, complexity=complexity), Assignment("own", "Do it.", kind, model="m-1")]
    desk = MemoryDesk(answers=lambda asking: "confirm")
    outcome = play(
        root, Player(writes(root)), desk=desk, examinations=(Review(work),), subagents=staff,
        plan=RunPlan(project=str(root), tier=tier), models={one: f"the-{one}" for one in ("haiku", "sonnet", "opus")},
    )  # fmt: skip
    assert outcome.ending.kind == "completed", outcome.ending
    assert [one.model for one in staff.openings] == [f"the-{chosen}", "m-1"]
    assert [one["model"] for one in outcome.state.subagents] == [f"the-{chosen}", "m-1"]
