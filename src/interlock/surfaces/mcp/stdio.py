"""stdin and stdout as the two streams the SDK serves, with what its own lack: they say when an answer was written.

* Reading and writing block in daemon threads: nothing that a client does or leaves undone keeps the process alive.
* An answer is written whole, whatever becomes of its call, and its mail is noted as delivered before the next one is
  written.
* When stdin ends, calls under way get `GRACE` seconds to be answered: `printf … | interlock mcp …` works.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Collection
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, ErrorData, jsonrpc_message_adapter
from pydantic import ValidationError

from interlock.surfaces.mcp.delivery_receipt import DeliveryReceipts
from interlock.surfaces.mcp.threads import in_thread, tell

GRACE = 0.5
"""Seconds that calls under way get when the client has closed its end."""
LINE_LIMIT = 33_554_432
"""Longest message from a client, in bytes; a longer one ends the connection."""

RequestId = str | int


class _Stream:
    """What both directions share: the SDK enters and closes them, and neither has anything to give back."""

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class ServerStream(_Stream):
    """What goes to the client. One thread writes, in the order of `send`."""

    def __init__(self, descriptor: int, receipts: DeliveryReceipts) -> None:
        self._descriptor = descriptor
        self._receipts = receipts
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
        """Write one message; return once it was written.

        Raises:
            anyio.BrokenResourceError: the client no longer reads.
        """
        if self.broken:
            self._settled(_answered(item.message))
            raise anyio.BrokenResourceError
        written: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put((item.message, written))
        await written

    def expect(self, request: RequestId) -> None:
        """Note that an answer to `request` will be due."""
        self._unanswered.add(request)
        self._all_answered.clear()

    async def unanswered(self, request: RequestId) -> None:
        """Note that there will be no answer to `request`: the client cancelled it."""
        self._settled(request)
        await in_thread(self._receipts.end, request, False)

    async def cancelled(self, request: Any) -> None:
        """Give back the mail of `request`, to whose answer the client will not look.

        Returns when the mail is back: the client may ask for it in its next line.
        """
        if isinstance(request, (str, int)):
            await in_thread(self._receipts.cancel, request)

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
            # Held while writing: see `DeliveryReceipts.settle`.
            with self._receipts.writing:
                try:
                    left = memoryview(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    while left:
                        left = left[os.write(self._descriptor, left) :]
                except OSError:
                    self.broken = True
                    error = anyio.BrokenResourceError()
                answered = _answered(message)
                if answered is not None:
                    self._receipts.end(answered, error is None and isinstance(message, JSONRPCResponse))
            tell(self._loop, partial(self._done, answered, written, error))

    def _done(self, answered: RequestId | None, written: asyncio.Future[None], error: Exception | None) -> None:
        self._settled(answered)
        if not written.done():
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)
        if error is not None:
            self.on_broken()

    def _settled(self, request: RequestId | None) -> None:
        if request is not None:
            self._unanswered.discard(request)
            if not self._unanswered:
                self._all_answered.set()


def _fault(line: bytes) -> tuple[RequestId | None, int, str]:
    """What a line is refused with that is no message: whose answer that is, where it can be told, a code and why."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None, PARSE_ERROR, "This line is not JSON."
    id = said.get("id") if isinstance(said, dict) else None
    id = id if isinstance(id, (str, int)) and not isinstance(id, bool) else None
    return id, INVALID_REQUEST, "This is not a JSON-RPC 2.0 message, or has text that is not valid Unicode."


def _answered(message: JSONRPCMessage) -> RequestId | None:
    return message.id if isinstance(message, (JSONRPCResponse, JSONRPCError)) else None


class ClientStream(_Stream):
    """What comes from the client, until its end, or until `stop`."""

    def __init__(
        self, file: BinaryIO, outgoing: ServerStream, ending: Callable[[], None], unknown: Collection[str] = ()
    ) -> None:
        """`unknown`: methods that this server does not have, whatever the SDK offers."""
        self._file = file
        self._outgoing = outgoing
        self._ending = ending
        self._unknown = unknown
        self._line: asyncio.Future[bytes] | None = None
        self._stopped = False
        outgoing.on_broken = self.stop

    def stop(self) -> None:
        """Read no more, as if stdin had ended."""
        self._stopped = True
        if self._line is not None and not self._line.done():
            self._line.set_result(b"")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there is none, and what was asked before has been answered, or its time is up.
        """
        while line := await self._next_line():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                await self._refuse(*_fault(line))
                continue
            if isinstance(message, JSONRPCRequest) and message.method in self._unknown:
                await self._refuse(message.id, METHOD_NOT_FOUND, f"There is no method {message.method}.")
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

    async def _refuse(self, request: RequestId | None, code: int, message: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))
        try:
            await self._outgoing.send(SessionMessage(error))
        except anyio.BrokenResourceError:
            self.stop()

    async def _next_line(self) -> bytes:
        """Return the next line that is not blank; empty at the end."""
        while not self._stopped:
            self._line = in_thread(self._file.readline, LINE_LIMIT)
            line = await self._line
            if len(line) >= LINE_LIMIT and not line.endswith(b"\n"):
                print(f"interlock mcp: a message of more than {LINE_LIMIT} bytes; closing.", file=sys.stderr)
                return b""
            if not line or line.strip():
                return line
        return b""
