"""Runs steered in words: by chat messages, by an agent that leads, by rolling back."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.workflow.runs.chat_commands import carry_out, chat_command, preview
from tests.workflow.stage import SKILL
from tests.workflow.test_in_a_team import AUTHOR, Place


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        ("/bmad:bmm:workflows:make-plan for a garden", "run", SKILL),
        ("Please run /bmad:bmm:workflows:make-plan", "run", SKILL),
        ("/bmad:invalid", "invalid", None),
        ("status", "status", ""),
        ("How far are you?", "status", ""),
        ("cancel", "cancel", ""),
        ("stop the workflow", "cancel", ""),
        ("undo", "checkpoints", ""),
        ("rollback", "checkpoints", ""),
        ("rollback to step 3", "rollback", "3"),
        ("roll back to 8a", "rollback", "8a"),
        ("undo the rollback", "undo", ""),
        ("resume", "resume", ""),
    ],
)
def test_a_message_that_is_a_command_is_understood(message: str, kind: str, text: str | None) -> None:
    found = chat_command(message)
    assert found is not None and found.kind == kind
    assert text is None or found.text == text


@pytest.mark.parametrize("message", ["cancel the subscription of the user", "What is the status code?", "hello", ""])
def test_a_message_about_something_else_is_none(message: str) -> None:
    assert chat_command(message) is None


def driven(tmp_path: Path, **more: Any) -> tuple[Place, Home, Team]:
    place = Place(tmp_path, **more)
    home = place.home
    team = home.create_team("plan-app", workdir=str(place.root))
    program = ["env", "DOCUMENT=_bmad-output/plan.md", sys.executable, str(AUTHOR)]
    team.spawn("ada", agent="command", command=program)
    return place, home, team


@pytest.mark.req("BMAD-UO.3", "BMAD-FR61", "BMAD-E3.4", "BMAD-3.7.3")
def test_a_run_is_begun_looked_at_rolled_back_and_taken_on_in_words(tmp_path: Path) -> None:
    place, home, team = driven(tmp_path)
    say: Any = lambda text: carry_out(team, chat_command(text))  # type: ignore[arg-type]  # noqa: E731
    assert "begins" in say(SKILL)
    home.drive("plan-app")
    assert "3 of 3 steps (100 %), completed" in say("status")
    whole = place.document
    assert "step 2" in say("undo") and "step 3" in say("rollback")
    asked = chat_command("rollback to step 2")
    assert asked is not None and ", yes` and it is done" in str(preview(team, asked))
    assert "Back to before step 2" in say("rollback to step 2")
    assert place.document.count("## Step") == 1
    run = team.workflow_run()
    assert run["steps"]["step_3"]["status"] == "rolled_back" and run["completed_steps"] == [1]
    assert "Resumed at step 2/3" in say("resume")
    home.drive("plan-app")
    assert team.workflow_run()["outcome"] == "COMPLETED" and place.document == whole
    with pytest.raises(InterlockError):
        say("cancel")


@pytest.mark.long
def test_a_rollback_on_the_command_line_lists_previews_and_does_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place("run", SKILL, "--agent", place.agent(), "--tier", "1")["outcome"] == "COMPLETED"
    steps = [one["step_id"] for one in place("rollback")["checkpoints"]]
    assert steps[:3] == [3, 2, 1]
    before = place.document
    planned = place("rollback", "--to", "2", "--dry-run")
    assert planned["restored"] and place.document == before
    assert place("rollback", "--to", "2")["restored"] == planned["restored"]
    assert place.document.count("## Step") == 1
    assert place("rollback", "--undo")["kind"] == "undo" and place.document == before


@pytest.mark.req("BMAD-FR31", "BMAD-FR35", "BMAD-E2a.4", "BMAD-E2a.5")
def test_what_memory_knows_stands_in_the_agents_context(tmp_path: Path) -> None:
    from interlock.clock import SystemClock
    from interlock.memory.local import LocalMemory
    from interlock.memory.store import Memory

    place, home, team = driven(tmp_path, body="{memory}", output="")
    memory = LocalMemory(str(place.home_path), SystemClock())
    content = "The plan was made for gardens: make plan in metres."
    memory.remember(Memory("Units", content, 9, project_id="plan-app"))
    memory.close()
    program = tmp_path / "listening.py"
    heard = tmp_path / "heard"
    program.write_text(
        f"import sys\nopen({str(heard)!r}, 'a').write(sys.stdin.read())\nprint('{{\"step\": \"completed\"}}')\n"
    )
    team.remove("ada")
    team.spawn("bob", agent="command", command=[sys.executable, str(program)])
    run = team.start_workflow(SKILL)
    home.drive("plan-app")
    assert team.workflow_run(run["workflow_id"])["outcome"] == "COMPLETED"
    assert content in (tmp_path / "heard").read_text()
    loaded = [event for event in team.events()[0] if event.type == "workflow.context_loaded"]
    assert loaded and loaded[0].payload["characters"] > 0


def test_the_same_chat_begins_a_workflow_and_steers_it(tmp_path: Path) -> None:
    _, home, team = driven(tmp_path)

    def chat(text: str) -> Any:
        said = home.chat("plan-app", text, session_id="s1")
        return home.locate(said.task_id, project="plan-app").task(said.task_id)

    assert (chat("status").state, chat("status").type) == ("ready", None), "there is nothing yet that it could be about"
    for task in home.group_tasks("s1"):
        team.cancel(task.id)
    begun = chat(f"{SKILL} for a garden")
    assert (begun.type, begun.state) == ("WORKFLOW", "ready")
    home.drive("plan-app")
    told = chat("status")
    assert (told.type, told.state) == ("WORKFLOW", "done") and "steps" in str(told.output)
    shown = chat("rollback")
    assert "step" in str(shown.output) and shown.state == "done"
    asked = chat("rollback to step 1")
    assert "rollback to step 1, yes" in str(asked.output)
    before = team.workflow_run()["completed_count"]
    chat("rollback to step 1, yes")
    assert team.workflow_run()["completed_count"] < before
    wrong = chat("/bmad:invalid")
    assert wrong.state == "done" and "/bmad:" in str(wrong.output)
    assert home.chat("plan-app", "status", session_id="s2").status == "QUEUED", "another session has no workflow"
    (group,) = [one for one in home.task_groups()[0] if one.id == "s1"]
    assert group.task_count == len(home.group_tasks("s1")) == 9


STRUCK = """
import os, signal, sys
import interlock
from interlock.workflow.runs import chat_commands
def strike(*_, **__):
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError("the disk is gone")
chat_commands.carry_out = strike
interlock.connect().chat("plan-app", "status", session_id="s1")
"""
"""A real process that ends while it carries out a chat command."""


@pytest.mark.long
@pytest.mark.parametrize("end", ["killed", "failed"])
def test_a_chat_command_that_was_cut_off_leaves_no_task_behind(tmp_path: Path, end: str) -> None:
    place, home, team = driven(tmp_path)
    home.chat("plan-app", f"{SKILL} for a garden", session_id="s1")
    home.drive("plan-app")
    before = [(task.id, task.state) for task in team.tasks()]
    process = subprocess.run(
        [sys.executable, "-c", STRUCK, end], env=place.environment, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == {"killed": -signal.SIGKILL, "failed": 1}[end], process.stderr
    assert end == "killed" or "the disk is gone" in process.stderr
    assert [(task.id, task.state) for task in team.tasks()] == before, "nobody waits for an answer that never comes"
    said = home.chat("plan-app", "status", session_id="s1")
    assert (said.status, "steps" in str(team.task(said.task_id).output)) == ("COMPLETE", True)


@pytest.mark.long
@pytest.mark.parametrize("text", ["workflows: [a, {", "workflows: 5", "workflows:\n  bmm/make-plan: required\n"])
def test_no_run_begins_without_the_settings_that_its_project_has_for_it(tmp_path: Path, text: str) -> None:
    place = Place(tmp_path)
    (place.root / "interlock.workflows.yaml").write_text(text)
    assert [one["path"] for one in place("show", SKILL)["faults"]] == ["interlock.workflows.yaml"]
    refused = place("run", SKILL, "--agent", place.agent(), "--yolo")
    assert (refused["exit"], refused["error"]) == (1, "invalid_request")
    assert "interlock.workflows.yaml cannot be read" in refused["message"] and not place.team.workflow_runs()


def test_no_run_begins_of_a_workflow_whose_file_is_gone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.root / "_bmad/bmm/workflows/make-plan/workflow.md").unlink()
    assert place("show", SKILL)["preflight"]["missing"] == ["_bmad/bmm/workflows/make-plan/workflow.md"]
    refused = place("run", SKILL, "--agent", place.agent())
    assert (refused["exit"], refused["error"]) == (1, "workflow_not_found")
    assert "Install the package again" in refused["message"] and not place.team.workflow_runs()


def test_a_name_that_two_modules_have_is_said_to_be_of_both(tmp_path: Path) -> None:
    place = Place(tmp_path)
    manifest = place.root / "_bmad/_config/workflow-manifest.csv"
    row = next(line for line in manifest.read_text().splitlines() if "make-plan" in line)
    manifest.write_text(f"{manifest.read_text().rstrip()}\n{row.replace('bmm', 'other', 1)}\n")
    refused = place("show", "make-plan")
    assert refused["error"] == "workflow_not_found" and "is the name of several" in refused["message"]
    assert place("show", SKILL)["skill"] == SKILL


@pytest.mark.long
def test_status_for_people_keeps_the_lines_of_what_is_asked(tmp_path: Path) -> None:
    place = Place(tmp_path, steps=6)
    place("run", SKILL, "--agent", place.agent(), "--tier", "3")
    argv = [sys.executable, "-m", "interlock.surfaces.cli", "workflow", "status"]
    shown = subprocess.run(argv, cwd=place.root, env=place.environment, capture_output=True, text=True, timeout=60)
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert lines.count("- menu: C") == 3 and "Pre-final review" in shown.stdout and "gate-" not in shown.stdout
