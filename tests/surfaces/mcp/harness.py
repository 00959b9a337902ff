"""Real servers over stdio, spoken to by the official client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

import interlock

SOURCE = str(Path(interlock.__file__).resolve().parents[1])
PROGRAM = (
    "import sys; from interlock import connect; from interlock.surfaces.mcp import serve; "
    "home, *words = (word or None for word in sys.argv[1:5]); serve(connect(home), *words)"
)


@dataclass
class Answer:
    """What a call answered: the JSON, whether it is an error, and the line of news."""

    value: Any
    failed: bool
    news: str | None


class Agent:
    """A member's agent program, as far as MCP sees it."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, **arguments: Any) -> Answer:
        result = await self.session.call_tool(tool, arguments)
        texts = [block.text for block in result.content if block.type == "text"]
        assert len(texts) == len(result.content) <= 2
        news = texts[1] if len(texts) == 2 else None
        assert news is None or "\n" not in news
        return Answer(json.loads(texts[0]), bool(result.is_error), news)

    async def ask(self, tool: str, **arguments: Any) -> Any:
        answer = await self.call(tool, **arguments)
        assert not answer.failed, answer.value
        return answer.value

    async def refused(self, tool: str, **arguments: Any) -> Any:
        answer = await self.call(tool, **arguments)
        assert answer.failed, answer.value
        assert set(answer.value) >= {"error", "message"}
        return answer.value


def command(home: str, member: str, *, team: str = "alpha", session: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM, home, team, member, session]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return {**kept, "PYTHONPATH": SOURCE, **more}


@asynccontextmanager
async def connected(home: str, member: str, *, team: str = "alpha", session: str = "") -> AsyncIterator[Agent]:
    """An agent with an MCP server of its own."""
    async with started(command(home, member, team=team, session=session)) as agent:
        yield agent


@asynccontextmanager
async def started(words: list[str], **variables: str) -> AsyncIterator[Agent]:
    """An agent whose MCP server is that command."""
    server = StdioServerParameters(command=words[0], args=words[1:], env=environment(**variables))
    try:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as opened:
            await opened.initialize()
            yield Agent(opened)
    except BaseExceptionGroup as group:
        # The client's task groups wrap what a test raises; pytest explains only the bare assertion.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
