"""What this repository says of itself to others: plugins, their catalogue, and the MCP registry.

One source each: names, licence and addresses are pyproject.toml's (`[project]`, `[project.urls]`, `[tool.interlock]`),
the version is the package's, hooks and servers are the tables that `interlock join` uses. `make reference` writes the
files, `make lint` holds them against it. Where the project has no address yet, they name none.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = "plugins/interlock"
ABOUT = "Take part in an Interlock team: shared tasks and mail, by hooks, MCP tools and /interlock"


def files() -> dict[str, str]:
    """Every file, by its path in the repository."""
    from interlock.integrations.plugin import plugin_hooks, plugin_servers

    documents = {
        ".claude-plugin/marketplace.json": marketplace(),
        f"{HERE}/.claude-plugin/plugin.json": plugin(),
        f"{HERE}/hooks/hooks.json": plugin_hooks("claude"),
        f"{HERE}/.mcp.json": plugin_servers("claude"),
        # Codex would take the files above for its own if its manifest did not name others.
        f"{HERE}/.codex-plugin/plugin.json": {
            **plugin(),
            "skills": "./skills/",
            "hooks": "./hooks/codex.json",
            "mcpServers": "./mcp/codex.json",
        },
        f"{HERE}/hooks/codex.json": plugin_hooks("codex"),
        f"{HERE}/mcp/codex.json": plugin_servers("codex"),
        "server.json": server(),
    }
    return {path: json.dumps(one, indent=2) + "\n" for path, one in documents.items()}


def marketplace() -> dict[str, Any]:
    """The catalogue with our one plugin, which Claude Code and Codex both read."""
    from interlock.integrations.plugin import MARKETPLACE, PLUGIN

    return {
        "name": MARKETPLACE,
        "description": ABOUT,
        "owner": {"name": _project()["authors"][0]["name"]},
        "plugins": [{"name": PLUGIN, "source": f"./{HERE}", "description": ABOUT}],
    }


def plugin() -> dict[str, Any]:
    """What both manifests of the plugin say."""
    from interlock.integrations.plugin import PLUGIN
    from interlock.version import __version__

    address = _project().get("urls", {}).get("Repository")
    return {
        "name": PLUGIN,
        "version": __version__,
        "description": ABOUT,
        "author": {"name": _project()["authors"][0]["name"]},
        "license": _project()["license"],
        "keywords": _project()["keywords"],
        **({"homepage": address, "repository": address} if address else {}),
    }


def server() -> dict[str, Any]:
    """The entry in the MCP registry; its name is also in README.md, by which the registry knows whose package it is."""
    from interlock.version import __version__

    about, address = _pyproject()["tool"]["interlock"], _project().get("urls", {}).get("Repository")
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": about["mcp-name"],
        "title": "Interlock",
        "description": "Shared tasks, mail and questions for a team of coding agents in one workspace",
        "version": __version__,
        **({"repository": {"url": address, "source": "github"}} if address else {}),
        "packages": [
            {
                "registryType": "pypi",
                "identifier": _project()["name"],
                "version": __version__,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "mcp"},
                    _given("team", "Name of the team, made with `interlock team create`"),
                    _given("as", "Name of the member, made with `interlock member spawn`"),
                ],
            }
        ],
    }


def _given(option: str, meaning: str) -> dict[str, Any]:
    variable = {"description": meaning, "isRequired": True}
    return {"type": "named", "name": f"--{option}", "value": "{value}", "variables": {"value": variable}}


def _project() -> dict[str, Any]:
    found: dict[str, Any] = _pyproject()["project"]
    return found


def _pyproject() -> dict[str, Any]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)
