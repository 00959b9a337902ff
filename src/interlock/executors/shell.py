"""Carries out a task's own `run` command: no agent, and no shell unless the command is written in its language."""

from __future__ import annotations

from collections.abc import Callable

from interlock import commands
from interlock.agent import Update, ignore
from interlock.errors import AgentError, CannotStart, InvalidRequest, StorageError
from interlock.executor import Job, Result, begun
from interlock.processes import Identity
from interlock.programs import Ending, Program


class ShellExecutor:
    """For members whose agent is `shell`."""

    variables: tuple[str, ...] = ()

    def lasts(self, kind: str | None = None) -> bool:
        """No command does."""
        return False

    def start(self, job: Job) -> ShellExecution:
        """An execution of `job.command`, not yet running."""
        return ShellExecution(job)


class ShellExecution:
    """One run of the command."""

    agent_session: str | None = None
    lasting = False

    def __init__(self, job: Job) -> None:
        self._job = job
        self._program: Program | None = None
        self._cancelled = False

    async def run(
        self,
        on_update: Callable[[Update], None],
        on_start: Callable[[Identity], None] = ignore,
        on_prompt: Callable[[], None] = begun,
    ) -> Result:
        """Run the command to its end."""
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
            permanent = isinstance(error, (InvalidRequest, CannotStart))
            return Result("failed", "", None, error.message, 0.0, permanent=permanent)
        try:
            on_start(identity)
            ending = await program.wait(job.time_limit, lambda line: on_update(Update("text", line)))
        finally:
            await program.close()
        return _result(ending)

    async def again(
        self,
        text: str,
        on_update: Callable[[Update], None],
        on_prompt: Callable[[], None] = begun,
        log: str | None = None,
    ) -> Result | None:
        """Null: a command has nobody to tell."""
        return None

    async def interrupt(self) -> None:
        """End the command: it has no turns."""
        await self.cancel()

    async def cancel(self) -> None:
        """End the command; one that has not begun never will."""
        self._cancelled = True
        if self._program is not None:
            self._program.cancel()

    async def close(self) -> None:
        """End the command and everything it started."""
        self._cancelled = True
        if self._program is not None:
            await self._program.close()


def _result(ending: Ending) -> Result:
    status = "ended" if ending.stop == "end" else ending.stop
    return Result(status, ending.output, ending.exit_code, ending.detail, ending.seconds)
