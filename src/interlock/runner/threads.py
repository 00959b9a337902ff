"""The ledger's verbs, from the event loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio.to_thread

from interlock.errors import LedgerBusy

BUSY_TRIES = 30
"""How often a verb is offered to a ledger that stays locked; each time waits for `busy_timeout`."""

Value = TypeVar("Value")


async def in_thread(verb: Callable[[], Value]) -> Value:
    """`verb` in a worker thread, again and again while the ledger is locked: a result must not get lost.

    Raises:
        LedgerBusy: it stayed locked; and whatever `verb` raises.
    """
    for _ in range(BUSY_TRIES - 1):
        with suppress(LedgerBusy):
            return await anyio.to_thread.run_sync(verb)
    return await anyio.to_thread.run_sync(verb)
