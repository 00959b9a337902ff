"""The session of a run's own agent, under watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio

from interlock.agents.session import Agent, AgentSession, Opening, Permission, Update
from interlock.errors import AgentError
from interlock.workflow.agents.watch import (
    PARTY_TIMEOUT,
    SILENT,
    TIME_LIMIT,
    Ended,
    Heard,
    Limits,
    Watch,
    paused,
    prompted,
)


class AgentPool:
    """Sessions of one agent program, opened when needed. At most one turn runs at a time.

    `opening` is what sessions are opened with; its `permit` is asked while the silence clock stands still.
    """

    def __init__(
        self,
        agent: Agent,
        opening: Opening,
        limits: Limits,
        on_update: Callable[[Update], None] = lambda update: None,
        *,
        resume: str | None = None,
    ) -> None:
        self.limits = limits
        self._agent = agent
        self._opening = replace(opening, permit=self._permit)
        self._asked = opening.permit
        self._on_update = on_update
        self._session: AgentSession | None = None
        self._knows = False
        self._resume = resume
        self._watch: Watch | None = None
        self._quiet = 0.0

    @property
    def live(self) -> bool:
        """Whether a session is open that has, or will have, more than one turn."""
        return self._session is not None and self._session.lasting

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the session, to resume it by in another process."""
        return self._session.agent_session if self._session is not None else self._resume

    async def ready(self) -> bool:
        """Open a session where none is; whether it knows what was said before: it was resumed, or has had a prompt.

        Raises:
            AgentError: the program is missing or did not start.
        """
        if self.live:
            return self._knows
        await self.close()
        wanted, self._resume, self._knows = self._resume, None, False
        if wanted is not None:
            try:
                self._session = await self._agent.open(replace(self._opening, resume=wanted))
            except AgentError:
                self._session = None  # It is gone, or the program cannot resume: a new one gets the history.
            if self._session is not None:
                self._knows = self._session.lasting and self._session.agent_session == wanted
                return self._knows
        self._session = await self._agent.open(self._opening)
        return False

    async def prompt(
        self,
        text: str,
        *,
        nested: bool = False,
        party: bool = False,
        answered: bool = False,
        stop: anyio.Event | None = None,
    ) -> Ended:
        """One turn of the session that `ready` has opened; `party`: it is a round of Party Mode, which has its own
        limit, however audible it is. `stop` ends the turn, and not the session, as long as that obeys."""
        session = self._session
        if session is None:
            raise AgentError("No session is open; this is a defect of the engine.")
        whole = self.limits.party_round if party else 0.0
        watch = self._watch = Watch(self.limits, nested, anyio.current_time(), self._quiet, whole)
        self._knows = True
        try:
            turn = await prompted(session, text, watch, self._on_update, workdir=self._opening.workdir, stop=stop)
        finally:
            self._watch = None
        self._quiet = anyio.current_time() - watch.progress
        if watch.timeout == TIME_LIMIT:
            watch.timeout = PARTY_TIMEOUT
        over = watch.timeout is not None or watch.ended
        if not session.lasting or over:
            self._resume = session.agent_session if over else None
            await self.close()
        how = SILENT if watch.timeout is not None else turn.stop
        detail = watch.timeout or turn.detail
        seconds = anyio.current_time() - watch.began
        heard = Heard(how, turn.output, tuple(watch.paths), detail, turn.retry_at, seconds, answered)
        return Ended(heard, watch.timeout, tuple(dict.fromkeys(watch.written)), tuple(watch.ran.values()))

    def progressed(self) -> None:
        """Something was achieved: the workflow's clock starts again."""
        self._quiet = 0.0

    async def cancel(self) -> None:
        """End the running turn."""
        if self._session is not None:
            await self._session.cancel()

    async def close(self) -> None:
        """End the session and everything it started."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _permit(self, permission: Permission) -> str | None:
        with paused(self._watch):
            return await self._asked(permission)
