"""Carrying out a task by a session of an agent program, or by the task's own command.

An agent's session stays open after the first turn, so that the findings of a failed check can be put to it. A command
runs without a shell, unless it is written in a shell's language.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from interlock.agents.session import Agent, AgentSession, Opening, Turn, Update, allowing, ignore
from interlock.errors import AgentError, InvalidRequest, StorageError
from interlock.processes import commands, room
from interlock.processes.program import Program
from interlock.processes.ref import ProcessRef
from interlock.runner.executor import Execution, Job, Result, begun, failed


class AgentExecutor:
    """For members with an agent."""

    def __init__(self, agent: Agent, variables: tuple[str, ...] = ()) -> None:
        self.variables = variables
        self.agent = agent

    def lasts(self, kind: str | None = None) -> bool:
        return self.agent.lasting

    def start(self, job: Job) -> AgentExecution:
        return AgentExecution(self.agent, job)


class AgentExecution:
    """One session and its turns."""

    def __init__(self, agent: Agent, job: Job) -> None:
        self._agent = agent
        self._job = job
        self._session: AgentSession | None = None
        self._stopped = False

    @property
    def agent_session(self) -> str | None:
        return None if self._session is None else self._session.agent_session

    @property
    def lasting(self) -> bool:
        return self._session is not None and not self._stopped and self._session.lasting

    async def run(
        self,
        on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None] = ignore,
        on_prompt: Callable[[], None] = begun,
    ) -> Result:
        began = time.monotonic()
        job = self._job
        if self._stopped:
            return Result("cancelled", "", None, None, 0.0)
        try:
            self._session = session = await self._agent.open(
                Opening(
                    session_id=job.session_id,
                    member=job.member,
                    workdir=job.workdir,
                    environment=job.environment,
                    log=job.log,
                    time_limit=job.time_limit,
                    stop_grace=job.stop_grace,
                    output_bytes=job.output_bytes,
                    secrets=job.secrets,
                    on_start=on_start,
                    permit=allowing([server.name for server in job.mcp], job.permit),
                    model=job.model,
                    mcp=job.mcp,
                    resume=job.resume,
                )
            )
        except AgentError as error:
            return failed(error, time.monotonic() - began)
        if self._stopped:  # while it was being opened
            await session.close()
            return Result("cancelled", "", None, None, time.monotonic() - began)
        on_prompt()
        return _unless_full(_turn_result(await session.prompt(job.prompt, on_update), began), job.workdir)

    async def again(
        self,
        text: str,
        on_update: Callable[[Update], None],
        on_prompt: Callable[[], None] = begun,
        log: str | None = None,
    ) -> Result | None:
        began = time.monotonic()
        if self._session is None or not self.lasting:
            return None
        on_prompt()
        return _unless_full(_turn_result(await self._session.prompt(text, on_update, log), began), self._job.workdir)

    async def interrupt(self) -> None:
        if self._session is not None:
            await self._session.cancel()

    async def cancel(self) -> None:
        self._stopped = True
        await self.interrupt()

    async def close(self) -> None:
        self._stopped = True
        if self._session is not None:
            await self._session.close()


def _turn_result(turn: Turn, began: float) -> Result:
    status = "ended" if turn.stop == "end" else turn.stop
    return Result(status, turn.output, turn.exit_code, turn.detail, time.monotonic() - began, turn.retry_at, turn.login)


def _unless_full(result: Result, workdir: str) -> Result:
    """The same, or that its disk was full where it failed for that."""
    if result.status not in ("failed", "killed") or not room.lacked(f"{result.output} {result.detail or ''}", workdir):
        return result
    return replace(result, status="short", detail=room.FULL)


class ShellExecutor:
    """For members whose agent is `shell`."""

    variables: tuple[str, ...] = ()

    def lasts(self, kind: str | None = None) -> bool:
        return False

    def start(self, job: Job) -> ShellExecution:
        return ShellExecution(job)


class ShellExecution(Execution):
    """One run of the command, which takes no further prompts."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._program: Program | None = None
        self._cancelled = False

    async def run(
        self,
        on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None] = ignore,
        on_prompt: Callable[[], None] = begun,
    ) -> Result:
        job = self._job
        if self._cancelled:
            return Result("cancelled", "", None, None, 0.0)
        try:
            if job.command is None:
                raise InvalidRequest("The task has no command: give it `run`, or assign it to a member with an agent.")
            self._program = program = Program(
                commands.argv(job.command),
                workdir=job.workdir,
                environment=job.environment,
                log=job.log,
                secrets=job.secrets,
                output_bytes=job.output_bytes,
                stop_grace=job.stop_grace,
            )
            identity = await program.start()
        except (InvalidRequest, AgentError, StorageError) as error:
            return failed(error)
        try:
            on_start(identity)
            ending = await program.wait(job.time_limit, lambda line: on_update(Update("text", line)))
        finally:
            await program.close()
        status = "ended" if ending.stop == "end" else ending.stop
        result = Result(status, ending.output, ending.exit_code, ending.detail, ending.seconds)
        return _unless_full(result, job.workdir)

    async def cancel(self) -> None:
        self._cancelled = True
        if self._program is not None:
            self._program.cancel()

    async def close(self) -> None:
        self._cancelled = True
        if self._program is not None:
            await self._program.close()
