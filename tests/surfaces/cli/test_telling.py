"""What people are told to do next, and what the status tells unasked: right in every team, and no more than is true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from interlock.surfaces.cli.board import TaskBoard
from interlock.wiring import connect
from tests.agents.acting import acp_member
from tests.surfaces.cli.conftest import Interlock

Create = Callable[..., str]
HERE = [sys.executable, "-m", "interlock.surfaces.cli"]


@pytest.fixture
def driven(here: Path) -> Iterator[subprocess.Popen[str]]:
    """A runner whose only task runs until the file `go` is there."""
    plan = {
        "team": "crew",
        "members": {"ada": {"agent": "shell"}},
        "tasks": {"one": {"run": "while ! test -f go; do sleep 0.02; done"}},
    }
    (here / "plan.yaml").write_text(json.dumps(plan))
    runner = started("run", "plan.yaml")
    assert runner.stdout is not None
    assert any("ada started" in line for line in iter(runner.stdout.readline, ""))
    yield runner
    (here / "go").touch()
    runner.communicate(timeout=60)


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*HERE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_to_type_names_the_team(interlock: Interlock, task: Create) -> None:
    here = task("reviewed", "--review", "human")
    interlock("task", "claim", here, "--as", "tester")
    interlock("task", "complete", here, "--as", "tester")
    interlock("team", "create", "another")
    approve = f"interlock task approve {here} --team alpha-squad"
    for line in ("status", "report", "question list", f"task show {here}"):
        assert approve in interlock(*line.split(), "--team", "alpha-squad").out, line
    assert [need["verb"] for need in interlock("--json", "status", "--team", "alpha-squad").json["needs_me"]] == [
        approve
    ]
    assert interlock(*approve.split()[1:]).code == 0


def test_what_nobody_works_at_is_not_running(interlock: Interlock, task: Create) -> None:
    running, held, reviewed = task("in hand"), task("held up"), task("to be read", "--review", "tester")
    interlock("task", "claim", running, "--as", "tester")
    interlock("task", "block", held, "--reason", "no disk")
    interlock("task", "claim", reviewed, "--as", "researcher")
    interlock("task", "complete", reviewed, "--as", "researcher")
    found = interlock("--json", "status").json
    assert [one["task_id"] for one in found["running"]] == [running]
    assert sorted(one["task_id"] for one in found["waiting"]) == [held, reviewed]
    shown = interlock("status").out.partition("Running")[2]
    assert running in shown and held not in shown and reviewed not in shown, "needs me says it already"


def test_the_status_tells_of_mail_that_nobody_else_would(interlock: Interlock, team: str) -> None:
    interlock("message", "send", "--to", "human", "--as", "tester", "one")
    interlock("message", "send", "--to", "human", "--as", "tester", "two")
    interlock("message", "send", "--to", "lead", "--as", "tester", "three")
    out = interlock("status").out
    assert "2 unread messages for human: interlock message read --team alpha-squad" in out
    assert "1 unread message for lead: interlock message read --as lead --team alpha-squad" in out
    assert "Nothing" in out or "No tasks yet" in out
    interlock("message", "read")
    assert "for human" not in interlock("status").out


def test_the_status_says_who_drives_a_team(interlock: Interlock, driven: subprocess.Popen[str], here: Path) -> None:
    assert "a run is in progress" in interlock("status").out
    assert interlock("--json", "status").json["driven"] is True
    driven.send_signal(signal.SIGKILL)
    driven.communicate(timeout=60)
    assert "the runner died; `interlock run PLAN` resumes" in interlock("status").out
    assert interlock("--json", "status").json["driven"] is False


def test_asking_a_runner_to_stop_says_what_happens_now(interlock: Interlock, driven: subprocess.Popen[str]) -> None:
    answer = interlock("stop")
    assert answer.code == 0 and "finishes current tasks" in answer.out and "not everything" not in answer.out
    assert "interlock stop --now --team crew" in answer.out
    asked = interlock("stop", "--member", "ada").out
    assert "asked ada to finish" in asked and "interlock stop --now --member ada --team crew" in asked


def test_leaving_the_run_of_another_process_stops_nothing(
    interlock: Interlock, driven: subprocess.Popen[str], here: Path
) -> None:
    watching = started("run", "plan.yaml")
    assert watching.stderr is not None
    assert "already running in another process" in watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=60)
    assert "the run continues" in out and "interlock stop --team crew" in out
    assert "finishing current tasks" not in err and "Run the plan again" not in out
    assert driven.poll() is None
    (here / "go").touch()
    assert driven.wait(60) == 0


def test_what_a_rejection_opens_and_closes_is_no_run(interlock: Interlock, task: Create) -> None:
    here = task("reviewed", "--review", "human")
    command = [*HERE, "task", "claim", here, "--as", "tester"]
    subprocess.run(command, env={**os.environ, "INTERLOCK_SESSION": "ended"}, check=True, capture_output=True)
    subprocess.run(
        [*HERE, "task", "complete", here, "--as", "tester"],
        env={**os.environ, "INTERLOCK_SESSION": "ended"}, check=True, capture_output=True,
    )  # fmt: skip
    assert interlock("task", "reject", here, "--reason", "shorter").code == 0
    assert interlock("--json", "report").json["totals"]["runs"] == 1


def test_a_check_that_failed_before_is_told(interlock: Interlock, task: Create, here: Path) -> None:
    checked = task("checked", "--verify", f"test -f {here}/good")
    interlock("task", "claim", checked, "--as", "tester")
    interlock("task", "complete", checked, "--as", "tester")
    (here / "good").touch()
    interlock("task", "complete", checked, "--as", "tester")
    assert "after 1 failed check" in interlock("report").out


def test_metadata_is_shown_as_it_is_given(interlock: Interlock, task: Create) -> None:
    here = task("with more")
    interlock("task", "update", here, "--metadata", '{"größe": null}')
    assert '{"größe": null}' in interlock("task", "show", here).out


def test_a_run_prints_no_empty_line_first(here: Path) -> None:
    plan = {"team": "crew", "members": {"ada": {"agent": "shell"}}, "tasks": {"one": {"run": "true"}}}
    (here / "plan.yaml").write_text(json.dumps(plan))
    out, _ = started("run", "plan.yaml").communicate(timeout=60)
    assert out and not out.startswith("\n")


def test_a_defect_is_one_sentence_and_a_traceback_only_for_whom_asks(
    interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(call: object) -> None:
        raise KeyError("of all things")

    monkeypatch.setattr("interlock.surfaces.cli.status.shown", broken)
    answer = interlock("status")
    assert answer.code == 1 and answer.out == ""
    assert answer.err.startswith("error: Internal error (KeyError: 'of all things').") and "report it" in answer.err
    assert "Traceback" not in answer.err
    assert interlock("--json", "status", "--all").error["error"] == "internal_error"
    monkeypatch.setenv("INTERLOCK_DEBUG", "1")
    assert "Traceback" in interlock("status").err


def test_wrong_usage_looks_like_every_other_error(interlock: Interlock) -> None:
    answer = interlock("task", "claim")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "error: Missing argument 'TASK'.",
        "  Usage: interlock task claim [OPTIONS] TASK",
        "  `interlock task claim --help` says more.",
    ]


def test_a_misspelt_command_is_answered_in_one_line(interlock: Interlock) -> None:
    assert "Usage" not in interlock("frobnicate").err
    assert interlock("stauts").err == "error: No such command 'stauts'. Did you mean status?\n"


def test_a_fault_of_a_plan_is_told_once(interlock: Interlock, here: Path) -> None:
    (here / "plan.yaml").write_text("team: [x\n  : y")
    assert interlock("run", "plan.yaml").err.count("this is not YAML") == 1


def test_the_number_of_a_task_needs_no_zeros(interlock: Interlock, task: Create) -> None:
    here = task("first")
    assert interlock("--json", "task", "show", "1").json["id"] == here


def test_emoji_of_several_parts_stay_together(interlock: Interlock, task: Create) -> None:
    family = "👩\u200d👧 in one"
    task(family)
    assert family in interlock("task", "list").out
    assert "\u202e" not in interlock("task", "show", task("a\u202eb")).out, "what turns the line around is left out"


def test_a_team_that_its_file_names_before_it_is_made(interlock: Interlock, team: str, here: Path) -> None:
    assert interlock("init").code == 0
    assert interlock("init").err.endswith("Go on with what is there, or move them away first.\n")
    answer = interlock("status")
    assert answer.code == 1 and "interlock run PLAN" in answer.err and "Did you mean" not in answer.err


def test_closed_streams_are_ones_that_nobody_reads(interlock: Interlock, team: str) -> None:
    ended = subprocess.run(["/bin/sh", "-c", '"$@" >&- 2>&-', "sh", *HERE, "status"], check=False)
    assert ended.returncode == 0


def test_the_board_names_what_a_task_waits_for_and_checks_that_failed(interlock: Interlock, task: Create) -> None:
    task("first", "--verify", "true")
    task("second", "--blocked-by", "1")
    team = connect().team("alpha-squad")
    board = TaskBoard(team, "")
    tasks = team.tasks()
    board._keys = {one.id: one.id[-3:] for one in tasks}
    assert board._about(tasks[1]) == "waits for 001"
    tasks[0].state, tasks[0].rounds, tasks[0].evidence = "done", 1, [{"kind": "verify", "passed": True}]
    assert board._about(tasks[0]) == "verified after 1 failed check"


def test_the_board_says_what_needs_you_and_how_to_see_it(interlock: Interlock, task: Create) -> None:
    asked = task("ask me", "--review", "human")
    interlock("task", "claim", asked, "--as", "tester")
    interlock("question", "ask", asked, "Which port?\nThere are two.", "--as", "tester")
    screen = Console(width=150, height=30, record=True, file=StringIO())
    board = TaskBoard(connect().team("alpha-squad"), "")
    board._console = screen
    screen.print(board.draw())
    drawn = screen.export_text()
    assert "needs you: Which port?" in drawn and "There are two" not in drawn
    assert "1 for you: interlock question list --team alpha-squad" in drawn
    interlock("question", "reply", asked, "80")
    screen.print(board.draw())
    assert "for you" not in screen.export_text()


def test_whoever_leaves_a_run_for_the_night_is_told_what_will_be_refused(interlock: Interlock, here: Path) -> None:
    asks = {"ask": {"title": "make", "kind": "execute"}, "allowed": [{"touch": "made"}], "refused": []}
    members = {"bob": acp_member(here, turns=[[asks, {"say": "done"}]]), "ada": {"agent": "shell"}}
    plan = {"team": "night", "members": members, "tasks": {"one": {"subject": "One", "verify": "true"}}}
    (here / "plan.yaml").write_text(json.dumps(plan))
    first = interlock("run", "plan.yaml", "--unattended")
    assert first.code == 0 and "commands that bob would ask for are refused" in first.out
    assert "[one] run 1 (bob) was refused: make" in first.out and "(nobody is awake to be asked)" in first.out
    assert "allowed_commands" in first.out.partition("What happened")[2]
    interlock("config", "set", "allowed_commands", "make", "--team", "night")
    assert "are refused" not in interlock("run", "plan.yaml", "--unattended").out
    assert "are refused" not in interlock("run", "plan.yaml").out
