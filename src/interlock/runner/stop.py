"""How a run is asked to end: softly (nothing new starts), then hard (everything is ended now)."""

from __future__ import annotations

from collections.abc import Callable


class Stop:
    """Safe to use from signal handlers and other threads. A second request makes the first one hard."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.soft = False
        self.hard = False
        self.reason: str | None = None

    def request(self, reason: str = "asked to stop", *, now: bool = False) -> None:
        """Ask to end: softly the first time, hard the second time or with `now`."""
        self.hard = self.hard or now or self.soft
        self.soft = True
        self.reason = self.reason or reason
        # No lock, here or below: a signal handler may interrupt `listen` in this very thread.
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` at each request, until what this answers is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
