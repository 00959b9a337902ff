"""Asynchronous work behind a verb that blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

import anyio

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def run_async(function: Callable[[*Arguments], Awaitable[T]], *arguments: *Arguments) -> T:
    """Run `function` to its end and return what it returns.

    A caller whose thread runs an event loop already, as every cell of a notebook does, waits for another thread.
    """

    def run() -> T:
        return anyio.run(function, *arguments)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(run).result()
