"""Any program as an agent: one process per session, and one prompt.

An element of `argv` that is exactly `{prompt}` is replaced by the prompt; where none is, the prompt is given on
standard input. No shell is involved either way. What it prints is its answer, and exit 0 the end of its turn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from interlock.agents.capacity import Limit, recognise
from interlock.agents.profiles import AgentProfile
from interlock.agents.session import Opening, Turn, Update
from interlock.errors import AgentError, CannotStart, InvalidRequest, StorageError, is_short
from interlock.processes.program import Program, refusal
from interlock.processes.ref import ProcessRef

PROMPT = "{prompt}"
REASON_CHARS = 4000


class CommandAgent:
    """A program that is run once per session. `limits` are how it says that it has no capacity now.

    Raises:
        InvalidRequest: `argv` names no program.
    """

    lasting = False

    def __init__(self, name: str, argv: Sequence[str], limits: tuple[Limit, ...] = ()) -> None:
        if not argv or not argv[0] or argv[0] == PROMPT:
            raise InvalidRequest(
                f"The agent {name!r} needs a program: `command: [PROGRAM, ARGUMENT, …]`.", field="command"
            )
        self.name = name
        self._argv = tuple(argv)
        self._limits = limits

    async def open(self, opening: Opening) -> CommandSession:
        program = self._argv[0]
        why = refusal(program, opening.workdir, opening.environment.get("PATH", os.defpath))
        if why is not None:
            raise CannotStart(why, agent=self.name, program=program)
        return CommandSession(self._argv, opening, self._limits)


class CommandSession:
    """One run of the program."""

    lasting = False
    agent_session: str | None = None

    def __init__(self, argv: Sequence[str], opening: Opening, limits: tuple[Limit, ...]) -> None:
        self._argv = argv
        self._opening = opening
        self._limits = limits
        self._program: Program | None = None
        self._closed = False

    @property
    def identity(self) -> ProcessRef | None:
        return self._program.identity if self._program else None

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """Run the program with `text`; a failure that its limits explain is one for want of capacity.

        Raises:
            InvalidRequest: this session had its prompt, or is closed.
            AgentError, StorageError, OSError: this machine is too short of something to start it now (`is_short`).
        """
        if self._program is not None or self._closed:
            raise InvalidRequest("A session of a command takes one prompt: open a new one for the next.")
        opening = self._opening
        self._program = program = Program(
            [text if word == PROMPT else word for word in self._argv],
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
            if is_short(error):
                raise
            return Turn("failed", detail=error.message)
        try:
            opening.on_start(identity)
            end = await program.wait(opening.time_limit, lambda line: on_update(Update("text", line)))
        finally:
            await program.close()
        if end.stop in ("end", "failed"):
            last = next((line for line in reversed(end.output.splitlines()) if line.strip()), "")
            reason = end.output[-REASON_CHARS:] if end.stop == "failed" else ""
            short = recognise(self._limits, reason, last, time.time())
            if short is not None:
                return Turn("capacity", end.output, end.exit_code, short.reason, short.retry_at, short.login)
        return Turn(end.stop, end.output, end.exit_code, end.detail)

    async def cancel(self) -> None:
        """Ask the program to end; the pending `prompt` returns `cancelled`, after KILL at the latest."""
        if self._program is not None:
            self._program.cancel()

    async def close(self) -> None:
        self._closed = True
        if self._program is not None:
            await self._program.close()


class HeadlessAgent:
    """The program of a profile without ACP: one prompt in its arguments, its answer on standard output. It asks nobody
    anything and cannot be resumed. `path` is a directory, beside PATH, that its own programs are in."""

    lasting = False

    def __init__(self, profile: AgentProfile, argv: Sequence[str], path: str | None) -> None:
        self.name = profile.name
        self._profile = profile
        self._argv = tuple(argv)
        self._path = path

    async def open(self, opening: Opening) -> CommandSession:
        profile, argv = self._profile, [*self._argv]
        if opening.model is not None:
            argv += [word.replace("{model}", opening.model) for word in profile.headless_model]
        for server in opening.mcp:
            filled = {
                "{name}": server.name,
                "{command}": json.dumps(server.command[0] if server.command else ""),
                "{arguments}": json.dumps(list(server.command[1:])),
                "{variables}": json.dumps(sorted(server.environment)),
            }
            for word in profile.headless_mcp if server.url is None else ():
                for mark, value in filled.items():
                    word = word.replace(mark, value)
                argv.append(word)
        environment = {**profile.variables, **opening.environment}
        if self._path is not None:
            environment["PATH"] = os.pathsep.join([environment.get("PATH", os.defpath), self._path])
        return await CommandAgent(self.name, argv, profile.limits).open(replace(opening, environment=environment))
