"""The agent sessions of one run: one agent, one turn at a time, each under watch (`watch.py`).

A session whose turn reached a limit is ended; it can be resumed where its program can do that. The absolute ceiling of
a turn is the session's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from interlock.agents.session import Agent, AgentSession, Opening, Permission, Update
from interlock.errors import AgentError
from interlock.workflow.agents.watch import PARTY_TIMEOUT, TIME_LIMIT, Limits, Watch, prompted
from interlock.workflow.control.reading import SILENT, Heard


@dataclass(frozen=True)
class Ended:
    """A turn, and the limit that ended it, if one did. `written` are the files that its tools changed."""

    heard: Heard
    timeout: str | None = None
    written: tuple[str, ...] = ()


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
        self._resume = resume
        self._watch: Watch | None = None
        self._quiet = 0.0
        self._stopped = False

    @property
    def live(self) -> bool:
        """Whether a session is open that knows what was said before."""
        return self._session is not None and self._session.lasting

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the session, to resume it by in another process."""
        return self._session.agent_session if self._session is not None else self._resume

    async def ready(self) -> bool:
        """Open a session where none is; whether it knows what was said before (it was resumed, or is still open).

        Raises:
            AgentError: the program is missing or did not start.
        """
        if self.live:
            return True
        await self.close()
        self._stopped = False
        wanted, self._resume = self._resume, None
        if wanted is not None:
            try:
                self._session = await self._agent.open(replace(self._opening, resume=wanted))
            except AgentError:
                self._session = None  # It is gone, or the program cannot resume: a new one gets the history.
            if self._session is not None:
                return self._session.lasting and self._session.agent_session == wanted
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
        began = watch.began
        try:
            turn = await prompted(session, text, watch, self._heard, stop=stop)
        finally:
            self._watch = None
        self._quiet = watch.quiet(anyio.current_time())
        if watch.timeout == TIME_LIMIT:
            watch.timeout = PARTY_TIMEOUT
        over = watch.timeout is not None or watch.ended
        if not session.lasting or over:
            self._resume = session.agent_session if over else None
            await self._end()
        how = SILENT if watch.timeout is not None else turn.stop
        detail = watch.timeout or turn.detail
        seconds = anyio.current_time() - began
        heard = Heard(how, turn.output, tuple(watch.paths), detail, turn.retry_at, seconds, answered)
        return Ended(heard, watch.timeout, tuple(dict.fromkeys(watch.written)))

    def progressed(self) -> None:
        """Something was achieved: the workflow's clock begins anew."""
        self._quiet = 0.0

    async def cancel(self) -> None:
        """End the running turn."""
        self._stopped = True
        if self._session is not None:
            await self._session.cancel()

    async def close(self) -> None:
        """End the session and everything it started."""
        self._stopped = True
        await self._end()

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _heard(self, update: Update) -> None:
        if self._watch is not None:
            self._watch.hear(update, anyio.current_time())
        self._on_update(update)

    async def _permit(self, permission: Permission) -> str | None:
        watch = self._watch
        if watch is not None:
            watch.hold(anyio.current_time())
        try:
            return await self._asked(permission)
        finally:
            if watch is not None:
                watch.release(anyio.current_time())
