"""Waiters that sleep: on a descriptor, or by polling; and the notifier that needs nothing from the machine.

Both look at `changed` once per interval.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection

from interlock.wakeup.notifier import INTERVAL, Waiter


class DescriptorWaiter(Waiter):
    """Sleeps until `descriptor` is readable or `changed` says so, and calls `release` once when closed.

    The descriptor must be non-blocking. It belongs to whoever made it, who closes it in `release`.
    """

    def __init__(self, descriptor: int, changed: Callable[[], bool] | None, release: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._changed = changed or always
        self._release: Callable[[], None] | None = release

    def wait(self, timeout: float) -> bool:
        import select

        # poll, not select: select refuses descriptors above 1023, which a server with many waiters reaches.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            if poll.poll(min(left, INTERVAL) * 1000):
                self._empty()
                return True
            if self._changed():
                return True
            if time.monotonic() >= deadline:
                return False

    def fileno(self) -> int | None:
        return self._descriptor

    def drain(self) -> bool:
        return self._empty() or self._changed()

    def close(self) -> None:
        if self._release is not None:
            release, self._release = self._release, None
            release()

    def _empty(self) -> bool:
        """Read everything that is pending; True when there was anything."""
        found = False
        try:
            while os.read(self._descriptor, 4096):
                found = True
        except BlockingIOError:
            pass
        return found


def always() -> bool:
    """What stands in for `changed` where the caller has none: assume that something did."""
    return True


class PollingNotifier:
    """Wakes nobody; its waiters look for themselves."""

    def leftovers(self, team: str, *, remove: bool = False) -> list[str]:
        return []

    def notify(self, team: str, topics: Collection[str]) -> None:
        return

    def waiter(self, team: str, topics: Collection[str], changed: Callable[[], bool] | None = None) -> Waiter:
        return PollingWaiter(changed)


class PollingWaiter(Waiter):
    """Looks at `changed` every `INTERVAL` seconds."""

    def __init__(self, changed: Callable[[], bool] | None) -> None:
        self._changed = changed or always

    def wait(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        # Not `always`: a caller without a probe would go round and round without a pause.
        if self._changed is not always and self._changed():
            return True
        while True:
            left = deadline - time.monotonic()
            if left > 0:
                time.sleep(min(left, INTERVAL))
            if self._changed():
                return True
            if time.monotonic() >= deadline:
                return False

    def fileno(self) -> int | None:
        return None

    def drain(self) -> bool:
        return self._changed()

    def close(self) -> None:
        return
