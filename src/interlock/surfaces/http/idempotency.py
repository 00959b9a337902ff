"""A change that is sent again after its answer was lost is made once.

    Idempotency-Key: …      of the caller's choosing, one for each change it wants
    Prefer: wait=SECONDS    how long to wait for the answer to a request of that key that is under way; then 202
    Interlock-Server: …     in every answer: this run of this server; in a request: it was sent before, and the answer
                            of that run, or of another behind the same address, was lost

A change of a team is written to its ledger together with its key, in one transaction, so that no server makes it twice;
the answer follows once it is known. Sent again within the hour, to whichever server of that ledger, a request gets that
answer; where the server was killed before it was written down, `answer_lost` with the events that were written, or, for
a verb that answers with a task to which nothing has happened since, that task. What is no change of a team (teams made
or deleted, settings) and what was refused is known to the server that did it alone, in its memory. But where a request
says that it was sent before, an answer by which nothing was changed is kept in the ledger as well: what was sent first
may lie in another server that is suspended, and must not be done after it was refused here.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections import OrderedDict
from dataclasses import field

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.app.base import KEYED, KeyedRequest
from interlock.errors import AnswerLost, CommitUnknown, InterlockError, InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.surfaces.http.failures import refuse
from interlock.surfaces.http.responses import MEDIA_TYPE, answer
from interlock.surfaces.http.security_middleware import SAFE_METHODS

KEY = re.compile(r"[!-~]{1,200}")
MOST_KEPT = 10_000
MOST_BYTES = 64 * 1_048_576
NOTHING_CHANGED = (408, 429, 503)
"""Statuses of answers that are not kept: the same request may succeed later."""
WAIT = 20.0
SERVER = "interlock-server"
STREAMS = ("/mcp", "/a2a/")
"""How addresses begin whose answers may never end; the protocol there numbers its own requests."""
UNKNOWN = "The server failed when this was sent first; whether it was done is not known. Look before you try again."


@dataclass(slots=True)
class KeptAnswer:
    """One request with a key, and the messages of its answer once it was answered."""

    digest: bytes
    messages: list[Message] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def size(self) -> int:
        return sum(len(message.get("body", b"")) for message in self.messages)


class IdempotencyMiddleware:
    """ASGI middleware inside of AuthMiddleware: keys are one caller's own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._server = os.urandom(8).hex()
        self._kept: OrderedDict[tuple[str, str], KeptAnswer] = OrderedDict()
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = scope.get("state", {}).get("principal")
        if principal is None or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        key = headers.get("idempotency-key")

        async def send_signed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(raw=message["headers"])[SERVER] = self._server
            await send(message)

        if key is None or scope["method"] in SAFE_METHODS or scope["path"].startswith(STREAMS):
            await self._app(scope, receive, send_signed)
        elif not KEY.fullmatch(key):
            fault = InvalidRequest("Idempotency-Key must be 1 to 200 printable ASCII characters.", field="key")
            await refuse(fault, scope, receive, send_signed)
        else:
            own = f"{principal.key}/{principal.name}"
            await self._once((own, key), headers, scope, receive, send_signed)

    async def _once(self, key: tuple[str, str], headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        body: list[Message] = []
        while not body or body[-1].get("more_body", False):
            try:
                body.append(await receive())
            except InterlockError as error:  # what SecurityMiddleware says of a body while it is read
                await refuse(error, scope, receive, send)
                return
            if body[-1]["type"] == "http.disconnect":
                return
        digest = hashlib.sha256(f"{scope['method']} {scope['path']}?{scope['query_string']!r}".encode())
        for message in body:
            digest.update(message.get("body", b""))
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = KeptAnswer(digest.digest())
            await self._first(key, kept, body, scope, receive, send)
        elif kept.digest != digest.digest():
            fault = InvalidRequest("That Idempotency-Key belongs to another request. Make one for each.", field="key")
            await refuse(fault, scope, receive, send)
        else:
            await _again(kept, headers, scope, receive, send)

    async def _first(
        self, key: tuple[str, str], kept: KeptAnswer, body: list[Message], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let the request through; who asks again while it is under way waits for the same answer."""
        unread = iter(body)
        request = KeyedRequest(hashlib.sha256(" ".join(key).encode()).hexdigest(), kept.digest.hex())
        sent_before = SERVER in Headers(scope=scope)

        async def receive_again() -> Message:
            return next(unread, None) or await receive()

        async def keep(message: Message) -> None:
            kept.messages.append(message)

        before = KEYED.set(request)
        try:
            await self._app(scope, receive_again, keep)
            if request.made is not None and request.made.answer is not None:
                kept.messages.clear()
                replay = Response(request.made.answer, request.made.status or 200, media_type=MEDIA_TYPE)
                await replay(scope, receive, keep)
            elif sent_before and (said := _document(kept.messages)) is not None:
                try:
                    await run_in_threadpool(request.settle, kept.messages[0]["status"], said)
                except InterlockError as error:
                    kept.messages.clear()
                    fault = error if isinstance(error, AnswerLost) else CommitUnknown(UNKNOWN)
                    await refuse(fault, scope, receive, keep)
        finally:
            KEYED.reset(before)
            if not kept.messages or kept.messages[0]["status"] in NOTHING_CHANGED:
                del self._kept[key]
            else:
                self._bytes += kept.size
                while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES:
                    oldest = next((one for one, found in self._kept.items() if found.answered.is_set()), None)
                    if oldest is None:
                        break
                    self._bytes -= self._kept.pop(oldest).size
            kept.answered.set()
        said = _document(kept.messages) if key in self._kept else None
        if said is not None:
            await run_in_threadpool(request.answered, kept.messages[0]["status"], said)
        for message in kept.messages:
            await send(message)


def _document(messages: list[Message]) -> str | None:
    """The JSON of an answer; None where it is something else."""
    if not messages or Headers(raw=messages[0]["headers"]).get("content-type") != MEDIA_TYPE:
        return None
    return b"".join(message.get("body", b"") for message in messages).decode()


async def _again(kept: KeptAnswer, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
    """Give the answer that was given before; 202 where there is none yet."""
    wished = re.search(r"\bwait=(\d{1,3})\b", headers.get("prefer", ""))
    try:
        await asyncio.wait_for(kept.answered.wait(), min(float(wished[1]), WAIT) if wished else WAIT)
    except TimeoutError:
        await answer({"status": "under_way"}, 202, {"retry-after": "0"})(scope, receive, send)
        return
    if not kept.messages:  # it failed in a way that nobody foresaw
        await refuse(CommitUnknown(UNKNOWN), scope, receive, send)
    for message in kept.messages:
        await send(message)
