"""The watch over one turn of an agent: the limits it may reach, and ending it when it does (decision 30, FR17, NFR1).

Three limits hold for a turn, in seconds. *Silence*: nothing was said, no tool ran, no permission was asked. *Nested*
and *workflow*: no progress for that long, also where a tool runs; everything audible is progress, and waiting for a
human is not counted. A subagent's piece of work has a limit of its own, which no progress puts off, and so has a round
of Party Mode. When one is reached the turn is cancelled and, after the grace, the session's processes are ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from interlock.agents.session import AgentSession, Turn, Update

AUDIBLE = frozenset({"text", "thought", "tool"})
RUNNING = frozenset({"pending", "in_progress"})
WRITES = frozenset({"edit", "delete", "move", "write", "create"})
PATHS = 500  # of one turn

WORKFLOW_TIMEOUT, NESTED_TIMEOUT, AGENT_TIMEOUT = "workflow_timeout", "nested_timeout", "agent_timeout"
TIME_LIMIT, PARTY_TIMEOUT = "time_limit", "party_timeout"


@dataclass(frozen=True)
class Limits:
    """Seconds (decision 30); 0 switches one off. `grace` is what a cancelled turn gets to end by itself. Menus are put
    to a human `menu_interval` apart, and after `menu_pause` in a row (0: never) there is a pause."""

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


class Watch:
    """What the limits are judged by, for one turn. `quiet` at the start is the time without progress so far, `whole`
    what the turn may take in all, in seconds (0: any)."""

    def __init__(self, limits: Limits, nested: bool, now: float, quiet: float = 0.0, whole: float = 0.0) -> None:
        self.limits = limits
        self.nested = nested
        self.whole = whole
        self.waited = 0.0
        self.began = now
        self.sound = now
        self.progress = now - quiet
        self.tools: set[str] = set()
        self.held = 0
        self.paths: list[str] = []
        self.written: list[str] = []
        self.timeout: str | None = None
        self.ended = False  # the session had to be closed, for its turn did not end when it was cancelled
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
            self.waited += now - self._held_at

    def worked(self, now: float) -> float:
        """Seconds of the turn, without those that a human took."""
        return now - self.began - self.waited

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
        """The limit that is reached, the earliest of several."""
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
        if self.whole:
            ends.append((self.began + self.waited + self.whole, TIME_LIMIT))
        return ends


async def prompted(
    session: AgentSession,
    text: str,
    watch: Watch,
    on_update: Callable[[Update], None],
    *,
    stop: anyio.Event | None = None,
    log: str | None = None,
) -> Turn:
    """One turn under watch; what ended it before its time stands in `watch.timeout`. `stop` ends it from outside."""
    turn = Turn("cancelled")

    async def end() -> None:
        await session.cancel()
        await anyio.sleep(watch.limits.grace)
        watch.ended = True
        await session.close()

    async def guard() -> None:
        while (wait := watch.left(anyio.current_time())) > 0:
            await anyio.sleep(wait)
        watch.timeout = watch.reached(anyio.current_time())
        await end()

    async def stopper(event: anyio.Event) -> None:
        await event.wait()
        await end()

    async with anyio.create_task_group() as group:
        group.start_soon(guard)
        if stop is not None:
            group.start_soon(stopper, stop)
        turn = await session.prompt(text, on_update, log)
        group.cancel_scope.cancel()
    return turn
