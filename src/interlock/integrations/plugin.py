"""What our plugins of Claude Code and Codex hold, and whether a project's program loads one.

A plugin is one for all projects, so its hooks and its MCP server name no team: `hooks_team.plugin_options` finds it in
what `interlock join` noted in the project. The files in `plugins/` are written from here by `make reference`.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from typing import Any

from interlock.integrations.entries import hook_groups

PLUGIN = "interlock"
MARKETPLACE = "interlock"


def plugin_hooks(program: str) -> dict[str, Any]:
    """The file with the hooks of the plugin."""
    groups = hook_groups(program, ["interlock", "hook", program, "--plugin"])
    return {"hooks": {event: [group] for event, group in groups.items()}}


def plugin_servers(program: str) -> dict[str, Any]:
    """The file with the MCP server of the plugin."""
    return {"mcpServers": {"interlock": {"command": "interlock", "args": ["mcp", "--joined", program, "--plugin"]}}}


def plugin_enabled(program: str, project: str) -> bool:
    """Whether the settings of the program have our plugin on in that project. What cannot be read has it not."""
    name, home = f"{PLUGIN}@{MARKETPLACE}", os.path.expanduser("~")
    if program == "codex":
        settings = os.path.join(os.environ.get("CODEX_HOME") or os.path.join(home, ".codex"), "config.toml")
        one = _table(settings, tomllib.loads, "plugins").get(name)
        return isinstance(one, dict) and one.get("enabled", True) is True
    if program != "claude":
        return False
    own = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    places = [own, os.path.join(project, ".claude")]
    files = [os.path.join(place, "settings.json") for place in places]
    enabled: dict[str, Any] = {}
    for path in (*files, os.path.join(project, ".claude", "settings.local.json")):
        enabled |= _table(path, json.loads, "enabledPlugins")
    return enabled.get(name) is True


def _table(path: str, parse: Callable[[str], Any], key: str) -> dict[str, Any]:
    """What a settings file has under `key`; empty where it has nothing there, or is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = parse(file.read())[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
