"""stdin and stdout as the transport that the ACP package speaks over: one JSON message a line, each bounded.

Reading and writing block in daemon threads: nothing that a client does or leaves undone keeps the process alive.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, BinaryIO

from acp.exceptions import RequestError

from interlock.model.json import Json
from interlock.surfaces.mcp.threads import in_thread

LINE_BYTES = 4_194_304
"""Longest message from a client; a longer one ends the connection."""


class MessageLines:
    """Both directions of one connection."""

    def __init__(self, file: BinaryIO, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor
        self._writing = threading.Lock()

    async def receive(self) -> Json | None:
        """The next message; None when the client has ended, or no longer speaks the protocol."""
        while line := await in_thread(self._file.readline, LINE_BYTES):
            if len(line) >= LINE_BYTES and not line.endswith(b"\n"):
                print(f"interlock acp: a message of more than {LINE_BYTES} bytes; closing.", file=sys.stderr)
                return None
            message: Any = None
            try:
                message = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                await self._refuse(RequestError.parse_error())
                continue
            if isinstance(message, dict):
                return message
            if line.strip():
                await self._refuse(RequestError.invalid_request())
        return None

    async def send(self, message: Json) -> None:
        """Write one message whole, also when nobody waits for that any more."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        await in_thread(self._write, line)

    async def close(self) -> None:
        """Nothing is to be given back: the process ends."""

    async def _refuse(self, error: RequestError) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": error.to_error_obj()})

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        with self._writing:
            while left:
                left = left[os.write(self._descriptor, left) :]
