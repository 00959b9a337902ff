"""Real agent programs from npm, led to the scripted model: what the tests with them share.

`agents(monkeypatch, tmp_path, endpoint)` puts them on PATH and gives this process an environment in which they find
nothing but the endpoint: a home of their own, no key but a dummy, no way out. What is not installed skips.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import pinned
from tests.agents.endpoint import Endpoint, Move, Seen, call

SECONDS = 600.0  # of a test: what these programs take on a busy machine is not ours to know
NAMED = re.compile(r"^# (\w+): .* \((TASK-[\d-]+)\)$", re.MULTILINE)
"""How a prompt names the task of a plan that it is about: key and id."""
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}


def enter(
    monkeypatch: pytest.MonkeyPatch, home: Path, name: str, endpoint: Endpoint, model: str, package: str = ""
) -> None:
    """From now on, `agent: <name>` is the real program, as that pin (the one of its name) has it, and its model is
    `model` of the endpoint."""
    wanted = environment(home, endpoint, {name: model}, package)
    for variable in os.environ.keys() - wanted.keys():
        monkeypatch.delenv(variable)
    for variable, value in wanted.items():
        monkeypatch.setenv(variable, value)


def environment(home: Path, endpoint: Endpoint, models: Mapping[str, str], package: str = "") -> dict[str, str]:
    """The variables of a process whose agents (name -> model) are these real programs; `enter` says of which pin."""
    home.mkdir(exist_ok=True)
    found = {name: value for name, value in os.environ.items() if name.upper() not in PROXIES}
    # Codex makes nothing executable below the system's directory for temporary files, and says so each time.
    found["HOME"] = str(home)
    for name, model in models.items():
        # Its programs first; node is found where it was.
        found["PATH"] = os.pathsep.join((pinned.programs(package or name), found["PATH"]))
        match name:
            case "claude":
                found |= endpoint.claude(model)
            case "codex":
                found |= endpoint.codex(model, home / "codex")
            case "gemini":
                found |= endpoint.gemini(model, home)
            case _:
                found |= endpoint.opencode(model, home / "opencode")
    return found


def write(seen: Seen, root: Path, path: str, text: str) -> Move:
    """The model makes that file below its working directory, each program in its own way."""
    if seen.model == "claude":
        where = str(root / path)
        blocks = [one for had in seen.body["messages"] for one in had["content"] if isinstance(one, dict)]
        known = any(one.get("type") == "tool_use" and one["input"].get("file_path") == where for one in blocks)
        if (root / path).exists() and not known:  # It overwrites only what it has read.
            return call("Read", file_path=where)
        return call("Write", file_path=where, content=text)
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return call("apply_patch", input=f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")


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
