"""An editor as `interlock acp` sees it: the official client library around the real process."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import anyio
from acp import schema

PATIENCE = 100.0


class Editor:
    """One connection. `updates` is what was told, by session; `asked` what its person was asked, answered by `choose`
    with the name of an option, or None to dismiss it."""

    def __init__(self, choose: Callable[[str], str | None] = lambda title: None) -> None:
        self.choose = choose
        self.updates: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[tuple[str, list[tuple[str, str]]]] = []
        self.held: anyio.Event | None = None
        """Until then its person does not answer."""
        self.connection: Any = None
        self.process: Any = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.setdefault(session_id, []).append(update.model_dump(by_alias=True, exclude_none=True))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append((tool_call.title, [(one.name, one.kind) for one in options]))
        if self.held is not None:
            await self.held.wait()
        wanted = self.choose(tool_call.title)
        chosen = next((one.option_id for one in options if one.name == wanted), None)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )  # fmt: skip

    async def open(self, directory: Path) -> str:
        """A new session."""
        return str((await self.connection.new_session(cwd=str(directory), mcp_servers=[])).session_id)

    async def prompt(self, session: str, text: str) -> str:
        """Say something; why the turn ended."""
        with anyio.fail_after(PATIENCE):
            answer = await self.connection.prompt(session_id=session, prompt=[acp.text_block(text)])
        return str(answer.stop_reason)

    def told(self, session: str, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        return [one for one in self.updates.get(session, []) if one["sessionUpdate"] == kind]

    def said(self, session: str, kind: str = "agent_message_chunk") -> str:
        """The text of the updates of one kind."""
        return "\n".join(one["content"]["text"] for one in self.told(session, kind))


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again until it is so."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.01)


@asynccontextmanager
async def editing(
    *arguments: str, choose: Callable[[str], str | None] = lambda title: None, **variables: str
) -> AsyncIterator[Editor]:
    """`interlock acp` with these arguments and variables, initialized."""
    editor = Editor(choose)
    command = [sys.executable, "-m", "interlock", "acp", *arguments]
    async with acp.spawn_agent_process(
        editor, *command, env={**os.environ, **variables}, cwd="/", transport_kwargs={"stderr": None}
    ) as (connection, process):
        editor.connection, editor.process = connection, process
        with anyio.fail_after(PATIENCE):
            about = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert about.protocol_version == acp.PROTOCOL_VERSION and about.agent_capabilities.load_session
        yield editor
