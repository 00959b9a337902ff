"""A story run says which story it implements, and its story is done only with the evidence for it (finding B6)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.clock import iso
from interlock.workflow.reviews.code_review import CodeReview
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import RunPlan, StepId, WorkflowState
from tests.workflow.reviewed import (
    OUT,
    SKILL,
    SMALL,
    SPRINT,
    SPRINT_TEXT,
    STORY,
    STORY_TEXT,
    Developer,
    said,
    story_project,
)
from tests.workflow.stage import DONE, START, MemoryDesk, NoCheckpoints, Outcome, Part, Player, play, script

APPROVES = said(*SMALL, verdict="approve")
BEDS, LAMPS = f"{OUT}/1-1-beds.md", f"{OUT}/1-2-lamps.md"


def run(
    root: Path, part: Any = None, *, answers: Any = lambda asking: None, checkpoints: Any = None, **values: str
) -> Outcome:
    plan = RunPlan(project=str(root), tier=1, values=values)
    return play(
        root, Player(part or Developer(root)), skill=SKILL, plan=plan, examinations=(CodeReview(),),
        subagents=Player(script(APPROVES)), desk=MemoryDesk(answers=answers), checkpoints=checkpoints,
    )  # fmt: skip


def two_ready(root: Path) -> Path:
    story_project(root)
    (root / STORY).unlink()
    for path in (BEDS, LAMPS):
        (root / path).write_text(STORY_TEXT.replace("Status: review", "Status: ready-for-dev"))
    (root / SPRINT).write_text("development_status:\n  1-1-beds: ready-for-dev\n  1-2-lamps: ready-for-dev\n")
    return root


def by_git(root: Path) -> Path:
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


@pytest.mark.req("BMAD-5.13.2", "BMAD-FR44b")
def test_with_two_ready_stories_the_run_says_which_one_and_finishes_that(tmp_path: Path) -> None:
    """Finding B6: the review approved, both stories stayed ready-for-dev, and the summary named the one just done."""
    root = two_ready(tmp_path)
    player: list[str] = []
    developer = Developer(root)

    async def part(part: Part) -> str:
        player.append(part.prompt)
        return await developer(part)

    outcome = run(root, part)
    assert outcome.state.outcome == "COMPLETED"
    (bound,) = outcome.desk.of("workflow.story")
    assert (bound["story"], bound["path"]) == ("1-1-beds", BEDS) and "1-1-beds, 1-2-lamps" in bound["why"]
    assert f"story_path: {BEDS}" in player[0], "its agent is told"
    assert (root / SPRINT).read_text() == "development_status:\n  1-1-beds: done\n  1-2-lamps: ready-for-dev\n"
    assert "The next story that is ready is 1-2-lamps." in outcome.ending.summary


def test_a_story_that_is_named_is_the_one(tmp_path: Path) -> None:
    outcome = run(two_ready(tmp_path), story_path=LAMPS)
    assert outcome.desk.of("workflow.story")[0]["story"] == "1-2-lamps"
    assert "1-2-lamps: done" in (tmp_path / SPRINT).read_text()


def test_a_named_story_that_is_not_there_is_replaced_by_none(tmp_path: Path) -> None:
    outcome = run(two_ready(tmp_path), story_path=f"{OUT}/9-9-nothing.md")
    (asked,) = outcome.desk.asked.values()
    assert "was given the story" in asked.text and "9-9-nothing.md, which is not there" in asked.text
    assert outcome.ending.kind == "parked" and not outcome.state.steps
    again = run(two_ready(tmp_path / "again"), answers=lambda asking: "1-2", story_path=f"{OUT}/9-9-nothing.md")
    assert again.desk.of("workflow.story")[0]["story"] == "1-2-lamps", "the answer binds it"


def test_without_any_story_it_asks_and_approves_nothing(tmp_path: Path) -> None:
    """Finding B6: in an empty project the review approved too."""
    root = story_project(tmp_path)
    (root / STORY).unlink()
    (root / SPRINT).unlink()
    outcome = run(root)
    (asked,) = outcome.desk.asked.values()
    assert "needs a story to implement, and none is at work or ready" in asked.text and not outcome.state.steps


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (("- [x] Check", "- [ ] Check"), "tasks are not ticked: Check the password (AC: 1)"),
        (("- src/login.py\n", ""), "not in the File List, but changed: src/login.py"),
        (("- src/login.py\n", "- src/login.py\n- src/never.py\n"), "in the File List, but not changed: src/never.py"),
    ],
)
def test_an_approved_story_is_not_done_without_its_evidence(
    tmp_path: Path, change: tuple[str, str], missing: str
) -> None:
    """Finding B6: no file changed, the task unticked, the File List empty: `done` all the same."""
    root = story_project(tmp_path)
    (root / STORY).write_text(STORY_TEXT.replace(*change))
    by_git(root)
    outcome = run(root)
    assert outcome.ending.kind == "parked" and outcome.state.outcome is None
    assert "Status: review" in (root / STORY).read_text() and (root / SPRINT).read_text() == SPRINT_TEXT
    first = outcome.state.examinations["code_review"]["rounds"][0]
    assert first["verdict"] == "changes_requested" and missing in [one["title"] for one in first["findings"]]


def test_a_story_for_which_nothing_was_changed_is_not_done(tmp_path: Path) -> None:
    """Finding B6."""
    root = story_project(tmp_path)
    (root / "src/login.py").write_text("old\n")
    by_git(root)

    async def liar(part: Part) -> str:
        return DONE

    outcome = run(root, liar)
    titles = [one["title"] for one in outcome.state.examinations["code_review"]["rounds"][0]["findings"]]
    assert "nothing was changed for the story" in titles and "Status: done" not in (root / STORY).read_text()


def test_what_is_fixed_after_it_was_found_missing_is_done(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    (root / STORY).write_text(STORY_TEXT.replace("- [x] Check", "- [ ] Check"))
    developer = Developer(by_git(root))

    async def part(part: Part) -> str:
        if "tasks are not ticked" in part.prompt:
            (root / STORY).write_text((root / STORY).read_text().replace("- [ ] Check", "- [x] Check"))
        return await developer(part)

    outcome = run(root, part)
    assert outcome.state.outcome == "COMPLETED" and "Status: done" in (root / STORY).read_text()


class Kept(NoCheckpoints):
    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        CheckpointKeeper().create(state, step=step, reason=reason, at=iso(START))


@pytest.mark.parametrize("works", [True, False])
def test_without_git_the_file_list_is_compared_with_the_snapshots_of_the_run(tmp_path: Path, works: bool) -> None:
    """What was listed and existed was believed there; its agent tells of no write."""
    root = story_project(tmp_path)
    (root / "src/login.py").write_text("old\n")
    (root / "src/other.py").write_text("old\n")
    (root / STORY).write_text(STORY_TEXT.replace("- src/login.py\n", "- src/login.py\n- src/other.py\n"))

    async def silent(part: Part) -> str:
        if works:
            (root / "src/login.py").write_text("new\n")
        if "in the File List, but not changed: src/other.py" in part.prompt:
            (root / STORY).write_text((root / STORY).read_text().replace("- src/other.py\n", ""))
        return DONE

    outcome = run(root, silent, checkpoints=Kept())
    first = [one["title"] for one in outcome.state.examinations["code_review"]["rounds"][0]["findings"]]
    if works:
        assert "in the File List, but not changed: src/other.py" in first
        assert outcome.state.outcome == "COMPLETED" and "Status: done" in (root / STORY).read_text()
    else:
        assert "nothing was changed for the story" in first and "Status: done" not in (root / STORY).read_text()
