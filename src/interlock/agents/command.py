"""Any program as an agent: one process per session, and one prompt.

An element of `argv` that is exactly `{prompt}` is replaced by the prompt; where none is, the prompt is given on
standard input. No shell is involved either way. What it prints is its answer, and exit 0 the end of its turn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from interlock.agents.capacity import Limit, recognise
from interlock.agents.profiles import Profile
from interlock.agents.session import McpServer, Opening, Turn, Update
from interlock.errors import AgentError, CannotStart, InvalidRequest, StorageError
from interlock.processes.program import Program, refusal
from interlock.processes.ref import ProcessRef

PROMPT = "{prompt}"


class CommandAgent:
    """A program that is run once per session.

    Raises:
        InvalidRequest: `argv` names no program.
    """

    lasting = False

    def __init__(self, name: str, argv: Sequence[str]) -> None:
        if not argv or not argv[0] or argv[0] == PROMPT:
            raise InvalidRequest(
                f"The agent {name!r} needs a program: `command: [PROGRAM, ARGUMENT, …]`.", field="command"
            )
        self.name = name
        self._argv = tuple(argv)

    async def open(self, opening: Opening) -> CommandSession:
        """A session whose process starts with its prompt.

        Raises:
            AgentError: the program or the working directory is missing.
        """
        program = self._argv[0]
        why = refusal(program, opening.workdir, opening.environment.get("PATH", os.defpath))
        if why is not None:
            raise CannotStart(why, agent=self.name, program=program)
        return CommandSession(self._argv, opening)


class CommandSession:
    """One run of the program."""

    lasting = False
    agent_session: str | None = None

    def __init__(self, argv: Sequence[str], opening: Opening) -> None:
        self._argv = argv
        self._opening = opening
        self._program: Program | None = None
        self._closed = False

    @property
    def identity(self) -> ProcessRef | None:
        """The program's process, once it was prompted."""
        return self._program.identity if self._program else None

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """Run the program with `text`.

        Raises:
            InvalidRequest: this session had its prompt, or is closed.
        """
        if self._program is not None or self._closed:
            raise InvalidRequest("A session of a command takes one prompt: open a new one for the next.")
        opening = self._opening
        argv = [text if word == PROMPT else word for word in self._argv]
        self._program = program = Program(
            argv,
            workdir=opening.workdir,
            environment=opening.environment,
            log=opening.log if log is None else log,
            secrets=opening.secrets,
            output_bytes=opening.output_bytes,
            stop_grace=opening.stop_grace,
            stdin=None if PROMPT in self._argv else text,
        )
        try:
            identity = await program.start()
        except (AgentError, StorageError) as error:
            return Turn("failed", detail=error.message)
        try:
            opening.on_start(identity)
            ending = await program.wait(opening.time_limit, lambda line: on_update(Update("text", line)))
        finally:
            await program.close()
        return Turn(ending.stop, ending.output, ending.exit_code, ending.detail)

    async def cancel(self) -> None:
        """Ask the program to end; the pending `prompt` returns `cancelled`, after KILL at the latest."""
        if self._program is not None:
            self._program.cancel()

    async def close(self) -> None:
        """End the program and everything it started."""
        self._closed = True
        if self._program is not None:
            await self._program.close()


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
    def identity(self) -> ProcessRef | None:
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
