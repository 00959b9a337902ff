"""ACP members for tests: a script in a file, and the agent that plays it (see `acp_program.py`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("acp_program.py")


def acp_command(directory: Path, name: str = "agent", **script: Any) -> list[str]:
    """The program and arguments of an agent that plays `script`; what the client sends is recorded beside it."""
    file = directory / f"{name}.json"
    file.write_text(json.dumps({"record": str(directory / f"{name}.jsonl"), **script}))
    return [sys.executable, str(PROGRAM), str(file)]


def acp_member(directory: Path, name: str = "agent", **script: Any) -> dict[str, Any]:
    """The same as a member of a plan."""
    return {"agent": {"acp": acp_command(directory, name, **script)}}


def recorded(directory: Path, got: str | None = None, name: str = "agent") -> list[dict[str, Any]]:
    """What the client sent, in order; all of it, or of one kind: initialize, new, load, resume, prompt, answer, …"""
    file = directory / f"{name}.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return [one for one in found if got is None or one["got"] == got]
