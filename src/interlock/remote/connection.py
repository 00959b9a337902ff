"""Requests to the server of a home, answers and errors. What was lost on the way is sent again, and done once.

A call that may change something carries a key of its own, so a server that has done it already gives the same answer
again. A call that takes long is asked for in slices: no proxy on the way has to keep a connection open for minutes.
"""

from __future__ import annotations

import base64
import http.client
import json
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from interlock.errors import (
    CommitUnknown,
    InterlockError,
    InvalidRequest,
    MessageRefused,
    NotFound,
    ServerUnreachable,
)  # fmt: skip
from interlock.model.json import Json, json_form
from interlock.version import __version__

PATIENCE = 15.0
"""Seconds for which a server that answered before is waited for."""
LOOK_AGAIN = 0.2
SLICE = 20
"""Seconds after which a server says that a call is still under way."""
TIMEOUT = 45.0
"""Seconds without a byte after which a call is sent again."""
KEY = "idempotency-key"
SERVER = "interlock-server"
WARNINGS = "interlock-warnings"
UNSETTLED = (401, 503)
"""What a server answers that may know nothing of the copy which another one behind this address got before."""
MADE_ALREADY = (404, 409)
"""What else it answers where the change was no team's, which no ledger knows by its key: what was to be made is there,
or what was to go is gone."""
GATEWAY = (502, 503, 504)
"""What a proxy answers whose server is away."""


class ServerConnection:
    """The server at one address, for one caller. Safe to share among threads, each of which has a socket of its own.

    Attributes:
        warnings: what answers said beside themselves, as `Home.warnings`.

    Raises:
        InvalidRequest: that is no address of a server.
    """

    def __init__(self, url: str, token: str | None) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https"):
            raise InvalidRequest(
                f"{url[:200]!r} is no address of a server, such as http://127.0.0.1:7413.", field="url"
            )
        self.url = url.rstrip("/")
        self._address = host, port
        self._secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._token = token
        self._local = threading.local()
        self._sockets: set[http.client.HTTPConnection] = set()
        self._server = ""
        """The run of the server that answered last."""
        self.warnings: dict[str, None] = {}

    def close(self) -> None:
        """Close every socket."""
        for one in list(self._sockets):
            one.close()
        self._sockets.clear()
        self._local = threading.local()

    def get(self, path: str) -> bytes:
        """The answer to a GET. Raises as `call`."""
        return self._exchange("GET", path, None, {})

    def call(self, path: str, body: Json, *, changes: bool) -> bytes:
        """The answer to a call.

        Args:
            changes: it may change something, and is done once, however often it has to be sent.

        Raises:
            InterlockError: what the server refuses with, as the same class and code.
            ServerUnreachable: nobody answers there, and nothing was changed.
            CommitUnknown: the answer was lost, and it cannot be found out whether it was done.
        """
        headers = {"content-type": "application/json"}
        if changes:
            if not self._server:
                self.get("/api/verbs")
            headers[KEY] = uuid4().hex
        data = json.dumps(body, default=_plain).encode()
        try:
            return self._exchange("POST", path, data, headers)
        except (NotFound, InvalidRequest) as error:
            if isinstance(error, InvalidRequest) or "verb" in error.details:
                self._compare_versions(error)
            raise

    def _compare_versions(self, error: InterlockError) -> None:
        """Say with a refusal which versions do not understand each other, where that may be its reason."""
        with suppress(InterlockError, ValueError, KeyError):
            there = json.loads(self.get("/api/verbs"))["version"]
            if there != __version__:
                error.message += f" {self.url} is Interlock {there} and this is {__version__}: use one version on both."
                error.args = (error.message,)
                error.details["server_version"] = there

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> bytes:
        failing, server = None, self._server
        while True:
            try:
                status, answer = self._once(method, path, data, headers)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if not isinstance(error, (ConnectionRefusedError, ssl.SSLError, socket.gaierror)) and KEY in headers:
                    # It may have arrived: only the run of the server that got it knows.
                    headers = {**headers, SERVER: server, "prefer": f"wait={SLICE}"}
                failing = failing or time.monotonic()
                # A server that never answered is not waited for: its address is wrong.
                if not self._server or time.monotonic() - failing > PATIENCE:
                    raise self._lost(error, SERVER in headers) from error
                time.sleep(LOOK_AGAIN)
                continue
            if status == 202:
                failing, headers = None, {**headers, "prefer": f"wait={SLICE}"}
            elif status < 300:
                return answer
            else:
                refusal = _error(status, answer, self.url)
                other = self._server != server and not path.startswith("/api/verbs/teams/")
                if SERVER in headers and (status in UNSETTLED or (other and status in MADE_ALREADY)):
                    raise CommitUnknown(
                        f"What {self.url} answered first was lost, and now it refuses ({refusal}); whether this was "
                        "done is not known. Look before you try again.",
                        url=self.url,
                    ) from refusal
                raise refusal

    def _once(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None and connection.sock and select.select([connection.sock], [], [], 0)[0]:
            self._drop()  # The server has closed it meanwhile.
            connection = None
        if connection is None:
            kind = _SecureSocket if self._secure else _Socket
            connection = self._local.connection = kind(*self._address, timeout=TIMEOUT)
            self._sockets.add(connection)
        if self._token:
            headers = {**headers, "authorization": f"Bearer {self._token}"}
        connection.request(method, f"{self._path}{path}", data, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status in GATEWAY and response.headers.get_content_type() != "application/json":
            raise http.client.HTTPException(f"the gateway answers {response.status}")
        self._server = response.headers.get(SERVER) or self._server
        self.warnings |= dict.fromkeys(map(unquote, response.headers.get(WARNINGS, "").split()))
        return response.status, answer

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            self._sockets.discard(connection)
            with suppress(OSError):
                connection.close()

    def _lost(self, error: Exception, sent: bool) -> InterlockError:
        if sent:
            return CommitUnknown(
                f"{self.url} does not answer any more ({error}); whether this was done is not known. Look before you "
                "try again.",
                url=self.url,
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return ServerUnreachable(
                f"The certificate of {self.url} is not trusted here ({error.verify_message}). Where it is that of a CA "
                "of your own, name the file of that CA: SSL_CERT_FILE.",
                url=self.url,
            )
        return ServerUnreachable(
            f"Nobody answers at {self.url} ({error}). Start `interlock up` there, or say where it is: INTERLOCK_URL, "
            "`interlock login URL`.",
            url=self.url,
        )


class _Socket(http.client.HTTPConnection):
    """A connection that sends a request as one piece: a server that gets its head first wakes up for it twice."""

    _held: list[bytes] | None = None

    def request(self, *given: Any, **more: Any) -> None:
        self._held = []
        try:
            super().request(*given, **more)
            whole = b"".join(self._held)
        finally:
            self._held = None
        super().send(whole)

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class _SecureSocket(_Socket, http.client.HTTPSConnection):
    """The same with TLS."""


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return list(value) if isinstance(value, (set, frozenset, tuple)) else json_form(value)


def _error(status: int, answer: bytes, url: str) -> InterlockError:
    """What the server says, as the class that has this code."""
    try:
        said = json.loads(answer)
        code, message = said.pop("error"), said.pop("message")
    except (ValueError, KeyError, AttributeError, TypeError):
        return ServerUnreachable(f"{url} answers {status}, not as Interlock does: is it the address?", url=url)
    kinds = [InterlockError]
    for one in kinds:  # grows
        kinds += one.__subclasses__()
    # A refused message has its reason as its code.
    other = MessageRefused if status in (403, 404, 409) else InterlockError
    kind = next((one for one in kinds if one.code == code), other)
    error = kind.__new__(kind)
    InterlockError.__init__(error, message, **said)
    error.code = code
    return error
