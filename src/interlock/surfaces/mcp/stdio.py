"""stdin and stdout as the two streams the SDK serves, with what its own lacks: it says when an answer was written.

* Descriptor 1 is led to stderr and descriptor 0 to nothing, so that a stray print, or a program that a verb starts,
  can neither tear the protocol nor eat from it.
* Reading and writing block in daemon threads: nothing that a client does or leaves undone keeps the process alive.
* An answer is written whole, whatever becomes of the call it belongs to, and its mail is noted as delivered before the
  next one is written.
* When stdin ends, calls under way get `GRACE` seconds to be answered: `printf … | interlock mcp …` works.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.jsonrpc import PARSE_ERROR, ErrorData, jsonrpc_message_adapter
from pydantic import ValidationError

from interlock.surfaces.mcp.handover import Handovers
from interlock.surfaces.mcp.threads import in_thread, tell

GRACE = 0.5
"""Seconds that calls under way get when the client has closed its end."""
LINE_LIMIT = 33_554_432
"""Longest message from a client, in bytes; a longer one ends the connection."""

T = TypeVar("T")
RequestId = str | int


def standard_streams() -> tuple[BinaryIO, int]:
    """What stdin and stdout lead to, kept for the protocol alone: (file to read, descriptor to write)."""
    import fcntl

    wire_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    wire_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(wire_in, "rb", closefd=False), wire_out


class _Stream:
    """What both directions share: the SDK enters and closes them, and neither has anything to give back."""

    async def aclose(self) -> None: ...

    async def __aenter__(self: T) -> T:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Outgoing(_Stream):
    """What goes to the client. One thread writes, in the order of `send`."""

    def __init__(self, descriptor: int, handovers: Handovers) -> None:
        self._descriptor = descriptor
        self._handovers = handovers
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[JSONRPCMessage, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._unanswered: set[RequestId] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self.broken = False
        self.on_broken: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message; returns once it was written.

        Raises:
            anyio.BrokenResourceError: the client no longer reads.
        """
        if self.broken:
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)) and item.message.id is not None:
                self._settled(item.message.id)
            raise anyio.BrokenResourceError
        written: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put((item.message, written))
        await written

    def expect(self, request: RequestId) -> None:
        """An answer to `request` will be due."""
        self._unanswered.add(request)
        self._all_answered.clear()

    async def unanswered(self, request: RequestId) -> None:
        """There will be no answer to `request`: the client cancelled it."""
        self._settled(request)
        await in_thread(self._handovers.end, request, False)

    async def cancelled(self, request: Any) -> None:
        """The client looks at no answer to `request`, whatever becomes of it. Returns when its mail is back: the client
        may ask for it in its next line."""
        if isinstance(request, (str, int)):
            await in_thread(self._handovers.cancel, request)

    async def all_answered(self) -> None:
        """Wait until every request that was read got its answer."""
        await self._all_answered.wait()

    def close(self) -> None:
        """Give what is still to be written a moment, then give it up."""
        self._jobs.put(None)
        self._thread.join(GRACE)

    def _write_all(self) -> None:
        while (job := self._jobs.get()) is not None:
            message, written = job
            error: Exception | None = None
            # Held while writing: see `Handovers.settle`.
            with self._handovers.writing:
                try:
                    self._write(message)
                except OSError:
                    self.broken = True
                    error = anyio.BrokenResourceError()
                if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
                    self._handovers.end(message.id, error is None and isinstance(message, JSONRPCResponse))
            tell(self._loop, partial(self._done, message, written, error))

    def _write(self, message: JSONRPCMessage) -> None:
        left = memoryview(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        while left:
            left = left[os.write(self._descriptor, left) :]

    def _done(self, message: JSONRPCMessage, written: asyncio.Future[None], error: Exception | None) -> None:
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._settled(message.id)
        if not written.done():
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)
        if error is not None:
            self.on_broken()

    def _settled(self, request: RequestId) -> None:
        self._unanswered.discard(request)
        if not self._unanswered:
            self._all_answered.set()


class Incoming(_Stream):
    """What comes from the client, until its end, or until `stop`."""

    def __init__(self, file: BinaryIO, outgoing: Outgoing, ending: Callable[[], None]) -> None:
        self._file = file
        self._outgoing = outgoing
        self._ending = ending
        self._line: asyncio.Future[bytes] | None = None
        self._stopped = False
        outgoing.on_broken = self.stop

    def stop(self) -> None:
        """Read no more, as if stdin had ended."""
        self._stopped = True
        if self._line is not None and not self._line.done():
            self._line.set_result(b"")

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: there is none, and what was asked before has been answered, or its time is up.
        """
        while line := await self._next_line():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                await self._refuse(line)
                continue
            if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                await self._outgoing.cancelled((message.params or {}).get("requestId"))
            if not isinstance(message, JSONRPCRequest):
                return SessionMessage(message)
            self._outgoing.expect(message.id)
            unanswered = partial(self._outgoing.unanswered, message.id)
            return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=unanswered))
        self._ending()
        with anyio.move_on_after(GRACE):
            await self._outgoing.all_answered()
        raise anyio.EndOfStream

    async def _next_line(self) -> bytes:
        """The next line that is not blank; empty at the end."""
        while not self._stopped:
            self._line = in_thread(self._file.readline, LINE_LIMIT)
            line = await self._line
            if len(line) >= LINE_LIMIT and not line.endswith(b"\n"):
                print(f"interlock mcp: a message of more than {LINE_LIMIT} bytes; closing.", file=sys.stderr)
                return b""
            if not line or line.strip():
                return line
        return b""

    async def _refuse(self, line: bytes) -> None:
        error = ErrorData(code=PARSE_ERROR, message="This line is no JSON-RPC 2.0 message.")
        try:
            await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
        except anyio.BrokenResourceError:
            self.stop()
