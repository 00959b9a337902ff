"""The socket of a server, and HTTP on it (uvicorn)."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from interlock.errors import InvalidRequest
from interlock.surfaces.http.failures import CONNECTION

HEADER_BYTES = 32_768
HEADER_SECONDS = 15.0
"""How long a caller may take to send the head of a request."""
GRACE_SECONDS = 1
"""How long answers under way get when the server ends."""
FURTHER_PORTS = 10


def bind(host: str, port: int, *, exactly: bool) -> socket.socket:
    """A listening socket. Unless it must be `exactly` that port, the next free one of ten is taken.

    Raises:
        InvalidRequest: none could be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [port] if exactly or port == 0 else range(port, min(port + FURTHER_PORTS, 65536)):
        # Named as TCP, or asyncio would not know to send at once, and each answer would wait 40 ms for the last one's
        # acknowledgement.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, candidate))
            made.listen(256)
            made.setblocking(False)
            return made
        except (OSError, OverflowError) as error:
            made.close()
            refused: Exception = error
    raise InvalidRequest(
        f"Port {port} of {host} is not available: {refused}. `interlock up --port N` takes another, `--port 0` any.",
        field="port",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(listening: socket.socket) -> str:
    """How a browser on this machine reaches it."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpListener(uvicorn.Server):
    """A server on a bound socket. It calls `on_end` when it begins to end, so that streams end then."""

    def __init__(self, app: ASGIApp, on_end: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                loop="asyncio",
                lifespan="on",
                # Addresses of links hold codes; who did what is in the ledger's events.
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=HEADER_BYTES,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._on_end = on_end

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # Signals are handled by whoever runs us.

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_end()
        await super().shutdown(sockets)


class _Protocol(H11Protocol):
    """HTTP/1.1 with a limit to how long the head of a request may take, and a place for what requests of a connection
    share.

    It subclasses an internal class of uvicorn, since uvicorn has no setting for either: its timeouts begin after the
    first request, and its state belongs to the application. `tests/surfaces/http/test_guard.py` tells if that changes.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, CONNECTION: {}}
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE:
            self._expect_head()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read as HTTP in our shape, too."""
        body = json.dumps({"error": InvalidRequest.code, "message": "This is not a valid HTTP request."}).encode()
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        with suppress(h11.LocalProtocolError):  # It came in the middle of an answer.
            response = h11.Response(status_code=400, headers=head, reason=b"Bad Request")
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
