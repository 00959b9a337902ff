"""That the server is about to end, for everything that waits."""

from __future__ import annotations

import anyio


class Closing:
    """Set once. What waits for something else waits for this, too."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    @property
    def begun(self) -> bool:
        """Whether the server is about to end."""
        return self._event.is_set()

    def begin(self) -> None:
        """Say so. Call it in the server's event loop."""
        self._event.set()

    async def wait(self) -> None:
        """Return when it is."""
        await self._event.wait()
