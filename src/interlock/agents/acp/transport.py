"""The two pipes to an agent program, as the transport that the ACP package speaks over: one JSON message a line.

What it does that the package's own does not:

* Notifications never reach the package: `session/update` goes straight to a listener, in order and as it is, so that
  an agent that is newer than the package loses nothing; so does what Claude Code tells of its waiting. Others are of no
  use to us.
* A line that is no message is handed to `on_noise` (a launcher that greets), an endless one ends the conversation.
* Neither writing to a program that does not read nor a broken pipe raises: the conversation is then over, and whoever
  waits for an answer hears it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import anyio
import anyio.lowlevel

from interlock.model.json import Json

MESSAGE_BYTES = 33_554_432  # a longer message ends the conversation
_CHUNK = 65_536
_HEARD = ("session/update", "_claude/sdkMessage")


class Wire:
    """Takes both descriptors. `over` is set when nothing more can be heard; `broken` says why, if that is a fault."""

    def __init__(
        self,
        reading: int,
        writing: int,
        *,
        on_update: Callable[[Json], None],
        on_noise: Callable[[bytes], None],
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._on_update = on_update
        self._on_noise = on_noise
        self._buffer = bytearray()
        self._searched = 0
        self._turn = anyio.Lock()
        self.over = anyio.Event()
        self.broken: str | None = None
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)

    async def send(self, message: Json) -> None:
        """Write one message whole; nothing, once the conversation is over."""
        rest = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        async with self._turn:
            begun = False
            try:
                while rest and self._writing >= 0 and not self.over.is_set():
                    try:
                        rest = rest[os.write(self._writing, rest) :]
                        begun = True
                    except BlockingIOError:
                        await anyio.wait_writable(self._writing)
            except (OSError, anyio.ClosedResourceError) as error:
                self.end(f"it no longer listens: {error}")
            except BaseException:
                if begun and rest:
                    self.end("a message to it was cut off")  # what follows would be part of that message
                raise

    async def receive(self) -> Json | None:
        """The next request or answer; None when the conversation is over."""
        while not self.over.is_set():
            line = await self._line()
            if line is None:
                break
            # A flood must not keep others from being heard; the package itself never waits between two messages.
            await anyio.lowlevel.checkpoint()
            message = self._message(line)
            if message is None:
                continue
            if "method" in message and "id" not in message:
                if message["method"] in _HEARD and isinstance(message.get("params"), dict):
                    self._on_update(message["params"])
                continue
            return message
        self.end()
        return None

    async def close(self) -> None:
        """Give both descriptors back; may be called twice."""
        self.end()
        descriptors, self._reading, self._writing = (self._reading, self._writing), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def end(self, why: str | None = None) -> None:
        """The conversation is over; who waits for something hears it."""
        self.broken = self.broken or why
        self.over.set()
        for descriptor in (self._reading, self._writing):
            if descriptor >= 0:
                anyio.notify_closing(descriptor)

    def _message(self, line: bytes) -> Json | None:
        if not line.strip():
            return None
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
            return message
        self._on_noise(line)
        return None

    async def _line(self) -> bytes | None:
        while True:
            at = self._buffer.find(b"\n", self._searched)
            if at >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if self._searched > MESSAGE_BYTES:
                self.end(f"it sent a message longer than {MESSAGE_BYTES // 1_048_576} MiB")
                return None
            chunk = await self._chunk()
            if not chunk:
                if self._buffer.strip():
                    self._on_noise(bytes(self._buffer))
                return None
            self._buffer += chunk

    async def _chunk(self) -> bytes:
        while self._reading >= 0 and not self.over.is_set():
            try:
                return os.read(self._reading, _CHUNK)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._reading)
                except anyio.ClosedResourceError:
                    break
            except OSError:
                break
        return b""
