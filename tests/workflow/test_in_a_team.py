"""Workflows as people run them: on the command line, in a team, by a program; killed, resumed, cancelled."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from tests.command import command
from tests.waiting import until
from tests.workflow.stage import SKILL, project

AUTHOR = Path(__file__).parent / "programs" / "author.py"
SOURCE = Path(__file__).parents[2] / "src"


class Place:
    """A project, a home, and the command line in it."""

    def __init__(self, directory: Path, steps: int = 3, **more: Any) -> None:
        self.root = project(directory / "plan-app", steps, **more)
        self.home_path = directory / "home"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")},
            "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(self.home_path), "INTERLOCK_STOP_GRACE": "0.2",
        }  # fmt: skip

    @property
    def document(self) -> str:
        """What was written, below the frontmatter, which holds the times of the checkpoints."""
        return (self.root / "_bmad-output" / "plan.md").read_text().rpartition("---\n")[2].lstrip()

    @property
    def home(self) -> Home:
        return interlock.connect(str(self.home_path))

    @property
    def team(self) -> Team:
        return self.home.team("plan-app")

    def agent(self, slow: float = 0.0) -> str:
        return f"env DOCUMENT=_bmad-output/plan.md SLOW={slow} {sys.executable} {AUTHOR}"

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "interlock.surfaces.cli", "--json", "workflow", *words]
        return subprocess.Popen(
            argv, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def __call__(self, *words: str) -> dict[str, Any]:
        return command("--json", "workflow", *words, directory=self.root, environment=self.environment).told

    def apart(self, *words: str) -> dict[str, Any]:
        """The same in a process of its own."""
        process = self.start(*words)
        out, err = process.communicate(timeout=100)
        text = out.strip() or err.strip().splitlines()[-1]
        return {**json.loads(text), "exit": process.returncode}


@pytest.mark.long
@pytest.mark.req("BMAD-2a.1.2", "BMAD-FR1", "BMAD-E2a.1", "BMAD-NFR13", "BMAD-UO.2b")
def test_a_skill_is_invoked_and_its_workflow_runs_to_a_finished_document(tmp_path: Path) -> None:
    place = Place(tmp_path)
    done = place("run", SKILL, "--agent", place.agent(), "--tier", "1")
    assert (done["exit"], done["outcome"], done["completed_steps"]) == (0, "COMPLETED", [1, 2, 3])
    assert place.document.count("## Step") == 3
    task = place.team.task(done["task_id"])
    assert (task.type, task.state) == ("WORKFLOW", "done")
    contract = "workflow_id skill schema_version workflow_hash state outcome error timeout_error current_step "
    contract += "current_step_name completed_steps completed_count remaining_count progress_percent steps menu_history "
    assert set((contract + "checkpoints").split()) <= set(done)
    mirrored = json.loads((place.root / "_bmad-output/.workflow-state" / f"{done['workflow_id']}.json").read_text())
    assert mirrored["completed_steps"] == [1, 2, 3] and mirrored["outcome"] == "COMPLETED"
    decided = place("status", done["workflow_id"], "--decisions")["decision_log"]
    menus = [one for one in decided if one["kind"] == "menu"]
    assert menus and all(one["replayed"] == one["choice"] and one["why"] for one in menus)


@pytest.mark.long
@pytest.mark.req("BMAD-UO.3", "BMAD-FR26", "BMAD-FR27", "BMAD-NFR7")
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_document(tmp_path: Path) -> None:
    whole = Place(tmp_path / "whole")
    assert whole("run", SKILL, "--agent", whole.agent(), "--tier", "1")["outcome"] == "COMPLETED"
    place = Place(tmp_path / "killed")
    kills = 0
    for moment in ("sent", "saved", "step 3"):
        process = place.start("run", SKILL, "--agent", place.agent(0.15), "--tier", "1")
        with contextlib.suppress(AssertionError):
            until(lambda one=process, moment=moment: one.poll() is not None or reached(place, moment), 60)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate(timeout=60)
    done = place("run", SKILL, "--agent", place.agent(), "--tier", "1")
    assert kills >= 2 and done["outcome"] == "COMPLETED"
    assert place.document == whole.document
    assert len(place.team.workflow_runs()) == 1, "it was taken up again, not begun again"
    finished = [e.payload["step"] for e in place.team.events()[0] if e.type == "workflow.step_completed"]
    assert finished == [1, 2, 3], "no step was completed twice"


def reached(place: Place, moment: str) -> bool:
    if "plan-app" not in place.home.teams():
        return False
    runs = place.team.workflow_runs()
    if not runs:
        return False
    run = runs[0]
    if moment.startswith("step "):
        return bool(run["current_step"] is not None and run["current_step"] >= int(moment[5:]) and run["sent"])
    return {
        "run": True,
        "sent": run["sent"] is not None,
        "saved": (place.root / "_bmad-output/plan.md").exists(),
    }[moment]


@pytest.mark.long
@pytest.mark.req("BMAD-2b.10.3", "BMAD-3.2.2")
def test_a_run_waits_for_an_answer_takes_it_and_can_be_cancelled(tmp_path: Path) -> None:
    place = Place(tmp_path, front="oversight: required\n")
    waiting = place("run", SKILL, "--agent", place.agent())
    assert (waiting["exit"], waiting["state"]) == (1, "WAITING_USER")
    team = place.team
    (question,) = team.questions()
    assert question.kind == "checkpoint" and team.task(waiting["task_id"]).state == "awaiting-response"
    team.reply(waiting["task_id"], "confirm", question=question.id)
    again = place("resume")
    assert again["completed_steps"] == [1, 2] and again["state"] == "WAITING_USER"
    cancelled = place("cancel", waiting["workflow_id"])
    assert (cancelled["state"], cancelled["outcome"]) == ("TERMINAL", "CANCELLED")
    assert team.task(waiting["task_id"]).state == "cancelled" and not team.questions()
    assert place("cancel", waiting["workflow_id"])["error"] == "invalid_transition"
    assert place.document.count("## Step") == 2, "what was written stays"


@pytest.mark.long
@pytest.mark.req("BMAD-2b.10.3")
def test_a_run_that_is_cancelled_while_its_agent_works_ends_the_agent(tmp_path: Path) -> None:
    place = Place(tmp_path)
    process = place.start("run", SKILL, "--agent", place.agent(30))
    until(lambda: reached(place, "sent"))
    assert place("cancel")["outcome"] == "CANCELLED"
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["outcome"] == "CANCELLED"
    assert not (place.root / "_bmad-output/plan.md").exists()


@pytest.mark.long
def test_a_run_whose_agent_cannot_start_fails_and_can_be_resumed_with_another(tmp_path: Path) -> None:
    place = Place(tmp_path)
    failed = place("run", SKILL, "--agent", "./no-such-program --at-all")
    assert (failed["exit"], failed["outcome"]) == (1, "FAILED") and "no-such-program" in failed["error"]
    (place.root / "no-such-program").write_text(f"#!{sys.executable}\n{AUTHOR.read_text()}")
    (place.root / "no-such-program").chmod(0o755)
    again = place("resume", failed["workflow_id"])
    assert again["outcome"] == "COMPLETED", again


def test_a_dry_run_shows_the_steps_and_begins_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    shown = place("run", SKILL, "--dry-run")
    assert [one["step"] for one in shown["steps"]] == [1, 2, 3] and shown["preflight"]["overall_status"] == "READY"
    assert not place.home_path.exists() or not place.home.teams()


def test_what_is_not_installed_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place("run", "/bmad:bmm:workflows:make-plans")["error"] == "workflow_not_found"
    assert "make-plan" in place("run", "/bmad:bmm:workflows:make-plans")["message"]
    malformed = place("run", "/bmad:nonsense")
    assert (malformed["error"], malformed["exit"]) == ("invalid_skill_path", 1) and malformed["examples"]


def test_a_task_that_names_a_workflow_is_carried_out_as_one(tmp_path: Path) -> None:
    """A chat message makes such a task."""
    place = Place(tmp_path)
    home = place.home
    team = home.create_team("plan-app", workdir=str(place.root))
    team.spawn("ada", agent="command", command=[sys.executable, str(AUTHOR)])
    task = team.create_task(SKILL, body=f"{SKILL} for a garden planner", type="WORKFLOW")
    home.drive("plan-app")
    run = team.workflow_run(task.id)
    assert run["outcome"] == "COMPLETED" and run["plan"]["arguments"].startswith("for a garden planner")
    assert team.task(task.id).state == "done"


@pytest.mark.long
def test_a_finished_workflow_that_comes_back_is_taken_up_by_its_agent(tmp_path: Path) -> None:
    """Finding W1, of what is no story: a red check and a person's words repeated in two seconds, without a turn."""
    place = Place(tmp_path)
    home = place.home
    team = home.create_team("plan-app", workdir=str(place.root))
    team.spawn("ada", agent="command", command=["env", "DOCUMENT=_bmad-output/plan.md", sys.executable, str(AUTHOR)])
    check = f"{sys.executable} -c \"assert 'shop' in open('_bmad-output/plan.md').read()\""
    task = team.create_task(SKILL, body=f"{SKILL} for a garden", type="WORKFLOW", review="human", verify=check)
    home.drive("plan-app")
    assert team.task(task.id).state == "review" and place.document.endswith("It is a shop.\n")
    run = team.workflow_run(task.id)
    assert [one["verdict"] for one in run["examinations"]["project_check"]["rounds"]] == [
        "changes_requested",
        "approve",
    ]
    team.acting("human", person=True).reject(task.id, reason="It is a market.")
    home.drive("plan-app")
    assert place.document.endswith("It is a shop.\nIt is a market.\n") and team.task(task.id).state == "review"
    team.acting("human", person=True).approve(task.id)
    assert team.task(task.id).state == "done" and team.workflow_run(task.id)["outcome"] == "COMPLETED"


def told(place: Place, *words: str) -> str:
    """What a person reads who types `interlock workflow …` somewhere else."""
    argv = [sys.executable, "-m", "interlock.surfaces.cli", "workflow", *words]
    return subprocess.run(
        argv, cwd=place.home_path, env=place.environment, capture_output=True, text=True, timeout=100
    ).stdout


@pytest.mark.long
def test_a_run_that_nobody_is_at_work_on_says_so_and_what_to_type(tmp_path: Path) -> None:
    place = Place(tmp_path)
    process = place.start("run", SKILL, "--agent", place.agent(60))
    until(lambda: reached(place, "sent"))
    during = told(place, "status", "--team", "plan-app")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert "RUNNING" in during and "resume" not in during
    (run,) = place.team.workflow_runs()
    after = told(place, "status", "--team", "plan-app")
    assert "Nobody is at work on it now." in after
    assert f"interlock workflow resume {run['workflow_id']} --team plan-app     continues" in after


@pytest.mark.long
def test_a_run_that_waits_says_how_to_answer_and_how_it_goes_on_then(tmp_path: Path) -> None:
    place = Place(tmp_path, front="oversight: required\n")
    run = place("run", SKILL, "--agent", place.agent())
    shown = told(place, "status", "--team", "plan-app").splitlines()
    reply, resume = (line.strip() for line in shown[-2:])
    assert reply.startswith(f"interlock question reply {run['task_id']} TEXT") and reply.endswith("--team plan-app")
    assert resume == f"interlock workflow resume {run['workflow_id']} --team plan-app     continues from there"
    place.team.reply(run["task_id"], "confirm", question=place.team.questions()[0].id)
    told(place, *resume.partition("     ")[0].split()[2:])
    assert place.team.workflow_run()["completed_steps"] == [1, 2]


@pytest.mark.long
def test_a_run_that_waits_for_its_turn_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.start("run", SKILL, "--agent", place.agent(60))
    until(lambda: reached(place, "sent"))
    begun = told(place, "run", SKILL, "--new", "--detach", "--dir", str(place.root), "--agent", place.agent(60))
    turn = "It waits for its turn, at place 1: interlock workflow queue list --team plan-app"
    shown = told(place, "status", "--team", "plan-app")
    cancelled = told(place, "cancel", "--team", "plan-app")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    assert turn in begun and turn in shown and "0 of 0" not in shown
    assert "is cancelled before its first step." in cancelled


@pytest.mark.long
def test_the_first_interrupt_says_what_it_comes_to(tmp_path: Path) -> None:
    place = Place(tmp_path)
    argv = [sys.executable, "-m", "interlock.surfaces.cli", "workflow", "run", SKILL, "--agent", place.agent(60)]
    with subprocess.Popen(
        argv, cwd=place.root, env=place.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        until(lambda: reached(place, "sent"))
        run.send_signal(signal.SIGINT)
        assert run.stderr is not None
        said = run.stderr.readline()
        run.send_signal(signal.SIGINT)
        run.stderr.read()
    assert "stopping: continuing until this workflow has ended or needs you" in said


@pytest.mark.long
def test_an_agent_that_dies_is_shown_with_its_last_words_and_what_to_type(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.root / "dies.py").write_text(
        "import sys\nsys.stdin.read()\nprint('starting')\nsys.exit('no such model: nine')\n"
    )
    waiting = place("run", SKILL, "--agent", f"{sys.executable} dies.py")
    assert waiting["state"] == "WAITING_USER"
    (question,) = place.team.questions()
    assert "the agent ended with an error: no such model: nine" in question.text
    failed = [one.payload["reason"] for one in place.team.events()[0] if one.type == "workflow.turn_failed"]
    assert failed and all("no such model: nine" in reason for reason in failed)
