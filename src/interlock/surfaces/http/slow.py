"""Verbs that may take minutes, since they run a check or a merge: they use none of the threads that answer the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import anyio
import anyio.to_thread

AT_ONCE = 100
"""Such verbs under way at once; what comes beyond waits, and holds up nothing else."""

THREADS = anyio.CapacityLimiter(AT_ONCE)


def slow(verb: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Make an endpoint of a verb that may take minutes."""

    @wraps(verb)
    async def endpoint(**given: Any) -> Any:
        return await anyio.to_thread.run_sync(partial(verb, **given), limiter=THREADS)

    return endpoint
