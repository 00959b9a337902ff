"""The watch over one turn of an agent: the limits it may reach, and ending it when it does (decision 30, FR17, NFR1).

Three limits hold for a turn, in seconds. *Silence*: nothing was said, no tool ran, no permission was asked. *Nested*
and *workflow*: no progress for that long, also where a tool runs; everything audible is progress, and waiting for a
human is not counted. A subagent's piece of work has a limit of its own, which no progress puts off, and so has a round
of Party Mode. When one is reached the turn is cancelled and, after the grace, the session's processes are ended; it can
be resumed where its program can do that. The absolute ceiling of a turn is the session's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import InitVar, field, replace

import anyio

from interlock.agents.session import AgentSession, Turn, Update
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.processes import room

AUDIBLE = frozenset({"text", "thought", "tool"})
RUNNING = frozenset({"pending", "in_progress"})
WRITES = frozenset({"edit", "delete", "move", "write", "create"})
PATHS = 500  # of one turn
RAN = 50  # commands of one turn

WORKFLOW_TIMEOUT, NESTED_TIMEOUT, AGENT_TIMEOUT = "workflow_timeout", "nested_timeout", "agent_timeout"
TIME_LIMIT, PARTY_TIMEOUT = "time_limit", "party_timeout"
SILENT = "silent"
"""How a turn ended that the engine ended."""


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
class Watch:
    """What the limits are judged by, for one turn that began at `began`. `quiet` is the time without progress before
    it, `whole` what the turn may take in all, in seconds (0: any). `ended`: the session had to be closed, for its turn
    did not end when it was cancelled."""

    limits: Limits
    nested: bool
    began: float
    quiet: InitVar[float] = 0.0
    whole: float = 0.0
    waited: float = 0.0
    sound: float = 0.0
    progress: float = 0.0
    held: int = 0
    held_at: float = 0.0
    tools: set[str] = field(default_factory=set)
    paths: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    ran: dict[str, str] = field(default_factory=dict)
    timeout: str | None = None
    ended: bool = False

    def __post_init__(self, quiet: float) -> None:
        self.sound, self.progress = self.began, self.began - quiet

    def hear(self, update: Update, now: float) -> None:
        if update.kind not in AUDIBLE:
            return
        self.sound = self.progress = now
        if update.kind != "tool":
            return
        name, status = str(update.data.get("id") or update.text), update.data.get("status")
        (self.tools.add if status in RUNNING else self.tools.discard)(name)
        if update.data.get("kind") == "execute" and len(self.ran) < RAN:
            self.ran[name] = " ".join([*update.text.split(), f"({status})" if status else ""])[:200].strip()
        listed = update.data.get("paths")
        paths = [str(one) for one in listed] if isinstance(listed, (list, tuple)) else []
        if len(self.paths) < PATHS:
            self.paths += paths
            self.written += paths if str(update.data.get("kind")) in WRITES else []

    def worked(self, now: float) -> float:
        """Seconds of the turn, without those that a human took."""
        return now - self.began - self.waited

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


@contextmanager
def paused(watch: Watch | None) -> Iterator[None]:
    """A human is asked meanwhile: no clock of the turn runs."""
    if watch is None:
        yield
        return
    if watch.held == 0:
        watch.held_at = anyio.current_time()
    watch.held += 1
    try:
        yield
    finally:
        watch.held -= 1
        if watch.held == 0:
            watch.sound = now = anyio.current_time()
            watch.progress += now - watch.held_at
            watch.waited += now - watch.held_at


async def prompted(
    session: AgentSession,
    text: str,
    watch: Watch,
    on_update: Callable[[Update], None],
    *,
    workdir: str,
    stop: anyio.Event | None = None,
    log: str | None = None,
) -> Turn:
    """One turn under watch, which hears each update; what ended it early is `watch.timeout`. `stop` ends it from
    outside. One that failed since the disk of `workdir` is full has no capacity: it says nothing about the work."""
    turn = Turn("cancelled")

    def hear(update: Update) -> None:
        watch.hear(update, anyio.current_time())
        on_update(update)

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
        turn = await session.prompt(text, hear, log)
        group.cancel_scope.cancel()
    if turn.stop in ("failed", "killed") and room.lacked(f"{turn.output} {turn.detail or ''}", workdir):
        return replace(turn, stop="capacity", detail=room.FULL)
    return turn


@dataclass(frozen=True)
class Heard:
    """One turn: how it ended, what was said, the files its tools named (as the agent gave them), and for how long.

    `stop` is the turn's own word, or `silent` where the engine ended it. `answered` says that the prompt was the answer
    to a menu's way on, `word` is what the agent said by one of its tools.
    """

    stop: str
    output: str
    paths: tuple[str, ...] = ()
    detail: str | None = None
    retry_at: float | None = None
    seconds: float = 0.0
    answered: bool = False
    word: Json | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn, and the limit that ended it, if one did. `written` are the files that its tools changed, `ran` the
    commands that they ran, each with how it ended."""

    heard: Heard
    timeout: str | None = None
    written: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
