"""PORT: waking those who wait for a change of a team.

After a commit the writer calls `notify(team, topics)`. Topics are short texts: `inbox:bob`, `tasks`, `events`,
`questions`. Whoever wants to wait follows three steps, always in this order:

1. **register**: `with notifier.waiter(team, topics, changed) as waiter:`
2. **re-check**: read the state; what was waited for may be there already
3. **sleep**: `waiter.wait(seconds)`, then read the state again, and so on until it is there or time is up

Register comes before re-check because a commit may fall between the two: seen from the writer, either the waiter is
registered and is woken, or the commit was earlier than the re-check and is read there. Check first and register
afterwards, and a commit in between is noticed by nobody.

A wake-up is a hint, never news: it carries nothing, it may be spurious, and in the worst case (a killed writer, an
unusable runtime directory) it may be missing. So every implementation looks at `changed` once per `INTERVAL`, which
bounds how late a change is noticed (CORE-FR-007). Implementations: `socket` (between
processes), `polling` (where sockets cannot be had), `inprocess` (one process: tests, embedding).

Promises every implementation keeps:

* `notify` never raises and never blocks; with nobody waiting it costs one look at a directory.
* Nothing that happens after `waiter(...)` returned is lost, whether or not the waiter sleeps at that moment.
* Many waiters per process are fine, from any thread; one waiter belongs to one thread or task at a time.
* A waiter whose process was killed does no harm; what it left behind is removed by the next writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Protocol, Self


class Waiter(ABC):
    """A registration. Leave the `with` block, or call `close`, to end it."""

    @abstractmethod
    def wait(self, timeout: float) -> bool:
        """Sleep until woken, or until `timeout` seconds have passed.

        Returns True when woken, perhaps for nothing: read the state again. False when time was up; with a
        `timeout` of 0 it only looks.
        """

    @abstractmethod
    def fileno(self) -> int | None:
        """A descriptor that is readable once woken, or None where there is none. `woken` uses it."""

    @abstractmethod
    def drain(self) -> bool:
        """Take the pending wake-ups off and look at `changed`; True when there was anything. Never blocks."""

    @abstractmethod
    def close(self) -> None:
        """End the registration. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Notifier(Protocol):
    """Wakes waiters and registers them."""

    def notify(self, team: str, topics: Collection[str]) -> None:
        """Wake every waiter of `team` that listens to one of `topics`. Call it after the commit."""

    def waiter(self, team: str, topics: Collection[str], changed: Callable[[], bool] | None = None) -> Waiter:
        """Register for `topics`; an empty collection stands for every topic of the team.

        `changed` is the safety net: a cheap function, True when the team's ledger changed since it was last
        called. Each waiter needs one of its own, or one would see a change and the others not. It may be called
        from any thread. Without it every interval counts as a change, so the caller reads the state again.
        """

    def leftovers(self, team: str, *, remove: bool = False) -> list[str]:
        """What waiters whose process is gone left behind, as paths; with `remove` they are removed."""


INTERVAL = 0.45
"""Seconds between two looks at `changed`; below one second by CORE-FR-007, with room for a busy machine."""


async def woken(waiter: Waiter, timeout: float) -> bool:
    """`waiter.wait(timeout)` for async code: same result, but other tasks go on meanwhile. Cancellable."""
    from time import monotonic

    import anyio

    deadline = monotonic() + timeout
    while True:
        left = deadline - monotonic()
        descriptor = waiter.fileno()
        with anyio.move_on_after(max(0.0, min(left, INTERVAL))) as pause:
            if descriptor is None:
                await anyio.sleep_forever()
            else:
                await anyio.wait_readable(descriptor)
        if not pause.cancelled_caught:
            waiter.drain()
            return True
        # In a worker thread, since `changed` may have to wait for a busy ledger.
        if await anyio.to_thread.run_sync(waiter.drain):
            return True
        if monotonic() >= deadline:
            return False
