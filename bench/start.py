"""Cold starts: whole commands against a Python that does nothing, in the same environment and in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench import homes
from bench.measure import Row, at_most_times, in_turns, median

STARTS = 20
COMMANDS: dict[str, tuple[tuple[str, ...], float]] = {
    "inject, no mail": (("inject", "--as", "m0"), 3),
    "hook, tool": (("hook", "claude", "--name", "m0"), 3),
    "hook, prompt": (("hook", "claude", "--name", "m0"), 3.5),
    "task list": (("task", "list"), 6),
    "task show": (("task", "show", "001"), 6),
    "task update": (("task", "update", "001", "--log", "on it"), 6),
    "message send": (("message", "send", "--to", "m1", "hello"), 6),
    "message read": (("message", "read"), 6),
    "status": (("status",), 6),
}
"""Arguments, and how many times a bare start each may take."""
GIVEN = {
    "hook, tool": {"hook_event_name": "PostToolUse", "session_id": "bench"},
    "hook, prompt": {"hook_event_name": "UserPromptSubmit", "session_id": "bench"},
}
"""What is on stdin of those that read it."""


def run() -> list[Row]:
    """Every command beside the bare interpreter."""
    with homes.directory() as home:
        # Mail goes to another than those who have none.
        homes.make(home, 2).create_task("Write it")
        # Compiled files are what an installed package has; writing them is not part of a start.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"INTERLOCK_HOME": str(home), "INTERLOCK_TEAM": homes.TEAM}
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        program = Path(sys.executable).with_name("interlock")
        ours = [str(program)] if program.exists() else [sys.executable, "-m", "interlock.surfaces.cli"]
        starts = [
            started([*ours, *arguments], environment, json.dumps(GIVEN[name]).encode() if name in GIVEN else b"")
            for name, (arguments, _) in COMMANDS.items()
        ]
        bare, *taken = in_turns([started([sys.executable, "-c", "pass"], environment), *starts], STARTS)
    return [
        Row(f"cold start, {name}, median", median(each), median(bare), (at_most_times(bound),))
        for (name, (_, bound)), each in zip(COMMANDS.items(), taken, strict=True)
    ]


def started(command: list[str], environment: dict[str, str], given: bytes = b"") -> Callable[[], object]:
    """Run that command to its end."""
    return lambda: subprocess.run(command, check=True, env=environment, input=given, stdout=subprocess.DEVNULL)
