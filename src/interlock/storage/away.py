"""Who waits for a ledger that is away, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

AWAY_SECONDS = 3600.0
"""For how long a ledger that is away is waited for: its server is upgraded, its machine restarted, a disk cleared."""
LOOK_AGAIN = 1.0
"""Seconds between two tries then."""
goes_on = ContextVar[Callable[[], bool]]("goes_on", default=lambda: False)
"""Whether whoever runs this waits for such a ledger, or a machine that is short of something, at all: a runner or
worker does until it is told to end everything, and nobody else, since a person at a terminal wants to know at once."""

T = TypeVar("T")


def once_told(look: Callable[[], T | None]) -> T | None:
    """What a ledger says, which is looked at in this thread until it does (`look` answers None until then); None where
    that is not waited for any longer."""
    over = time.monotonic() + AWAY_SECONDS
    while (found := look()) is None and goes_on.get()() and time.monotonic() < over:
        time.sleep(LOOK_AGAIN)
    return found
