"""What reviewers found is never forgotten, and a review that nobody did is never taken for one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import interlock
from tests.workflow.reviewed import ITEMS, REVIEW, SKILL, SMALL, SPRINT, STORY, develop, issue, said, story_project
from tests.workflow.stage import DONE, MemoryDesk, Part, Player, script

PROGRAM = Path(__file__).parent / "programs" / "reviewer.py"
GRAVE = [issue("Any password is accepted", "high"), issue("Nothing locks", location="src/lock.py:2"),
         issue("No test of the lock", location="tests/test_login.py:4")]  # fmt: skip


def rounds(outcome: object) -> list[dict[str, Any]]:
    return list(outcome.state.examinations["code_review"]["rounds"])  # type: ignore[attr-defined]


def stops() -> MemoryDesk:
    return MemoryDesk(answers=lambda asking: "stop")


def driven(tmp_path: Path, skill: str, way: str, words: str = "") -> tuple[interlock.app.team.Team, str]:
    root = story_project(tmp_path / "app")
    home = interlock.connect(str(tmp_path / "home"))
    team = home.create_team("garden", workdir=str(root))
    team.spawn("ada", agent="command", command=[sys.executable, str(PROGRAM), way])
    task = team.create_task(skill, body=f"{skill} {words}".strip(), type="WORKFLOW")
    home.drive("garden")
    return team, task.id


def test_a_second_answer_does_not_erase_the_first(tmp_path: Path) -> None:
    """B1, by the public verbs: asked for the rest of the checklist, a reviewer answers approve without findings."""
    team, task = driven(tmp_path, SKILL, "forgets", "1.2")
    run = team.workflow_run(task)
    first = run["examinations"]["code_review"]["rounds"][0]
    assert first["verdict"] == "changes_requested"
    assert [one["title"] for one in first["findings"]] == ["Any password is accepted", "No test", "Nothing locks"]
    assert run["outcome"] != "COMPLETED", "no verdict was ever given on any of the findings"
    assert team.questions() and "Any password is accepted" in team.questions()[0].text
    assert "Status: done" not in (tmp_path / "app" / STORY).read_text()
    assert "1-2-sign-in: done" not in (tmp_path / "app" / SPRINT).read_text()


def test_a_review_that_says_nothing_is_not_completed(tmp_path: Path) -> None:
    """B8, by the public verbs: `code-review` says nothing, and nobody else reviews either."""
    team, task = driven(tmp_path, REVIEW, "silent", "1.2")
    run = team.workflow_run(task)
    assert run["outcome"] is None and run["examinations"]["code_review"]["status"] == "not reviewed"
    (asked,) = team.questions()
    assert "Nobody has examined the work" in asked.text
    assert team.task(task).state != "done"


def test_others_review_where_a_persons_review_says_nothing(tmp_path: Path) -> None:
    reviewers = Player(script(said(*SMALL)))
    outcome = develop(story_project(tmp_path), reviewers, developer=Player(script(DONE)), skill=REVIEW)
    assert [one["verdict"] for one in rounds(outcome)] == ["approve"] and len(reviewers.prompts) == 1
    assert "does not say what it came to" in outcome.desk.of("workflow.warning")[0]["text"]


def test_a_finding_is_withdrawn_by_name_and_no_other_goes_with_it(tmp_path: Path) -> None:
    gone = '"earlier": [{"finding": "Nothing locks", "verdict": "withdrawn", "why": "src/lock.py:9"}], "findings": '
    again = said(verdict="approve").replace('"findings": ', gone)
    reviewers = Player(script(said(*GRAVE, items=10), again, said(*SMALL)))
    outcome = develop(story_project(tmp_path), reviewers)
    found = rounds(outcome)[0]
    assert found["verdict"] == "changes_requested"
    assert [one["title"] for one in found["findings"]] == ["Any password is accepted", "No test of the lock"]


def test_a_finding_stays_open_until_a_verdict_on_it_however_often_others_approve(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    reviewers = Player(script(said(*GRAVE, verdict="changes_requested"), said(*SMALL, verdict="approve")))
    outcome = develop(root, reviewers, looks_back=False, desk=stops())
    assert outcome.state.outcome == "FAILED" and "Status: done" not in (root / STORY).read_text()
    assert [one["verdict"] for one in rounds(outcome)] == ["changes_requested", "blocked"]
    asked = [one for one in reviewers.prompts if 'a verdict on F1 in "earlier"' in one]
    assert asked, "a reviewer that names no verdict is asked for it"
    assert [one["id"] for one in rounds(outcome)[-1]["findings"]][:3] == ["F1", "F2", "F3"]


def test_the_strictest_verdict_on_a_finding_counts(tmp_path: Path) -> None:
    root = story_project(tmp_path)

    async def part(part: Part) -> str:
        if "This is round" not in part.prompt:
            return said(*GRAVE)
        strict = "Security." in part.prompt and "This is round 2" in part.prompt
        given = ", ".join(f'{{"finding": "F{n}", "verdict": "{"open" if strict else "fixed"}"}}' for n in (1, 2, 3))
        return said(verdict="approve").replace('"findings": ', f'"earlier": [{given}], "findings": ')

    outcome = develop(root, Player(part), tier=2, looks_back=False)
    assert [one["verdict"] for one in rounds(outcome)] == ["changes_requested", "changes_requested", "approve"]
    assert [one["verdict"] for one in rounds(outcome)[2]["closed"]] == ["fixed"] * 3


@pytest.mark.parametrize("verdict", ["changes_requested", "blocked"])
def test_a_reviewer_that_rejects_the_work_and_names_nothing_is_not_overruled(tmp_path: Path, verdict: str) -> None:
    reviewers = Player(script(said(verdict=verdict)))
    outcome = develop(story_project(tmp_path), reviewers, desk=stops(), looks_back=False)
    assert outcome.state.outcome == "FAILED" and rounds(outcome)[0]["verdict"] == verdict
    assert rounds(outcome)[0]["findings"][0]["title"] == "looked at it"


def test_low_findings_of_an_approval_are_open_until_they_are_fixed(tmp_path: Path) -> None:
    """B9."""
    root = story_project(tmp_path)
    outcome = develop(root, Player(script(said(*SMALL, verdict="approve"))))
    assert outcome.state.outcome == "COMPLETED"
    text = (root / STORY).read_text()
    assert text.count("- [ ] [Low] ") == 3 and "- [x] [Low]" not in text and len(SMALL) == 3 and ITEMS == 19
