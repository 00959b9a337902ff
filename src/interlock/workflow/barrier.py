"""Synchronization barrier: the results of several, gathered until all are in (BMAD-6.2, FR47a, FR47b).

Results are handed in from tasks of the event loop (`hand_in`) or from threads (`deliver`); one lock, with a time limit,
protects each of them. Whoever does not get it in time tries once more and then breaks the barrier, with
`sync_timeout`: nobody goes on waiting, nothing more is taken, and no lock of ours stays held. The wait for all has a
limit of its own, after which it is `barrier_timeout`. What was handed in before stays in either case. Results lie in a
mapping that is replaced and never changed, so it can be read while somebody else holds the lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Generic, Protocol, TypeVar

import anyio

from interlock.lazy_dataclass import dataclass
from interlock.workflow.agents.assignment import Report

FIRST_PAUSE = 1.0  # seconds before an agent that failed is asked again; doubled each time
AGAIN = frozenset(("failed", "timeout", "preempted"))
"""The statuses of a report after which its agent is asked again."""

LOCK_WAIT = 5.0  # seconds for one acquisition
ACQUISITIONS = 2  # the first, and exactly one retry
LOOK = 0.01  # seconds after which a task looks for the lock again
SYNC_TIMEOUT, BARRIER_TIMEOUT = "sync_timeout", "barrier_timeout"

Value = TypeVar("Value")


class Mutex(Protocol):
    """What `threading.Lock` can do, as far as we need it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; False where it was not to be had (in `timeout` seconds)."""

    def release(self) -> None:
        """Give it back."""


class SyncTimeout(Exception):
    """The lock could not be had in time, twice; the barrier is broken."""


@dataclass(frozen=True)
class BarrierResults(Generic[Value]):
    """What the barrier holds: the results in the order of its parties, those that are missing, and why it ended early
    (`sync_timeout`, `barrier_timeout`), null where all are there."""

    results: Mapping[str, Value]
    missing: tuple[str, ...] = ()
    error: str | None = None


@dataclass
class SynchronizationBarrier(Generic[Value]):
    """For one gathering of `parties`, whose order is that of the results. `lock_wait` is in seconds."""

    parties: Sequence[str]
    lock_wait: float = LOCK_WAIT
    lock: Mutex = field(default_factory=threading.Lock)
    _results: Mapping[str, Value] = field(default_factory=dict)
    _error: str | None = None
    _closed: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _wakers: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.parties:
            self._over.set()

    def deliver(self, party: str, value: Value) -> bool:
        """Hand a result in from a thread, which waits for the lock; False where it came too late, or for the second
        time, and is not taken.

        Raises:
            SyncTimeout: the lock was not to be had; the barrier is broken.
            ValueError: it waits for no such party.
        """
        self._require(party)
        for _ in range(ACQUISITIONS):
            if self.lock.acquire(timeout=self.lock_wait):
                return self._put(party, value)
        raise self._broken(party)

    async def hand_in(self, party: str, value: Value) -> bool:
        """The same from a task, which never blocks the loop.

        Raises:
            SyncTimeout, ValueError: as `deliver`.
        """
        self._require(party)
        for _ in range(ACQUISITIONS):
            if await self._acquired():
                return self._put(party, value)
        raise self._broken(party)

    async def wait(self, seconds: float) -> BarrierResults[Value]:
        """All results, as soon as they are there or the barrier is broken, but after `seconds` at the latest. It is
        over then: what comes later is not taken."""
        over, loop = anyio.Event(), asyncio.get_running_loop()
        self._wakers.append(lambda: loop.call_soon_threadsafe(over.set))
        # Whoever ends the barrier says so first and wakes then: looked at after the registration, nothing is missed.
        if not self._over.is_set():
            with anyio.move_on_after(seconds):
                await over.wait()
        self._wakers.clear()
        if not self._over.is_set():
            self._error = self._error or BARRIER_TIMEOUT
        return await self._close()

    async def _close(self) -> BarrierResults[Value]:
        """No more results, from one moment on: the lock is taken for it where it is to be had."""
        held = self._error != SYNC_TIMEOUT and await self._acquired()
        try:
            self._closed = True
            taken = self._results
        finally:
            if held:
                self.lock.release()
        results = {party: taken[party] for party in self.parties if party in taken}
        missing = tuple(party for party in self.parties if party not in taken)
        # The last one may have come in at the very end of the wait.
        return BarrierResults(results, missing, self._error if missing else None)

    async def _acquired(self) -> bool:
        """Whether the lock could be had in its time."""
        latest = anyio.current_time() + self.lock_wait
        while not self.lock.acquire(blocking=False):
            if anyio.current_time() >= latest:
                return False
            await anyio.sleep(LOOK)
        return True

    def _put(self, party: str, value: Value) -> bool:
        """Keep a result; the lock is held, and given back whatever happens."""
        try:
            if self._closed or self._error or party in self._results:
                return False
            self._results = {**self._results, party: value}
            whole = len(self._results) == len(self.parties)
        finally:
            self.lock.release()
        if whole:
            self._end()
        return True

    def _broken(self, party: str) -> SyncTimeout:
        self._error = SYNC_TIMEOUT
        self._end()
        return SyncTimeout(f"{SYNC_TIMEOUT}: the result of {party} could not be handed in")

    def _end(self) -> None:
        self._over.set()
        for wake in tuple(self._wakers):
            try:
                wake()
            except RuntimeError:  # The loop that waited is closed: nobody waits any more.
                continue

    def _require(self, party: str) -> None:
        if party not in self.parties:
            raise ValueError(f"the barrier waits for {', '.join(self.parties)}, not for {party}")


Barriers = Callable[[Sequence[str]], SynchronizationBarrier[Report]]
