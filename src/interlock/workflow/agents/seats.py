"""The seats of a run's subagents: who works now, who waits, and who makes room (FR22).

A *seat* is one agent from before its program starts until nothing of it is left; there are never more of them than the
pool's size. Whoever wants one takes a *ticket*. The next seat goes to the highest priority, and within it to the first
that came:

* a seat that is kept for the very conversation, else an idle one that fits and nobody keeps;
* a new one, while there is room;
* the one that was idle longest, whose agent is ended first (those kept for a conversation last);
* with high priority, that of the lowest priority at work, which is stopped and queues again in its old place.

Handing out seats is only bookkeeping, at once and without waiting; the holder of a ticket starts, prompts and ends
agents.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import field

import anyio

from interlock.agents.session import AgentSession
from interlock.lazy_dataclass import dataclass
from interlock.workflow.agents.assignment import HIGH, PRIORITIES

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
