"""Sessions of agents under watch, and the seats of a run's subagents.

The watch over one turn of an agent: the limits it may reach, and ending it when it does (decision 30, FR17, NFR1).
Three limits hold for a turn, in seconds. *Silence*: nothing was said, no tool ran, no permission was asked. *Nested*
and *workflow*: no progress for that long, also where a tool runs; everything audible is progress, and waiting for a
human is not counted. A subagent's piece of work has a limit of its own, which no progress puts off, and so has a round
of Party Mode. When one is reached the turn is cancelled and, after the grace, the session's processes are ended; it can
be resumed where its program can do that. The absolute ceiling of a turn is the session's own.

A *seat* is one agent of a run's subagents from before its program starts until nothing of it is left; there are never
more of them than the pool's size (FR22). Whoever wants one takes a *ticket*. The next seat goes to the highest
priority, and within it to the first that came:

* a seat that is kept for the very conversation, else an idle one that fits and nobody keeps;
* a new one, while there is room;
* the one that was idle longest, whose agent is ended first (those kept for a conversation last);
* with high priority, that of the lowest priority at work, which is stopped and queues again in its old place.

Handing out seats is only bookkeeping, at once and without waiting; the holder of a ticket starts, prompts and ends
agents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field, replace

import anyio

from interlock.agents.session import Agent, AgentSession, Opening, Permission, Turn, Update
from interlock.errors import AgentError
from interlock.model.json import Json
from interlock.workflow.agents.assignment import HIGH, PRIORITIES

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
    stop: anyio.Event | None = None,
    log: str | None = None,
) -> Turn:
    """One turn under watch, which hears each update; what ended it early is `watch.timeout`. `stop` ends it from
    outside."""
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
            turn = await prompted(session, text, watch, self._on_update, stop=stop)
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


PREEMPTED, CANCELLED = "preempted", "cancelled"
PREEMPTIONS = 3
"""How often one piece of work makes room for another; then it is left to end."""


class Stopped(Exception):
    """The pool gives out no more seats."""


@dataclass(eq=False, slots=True)
class Seat:
    """One agent. `fits` says what work it may do next for somebody else, None for none; `keeper` is the conversation it
    is kept for. `strange`: what was said in it was about something else. `retiring` has to be ended before another
    agent is started in its place."""

    fits: Hashable = None
    keeper: object = None
    session: AgentSession | None = None
    retiring: AgentSession | None = None
    strange: bool = False
    ticket: Ticket | None = None
    idle_since: int = 0
    leaving: bool = False

    @property
    def idle(self) -> bool:
        """Whether nobody works in it, and it is not being given up."""
        return self.ticket is None and not self.leaving


@dataclass(eq=False, slots=True)
class Ticket:
    """The wish for a seat. `stop` is set where the work in it has to end before its time, for the reason `why`."""

    priority: str
    keeper: object
    fits: Hashable = None
    number: int = -1
    seat: Seat | None = None
    why: str | None = None
    preempted: int = 0
    ready: anyio.Event = field(default_factory=anyio.Event)
    stop: anyio.Event = field(default_factory=anyio.Event)

    @property
    def order(self) -> tuple[int, int]:
        """Whose turn it is: the smallest."""
        rank = PRIORITIES.index(self.priority) if self.priority in PRIORITIES else 1
        return rank, self.number


class SubagentPool:
    """At most `size` seats."""

    def __init__(self, size: int) -> None:
        self.size = max(1, size)
        self.stopped = False
        self._seats: list[Seat] = []
        self._waiting: list[Ticket] = []
        self._count = itertools.count()
        self._changed = anyio.Event()

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Those that there are."""
        return tuple(self._seats)

    async def take(self, ticket: Ticket) -> Seat:
        """Wait for a seat. Whoever takes one leaves it, whatever happens. A ticket that comes again, after it made room
        for another, keeps its place in the queue.

        Raises:
            Stopped: there are none any more.
        """
        if self.stopped:
            raise Stopped
        if ticket.number < 0:
            ticket.number = next(self._count)
        ticket.seat, ticket.why, ticket.ready, ticket.stop = None, None, anyio.Event(), anyio.Event()
        self._waiting.append(ticket)
        self._give_out()
        try:
            await ticket.ready.wait()
        except BaseException:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            elif ticket.seat is not None:
                with anyio.CancelScope(shield=True):
                    await self.leave(ticket.seat, keep=False)
            raise
        if ticket.seat is None:
            raise Stopped
        return ticket.seat

    async def leave(self, seat: Seat, *, keep: bool) -> None:
        """The work in it is over for now; its agent stays idle with `keep`, and is ended otherwise."""
        seat.ticket = None
        if keep and not self.stopped and seat.session is not None and seat.session.lasting:
            seat.idle_since = next(self._count)
            self._give_out()
        else:
            await self.end(seat)

    async def end(self, seat: Seat) -> None:
        """End its agent; only then there is room for another."""
        if seat.leaving:
            return
        seat.leaving = True
        try:
            with anyio.CancelScope(shield=True):
                await self.clear(seat)
                if seat.session is not None:
                    await seat.session.close()
        finally:
            self._seats.remove(seat)
            self._give_out()

    async def clear(self, seat: Seat) -> None:
        """End the agent that was there before."""
        if seat.retiring is not None:
            with anyio.CancelScope(shield=True):
                await seat.retiring.close()
            seat.retiring = None

    async def give_up(self, keeper: object, *, reuse: bool = False) -> None:
        """A conversation is over: the seat that is kept for it is idle for others that fit, or ended."""
        for seat in [one for one in self._seats if one.keeper is keeper and one.idle]:
            if reuse and seat.fits is not None and not self.stopped:
                seat.keeper, seat.strange = None, True
                self._give_out()
            else:
                await self.end(seat)

    def stop(self) -> None:
        """Give out no more seats, and stop the work in all of them."""
        self.stopped = True
        for ticket in self._waiting:
            ticket.ready.set()
        self._waiting.clear()
        for seat in self._seats:
            if seat.ticket is not None:
                _stop(seat.ticket, CANCELLED)

    async def close(self) -> None:
        """End every agent, at once, and return when nothing is left of any."""
        self.stop()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for seat in self.seats:
                    if seat.idle:
                        group.start_soon(self.end, seat)
                    elif seat.session is not None:
                        group.start_soon(seat.session.close)
            while self._seats:
                await self._changed.wait()

    def _give_out(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        while self._waiting:
            ticket = min(self._waiting, key=lambda one: one.order)
            seat = self._seat_for(ticket)
            if seat is None:
                break
            self._waiting.remove(ticket)
            seat.ticket, ticket.seat = ticket, seat
            ticket.ready.set()
        self._make_room()

    def _seat_for(self, ticket: Ticket) -> Seat | None:
        idle = [one for one in self._seats if one.idle]
        own = next((one for one in idle if one.keeper is ticket.keeper), None)
        if own is not None:
            return own
        free = [one for one in idle if one.keeper is None and one.fits is not None and one.fits == ticket.fits]
        seat = max(free, key=lambda one: one.idle_since, default=None)
        if seat is None and len(self._seats) < self.size:
            seat = Seat()
            self._seats.append(seat)
        elif seat is None and idle:
            seat = min(idle, key=lambda one: (one.keeper is not None, one.idle_since))
            seat.session, seat.retiring, seat.strange = None, seat.session, False
        if seat is not None:
            seat.keeper, seat.fits = ticket.keeper, ticket.fits
        return seat

    def _make_room(self) -> None:
        """As many of the lowest priority are stopped as are needed by those of the highest."""
        wanted = sum(one.priority == HIGH for one in self._waiting)
        coming = sum(one.leaving or (one.ticket is not None and one.ticket.stop.is_set()) for one in self._seats)
        at_work = [one.ticket for one in self._seats if one.ticket is not None and not one.ticket.stop.is_set()]
        movable = [one for one in at_work if one.priority != HIGH and one.preempted < PREEMPTIONS]
        for ticket in sorted(movable, key=lambda one: one.order, reverse=True)[: max(0, wanted - coming)]:
            ticket.preempted += 1
            _stop(ticket, PREEMPTED)


def _stop(ticket: Ticket, why: str) -> None:
    ticket.why = ticket.why or why
    ticket.stop.set()
