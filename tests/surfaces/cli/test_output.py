"""Help, errors, exit codes, colours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from interlock.errors import PlanError
from interlock.surfaces.cli.command import explain
from interlock.surfaces.cli.tree import TREE
from interlock.surfaces.cli.words import cut, table, width
from tests.surfaces.cli.conftest import Interlock

# Every verb of the contract's "Command line".
CONTRACT = """
demo init plan run up open status report logs attach merge diff pause resume stop down doctor join leave inject
hook agents/list agents/check agents/registry acp mcp work protocol/send protocol/schema session-end scheduler/poll
events token/create token/list token/revoke
analyze/menu analyze/validation analyze/preflight analyze/cross-reference analyze/skill analyze/project analyze/tier
analyze/confidence analyze/artifact
workflow/list workflow/show workflow/run workflow/status workflow/resume workflow/rollback workflow/cancel
workflow/adjust workflow/feedback workflow/queue story/list story/show story/next story/run
story/redo story/sweep
help version completion uninstall verify-receipt
memory/status memory/search memory/list memory/flush
question/list question/reply question/ask config/list config/get config/set
team/create team/list team/show team/adopt team/delete member/spawn member/list member/remove
task/create task/list task/show task/graph task/claim task/next task/update task/depend task/release task/complete
task/delete task/approve task/reject task/retry task/cancel task/block task/unblock task/assign task/heartbeat
task/worktree task/file
message/send message/broadcast message/read message/wait message/history
shutdown/request shutdown/approve shutdown/reject
ledger/export ledger/import ledger/move ledger/version ledger/migrate ledger/check ledger/backup
ledger/init ledger/prune story/plan login logout import
workers/list workers/drain workers/pause workers/resume
service/install service/remove service/status
""".split()


@pytest.mark.parametrize("path", CONTRACT)
def test_every_verb_of_the_contract_is_there_with_help(interlock: Interlock, path: str) -> None:
    answer = interlock(*path.split("/"), "--help")
    assert answer.code == 0
    assert "Example:" in answer.out or "Commands:" in answer.out
    assert "--json" in answer.out and "--team" in answer.out


@pytest.mark.parametrize("path", ["task/create", "task/show", "plan", "merge"])
def test_no_row_of_a_help_page_is_blank(interlock: Interlock, path: str) -> None:
    options = interlock(*path.split("/"), "--help").out.partition("Options:\n")[2].partition("\n\n")[0].splitlines()
    assert options and all(line.startswith(("  -", "   ")) for line in options)


@pytest.mark.parametrize("path", ["merge", "diff", "task/claim"])
def test_the_usage_says_how_many_arguments_there_may_be(interlock: Interlock, path: str) -> None:
    usage = interlock(*path.split("/"), "--help").out.splitlines()[0]
    assert usage.endswith("[TASK]..." if path == "merge" else " TASK")


def test_the_tree_holds_what_the_contract_names_and_nothing_else() -> None:
    assert {path.replace(" ", "/") for rows in TREE.values() for path, _, _ in rows} == set(CONTRACT)


def test_the_help_reads_in_three_groups_of_one_line_each(interlock: Interlock) -> None:
    out = interlock("--help").out
    assert out.index("Everyday:") < out.index("Team:") < out.index("Plumbing:")
    assert interlock().out == out
    lines = out[out.index("Everyday:") : out.index("Options:")].splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not [line for line in lines if line.startswith("      ")], "a line is too long and was broken"


def test_errors_are_one_document_on_stderr_with_json(interlock: Interlock, team: str) -> None:
    answer = interlock("task", "show", "404", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert set(answer.error) >= {"error", "message"}


def test_errors_for_people_say_error_and_what_to_do(interlock: Interlock, team: str) -> None:
    answer = interlock("task", "show", "404")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: ")
    assert "interlock task list" in answer.err


@pytest.mark.parametrize(
    "line",
    ["frob", "task frob", "task show", "task list --frob", "task create --priority soon X", "message wait --timeout -1",
     "task", "--frob"],
)  # fmt: skip
def test_wrong_usage_is_exit_2_in_both_forms(interlock: Interlock, line: str) -> None:
    plain = interlock(*line.split())
    assert (plain.code, plain.out) == (2, "")
    assert "--help" in plain.err
    document = interlock("--json", *line.split())
    assert (document.code, document.out, document.error["error"]) == (2, "", "invalid_request")


def test_json_on_a_line_that_cannot_be_parsed_is_still_json(interlock: Interlock) -> None:
    assert interlock("task", "list", "--frob", "--json").error["error"] == "invalid_request"
    assert "Usage:" in interlock("task", "list", "--frob", "--", "--json").err


def test_a_misspelt_verb_is_answered_with_the_nearest(interlock: Interlock) -> None:
    assert "Did you mean status?" in interlock("staus").err
    assert "Did you mean create?" in interlock("task", "crate").err


def test_the_version(interlock: Interlock) -> None:
    assert interlock("--version").out.startswith("interlock 0.")


def test_the_package_is_the_command_line_where_the_script_is_not_on_the_path() -> None:
    ran = subprocess.run([sys.executable, "-m", "interlock", "--version"], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout.startswith("interlock 0.")


def test_every_fault_of_a_plan_is_shown_with_its_line() -> None:
    error = PlanError("2 faults", errors=[{"line": 3, "message": "unknown key"}, {"line": 9, "message": "no member"}])
    assert explain(error) == ["  line 3: unknown key", "  line 9: no member"]


def test_output_that_nobody_reads_ends_quietly(interlock: Interlock, team: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "config", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.long
def test_a_run_whose_lines_nobody_reads_any_more_does_its_work_and_ends_quietly(
    interlock: Interlock, here: Path
) -> None:
    plan = "team: crew\nmembers: {ada: {agent: shell}}\n"
    plan += "tasks: {a: {run: until test -e gate; do sleep 0.05; done}, b: {run: touch b, blocked_by: [a]}}\n"
    (here / "plan.yaml").write_text(plan)
    running = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "run", "plan.yaml"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdout is not None and running.stdout.readline()
    running.stdout.close()
    (here / "gate").touch()
    _, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (141, b"")
    assert (here / "b").exists()
    assert {task["state"] for task in interlock("--json", "task", "list").json["tasks"]} == {"done"}


def test_an_interrupt_is_exit_130(interlock: Interlock, team: str, here: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "events", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # It follows now.
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err.strip()) == (130, b"")


def on_a_terminal(environment: dict[str, str], *arguments: str) -> str:
    """What `interlock` prints on a terminal of 60 columns."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "60", "TERM": "xterm", **environment},
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # Linux says so when the last writer is gone, macOS answers nothing.
            break
        if not data:
            break
        printed += data
    os.close(ours)
    assert process.wait() == 0
    return printed.decode()


def test_colours_on_a_terminal_unless_told_otherwise(interlock: Interlock, team: str) -> None:
    interlock("task", "create", "A subject that is much too long for a narrow terminal, " + "x" * 80)
    assert "\x1b[" not in interlock("task", "list").out
    coloured = on_a_terminal({}, "task", "list")
    assert "\x1b[36mready\x1b[0m" in coloured and "…" in coloured
    assert all(width(line.rstrip("\r")) <= 60 for line in coloured.splitlines())
    assert "\x1b[" not in on_a_terminal({"NO_COLOR": "1"}, "task", "list")
    assert "\x1b[" not in on_a_terminal({"TERM": "dumb"}, "task", "list")


def test_tables_align_by_what_is_seen() -> None:
    lines = table(["A", "B", "C"], [[click.style("x", fg="red"), "", "日本"], ["long", "", "y"]])
    plain = [click.unstyle(line) for line in lines]
    assert plain == ["A     C", "x     日本", "long  y"]
    assert width("日本") == 4 and width("e\u0301") == 1 and width("❤\ufe0f") == 1 and width("👩\u200d👧") == 4
    assert cut("日本語", 5) == "日本…" and cut("short", 5) == "short"
