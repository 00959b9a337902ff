"""Verbs that block, for servers: each in a daemon thread of its own, so that none keeps a process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def in_thread(function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """Run `function` in a daemon thread of its own. Cancelling the future abandons it: the thread ends by itself."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = function(*arguments)
        except BaseException as raised:  # boundary: raised again where the future is awaited
            error = raised
        tell(loop, partial(settle, value, error))

    threading.Thread(target=run, daemon=True).start()
    return future


def tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Let the loop do that soon; nothing where it is closed."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        pass  # The loop is closed: the connection is over and nobody waits for this any more.
