"""Any program as an agent: one process per session, and one prompt.

An element of `argv` that is exactly `{prompt}` is replaced by the prompt; where none is, the prompt is given on
standard input. No shell is involved either way. What it prints is its answer, and exit 0 the end of its turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from interlock.agent import Opening, Turn, Update
from interlock.child import refusal
from interlock.errors import AgentError, CannotStart, InvalidRequest, StorageError
from interlock.processes import Identity
from interlock.programs import Program

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
    def identity(self) -> Identity | None:
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
