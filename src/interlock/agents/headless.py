"""An agent program of a profile without ACP: one prompt in its arguments, its answer on standard output."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from interlock.agent import McpServer, Opening, Turn, Update
from interlock.agents.capacity import Limit, recognise
from interlock.agents.command import CommandAgent, CommandSession
from interlock.agents.profiles import Profile
from interlock.processes import Identity

REASON_CHARS = 4000


class HeadlessAgent:
    """Its sessions take one prompt each, ask nobody anything and cannot be resumed."""

    lasting = False

    def __init__(self, profile: Profile, argv: Sequence[str], variables: Mapping[str, str], path: str | None) -> None:
        self.name = profile.name
        self._profile = profile
        self._argv = tuple(argv)
        self._variables = dict(variables)
        self._path = path

    async def open(self, opening: Opening) -> HeadlessSession:
        """A session whose process starts with its prompt.

        Raises:
            AgentError: the program or the working directory is missing.
        """
        argv = [*self._argv]
        if opening.model is not None:
            argv += [word.replace("{model}", opening.model) for word in self._profile.headless_model]
        for server in opening.mcp:
            if server.url is None:
                argv += [_filled(word, server) for word in self._profile.headless_mcp]
        environment = {**self._variables, **opening.environment}
        if self._path is not None:
            environment["PATH"] = os.pathsep.join([environment.get("PATH", os.defpath), self._path])
        inner = await CommandAgent(self.name, argv).open(replace(opening, environment=environment))
        return HeadlessSession(inner, self._profile.limits)


class HeadlessSession:
    """One run of the program."""

    lasting = False
    agent_session: str | None = None

    def __init__(self, inner: CommandSession, limits: tuple[Limit, ...]) -> None:
        self._inner = inner
        self._limits = limits

    @property
    def identity(self) -> Identity | None:
        """The program's process, once it was prompted."""
        return self._inner.identity

    async def cancel(self) -> None:
        """As of a command."""
        await self._inner.cancel()

    async def close(self) -> None:
        """As of a command."""
        await self._inner.close()

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """Run it; a failure that its limits explain is one for want of capacity."""
        turn = await self._inner.prompt(text, on_update, log)
        if turn.stop not in ("end", "failed"):
            return turn
        last = next((line for line in reversed(turn.output.splitlines()) if line.strip()), "")
        reason = turn.output[-REASON_CHARS:] if turn.stop == "failed" else ""
        short = recognise(self._limits, reason, last, time.time())
        if short is None:
            return turn
        return replace(turn, stop="capacity", detail=short.reason, retry_at=short.retry_at, login=short.login)


def _filled(word: str, server: McpServer) -> str:
    words = {
        "{name}": server.name,
        "{command}": json.dumps(server.command[0]),
        "{arguments}": json.dumps(list(server.command[1:])),
        "{variables}": json.dumps(sorted(server.environment)),
    }
    for mark, value in words.items():
        word = word.replace(mark, value)
    return word
