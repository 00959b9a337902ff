"""Waiting without being woken: a look at the ledger once per interval.

It needs nothing from the machine, so it is what `socket` falls back to where no runtime directory can be trusted.
"""

from __future__ import annotations

import time

from interlock.notifier import INTERVAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType

    from interlock.notifier import Waiter


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


class PollingWaiter:
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

    def __enter__(self) -> PollingWaiter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
