"""Waking threads and tasks of one process: for tests, simulations and programs that embed Interlock alone.

Each waiter has a pipe rather than a condition variable, so that async code can wait for it like for any other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection

from interlock.wakeup.notifier import Waiter
from interlock.wakeup.waiters import DescriptorWaiter


class InProcessNotifier:
    """Wakes the waiters registered with this very object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: dict[int, tuple[str, frozenset[str]]] = {}  # by the writing end of the waiter's pipe

    def leftovers(self, team: str, *, remove: bool = False) -> list[str]:
        return []

    def notify(self, team: str, topics: Collection[str]) -> None:
        # Written under the lock: outside it the pipe could be closed, and its number be another file, by then.
        with self._lock:
            for writing, (of_team, wanted) in self._listening.items():
                if of_team == team and topics and (not wanted or not wanted.isdisjoint(topics)):
                    try:
                        os.write(writing, b"!")
                    except BlockingIOError:
                        pass  # full: it has been woken often enough

    def waiter(self, team: str, topics: Collection[str], changed: Callable[[], bool] | None = None) -> Waiter:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        with self._lock:
            self._listening[writing] = (team, frozenset(topics))

        def release() -> None:
            with self._lock:
                del self._listening[writing]
            os.close(writing)
            os.close(reading)

        return DescriptorWaiter(reading, changed, release)
