"""A loop whose time is virtual: where every task waits, the clock jumps to the next thing that is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

Value = TypeVar("Value")


class Skipping(selectors.DefaultSelector):  # type: ignore[valid-type, misc]
    """Never waits; counts what it would have waited."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events and timeout is None:
            raise RuntimeError("every task waits, and nothing is due: a deadlock")
        if not events and timeout and timeout > 0:
            self.skipped += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose `time` is what was skipped."""

    def __init__(self) -> None:
        self.skipping = Skipping()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.skipped


def run(main: Callable[..., Awaitable[Value]], *arguments: Any) -> Value:
    """`anyio.run` in virtual time, which starts at 0. No threads."""
    return anyio.run(main, *arguments, backend_options={"loop_factory": VirtualLoop})


async def passes(seconds: float) -> None:
    """Let so much virtual time pass."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()
