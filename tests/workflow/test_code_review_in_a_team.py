"""A story implemented and reviewed by a real program, in a team: nobody triggers it, the history tells it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import interlock
from interlock.app.team import Team
from tests.workflow.reviewed import SKILL, SPRINT, STORY, story_project

DEVELOPER = Path(__file__).parent / "programs" / "developer.py"


def begun(tmp_path: Path, root: Path) -> tuple[Team, str]:
    home = interlock.connect(str(tmp_path / "home"))
    team = home.create_team("garden", workdir=str(root))
    team.spawn("ada", agent="command", command=[sys.executable, str(DEVELOPER)])
    task = team.create_task(SKILL, body=f"{SKILL} 1.2", type="WORKFLOW")
    home.drive("garden")
    return team, task.id


@pytest.mark.req("BMAD-UO.5", "BMAD-5.12.1", "BMAD-5.13.3", "BMAD-E5.13")
def test_a_story_is_implemented_reviewed_mended_and_approved(tmp_path: Path) -> None:
    root = story_project(tmp_path / "app")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "before"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", *who, *words], cwd=root, check=True, timeout=60)
    team, task = begun(tmp_path, root)
    run = team.workflow_run(task)
    assert run["outcome"] == "COMPLETED", run["error"]
    assert run["review_iterations"] == 2 and run["implementation_iterations"] == 0
    assert run["loops"]["step_gate-code_review"]["errors_by_iteration"]["0"] == [
        "Any password is accepted (src/login.py:1)"
    ]
    rounds = run["examinations"]["code_review"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]
    assert "src/login.py" in rounds[0]["reviewed"] and len(rounds[0]["checklist"]) == 19
    assert (root / "src/login.py").read_text().endswith("# fixed\n")
    assert "Status: done" in (root / STORY).read_text() and "1-2-sign-in: done" in (root / SPRINT).read_text()
    examined = [one.payload for one in team.events()[0] if one.type == "workflow.examined"]
    assert [one["verdict"] for one in examined] == ["changes_requested", "approve"]
    assert examined[1]["next_story"] == "1-3-sign-out" and not team.questions()


@pytest.mark.req("BMAD-5.12.3", "BMAD-5.10.4")
def test_a_warning_of_a_run_reaches_people_as_a_message(tmp_path: Path) -> None:
    root = story_project(tmp_path / "app", config="skip_review: true\n")
    team, task = begun(tmp_path, root)
    assert team.workflow_run(task)["outcome"] == "COMPLETED"
    messages = [one for one in team.history() if one.recipient == "human"]
    assert len(messages) == 1 and "skip_review: true" in messages[0].content and task in messages[0].content


@pytest.mark.long
@pytest.mark.req("BMAD-5.9.3", "BMAD-5.13.5")
def test_the_status_of_a_run_shows_its_reviews_and_loops(tmp_path: Path) -> None:
    root = story_project(tmp_path / "app")
    begun(tmp_path, root)
    home = str(tmp_path / "home")
    words = [sys.executable, "-m", "interlock.surfaces.cli", "--home", home, "--team", "garden", "workflow", "status"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    words.append("--decisions")
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=True).stdout
    assert "  Code review  examination: " in shown and "gate-" not in shown
    assert "code review: approve, round 2" in shown and "Code review: iteration 1 of 10" in shown
