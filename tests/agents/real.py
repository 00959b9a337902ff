"""Real agent programs from npm, led to the scripted model: what the tests with them share.

`agents(monkeypatch, tmp_path, endpoint)` puts them on PATH and gives this process an environment in which they find
nothing but the endpoint: a home of their own, no key but a dummy, no way out. What is not installed skips.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests import pinned
from tests.agents.endpoint import Endpoint, Move, Seen, call

SECONDS = 600.0  # of a test: what these programs take on a busy machine is not ours to know


def enter(
    monkeypatch: pytest.MonkeyPatch, home: Path, name: str, endpoint: Endpoint, model: str, package: str = ""
) -> None:
    """From now on, `agent: <name>` is the real program, as that pin (the one of its name) has it, and its model is
    `model` of the endpoint."""
    home.mkdir(exist_ok=True)
    # Its programs first; node is found where it was.
    monkeypatch.setenv("PATH", pinned.programs(package or name), prepend=os.pathsep)
    # Codex makes nothing executable below the system's directory for temporary files, and says so each time.
    monkeypatch.setenv("HOME", str(home))
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.lower(), raising=False)
    match name:
        case "claude":
            settings = endpoint.claude(model)
        case "codex":
            settings = endpoint.codex(model, home / "codex")
        case "gemini":
            settings = endpoint.gemini(model, home)
        case _:
            settings = endpoint.opencode(model, home / "opencode")
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)


def shell(name: str, command: str) -> Move:
    """The model runs a command; of Codex, outside its sandbox, which needs a permission."""
    if name == "claude":
        return call("Bash", command=command, description="a test")
    return call("exec_command", cmd=command, sandbox_permissions="require_escalated", justification="a test")


def last(seen: Seen, *prompts: str) -> str | None:
    """Which of these prompts the conversation has come to."""
    found = [one for text in seen.prompts for one in prompts if one in text]
    return found[-1] if found else None


def since(seen: Seen, prompt: str) -> int:
    """How often the model has spoken since that prompt; how far it is with what that asks for."""
    body = seen.body
    items: list[Any] = body.get("messages") or body.get("input") or body.get("contents") or []
    spoken = 0
    for item in items:
        if item.get("role") == "user" and prompt in _texts(item.get("content") or item.get("parts")):
            spoken = 0
        elif item.get("role") in ("assistant", "model") or item.get("type") in ("function_call", "custom_tool_call"):
            spoken += 1
    return spoken


def _texts(content: Any) -> str:
    """What the user said, and not what a tool answered."""
    if isinstance(content, str):
        return content
    return "\n".join(one.get("text", "") for one in content or [] if one.get("type", "text") in ("text", "input_text"))
