"""The agent sessions of one run, and the watch over each turn (decision 30, FR17, NFR1).

Three limits hold for a turn, in seconds. *Silence*: nothing was said, no tool ran, no permission was asked. *Nested*
and *workflow*: no progress for that long, also where a tool runs; everything audible is progress, and waiting for a
human is not counted. When one is reached the turn is cancelled and, after the grace, the session's processes are
ended; the session can be resumed where its program can do that. The absolute ceiling of a turn is the session's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from interlock.agent import Agent, Opening, Permission, Session, Turn, Update
from interlock.errors import AgentError
from interlock.workflow.control.reading import SILENT, Heard

AUDIBLE = frozenset({"text", "thought", "tool"})
RUNNING = frozenset({"pending", "in_progress"})
WRITES = frozenset({"edit", "delete", "move", "write", "create"})
PATHS = 500  # of one turn

WORKFLOW_TIMEOUT, NESTED_TIMEOUT, AGENT_TIMEOUT = "workflow_timeout", "nested_timeout", "agent_timeout"


@dataclass(frozen=True)
class Limits:
    """Seconds (decision 30); 0 switches one off. `grace` is what a cancelled turn gets to end by itself. Menus are
    put to a human `menu_interval` apart, and after `menu_pause` in a row (0: never) there is a pause."""

    silence: float = 60.0
    nested: float = 300.0
    workflow: float = 1800.0
    selection: float = 300.0
    grace: float = 5.0
    party_round: float = 120.0
    sync_wait: float = 120.0
    exit_grace: float = 0.5
    menu_interval: float = 2.0
    menu_pause: int = 10


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
        self._session: Session | None = None
        self._resume = resume
        self._watch: _Watch | None = None
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

    async def prompt(self, text: str, *, nested: bool = False, answered: bool = False) -> Ended:
        """One turn of the session that `ready` has opened."""
        session = self._session
        if session is None:
            raise AgentError("No session is open; this is a defect of the engine.")
        watch = self._watch = _Watch(self.limits, nested, anyio.current_time(), self._quiet)
        began = watch.began
        turn = Turn("cancelled")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._guard, session, watch)
                turn = await session.prompt(text, self._heard)
                group.cancel_scope.cancel()
        finally:
            self._watch = None
        self._quiet = watch.quiet(anyio.current_time())
        if not session.lasting or watch.timeout is not None:
            self._resume = session.agent_session if watch.timeout is not None else None
            await self._end()
        stop = SILENT if watch.timeout is not None else turn.stop
        detail = watch.timeout or turn.detail
        seconds = anyio.current_time() - began
        heard = Heard(stop, turn.output, tuple(watch.paths), detail, turn.retry_at, seconds, answered)
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

    async def _guard(self, session: Session, watch: _Watch) -> None:
        while True:
            wait = watch.left(anyio.current_time())
            if wait <= 0:
                break
            await anyio.sleep(wait)
        watch.timeout = watch.reached(anyio.current_time())
        await session.cancel()
        await anyio.sleep(self.limits.grace)
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


class _Watch:
    """What the limits are judged by, for one turn. `quiet` at the start is the time without progress so far."""

    def __init__(self, limits: Limits, nested: bool, now: float, quiet: float) -> None:
        self.limits = limits
        self.nested = nested
        self.began = now
        self.sound = now
        self.progress = now - quiet
        self.tools: set[str] = set()
        self.held = 0
        self.paths: list[str] = []
        self.written: list[str] = []
        self.timeout: str | None = None
        self._held_at = now

    def hear(self, update: Update, now: float) -> None:
        if update.kind not in AUDIBLE:
            return
        self.sound = self.progress = now
        if update.kind != "tool":
            return
        name, status = str(update.data.get("id") or update.text), update.data.get("status")
        (self.tools.add if status in RUNNING else self.tools.discard)(name)
        listed = update.data.get("paths")
        paths = [str(one) for one in listed] if isinstance(listed, (list, tuple)) else []
        if len(self.paths) < PATHS:
            self.paths += paths
            self.written += paths if str(update.data.get("kind")) in WRITES else []

    def hold(self, now: float) -> None:
        """A human is asked: no clock runs."""
        if self.held == 0:
            self._held_at = now
        self.held += 1

    def release(self, now: float) -> None:
        self.held -= 1
        if self.held == 0:
            self.sound = now
            self.progress += now - self._held_at

    def quiet(self, now: float) -> float:
        """Seconds without progress."""
        return now - self.progress

    def left(self, now: float) -> float:
        """Seconds until a limit can be reached at the earliest; 0 when one is."""
        if self.held:
            return 1.0
        ends = [end - now for end, _ in self._ends()]
        return max(0.0, min(ends)) if ends else 3600.0

    def reached(self, now: float) -> str | None:
        return next((name for end, name in sorted(self._ends()) if end <= now), None)

    def _ends(self) -> list[tuple[float, str]]:
        limits = self.limits
        ends = []
        if limits.silence and not self.tools:
            ends.append((self.sound + limits.silence, AGENT_TIMEOUT))
        if limits.nested and self.nested:
            ends.append((max(self.began, self.progress) + limits.nested, NESTED_TIMEOUT))
        if limits.workflow:
            ends.append((self.progress + limits.workflow, WORKFLOW_TIMEOUT))
        return ends
