"""What a command loads before it does anything: the hook pays for it at every turn, everybody at every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import SRC
from tests.surfaces.cli.conftest import Interlock

SLOW = {"click", "dataclasses", "typing", "pathlib", "inspect", "asyncio", "anyio", "rich", "mcp", "pydantic", "ruamel"}
HEAVY = {"rich", "mcp", "anyio", "asyncio", "pydantic", "ruamel", "subprocess", "multiprocessing", "email", "tomllib"}
COSTLY = {"dataclasses", "hashlib", "_hashlib", "random", "tempfile", "pathlib", "difflib", "logging", "socket"}
"""What no short command needs: about a tenth of its start each."""
OTHERS = {"message", "team", "report", "run", "demo", "task_create", "task_work", "task_edit", "plan", "events"}


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


def test_the_hooks_own_modules_load_nothing_heavy() -> None:
    modules = "interlock.surfaces.cli, interlock.surfaces.cli.inject, interlock.surfaces.cli.caller, interlock.app"
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import {modules}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not ({*SLOW, "re", "json"} & set(ran.stdout.split()))


def test_the_hook_loads_nothing_heavy(interlock: Interlock, team: str, tmp_path: object) -> None:
    interlock("message", "send", "--to", "tester", "hi")
    heavy = SLOW & loaded("--home", f"{tmp_path}/home", "inject", "--as", "tester")
    assert not heavy


@pytest.mark.parametrize("name", ["UserPromptSubmit", "PostToolUse", "Stop"])
def test_the_hook_of_a_program_that_joined_loads_nothing_heavy(
    interlock: Interlock, team: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "60")
    line = ["--home", f"{tmp_path}/home", "hook", "claude", "--name", "ada"]
    for event in ("SessionStart", name):
        given = tmp_path / "event.json"
        given.write_text(json.dumps({"hook_event_name": event, "session_id": "s-1"}))
        modules = loaded(*line, given=given)
        interlock("message", "send", "--to", "ada", "--urgent", "hi")
    assert "interlock.clients.local.window" in modules
    assert not SLOW & modules


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
    assert not (COSTLY | HEAVY) & loaded("--home", f"{tmp_path}/home", *SHORT[name])


def test_settings_of_a_team_cost_the_hook_no_json(interlock: Interlock, team: str, tmp_path: Path) -> None:
    interlock("--team", team, "config", "set", "retries", "2")
    line = ["--home", f"{tmp_path}/home", "inject", "--as", "tester"]
    loaded(*line)  # its session begins
    assert not {"json", "re", "enum", "interlock.mirror.drain"} & loaded(*line)


@pytest.mark.parametrize("arguments", [["--help"], ["task", "--help"], ["--version"]])
def test_help_loads_no_verb_at_all(arguments: list[str]) -> None:
    modules = loaded(*arguments)
    assert not {"interlock.surfaces.cli.task", "interlock.app", "interlock.client", *HEAVY} & modules
