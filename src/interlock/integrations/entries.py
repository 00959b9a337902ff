"""What each program gets, and into which of the project's files: its own hooks, and the entry of our MCP server."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from interlock.integrations import HOOKS
from interlock.integrations.settings_text import SettingsEntry
from interlock.lazy_dataclass import dataclass

HOOK_SECONDS = 5
"""The program's own limit for a hook of ours, which itself gives up after one second."""


@dataclass(frozen=True, slots=True)
class SettingsAddition:
    """What goes into one file: entries of a JSON object, or lines of a TOML file."""

    path: str
    entries: Sequence[SettingsEntry] = ()
    lines: str = ""


@dataclass(frozen=True, slots=True)
class JoinableProgram:
    """A program that can join. `note` is what its users have to know."""

    name: str
    commands: tuple[str, ...]
    signs: tuple[str, ...]
    note: str


PROGRAMS = {
    program.name: program
    for program in (
        JoinableProgram("claude", ("claude",), (".claude", "CLAUDE.md"), "It asks once whether to use the MCP server."),
        JoinableProgram(
            "codex", ("codex",), (".codex",),
            "It reads a project's settings only where the project is trusted, and asks for each hook: review them "
            "with /hooks.",
        ),
        JoinableProgram(
            "gemini", ("gemini",), (".gemini", "GEMINI.md"), "It reads a project's settings in trusted folders."
        ),
        JoinableProgram(
            "opencode", ("opencode",), ("opencode.json", ".opencode"),
            "It takes part over MCP alone: mail comes when it calls read_inbox or poll_inbox, nothing wakes it.",
        ),
    )
}  # fmt: skip


def additions_for(program: str, *, home: str | None, team: str, name: str) -> list[SettingsAddition]:
    """What that program gets so that each of its windows is a member of `team`, the first called `name`. `home` is
    None for the home that is found without being named."""
    where = [*(["--home", home] if home is not None else []), "--team", team]
    argv = [*own_command(), "mcp", *where, "--joined", program, "--name", name]
    called = [*own_command(), "hook", program, *where, "--name", name]
    hooks: list[SettingsEntry] = [
        {"path": ["hooks", event], "value": group, "sign": f" hook {program} "}
        for event, group in hook_groups(program, called).items()
    ]
    if program == "codex":
        lines = (
            f"[mcp_servers.interlock]\ncommand = {json.dumps(argv[0])}\nargs = {json.dumps(argv[1:])}\n"
            "startup_timeout_sec = 20\n"
        )
        return [
            SettingsAddition(".codex/hooks.json", hooks),
            SettingsAddition(".codex/config.toml", lines=lines),
        ]
    if program == "opencode":
        server: dict[str, Any] = {"type": "local", "command": argv, "enabled": True}
        return [SettingsAddition("opencode.json", [_server("mcp", server)])]
    server = {"command": argv[0], "args": argv[1:]}
    if program == "gemini":
        return [SettingsAddition(".gemini/settings.json", [*hooks, _server("mcpServers", server)])]
    allowed: SettingsEntry = {"path": ["enabledMcpjsonServers"], "value": "interlock"}
    return [
        SettingsAddition(".claude/settings.local.json", [*hooks, allowed]),
        SettingsAddition(".mcp.json", [_server("mcpServers", {"type": "stdio", **server})]),
    ]


def _server(holder: str, server: dict[str, Any]) -> SettingsEntry:
    return {"path": [holder], "key": "interlock", "value": server, "sign": "--joined"}


def hook_groups(program: str, argv: list[str]) -> dict[str, dict[str, Any]]:
    """For each event of the program that has a hook of ours, the group of hooks that calls `argv`."""
    # Where the package is gone the hook says nothing: it must not stop the program.
    command = f"command -v {shlex.quote(argv[0])} >/dev/null 2>&1 || exit 0; exec {shlex.join(argv)}"
    found = {}
    for event in HOOKS[program]:
        hook: dict[str, Any] = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        group: dict[str, Any] = {"hooks": [hook]}
        if program == "gemini":
            hook |= {"name": f"interlock-{event}", "timeout": HOOK_SECONDS * 1000}
            group = {"matcher": "*", **group}
        found[event] = group
    return found


def own_command() -> list[str]:
    """How another program calls us: by name where that leads to us, else by the whole path."""
    if shutil.which("interlock") is not None:
        return ["interlock"]
    beside = os.path.join(os.path.dirname(sys.executable), "interlock")
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "interlock.surfaces.cli"]
