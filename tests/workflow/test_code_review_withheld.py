"""A review ends although a reviewer does not say whether a finding still stands; reviewers see what they judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interlock.workflow.reviews.code_review import CodeReview
from interlock.workflow.state.document import RunPlan
from tests.workflow.reviewed import OUT, SKILL, SMALL, SPRINT, Developer, develop, issue, judged, said, story_project
from tests.workflow.stage import MemoryDesk, Outcome, Part, Player, play, script

WRONG = said(issue("Five wrong passwords do not lock", "high"), *SMALL, verdict="changes_requested")
SECOND = "has not said whether they still stand"


def rounds(outcome: Outcome) -> list[str]:
    return [one["verdict"] for one in outcome.state.rounds_of("code_review")]


@pytest.mark.req("BMAD-5.13.3")
def test_who_withholds_a_verdict_is_asked_for_it_once_and_then_another_reviewer(tmp_path: Path) -> None:
    """Finding W19: the finding stayed open, and its maker, who had fixed it, was told of it for ever."""
    developer = Developer(story_project(tmp_path))

    async def part(part: Part) -> str:
        if SECOND in part.prompt:
            return judged(part.prompt, said(verdict="approve"))
        return said(*SMALL, verdict="approve") if developer.mended else WRONG

    reviewers = Player(part)
    outcome = develop(developer.root, reviewers, developer=developer, looks_back=False)
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    assert rounds(outcome) == ["changes_requested", "approve"] and len(developer.mended) == 1
    assert [SECOND in prompt for prompt in reviewers.prompts] == [False, False, False, True]
    assert "- F1: Five wrong passwords do not lock (src/login.py:3)" in reviewers.prompts[-1]
    assert 'a verdict on F1 in "earlier"' in reviewers.prompts[-2], "it is asked itself first"


@pytest.mark.req("BMAD-5.13.4")
def test_what_nobody_judges_is_put_to_a_person_whose_retry_has_it_examined_afresh(tmp_path: Path) -> None:
    developer = Developer(story_project(tmp_path))
    asked: list[str] = []

    async def part(part: Part) -> str:
        return said(*SMALL, verdict="approve") if developer.mended else WRONG

    def human(asking: object) -> str:
        asked.append(asking.text)  # type: ignore[attr-defined]
        return "retry"

    reviewers = Player(part)
    outcome = develop(developer.root, reviewers, developer=developer, desk=MemoryDesk(human), looks_back=False)
    assert len(asked) == 1 and "no reviewer says whether F1 still stands" in asked[0]
    assert len(developer.mended) == 1, "its maker has nothing to do about it"
    assert outcome.state.outcome == "COMPLETED" and rounds(outcome) == ["changes_requested", "blocked", "approve"]
    assert "- F1, blocking" in reviewers.prompts[-2] and "- F1" not in reviewers.prompts[-1], "it is looked at afresh"
    aside = outcome.state.rounds_of("code_review")[1]["set_aside"]
    assert "Five wrong passwords do not lock" in [one["title"] for one in aside]


@pytest.mark.req("BMAD-5.12.2")
def test_reviewers_see_new_files_and_what_the_list_says_of_the_story(tmp_path: Path) -> None:
    """Finding W12: of what its maker had not committed they saw the status file alone, as an unlisted change."""
    root = story_project(tmp_path)
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "before"]):
        subprocess.run(["git", *words], cwd=root, check=True, timeout=60)
    (root / SPRINT).write_text((root / SPRINT).read_text().replace("review", "in-progress"))
    (root / "src/picture.bin").write_bytes(b"\0\1")
    reviewers = Player(script(said(*SMALL)))
    play(
        root, Player(Developer(root)), skill=SKILL, plan=RunPlan(project=str(root), tier=1, brief="Mind the lock."),
        examinations=(CodeReview(about=lambda run: "`epics.md` says of 1-2-sign-in: as a gardener."),),
        subagents=reviewers,
    )  # fmt: skip
    prompt = reviewers.prompts[0]
    assert "+++ b/src/login.py" in prompt and "+def sign_in(password): return True" in prompt
    assert "diff --git a/src/picture.bin b/src/picture.bin\nnew file\nBinary file" in prompt
    assert "`epics.md` says of 1-2-sign-in: as a gardener." in prompt and "> Mind the lock." in prompt
    assert "-  1-2-sign-in: review" in prompt
    unnamed = [line for line in prompt.splitlines() if "not in the story's File List" in line]
    assert unnamed == ["Changed, but not in the story's File List: src/picture.bin"] and OUT in prompt


@pytest.mark.req("BMAD-FR42")
def test_a_workflow_that_is_called_finished_early_is_reviewed_all_the_same(tmp_path: Path) -> None:
    developer = Developer(story_project(tmp_path))

    async def part(part: Part) -> str:
        return (await developer(part)).replace("completed", "finished")

    reviewers = Player(script(said(*SMALL)))
    outcome = play(
        developer.root, Player(part), skill=SKILL, plan=RunPlan(project=str(developer.root), tier=1),
        examinations=(CodeReview(),), subagents=reviewers,
    )  # fmt: skip
    assert outcome.state.outcome == "COMPLETED" and len(reviewers.prompts) == 1
