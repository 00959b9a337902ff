"""Memory's servers of the tests' own, and the real ones where they are installed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.memory.forgetful import Forgetful
from interlock.memory.mcp_server import McpConnection

PROGRAMS = Path(__file__).parent / "programs"
FORGETFUL = [sys.executable, str(PROGRAMS / "forgetful.py")]
SERENA = [sys.executable, str(PROGRAMS / "serena.py")]


class Place:
    """Where a Forgetful of the tests' own keeps what it is given, and how it is started."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "forgetful.json"
        self.log = directory / "calls"

    def command(self, **more: str) -> list[str]:
        variables = {"CALLS": str(self.log), **more}
        return ["env", *(f"{name}={value}" for name, value in variables.items()), *FORGETFUL, str(self.data)]

    def server(self, **more: str) -> McpConnection:
        return McpConnection("Forgetful", command=self.command(**more))

    def memory(self, **more: str) -> Forgetful:
        return Forgetful(self.server(**more))

    def down(self) -> Forgetful:
        """One that cannot be started; each try is a call."""
        return Forgetful(McpConnection("Forgetful", command=["sh", "-c", f"echo try >> {self.log}; exit 3"]))

    @contextmanager
    def over_http(self) -> Iterator[str]:
        """Its address, while it runs."""
        words = [*self.command(), "http"]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            end = time.monotonic() + 100
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < end, "it did not start"
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()
            process.communicate()

    @property
    def memories(self) -> list[dict[str, object]]:
        """What it keeps."""
        return list(json.loads(self.data.read_text())["memories"]) if self.data.exists() else []

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


def living(text: str) -> list[int]:
    """The processes whose command line has this text."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,stat,command"], capture_output=True, text=True, timeout=100
    ).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return [int(row[0]) for row in rows if len(row) == 3 and text in row[2] and "Z" not in row[1]]
