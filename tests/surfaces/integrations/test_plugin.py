"""The plugin of Claude Code and Codex beside `interlock join`: it acts where a project joined by it, and only there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.surfaces.cli.tree import TREE
from interlock.surfaces.mcp.team_tools import TOOLS

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugins" / "interlock"
SKILL = PLUGIN / "skills" / "interlock" / "SKILL.md"
PROGRAMS = ["claude", "codex"]
HOOKS = {"claude": "hooks/hooks.json", "codex": "hooks/codex.json"}
SERVERS = {"claude": ".mcp.json", "codex": "mcp/codex.json"}


def run(*words: str, code: int = 0) -> str:
    done = subprocess.run(["interlock", *words], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def switch(program: str, home: Path, on: bool) -> None:
    """What the program notes when its user installs, or switches off, our plugin."""
    if program == "claude":
        path = home / ".claude" / "settings.json"
        text = json.dumps({"enabledPlugins": {"interlock@interlock": on}})
    else:
        path = home / ".codex" / "config.toml"
        text = f'[plugins."interlock@interlock"]\nenabled = {str(on).lower()}\n'
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def hook(program: str, event: str = "SessionStart", **fields: str) -> Any:
    """What the plugin's own hook answers to an event, by default to a new session."""
    [group] = json.loads((PLUGIN / HOOKS[program]).read_text())["hooks"][event]
    said = json.dumps({"hook_event_name": event, "session_id": "s-1", "source": "startup", **fields})
    ran = subprocess.run(["sh", "-c", group["hooks"][0]["command"]], input=said, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout) if ran.stdout else None


def tools(program: str) -> list[str]:
    """The tools that the plugin's MCP server offers."""
    server = json.loads((PLUGIN / SERVERS[program]).read_text())["mcpServers"]["interlock"]
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    ran = subprocess.run(
        [server["command"], *server["args"]],
        input="".join(json.dumps(one) + "\n" for one in asked), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    answers = {one.get("id"): one for one in map(json.loads, ran.stdout.splitlines())}
    return [tool["name"] for tool in answers[2]["result"]["tools"]]


@pytest.fixture(autouse=True)
def usual_places(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLAUDE_PROJECT_DIR", "INTERLOCK_TEAM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_with_the_plugin_joining_writes_no_settings_and_the_plugin_takes_part(
    team: Team, project: Path, tmp_path: Path, program: str
) -> None:
    switch(program, tmp_path, True)
    assert hook(program) is None and tools(program) == [], "nobody joined here"
    assert "Its plugin brings hooks and tools" in run("join", "--team", "alpha", "--name", "ada", "--agent", program)
    assert [one.name for one in project.iterdir()] == [".interlock"]
    assert "You are ada, a member of the team alpha" in hook(program)["hookSpecificOutput"]["additionalContext"]
    assert "task_claim" in tools(program)
    run("leave")
    assert list(project.iterdir()) == [] and hook(program) is None and tools(program) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_by_the_plugin_too_mail_waits_for_the_main_agent(
    team: Team, project: Path, tmp_path: Path, program: str
) -> None:
    switch(program, tmp_path, True)
    run("join", "--team", "alpha", "--name", "ada", "--agent", program)
    hook(program)
    team.send(to="ada", content="stop that", urgent=True)
    for event in ("PostToolUse", "UserPromptSubmit", "Stop"):
        assert hook(program, event, agent_id="a1b2") is None
    assert [message.stage for message in team.history()] == ["stored"]
    assert "stop that" in hook(program, "PostToolUse")["hookSpecificOutput"]["additionalContext"]
    assert [message.stage for message in team.history()] == ["delivered"]


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plugin_that_comes_later_leaves_the_project_to_its_own_hooks_until_it_joins_again(
    team: Team, project: Path, tmp_path: Path, program: str
) -> None:
    joining = ("join", "--team", "alpha", "--name", "ada", "--agent", program)
    run(*joining)
    switch(program, tmp_path, True)
    assert hook(program) is None and tools(program) == []
    assert "removed: " in run(*joining)
    assert [one.name for one in project.iterdir()] == [".interlock"] and hook(program) is not None
    switch(program, tmp_path, False)
    assert "written: " in run(*joining) and len(list(project.iterdir())) > 1
    assert hook(program) is None and tools(program) == []
    run("leave")
    assert list(project.iterdir()) == []


def test_a_program_that_joined_by_its_plugin_stays_when_another_leaves(
    team: Team, project: Path, tmp_path: Path
) -> None:
    switch("claude", tmp_path, True)
    run("join", "--team", "alpha", "--name", "ada", "--agent", "claude")
    run("join", "--team", "alpha", "--name", "bea", "--agent", "codex")
    run("leave", "--agent", "codex")
    assert hook("claude") is not None


def test_an_own_hook_that_cannot_be_taken_out_refuses_the_plugin(team: Team, project: Path, tmp_path: Path) -> None:
    run("join", "--team", "alpha", "--name", "ada", "--agent", "claude")
    (project / ".mcp.json").write_text("{")
    switch("claude", tmp_path, True)
    assert "cannot be taken out" in run("join", "--team", "alpha", "--name", "ada", "--agent", "claude", code=1)


def test_where_the_environment_names_a_team_the_plugin_acts_in_it(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "elsewhere"
    below.mkdir()
    monkeypatch.chdir(below)
    assert hook("claude") is None
    monkeypatch.setenv("INTERLOCK_TEAM", "alpha")
    assert hook("claude") is not None


def test_the_plugin_acts_in_the_directories_of_a_project_that_joined(
    team: Team, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch("codex", tmp_path, True)
    run("join", "--team", "alpha", "--name", "ada", "--agent", "codex")
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert hook("codex") is not None


@pytest.mark.long
def test_the_plugin_leaves_a_program_that_a_runner_drives_alone(
    team: Team, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch("claude", tmp_path, True)
    run("join", "--team", "alpha", "--name", "ada", "--agent", "claude")
    monkeypatch.setenv("INTERLOCK_SESSION", "run:1")
    assert hook("claude") is None and tools("claude") == []


def test_the_skill_is_short_and_names_only_what_there_is() -> None:
    text = SKILL.read_text()
    assert len(re.findall(r"\w+|[^\w\s]", text)) < 600, "every word and every mark a token"
    verbs = {path for rows in TREE.values() for path, _, _ in rows}
    named = re.findall(r"`interlock ((?:[a-z]+ ?)+)", text)
    assert named and not [
        words for words in named if not any(f"{words.strip()} ".startswith(f"{one} ") for one in verbs)
    ]
    told = set(re.findall(r"\[([a-z_]+)", text))
    assert told == {"task_claim", "task_complete", "ask_human", "task_update"} and told <= set(TOOLS)
