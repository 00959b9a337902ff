"""MCP over HTTP at /mcp: one server for all, each caller with its token, and members with their own tools.

A member's token says which team and member it is. A person names the team in the header `Interlock-Team`; an admin may
act as a member with `Interlock-Member`. The session is `Interlock-Session` where a runner gave one, else that of the
client's connection, else one for the token.

The SDK is loaded with the first call: it costs more than all the rest, and most servers never need it.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from interlock.app.home import Home
from interlock.errors import Forbidden, InterlockError, InvalidRequest
from interlock.surfaces.http.access import PAGE, Principal
from interlock.surfaces.http.closing import Closing
from interlock.surfaces.http.failures import note, refusal
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.handover import REMEMBERED, Handovers
from interlock.surfaces.mcp.threads import in_thread

if TYPE_CHECKING:
    from interlock.surfaces.mcp.exchange import Exchange, Sessions

PATH = "/mcp"
FACE = "mcp-http"
IDLE_SECONDS = 1800.0
"""After so long without a call a session ends."""
LONGEST_CANCELLATION = 65_536
"""Bytes of a request that may say that another one is cancelled."""


class _Client:
    """Whom one client acts as, and what its latest answers carried. One without a session on the wire has answers that
    nothing tells from those to another one with the same token: they are remembered for their own request only."""

    def __init__(self, connection: Connection, on_the_wire: bool) -> None:
        self.connection = connection
        self.recent: deque[Handovers] = deque(maxlen=REMEMBERED if on_the_wire else 0)
        self.used = 0.0


class Tools:
    """The ASGI application at `PATH`. `serve` lives as long as the server."""

    def __init__(self, home: Home, closing: Closing) -> None:
        self._home = home
        self._closing = closing
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._sessions: Sessions | None = None
        self._clients: dict[tuple[str, ...], _Client] = {}

    async def serve(self) -> None:
        """Load the SDK once somebody asks for it, and serve until cancelled."""
        await self._wanted.wait()
        self._sessions = await anyio.to_thread.run_sync(_load)
        async with self._sessions.run():
            self._ready.set()
            while True:
                await anyio.sleep(60.0)
                await self._sweep()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        principal: Principal = scope["state"]["principal"]
        try:
            client = await in_thread(self._connect, principal, Headers(scope=scope))
        except InterlockError as error:
            await note(error, scope)
            await refusal(error, scope)(scope, receive, send)
            return
        self._wanted.set()
        await self._ready.wait()
        assert self._sessions is not None
        exchange = self._sessions.begin(scope, client.connection, client.recent, principal.key)
        await self._carry_out(exchange, scope, receive, send)
        if scope["method"] == "DELETE":
            await self._forget(client)

    async def _carry_out(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK answer, and see whether the answer reached the line: mail in it counts as delivered only then."""
        assert self._sessions is not None
        put, take = anyio.create_memory_object_stream[Message](64)
        written = gone = False

        async def noticed(message: Message) -> None:
            nonlocal written
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                written = not gone

        async def hear() -> None:
            nonlocal gone
            body = b""
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    gone = True
                    exchange.end_polls()
                elif len(body) < LONGEST_CANCELLATION:
                    body += message.get("body", b"")
                    if b"notifications/cancelled" in body and not message.get("more_body", False):
                        await in_thread(exchange.cancelled, body)  # Before the SDK ends that call.
                await put.send(message)
                if gone:
                    return

        async def end_with(group: anyio.abc.TaskGroup) -> None:
            await self._closing.wait()
            exchange.end_polls()
            if scope["method"] == "GET":
                group.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(hear)
                group.start_soon(end_with, group)
                await self._sessions.handle(scope, take.receive, noticed)
                group.cancel_scope.cancel()
        finally:
            put.close()
            take.close()
            with anyio.CancelScope(shield=True):
                await in_thread(exchange.handovers.end_all, written)

    def _connect(self, principal: Principal, headers: Headers) -> _Client:
        """The client that calls; in a thread.

        Raises:
            InvalidRequest: a person does not say which of several teams is meant.
            Forbidden: a viewer, or somebody who would act as another.
            TeamNotFound, MemberNotFound: no such team or member.
        """
        if principal.face == PAGE:
            raise Forbidden("This needs a token: `interlock token create` makes one. A browser's cookie does not do.")
        principal.must("worker", "operator", "admin")
        team = headers.get("interlock-team") or principal.team or self._only_team()
        member = headers.get("interlock-member") or principal.name
        if principal.team not in (None, team) or (member != principal.name and principal.role != "admin"):
            raise Forbidden(f"This token acts as {principal.name} in {principal.team or team} only.")
        own = headers.get("interlock-session")
        wire = headers.get("mcp-session-id", "")
        session = own or f"mcp:{wire or principal.key}"
        key = (principal.key, team, member, session, wire)
        known = self._clients.get(key)
        if known is None:
            person = principal.team is None and member == principal.name
            made = Connection.share(
                self._home,
                team,
                member,
                session,
                given=own is not None,
                face=FACE,
                person=person,
                origin=principal.origin,
            )
            known = self._clients.setdefault(key, _Client(made, bool(wire)))
        known.used = time.monotonic()
        return known

    def _only_team(self) -> str:
        teams = self._home.teams()
        if len(teams) == 1:
            return teams[0]
        raise InvalidRequest(
            f"Say which team is meant, in the header Interlock-Team; there are: {', '.join(teams) or 'none yet'}.",
            field="Interlock-Team",
            teams=teams,
        )

    async def _sweep(self) -> None:
        """End sessions that have been idle for long."""
        before = time.monotonic() - IDLE_SECONDS
        for client in list(self._clients.values()):
            if client.used < before:
                await self._forget(client)

    async def _forget(self, client: _Client) -> None:
        for key, known in list(self._clients.items()):
            if known is client:
                del self._clients[key]
        try:
            await in_thread(client.connection.end)
        except InterlockError:
            pass  # The team is gone, or busy: a session that is not ended is no harm.


def _load() -> Sessions:
    from interlock.surfaces.mcp.exchange import Sessions

    return Sessions()
