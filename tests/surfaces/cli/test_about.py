"""The command line about itself: version, help, completion, exit codes for loops, and how all of it is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.version import __version__
from tests.surfaces.cli.conftest import Interlock

PLAN = "team: crew\nmembers: {ada: {agent: shell}}\ntasks:\n  lint: {run: 'true'}\n  build: {run: 'true'}\n"


def completed(line: str) -> list[str]:
    """What bash would offer for a command line that was typed so far."""
    typed = line.split(" ")
    shell = {"COMP_WORDS": line, "COMP_CWORD": str(len(typed) - 1), "_INTERLOCK_COMPLETE": "bash_complete"}
    ran = subprocess.run(
        [sys.executable, "-m", "interlock"], env={**os.environ, **shell}, capture_output=True, text=True, check=True
    )
    return [one.partition(",")[2] for one in ran.stdout.splitlines() if one]


def test_version_and_help_are_commands(interlock: Interlock) -> None:
    assert interlock("version").out == f"interlock {__version__}\n"
    assert interlock("--json", "version").json == {"version": __version__}
    assert interlock("--version").out == interlock("-V").out == f"interlock {__version__}\n"
    for line in (("--json", "--version"), ("--version", "--json")):
        assert interlock(*line).json == {"version": __version__}
    assert interlock("help", "task", "create").out.startswith("Usage: interlock task create")
    assert "Exit codes: 0 done" in interlock("help").out
    unknown = interlock("help", "task", "crate")
    assert (unknown.code, unknown.err) == (2, "error: No such command 'crate'. Did you mean create?\n")
    assert "`interlock status` has no command 'x'" in interlock("help", "status", "x").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(interlock: Interlock, shell: str) -> None:
    assert "_INTERLOCK_COMPLETE" in interlock("completion", shell).out


@pytest.mark.long
def test_plans_teams_tasks_members_and_settings_are_completed(interlock: Interlock, here: Path) -> None:
    (here / "night.yaml").write_text(PLAN)
    (here / "notes.txt").write_text("")
    assert completed("interlock run ") == completed("interlock plan check ni") == ["night.yaml"]
    assert interlock("run", "night.yaml").code == 0
    assert completed("interlock team show c") == completed("interlock --team ") == ["crew"]
    assert completed("interlock task show ") == ["lint", "build"]
    assert completed("interlock task assign lint --to a") == ["ada"]
    assert completed("interlock config get hold") == ["hold_time"]
    assert completed("interlock --team nobody task show ") == []


def test_a_loop_can_tell_that_there_is_nothing(interlock: Interlock) -> None:
    assert interlock("team", "create", "crew").code == 0
    assert interlock("member", "spawn", "ada").code == 0
    for line in (["task", "next", "--as", "ada"], ["message", "wait", "--timeout", "0"], ["question", "list"]):
        assert (interlock(*line).code, interlock(*line, "--exit-code").code) == (0, 3)
    assert interlock("task", "create", "Write").code == 0
    assert interlock("task", "next", "--as", "ada", "--exit-code").code == 0


def test_uninstall_tells_what_it_removes_and_leaves_what_is_not_ours(interlock: Interlock, here: Path) -> None:
    home = here.parent / "home"
    (here / "plan.yaml").write_text(PLAN)
    assert interlock("run", "plan.yaml").code == 0
    assert interlock("config", "set", "hold_time", "60").code == 0
    (home / "teams" / "foreign").mkdir()
    (home / "other.txt").write_text("another program's")
    for name in (
        "push.json",
        "notices.json",
        "telemetry.json",
        "acp-registry.json",
        "agents-checked.json",
        "open.html",
    ):
        (home / name).write_text("{}")
    for name in ("imports", "work", "projects"):
        (home / name).mkdir()
        (home / name / "inside").touch()
    asked = interlock("uninstall")
    assert (
        asked.code == 1 and "1 team: crew" in asked.err and "Add --yes" in asked.err and (home / "teams/crew").exists()
    )
    said = interlock("uninstall", "--yes").out
    assert f"not ours: {home}/other.txt" in said and "pipx uninstall interlock-agents" in said
    assert f"work may be in it: {home}/projects" in said and f"work may be in it: {home}/work" in said
    kept = {path.relative_to(home).as_posix() for path in home.rglob("*")}
    assert kept == {"other.txt", "teams", "teams/foreign", "projects", "projects/inside", "work", "work/inside"}
    assert (here / "plan.yaml").exists()
    assert interlock("uninstall", "--yes").code == 0


def test_uninstall_keeps_the_branches_with_the_work_and_names_them(interlock: Interlock, here: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *who, *words], cwd=here, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    (here / "plan.yaml").write_text(f"isolation: worktree\n{PLAN.replace('true', 'date > made')}")
    assert interlock("run", "plan.yaml").code == 0
    said = interlock("uninstall", "--yes").out
    assert f"git -C {here} branch -D interlock/crew" in said
    assert "interlock/crew" in git("branch") and git("worktree", "list").count("\n") == 1


def test_a_report_fits_the_screen_and_full_shows_all(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert interlock("team", "create", "crew").code == 0
    for number in range(12):
        assert interlock("task", "create", f"Task number {number}").code == 0
    assert "number 0" in interlock("report").out  # a pipe gets all
    monkeypatch.setattr("interlock.surfaces.cli.words.on_screen", lambda: 5)
    short = interlock("report").out
    assert "… 7 more: interlock report --full --team crew" in short and "number 6" not in short and "number 7" in short
    assert "number 0" in interlock("report", "--full").out
