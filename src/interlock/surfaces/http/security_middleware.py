"""Before anybody is asked who they are: Host, Origin, sizes and times. On the way out: the security headers.

* **Host** must be a name of this server. A page elsewhere can lead its own name here (DNS rebinding), and its scripts
  would then count as ours; with our own names only, they do not.
* **Origin**, where a browser sends one with a request that changes something, must be the address it came in by, and
  `Sec-Fetch-Site` must not say that another site sent it. Programs send neither.
* **Proxies**: what the setting `http_proxies` names may say by which scheme and host it was called, and nobody else.
  `X-Forwarded-For` is never read: a process of a run could say so as well, to hide that it is one.
* **Size**: a body is read to at most `limit` bytes, announced or not. **Time**: all of it must come within `seconds`.

Starlette's TrustedHostMiddleware would do for the names alone: it knows no bare addresses, and answers in plain text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.errors import Forbidden, InterlockError, InvalidRequest, RequestTooLarge, RequestTooSlow
from interlock.surfaces.http.failures import refuse

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
BODY_BYTES = 4 * 1_048_576
BODY_SECONDS = 60.0
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

SECURITY_HEADERS: dict[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; manifest-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers then send the Origin `null` with forms, which tells us nothing.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class SecurityMiddleware:
    """ASGI middleware, the outermost.

    Args:
        hosts: further names, without port, that this server may be called by.
        any_address: also accept any IP address, which no foreign name can be made to look like.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], any_address: bool, limit: int, seconds: float,
        proxies: Collection[Network] = (),
    ) -> None:  # fmt: skip
        self._app = app
        self._proxies = proxies
        self._any_address = any_address
        self._hosts = frozenset(name.lower() for name in (*LOOPBACK, *hosts))
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        _forwarded(scope, self._proxies)

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.get("headers", []))
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                message = {**message, "headers": headers.raw}
            await send(message)

        error = self._fault(scope)
        if error is not None:
            await refuse(error, scope, receive, send_secured)
            return
        body = _BoundedBody(receive, self._limit, self._seconds)
        await self._app(scope, body.receive, send_secured)

    def _fault(self, scope: Scope) -> InterlockError | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        name = without_port(hosts[0]) if len(hosts) == 1 else ""
        if name not in self._hosts and not (self._any_address and _is_address(name)):
            return Forbidden(
                f"This server is not called {name[:100]!r}. Use 127.0.0.1 or localhost, or add the name to the setting "
                "http_hosts."
            )
        if scope["method"] not in SAFE_METHODS:
            origin = headers.get("origin")
            own = f"{scope['scheme']}://{hosts[0]}"
            if origin is not None and origin.lower() != own.lower():
                return Forbidden(f"Requests from {origin[:200]} are not accepted, only from {own}.")
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                return Forbidden(f"Requests from other sites are not accepted, only from {own}.")
        length = headers.get("content-length")
        if length is not None and length.isdecimal() and int(length) > self._limit:
            return _too_large(self._limit)
        return None


class _BoundedBody:
    """Counts what comes in, and how long it takes."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._until = anyio.current_time() + seconds
        self._count = 0
        self._whole = False

    async def receive(self) -> Message:
        """Return the next piece.

        Raises:
            RequestTooLarge, RequestTooSlow: too much, or not all of it in time.
        """
        if self._whole:
            return await self._receive()
        with anyio.CancelScope(deadline=self._until) as time:
            message = await self._receive()
        if time.cancelled_caught:
            raise RequestTooSlow(f"The body did not come within {self._seconds:g} seconds. Send it again, all at once.")
        self._count += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._count > self._limit:
            raise _too_large(self._limit)
        return message


def networks(text: str) -> list[Network]:
    """The addresses and networks that a setting lists. Raises InvalidRequest."""
    try:
        return [ipaddress.ip_network(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise InvalidRequest(f"The setting http_proxies: {error}.", field="http_proxies") from None


def _forwarded(scope: Scope, proxies: Collection[Network]) -> None:
    """Take the scheme and host by which a proxy of ours was called for those of this request."""
    client = scope.get("client")
    if not proxies or client is None or not any(ipaddress.ip_address(client[0]) in one for one in proxies):
        return
    headers = MutableHeaders(scope=scope)
    # The last of several is what the nearest proxy says.
    scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    host = headers.get("x-forwarded-host", "").rpartition(",")[2].strip()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme
    if host and len(headers.getlist("host")) == 1:
        headers["host"] = host


def _too_large(limit: int) -> InterlockError:
    return RequestTooLarge(
        f"A request may hold {limit} bytes. Send less at once, or raise the setting http_body_bytes.",
        limit=limit,
        setting="http_body_bytes",
    )


def without_port(host: str) -> str:
    """Return the name in a Host header."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
