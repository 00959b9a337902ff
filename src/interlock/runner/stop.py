"""How a run is asked to end: softly (nothing new starts), then hard (everything is ended now)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable


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


async def heed(stop: Stop, end_now: Callable[[], Awaitable[None]], rouse: Callable[[], None]) -> None:
    """Hear a stop from a signal handler or another thread, for ever: `end_now` when it is a hard one, and `rouse`."""
    import anyio  # here, since verbs that wait for nothing import this module, too

    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    os.set_blocking(theirs, False)

    def ring() -> None:
        try:
            os.write(theirs, b"!")
        except BlockingIOError:
            pass  # It is full of requests already.

    silence = stop.listen(ring)
    try:
        while True:
            if stop.hard:
                await end_now()
            if stop.soft:
                rouse()
            await anyio.wait_readable(ours)
            os.read(ours, 4096)
    finally:
        silence()
        os.close(ours)
        os.close(theirs)
