"""An agent in this process that follows a script: for tests and simulations, where a model would only be in the way.

A script is an async callable `(prompt, say, opening) -> str | Turn`; a list of them answers successive prompts, one
each. What it says is an update, its text the end of the turn, an exception a failed turn. `say.update` passes on any
other update, such as a tool call or what was spent; permissions are asked of `opening.permit`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio

from interlock.agents.session import Opening, Turn, Update
from interlock.errors import InvalidRequest, StorageError
from interlock.processes.output import Output
from interlock.processes.ref import ProcessRef


class Say:
    """How a script is heard."""

    def __init__(self, words: Callable[[str], None], update: Callable[[Update], None]) -> None:
        self._words = words
        self.update = update

    def __call__(self, words: str) -> None:
        """Say something."""
        self._words(words)


Script = Callable[[str, Say, Opening], Awaitable[str | Turn]]


class ScriptedAgent:
    """Plays `script` in every session that is opened; with a list, each session begins with the first.

    `resumable`: its sessions have ids of their own to be resumed by; the script sees `opening.resume`.
    """

    lasting = True

    def __init__(self, name: str, script: Script | Sequence[Script], *, resumable: bool = False) -> None:
        self.name = name
        self._script = script
        self._resumable = resumable
        self._opened = 0

    async def open(self, opening: Opening) -> ScriptedSession:
        """A session that waits for its first prompt."""
        session = ScriptedSession(self._script, opening)
        self._opened += 1
        if self._resumable:
            session.agent_session = opening.resume or f"{self.name}-{self._opened}"
        return session


class ScriptedSession:
    """One playing of the script."""

    agent_session: str | None = None

    def __init__(self, script: Script | Sequence[Script], opening: Opening) -> None:
        self._script = script
        self._opening = opening
        self._prompts = 0
        self._closed = False
        self._turn: anyio.CancelScope | None = None
        self._idle: anyio.Event | None = None

    @property
    def lasting(self) -> bool:
        """Until it is closed."""
        return not self._closed

    @property
    def identity(self) -> ProcessRef | None:
        """Null: there is no process."""
        return None

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """Play the script for `text`.

        Raises:
            InvalidRequest: the session is closed, or still busy with an earlier prompt.
        """
        if self._closed or self._turn is not None:
            state = "is closed" if self._closed else "has not ended its turn yet"
            raise InvalidRequest(f"The session {state}: prompt it after the turn, or open a new one.")
        self._prompts += 1
        script = self._script if callable(self._script) else dict(enumerate(self._script, 1)).get(self._prompts)
        if script is None:
            return Turn("failed", detail=f"the script has no answer to prompt {self._prompts}: give it one more")
        opening = self._opening
        try:
            output = Output(
                log=opening.log if log is None else log, secrets=opening.secrets, limit=opening.output_bytes
            )
        except StorageError as error:
            return Turn("failed", detail=error.message)

        def on_line(line: str) -> None:
            on_update(Update("text", line))

        def say(words: str) -> None:
            output.feed(words.encode() + b"\n", on_line)

        self._turn = anyio.CancelScope()
        self._idle = anyio.Event()
        try:
            turn = await self._play(script, text, Say(say, on_update))
            output.finish(on_line)
        finally:
            output.close()
            self._turn = None
            self._idle.set()
        return Turn(turn.stop, output.text, turn.exit_code, turn.detail, turn.retry_at, turn.login)

    async def cancel(self) -> None:
        """Cancel the script at its next wait."""
        if self._turn is not None:
            self._turn.cancel()

    async def close(self) -> None:
        """Cancel the script and wait until it has let go."""
        self._closed = True
        await self.cancel()
        if self._idle is not None:
            await self._idle.wait()

    async def _play(self, script: Script, text: str, say: Say) -> Turn:
        assert self._turn is not None
        with self._turn, anyio.move_on_after(self._opening.time_limit) as limit:
            try:
                answer = await script(text, say, self._opening)
            except Exception as error:  # boundary: it stands for a foreign program, all it does ends its turn
                return Turn("failed", detail=f"{type(error).__name__}: {error}")
            turn = answer if isinstance(answer, Turn) else Turn("end", answer)
            if turn.output:
                say(turn.output)
            return turn
        return Turn("timeout" if limit.cancelled_caught else "cancelled")
