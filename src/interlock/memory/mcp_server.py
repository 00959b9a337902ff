"""An MCP server that memory is asked of: a program that we start (stdio), or one that runs somewhere (HTTP).

The port is synchronous and the protocol is not, so each server has a thread with a loop of its own. It is started by
the first call and ended by `close`, which leaves nothing of the program; if we are killed, its input ends and so does
it. A server that has died is started again by the next call. Calls may come from any thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.memory.store import MemoryRefused, MemoryUnavailable
from interlock.version import __version__

if TYPE_CHECKING:  # Half a second, and most memories ask no server.
    from mcp import Client
    from mcp_types import CallToolResult

START_SECONDS = 60.0
CLOSE_SECONDS = 10.0
"""The SDK ends a program that does not end by itself after two seconds, and kills it after two more."""
OURS = "INTERLOCK_"
LAST_WORDS_SECONDS = 2.0
"""How long a connection that ended waits for the end of what its program wrote to stderr."""
SAID = 5  # last lines of the program's stderr that an error shows
LARGEST = 4_000_000
"""Characters of an answer that are read."""
REFUSALS = (
    "validation error",
    "REJECTED",
    "not found",
    "Input validation",
    "positional argument",
    "unexpected keyword",
)


class McpConnection:
    """See the module. Of `command` (started in `directory`) and `url` one is given."""

    def __init__(self, name: str, *, command: Sequence[str] = (), url: str = "", directory: str | None = None) -> None:
        self.name = name
        self.where = url or " ".join(command)
        self._command = list(command)
        self._url = url
        self._directory = directory
        self._mutex = threading.Lock()
        self._life: _Life | None = None

    def start(self) -> None:
        """Start it, unless it runs.

        Raises:
            MemoryUnavailable: it cannot be started, or not within 60 seconds.
        """
        self._living().ready()

    def call(self, tool: str, arguments: dict[str, Any], time_limit: float) -> Any:
        """The answer of a tool: its structured content, or its text, read as JSON where it is that. `time_limit` in
        seconds, beside the time that the server needs to start.

        Raises:
            MemoryUnavailable: it cannot be started, is gone, or takes longer.
            MemoryRefused: it says that the call is wrong.
        """
        result = self._living().call(tool, arguments, time_limit)
        text = "\n".join(one.text for one in result.content if one.type == "text")[:LARGEST]
        if result.is_error:
            kind = MemoryRefused if any(word in text for word in REFUSALS) else MemoryUnavailable
            raise kind(f"{self.name} refuses {tool}: {' '.join(text.split())[:500]}.", server=self.name, tool=tool)
        if result.structured_content is not None:
            return result.structured_content
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def close(self) -> None:
        """End the connection, and the program; the next call starts another."""
        with self._mutex:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    def _living(self) -> _Life:
        with self._mutex:
            if self._life is None or self._life.over:
                self._life = _Life(self)
            return self._life

    def unavailable(self, why: str) -> MemoryUnavailable:
        """It cannot be reached, and why."""
        return MemoryUnavailable(f"{self.name} cannot be used: {why}. Work continues without it.", server=self.name)


class _Life:
    """One connection, from its start to its end."""

    def __init__(self, server: McpConnection) -> None:
        self.over = False
        self._server = server
        self._began = time.monotonic()
        self._ready: concurrent.futures.Future[Client] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._said: deque[str] = deque(maxlen=SAID)
        self._listener: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name=f"memory-{server.name}", daemon=True)
        self._thread.start()

    def ready(self) -> Client:
        """See `McpConnection.start`."""
        try:
            return self._ready.result(max(0.0, self._began + START_SECONDS - time.monotonic()))
        except TimeoutError:
            self.end(wait=False)
            why = f"it did not start within {START_SECONDS:g} seconds{self._words()}"
            raise self._server.unavailable(why) from None

    def call(self, tool: str, arguments: dict[str, Any], time_limit: float) -> CallToolResult:
        """See `McpConnection.call`."""
        server, client = self._server, self.ready()
        assert self._loop is not None
        try:
            asked = asyncio.run_coroutine_threadsafe(client.call_tool(tool, arguments), self._loop)
            return asked.result(time_limit)
        except TimeoutError:
            asked.cancel()
            raise server.unavailable(f"it did not answer {tool} within {time_limit:.1f} seconds") from None
        except Exception as error:  # boundary: whatever the SDK and its transport raise, this connection is of no use
            self.end(wait=False)
            raise server.unavailable(f"{_short(error)}{self._words()}") from error

    def end(self, *, wait: bool = True) -> None:
        """Leave nothing of it."""
        self.over = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._task.cancel)
        if wait:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        error: BaseException = RuntimeError("it has ended")
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except Exception as found:  # boundary: whoever calls is told
            error = found
        self.over = True
        if not self._ready.done():
            self._ready.set_exception(self._server.unavailable(f"{_short(error)}{self._words()}"))

    async def _main(self) -> None:
        from mcp import Client
        from mcp_types import Implementation

        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        target, errors = self._target()
        try:
            about = Implementation(name="interlock", version=__version__)
            # Servers of today know the handshake; asking them for a newer way first makes them complain in their logs.
            async with Client(target, client_info=about, mode="legacy") as client:
                self._ready.set_result(client)
                while not self.over:  # also where it was ended before there was a task to cancel
                    await asyncio.sleep(3600)
        finally:
            if errors is not None:
                os.close(errors)

    def _target(self) -> tuple[Any, int | None]:
        server = self._server
        if server._url:
            return server._url, None
        from mcp import StdioServerParameters, stdio_client

        reading, writing = os.pipe()
        name = f"memory-{server.name}-said"
        self._listener = threading.Thread(target=self._listen, args=(reading,), name=name, daemon=True)
        self._listener.start()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        parameters = StdioServerParameters(
            command=server._command[0], args=server._command[1:], env=environment, cwd=server._directory
        )
        # The SDK only hands its descriptor to the program.
        errlog = os.fdopen(writing, "w", closefd=False)
        return stdio_client(parameters, errlog=errlog), writing

    def _listen(self, descriptor: int) -> None:
        """Keep the last lines of what the program says beside the protocol; read all, so that it is never held up."""
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            while line := file.readline(2000):
                if line.strip():
                    self._said.append(line.strip()[:300])

    def _words(self) -> str:
        # Standard output and standard error end in any order: what explains the end of the one may be in the other yet.
        if self._listener is not None:
            self._listener.join(LAST_WORDS_SECONDS)
        return f" (it said: {self._said[-1]})" if self._said else ""


def _short(error: BaseException) -> str:
    """What went wrong, in one line: the first cause in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__
