"""A stage for one agent: a directory, what it said and asked, and that nothing of it is left at the end."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.agents.acp.agent import AcpAgent, LaunchSpec
from interlock.agents.acp.session import AcpSession
from interlock.agents.session import McpServer, Opening, Permission, Update, refuse
from interlock.processes import table
from interlock.processes.ancestry import RUN_TOKEN
from tests.agents.acting import acp_command, recorded


class Stage:
    """Plays one script in one session after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"
        self.work.mkdir()
        self.log = path / "log"
        self.token = os.urandom(16).hex()
        self.updates: list[Update] = []
        self.asked: list[Permission] = []

    def agent(self, /, manner: dict[str, Any] | None = None, **script: Any) -> AcpAgent:
        """An agent that plays `script`."""
        return AcpAgent("actor", LaunchSpec(tuple(acp_command(self.path, **script)), **(manner or {})))

    def opening(self, **more: Any) -> Opening:
        """What its session is opened with; it may allow nothing unless `permit` says so."""
        given: dict[str, Any] = {
            "session_id": "s",
            "member": "ada",
            "workdir": str(self.work),
            "environment": {**os.environ, RUN_TOKEN: self.token},
            "log": str(self.log),
            "time_limit": 60.0,
            "stop_grace": 60.0,
            "output_bytes": 100_000,
            "permit": self.permitting(refuse),
        }
        return Opening(**{**given, **more})

    def permitting(
        self, decide: Callable[[Permission], Awaitable[str | None]]
    ) -> Callable[[Permission], Awaitable[str | None]]:
        """`decide`, and remember what was asked."""

        async def permit(permission: Permission) -> str | None:
            self.asked.append(permission)
            return await decide(permission)

        return permit

    def heard(self, kind: str) -> list[str]:
        """The texts of its updates of one kind."""
        return [update.text for update in self.updates if update.kind == kind]

    def got(self, kind: str) -> list[dict[str, Any]]:
        """What the program says it was sent."""
        return recorded(self.path, kind)

    def left(self) -> set[int]:
        """The processes that carry the run token."""
        pids = [row.pid for row in table.rows() if row.running]
        return set(table.marked(pids, f"{RUN_TOKEN}={self.token}"))

    def play(self, act: Callable[[AcpSession], Awaitable[Any]], agent: AcpAgent, **more: Any) -> Any:
        """Open a session, let `act` do something with it, and close it."""

        async def main() -> Any:
            session = await agent.open(self.opening(**more))
            try:
                return await act(session)
            finally:
                await session.close()

        return anyio.run(main)

    def prompt(self, *prompts: str, agent: AcpAgent, **more: Any) -> Any:
        """Prompt one session once or several times; the turn, or the turns."""

        async def act(session: AcpSession) -> Any:
            turns = [await session.prompt(text, self.updates.append) for text in prompts]
            return turns[0] if len(turns) == 1 else turns

        return self.play(act, agent, **more)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    assert made.left() == set(), "processes of the session were left running"


async def allow(permission: Permission) -> str | None:
    """The first choice."""
    return permission.choices[0].id


def echo_server(path: Path) -> McpServer:
    """An MCP server with one tool, `shout`."""
    import sys

    file = path / "server.py"
    file.write_text(
        "import os\nfrom mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('echo')\n"
        "@server.tool()\ndef shout(text: str) -> str:\n    return text.upper() + os.environ['MARK']\n"
        "server.run()\n"
    )
    return McpServer("echo", (sys.executable, str(file)), {"MARK": "!", "PATH": os.environ["PATH"]})
