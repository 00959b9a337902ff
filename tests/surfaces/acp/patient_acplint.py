"""acplint's command, which listens until a prompt is answered where the original listens for a fixed time.

On a busy machine an agent's message may come after the 3 to 5 seconds that acplint 0.1.0 listens for.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from acplint.cli import main
from acplint.transport import AcpTransport


async def collect_notifications(
    transport: AcpTransport, method: str | None = None, duration: float = 0.0
) -> list[dict[str, Any]]:
    """What came until nothing is asked any more; the requests themselves have a time limit."""
    found: list[dict[str, Any]] = []
    while True:
        try:
            found.append(await asyncio.wait_for(transport._notifications.get(), 0.1))
        except TimeoutError:  # Time enough, too, for the task that sends the prompt to begin.
            if not transport._pending_requests:
                return [one for one in found if method in (None, one.get("method"))]


if __name__ == "__main__":
    AcpTransport.collect_notifications = collect_notifications
    sys.exit(main())
