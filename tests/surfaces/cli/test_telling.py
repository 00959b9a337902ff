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
from typing import Any

import pytest
from rich.console import Console

from interlock.app.home import Home
from interlock.model.driving import Update
from interlock.surfaces.cli import words
from interlock.surfaces.cli.board import TaskBoard
from interlock.wiring import connect
from tests.agents.acting import acp_member
from tests.behaviours.repository import Repository
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
    runner.communicate(timeout=100)


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
    driven.communicate(timeout=100)
    assert "the runner died; `interlock run PLAN` resumes" in interlock("status").out
    assert interlock("--json", "status").json["driven"] is False


@pytest.mark.long
def test_asking_a_runner_to_stop_says_what_happens_now(interlock: Interlock, driven: subprocess.Popen[str]) -> None:
    answer = interlock("stop")
    assert answer.code == 0 and "finishes current tasks" in answer.out and "not everything" not in answer.out
    assert "interlock stop --now --team crew" in answer.out
    asked = interlock("stop", "--member", "ada").out
    assert "asked ada to finish" in asked and "interlock stop --now --member ada --team crew" in asked


@pytest.mark.long
def test_leaving_the_run_of_another_process_stops_nothing(
    interlock: Interlock, driven: subprocess.Popen[str], here: Path
) -> None:
    watching = started("run", "plan.yaml")
    assert watching.stderr is not None
    assert "already running in another process" in watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=100)
    assert "the run continues" in out and "interlock stop --team crew" in out
    assert "finishing current tasks" not in err and "Run the plan again" not in out
    assert driven.poll() is None
    (here / "go").touch()
    assert driven.wait(100) == 0


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
    out, _ = started("run", "plan.yaml").communicate(timeout=100)
    assert out and not out.startswith("\n")


def test_a_defect_is_one_sentence_and_a_traceback_only_for_whom_asks(
    interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
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
    assert interlock("init").err.endswith("Continue with what is there, or move them away first.\n")
    answer = interlock("status")
    assert answer.code == 1 and "interlock run PLAN" in answer.err and "Did you mean" not in answer.err


def test_down_names_what_it_ended_and_nothing_else(interlock: Interlock, team: str) -> None:
    interlock("team", "create", "beta")
    assert interlock("down").out == "Nothing runs here.\n"


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


def test_the_foot_of_the_board_says_that_it_is_cut_on_a_narrow_terminal(interlock: Interlock, team: str) -> None:
    screen = Console(width=20, height=30, record=True, file=StringIO())
    board = TaskBoard(connect().team("alpha-squad"), "Ctrl-C: finish current tasks")
    board._console = screen
    screen.print(board.draw())
    assert screen.export_text().rstrip().endswith(" Ctrl-C: finish cur…")


def test_what_concerns_the_run_as_a_whole_stays_above_the_board(interlock: Interlock, task: Create) -> None:
    made = task("first")
    screen = Console(width=80, height=30, record=True, file=StringIO())
    board = TaskBoard(connect().team("alpha-squad"), "")
    board._console = screen
    board.heard(Update("notice", "allowed: make", member="ada", task_id=made))
    board.heard(Update("notice", "dan gets no more tasks for now"))
    assert screen.export_text() == " dan gets no more tasks for now\n"


def test_whoever_leaves_a_run_for_the_night_is_told_what_will_be_refused(interlock: Interlock, here: Path) -> None:
    asks = {"ask": {"title": "make", "kind": "execute"}, "allowed": [{"touch": "made"}], "refused": []}
    bob = acp_member(here, turns=[[asks, {"say": "done"}]])
    members = {"bob": {**bob, "permissions": "workspace"}, "ada": {"agent": "shell"}, "eve": bob}
    members["cleo"] = {**bob, "permissions": "read-only"}
    plan = {
        "team": "night",
        "members": members,
        "tasks": {"one": {"subject": "One", "verify": "true", "assignee": "bob"}},
    }
    (here / "plan.yaml").write_text(json.dumps(plan))
    first = interlock("run", "plan.yaml", "--unattended")
    assert first.code == 0 and "commands that bob would ask for are refused" in first.out
    assert "whatever eve would ask for is refused" in first.out and "cleo" not in first.out
    assert "[one] run 1 (bob) was refused: make" in first.out and "(nobody is awake to be asked)" in first.out
    assert "allowed_commands" in first.out.partition("What happened")[2]
    interlock("config", "set", "allowed_commands", "make", "--team", "night")
    assert "commands that bob" not in interlock("run", "plan.yaml", "--unattended").out
    assert "is refused" not in interlock("run", "plan.yaml").out


def test_a_plan_that_cannot_start_is_told_before_it_does_each_fault_with_its_line(
    interlock: Interlock, here: Path
) -> None:
    plan = here / "plan.yaml"
    plan.write_text(
        "team: tiny\nmembers:\n  ada: {agent: shel}\n  bob: {agent: gemni}\n  cy: {agent: claude-cod}\n"
        "tasks:\n  one: {subject: One}\n"
    )
    found = interlock("plan", "check", "plan.yaml")
    assert found.code == 1 and [line.partition(" Available")[0] for line in found.out.splitlines()] == [
        "plan.yaml:3: Unknown agent 'shel' for ada. Did you mean 'shell'?",
        "plan.yaml:4: Unknown agent 'gemni' for bob. Did you mean 'gemini'?",
        "plan.yaml:5: Unknown agent 'claude-cod' for cy. Did you mean 'claude'?",
    ]
    assert interlock("run", "plan.yaml").err.startswith("error: plan.yaml has 3 errors:\n  plan.yaml:3: Unknown agent")
    plan.write_text(
        "workdir: nowhere\nmembers:\n  ada: {agent: shel}\ntasks:\n  one: {run: ls, type: STUDY}\n  two: {run: ls}\n"
    )
    found = interlock("plan", "check", "plan.yaml")
    workdir, agent, kind = found.out.splitlines()  # Each at its own line, and the agent once for both of its tasks.
    assert workdir.startswith("plan.yaml:1: workdir: there is no directory ")
    assert agent.startswith("plan.yaml:3: Unknown agent 'shel' for ada. Did you mean 'shell'? Available: ")
    assert kind.startswith('plan.yaml:5: type of task "one" must be one of: READ_INFO, REPORT')


def test_programs_that_cannot_start_are_faults_and_files_of_the_project_are_named(
    interlock: Interlock, here: Path
) -> None:
    for name in ("agent.sh", "check.sh"):
        (here / name).write_text("#!/bin/sh\n")
    plan = here / "plan.yaml"
    plan.write_text(
        "members:\n  ada: {agent: {command: [./agent.sh]}}\n  eve: {agent: shell}\n"
        "tasks:\n  one: {subject: One, verify: ./check.sh}\n  two: {run: pytst -q, verify: pytst -q}\n"
    )
    found = interlock("plan", "check", "plan.yaml")
    first, *more = found.out.splitlines()
    assert (
        first == "plan.yaml:6: verify: the program 'pytst' was not found: install it, or check its spelling and PATH."
    )
    assert [one.split(": the program")[0] for one in more] == [
        "plan.yaml:5: verify", "plan.yaml:6: run", "plan.yaml:2: agent of ada",
    ], "what it warns of is not hidden by what is wrong"  # fmt: skip
    plan.write_text(plan.read_text().replace("verify: pytst -q", "verify: ls").replace("pytst", "ls"))
    found = interlock("plan", "check", "plan.yaml")
    for line, who, name in ((5, "verify", "check.sh"), (2, "agent of ada", "agent.sh")):
        told = f"plan.yaml:{line}: {who}: the program './{name}' is not executable: `chmod +x {here / name}`.\n"
        assert told in found.out
    assert found.code == 0 and found.out.endswith("plan.yaml: no errors, 2 warnings\n")


def test_a_plan_is_found_where_it_is_not_named_or_misspelt(interlock: Interlock, here: Path) -> None:
    none = interlock("run")
    assert none.code == 2 and "there is no plan.yaml and no plan.yml here" in none.err
    (here / "plan.yaml").write_text("team: tiny\nmembers: {eve: {agent: shell}}\ntasks:\n  one: {run: 'true'}\n")
    assert "Did you mean plan.yaml?" in interlock("run", "plan.yml").err
    assert "Did you mean `interlock plan check plan.yaml`?" in interlock("plan", "chekc", "plan.yaml").err
    assert interlock("plan", "check").out == interlock("plan", "check", "plan.yaml").out != ""
    assert interlock("run").code == 0 and interlock("status").out.startswith("tiny")
    (here / "plan.yaml").rename(here / "plan.yml")
    assert interlock("plan", "check").out == interlock("plan", "check", "plan.yml").out != ""
    assert interlock("run").code == 0 and "plan.yml already exists" in interlock("init").err
    (here / "plan.yaml").write_text("")
    assert "plan.yaml has 1 error" in interlock("run").err, "plan.yaml comes first"


def test_what_a_shell_does_not_understand_is_a_fault_of_the_plan(interlock: Interlock, here: Path) -> None:
    plan = here / "plan.yaml"
    plan.write_text(
        "setup: 'for x in; done'\nisolation: worktree\nmembers: {eve: {agent: shell}}\ntasks:\n"
        "  one: {run: 'test -s N &&'}\n  two: {run: ls, verify: '(ls'}\n  three: {run: 'ls && ls'}\n"
    )
    said = interlock("plan", "check", "plan.yaml").out
    for line, name, command in ((1, "setup", "for x in; done"), (5, "run", "test -s N &&"), (6, "verify", "(ls")):
        assert f"plan.yaml:{line}: {name}: a shell does not understand `{command}`: " in said
    assert "ls && ls" not in said


def test_what_no_worktree_would_have_is_a_fault_of_the_plan(interlock: Interlock, here: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=u", "-c", "user.email=u@x", *words], cwd=here, check=True)

    git("init", "--quiet", "--initial-branch=main")
    git("commit", "--quiet", "--allow-empty", "--message=first")
    (here / "agent.sh").write_text("#!/bin/sh\n")
    (here / "agent.sh").chmod(0o755)
    plan = here / "plan.yaml"
    plan.write_text(
        "isolation: worktree\nmembers:\n  ada: {agent: {command: [./agent.sh]}}\ntasks:\n  one: {subject: One}\n"
    )
    found = interlock("plan", "check", "plan.yaml")
    assert (
        found.code == 1 and "plan.yaml:3: agent of ada: ./agent.sh is not committed, so no worktree has it" in found.out
    )
    git("add", "agent.sh")
    git("commit", "--quiet", "--message=agent")
    assert interlock("plan", "check", "plan.yaml").code == 0
    git("switch", "--quiet", "--detach")
    found = interlock("plan", "check", "plan.yaml")
    assert found.code == 1 and "has no branch checked out (a detached HEAD)" in found.out


def test_only_what_failed_is_told_as_that(interlock: Interlock, task: Create) -> None:
    asked = task("ask me")
    interlock("task", "claim", asked, "--as", "tester")
    interlock("question", "ask", asked, "It failed permanently: so what?", "--as", "tester")
    board = TaskBoard(connect().team("alpha-squad"), "")
    assert board._about(connect().team("alpha-squad").task(asked)) == "needs you: It failed permanently: so what?"


def test_a_failure_is_one_line_of_the_log_and_its_reason_once_in_each_part(interlock: Interlock, here: Path) -> None:
    plan = here / "plan.yaml"
    plan.write_text("team: tiny\nmembers: {eve: {agent: shell}}\ntasks:\n  one: {run: no-such-program, retries: 0}\n")
    said = interlock("run", "plan.yaml").out
    log, _, report = said.partition("run finished")
    why = "could not start: The program 'no-such-program' was not found"
    (line,) = [one for one in log.splitlines() if why in one]
    assert "  failed: could not start: " in line and line.endswith("; retry or cancel?")
    assert report.count(why) == 2 and "What happened" not in report, "needs you, and failed"


def test_a_setup_that_fails_is_told_in_a_sentence_and_what_it_printed_below(interlock: Interlock, here: Path) -> None:
    Repository(here)
    plan = {"team": "tiny", "isolation": "worktree", "setup": "echo npm ERR; exit 1", "retries": 0}
    plan |= {"members": {"eve": {"agent": "shell"}}, "tasks": {"one": {"run": "true"}}}
    (here / "plan.yaml").write_text(json.dumps(plan))
    _, _, failed = interlock("run", "plan.yaml").out.partition("\nFailed\n")
    first, why, then, printed = failed.splitlines()[:4]
    assert first.endswith("[one] true") and why.strip().endswith("ended with exit code 1")
    assert then.strip().startswith("1 run, ") and printed.strip() == "npm ERR"


def test_the_log_says_that_a_member_whose_program_cannot_start_gets_no_more(interlock: Interlock, here: Path) -> None:
    ada, dan = ({"agent": {"command": command}} for command in (["sh", "-c", "cat > /dev/null"], ["./none"]))
    plan = {"team": "tiny", "members": {"ada": ada, "dan": dan}}
    plan["tasks"] = {f"t{number}": {"subject": f"Part {number}"} for number in range(4)}
    (here / "plan.yaml").write_text(json.dumps(plan))
    said = interlock("run", "plan.yaml").out
    assert said.count("dan started") == 1 and said.index("dan started") < said.index("dan gets no more")
    assert said.count("dan gets no more tasks for now: its program could not start. The program './none' was") == 1


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "  ? Is TASK-2026-11-23-001 (A) good, as far as you see?",
            "  ? Is 11-23-001 (A)\n    good, as far as\n    you see?",
        ),
        ("+ TASK-2026-11-23-001 [lint] Lint", "+ [lint] Lint"),
        ("\x1b[1mTASK-2026-11-23-001\x1b[0m", "\x1b[1m11-23-001\x1b[0m"),
        ("/trees/TASK-2026-11-23-001", "/trees/TASK-2026-11-23-001"),
        ("TASK-2026-11-23-001.md", "TASK-2026-11-23-001.md"),
        ("      interlock task retry TASK-2026-11-23-001 --team t", "      interlock task retry 11-23-001 --team t"),
        ("short", "short"),
        ("", ""),
    ],
)
def test_a_line_fits_a_terminal_with_short_ids_and_whole_words_and_commands(line: str, shown: str) -> None:
    assert words.fitted(line, 20) == shown


def test_what_is_shown_on_a_terminal_finds_the_task_again(interlock: Interlock, task: Create) -> None:
    made = task("first")
    assert interlock("--json", "task", "show", words.shortened(made)).json["id"] == made
    assert interlock("task", "show", made).out.startswith(made), "a program that reads it gets the whole id"


def test_the_question_comes_first_and_the_line_of_the_specification_says_its_language(
    interlock: Interlock, task: Create
) -> None:
    stopped = task("fetch")
    interlock("task", "claim", stopped, "--as", "tester")
    interlock("task", "block", stopped, "--reason", "credentials.txt is missing", "--as", "tester")
    shown = interlock("task", "show", stopped).out
    assert shown.index("tester is blocked: credentials.txt is missing. What should it do?") < shown.index("[ja] YES/NO")
    assert "\n  (Do you permit code changes for this task?)" in shown
    assert "[ja]" not in interlock("--json", "task", "show", stopped).out


def test_a_plan_of_more_tasks_than_may_be_open_is_refused_before_anything_is_made(
    interlock: Interlock, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TASK_LIMIT", "1")
    (here / "plan.yaml").write_text("members: {ada: {agent: shell}}\ntasks: {one: {run: ls}, two: {run: ls}}\n")
    for command in (("plan", "check"), ("run", "--dry-run")):
        found = interlock(*command, "plan.yaml")
        assert found.code == 1 and "has 2 tasks, and a team may have 1 that are open" in found.out + found.err
    assert interlock("--json", "run", "plan.yaml").error["error"] == "task_limit"
    assert interlock("--json", "team", "list").json == {"teams": []}


def test_an_agent_that_is_not_installed_is_named_without_the_line_of_a_plan_that_was_not_written(
    interlock: Interlock, here: Path
) -> None:
    found = interlock("init", "--agent", "gemni")
    assert found.err.startswith("error: Unknown agent 'gemni' for") and list(here.iterdir()) == []


def test_an_answer_that_comes_after_the_end_of_a_run_is_named(
    interlock: Interlock, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = "case \"$(cat)\" in *SQLite*) ;; *) interlock question ask $INTERLOCK_TASK 'Which database?';; esac"
    members = {"bob": {"agent": {"command": ["sh", "-c", agent]}}}
    plan = {"team": "crew", "members": members, "tasks": {"one": {"subject": "One"}}}
    (here / "plan.yaml").write_text(json.dumps(plan))
    driving = Home.drive

    def answered_after(home: Home, team: str, **how: Any) -> str:
        reason = driving(home, team, **{**how, "hold": 0.0})
        for one in home.team(team).questions():
            home.team(team).reply(one.task_id, "SQLite", question=one.id)
        return reason

    monkeypatch.setattr(Home, "drive", answered_after)
    first = interlock("run", "plan.yaml")
    (task,) = connect(os.environ["INTERLOCK_HOME"]).team("crew").tasks()
    assert first.code == 1
    assert f"An answer about {task.id} came after the run had ended. Run it again to continue." in first.out
    again = interlock("--json", "run", "plan.yaml")
    assert (again.code, again.json["answered_since"], again.json["all_done"]) == (0, [], True)


def test_a_plan_that_cannot_be_carried_out_is_refused_before(
    interlock: Interlock, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_MEMBER_LIMIT", "2")
    crowd = "members:\n  ada: {agent: shell}\n  ben: {agent: shell}\ntasks: {one: {run: 'true'}}\nteam: tiny\n"
    (here / "plan.yaml").write_text(crowd)
    for command in (("plan", "check"), ("run", "--dry-run"), ("run",)):
        found = interlock(*command)
        assert found.code == 1 and "the team would have 3 members, the lead included, and may have 2" in (
            found.out + found.err
        )
    assert interlock("plan", "check").out.startswith("plan.yaml:1: ")
    assert interlock("--json", "run").error["error"] == "member_limit"
    (here / "plan.yaml").write_text(crowd.replace("  ben: {agent: shell}\n", ""))
    assert interlock("run").code == 0
    (here / "plan.yaml").write_text(crowd.replace("ada", "eve"))
    assert "the team would have 4 members" in interlock("plan", "check").out, "whoever is there already counts"


def test_every_fault_of_metadata_has_its_line(interlock: Interlock, here: Path) -> None:
    (here / "plan.yaml").write_text(
        "members: {ada: {agent: shell}}\ntasks:\n  one:\n    run: 'true'\n    env: [interlock_key]\n    metadata:\n"
        "      env: x\n      reviewRequired: 'true'\n      delegationDepth: '1'\n      retries: 3\n      list: [1]\n"
    )
    said = interlock("plan", "check").out.splitlines()
    assert [line.split(":")[1] for line in said] == ["5", "7", "8", "9", "10", "11"]
    assert 'metadata of task "one": metadata is data and must not hold env' in said[1]
    assert "reviewRequired must be true or false" in said[2]


def test_a_plan_sets_what_aof_reads_and_data_of_any_kind(interlock: Interlock, here: Path) -> None:
    text = "team: tiny\nmembers: {ada: {agent: shell}}\ntasks:\n  one:\n    run: 'true'\n    metadata: {METADATA}\n"
    said = {"reviewRequired": True, "delegationDepth": 2, "n": 5, "share": 0.5, "name": "x"}
    plan = here / "plan.yaml"
    plan.write_text(text.replace("{METADATA}", json.dumps(said)))
    assert interlock("run").code == 0
    [task] = interlock("--json", "task", "list").json["tasks"]
    assert task["metadata"] == said
    assert "1 unchanged" in interlock("run", "--dry-run").out
    updated = task["updated_at"]
    assert interlock("run").code == 0
    assert interlock("--json", "task", "show", "001").json["updated_at"] == updated
    plan.write_text(text.replace("{METADATA}", json.dumps({**said, "delegationDepth": 3})))
    assert interlock("--json", "run", "--dry-run").json["changed_started"] == ["one"]
