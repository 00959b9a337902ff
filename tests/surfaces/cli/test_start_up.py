"""What a command loads before it does anything: the hook pays for it at every turn, everybody at every command."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from interlock import hooks_team
from tests.architecture.source import SRC
from tests.surfaces.cli.conftest import Interlock

SLOW = {"click", "dataclasses", "typing", "pathlib", "inspect", "asyncio", "anyio", "rich", "mcp", "pydantic", "ruamel"}
HEAVY = {"rich", "mcp", "anyio", "asyncio", "pydantic", "ruamel", "subprocess", "multiprocessing", "email", "tomllib"}
COSTLY = {
    "random",
    "tempfile",
    "pathlib",
    "socket",
    "difflib",
    "logging",
    "shutil",
    "interlock.workflow",
    "interlock.plan",
    "interlock.gitwork",
    "interlock.doctor",
    "interlock.app.running",
    "interlock.app.stopping",
    "interlock.model.report",
    "interlock.model.views",
    "interlock.memory",
    "interlock.runner.scheduler",
}
"""What no short command needs: about a tenth of its start each."""
LOOKS = {"task list", "task show", "status"}
WRITERS = {"hashlib", "_hashlib", "interlock.mirror.writer", "interlock.mirror.render", "interlock.core.tasks.create"}
"""What only those need that change something."""
OTHERS = {"message", "team", "run", "demo", "plan", "board", "logs", "home", "server", "workflow", "analyze"}


def loaded(*arguments: str, given: Path | None = None) -> set[str]:
    """The modules that a command line has loaded when it ends."""
    code = (
        f"import os, sys; sys.path.insert(0, {str(SRC)!r}); sys.argv = ['interlock', *{list(arguments)!r}]\n"
        "from interlock.surfaces.cli import main\n"
        "os._exit = sys.exit\n"  # hooks end without taking Python apart
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    # -I: what an editable installation's own start-up hooks load is not ours.
    with open(given or os.devnull, "rb") as stdin:
        ran = subprocess.run(
            [sys.executable, "-I", "-c", code], stdin=stdin, capture_output=True, text=True, check=True
        )
    return set(ran.stderr.splitlines()[-1].split())


QUIET = {f"interlock{name}" for name in (
    "", ".version", ".hooks_main", ".hooks_team", ".integrations", ".storage", ".storage.sqlite",
    ".surfaces", ".surfaces.cli",
)}  # fmt: skip
"""All that a hook loads of Interlock where nothing waits."""


HANDED_OVER = QUIET | {f"interlock.{name}" for name in (
    "hooks_handover", "mirror", "mirror.position", "model", "model.handover", "processes", "storage.files",
    "storage.sql", "storage.sql.delivery", "wakeup", "wakeup.socket",
)}  # fmt: skip
"""All that it loads where mail is handed over to a session that the ledger knows."""


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "interlock"}


def test_inject_loads_a_handful_of_modules_with_mail_and_without(
    interlock: Interlock, team: str, tmp_path: Path
) -> None:
    line = ["--home", f"{tmp_path}/home", "--team", team, "inject", "--as", "tester"]
    assert not ours(loaded(*line)) <= HANDED_OVER, "its session begins"
    assert ours(loaded(*line)) <= QUIET
    interlock("message", "send", "--to", "tester", "hi")
    for _ in ("the mail", "what was delivered is acknowledged"):
        modules = loaded(*line)
        assert not ours(modules) <= QUIET and ours(modules) <= HANDED_OVER and not {*SLOW, "json", "re"} & modules
    assert ours(loaded(*line)) <= QUIET
    assert not SLOW & loaded(*line)


@pytest.mark.parametrize("name", ["UserPromptSubmit", "PostToolUse", "Stop"])
def test_the_hook_of_a_program_that_joined_loads_a_handful_of_modules(
    interlock: Interlock, team: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "60")
    given = tmp_path / "event.json"

    def told(event: str) -> set[str]:
        given.write_text(json.dumps({"hook_event_name": event, "session_id": "s-1"}))
        return loaded("--home", f"{tmp_path}/home", "--team", team, "hook", "claude", "--name", "ada", given=given)

    assert not ours(told("SessionStart")) <= QUIET
    quiet = told(name)
    assert ours(quiet) <= QUIET and not SLOW & quiet
    interlock("message", "send", "--to", "ada", "--urgent", "hi")
    modules = told(name)
    assert not ours(modules) <= QUIET and ours(modules) <= HANDED_OVER and not SLOW & modules


def test_a_task_without_a_report_is_seen_at_a_stop(
    interlock: Interlock, team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "60")
    given = tmp_path / "event.json"

    def told(event: str) -> set[str]:
        given.write_text(json.dumps({"hook_event_name": event, "session_id": "s-1"}))
        return loaded("--home", f"{tmp_path}/home", "--team", team, "hook", "claude", "--name", "ada", given=given)

    told("SessionStart")
    interlock("task", "create", "x")
    with monkeypatch.context() as window:
        window.setenv("INTERLOCK_SESSION", "s-1")
        assert interlock("task", "claim", "001", "--as", "ada").code == 0
    assert not ours(told("Stop")) <= QUIET


def test_a_member_whose_activity_is_out_of_date_is_recorded(interlock: Interlock, team: str, tmp_path: Path) -> None:
    line = ["--home", f"{tmp_path}/home", "--team", team, "inject", "--as", "tester"]
    loaded(*line)
    ledger = sqlite3.connect(tmp_path / "home" / "teams" / team / "ledger.db")
    with ledger:
        ledger.execute("UPDATE members SET last_active_at = '2026-01-01T00:00:00.000Z' WHERE name = 'tester'")
    loaded(*line)
    assert ledger.execute("SELECT last_active_at FROM members WHERE name = 'tester'").fetchone()[0] > "2026-01-02"
    ledger.close()


@pytest.mark.parametrize(
    ("text", "team"),
    [
        ('# ours\nteam = "alpha"\n', "alpha"),
        ('team="a-b_2"', "a-b_2"),
        ("team = 'alpha'", ""),
        ('team = "alpha" # ours', ""),
        ('[team]\nteam = "alpha"', ""),
        ('x = """\nteam = "alpha"\n"""', ""),
        ('team = "../up"', ""),
        ("", ""),
    ],
)
def test_of_interlock_toml_only_a_plain_line_is_read_without_a_parser(here: Path, text: str, team: str) -> None:
    (here / "interlock.toml").write_text(text)
    assert hooks_team._team_of_file() == team


def test_a_verb_loads_its_own_module_and_nothing_heavy(interlock: Interlock, team: str, tmp_path: object) -> None:
    modules = loaded("--home", f"{tmp_path}/home", "task", "list")
    heavy = HEAVY & modules
    assert not heavy
    assert not {f"interlock.surfaces.cli.{name}" for name in OTHERS} & modules


SHORT = {
    "task list": ["task", "list"],
    "task show": ["task", "show", "001"],
    "task update": ["task", "update", "001", "--log", "on it"],
    "message send": ["message", "send", "--to", "tester", "hello"],
    "message read": ["message", "read"],
    "status": ["status"],
}


@pytest.mark.parametrize("name", SHORT)
def test_a_short_command_loads_nothing_costly(interlock: Interlock, team: str, tmp_path: Path, name: str) -> None:
    interlock("task", "create", "Write it")
    modules = loaded("--home", f"{tmp_path}/home", *SHORT[name])
    assert not (COSTLY | HEAVY) & modules
    assert name not in LOOKS or not WRITERS & modules


def test_a_run_without_programs_that_speak_acp_loads_nothing_of_acp(interlock: Interlock, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("team: alone\nmembers: {ada: {agent: shell}}\ntasks:\n  one: {run: 'true'}\n")
    assert "acp" not in loaded("--home", f"{tmp_path}/home", "run", str(plan))


@pytest.mark.parametrize("arguments", [["--help"], ["task", "--help"], ["--version"]])
def test_help_loads_no_verb_at_all(arguments: list[str]) -> None:
    modules = loaded(*arguments)
    assert not {"interlock.surfaces.cli.task", "interlock.wiring", "interlock.app.home", *HEAVY} & modules
