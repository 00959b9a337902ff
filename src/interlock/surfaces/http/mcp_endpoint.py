"""MCP over streamable HTTP at /mcp: one server for all, each caller with its token, and members with their own tools.

A member's token says which team and member it is. A person names the team in the header `Interlock-Team`; an admin may
act as a member with `Interlock-Member`. The session is `Interlock-Session` where a runner gave one, else that of the
client's connection, else one for the token. The SDK speaks the protocol, in both its revisions: the older, in which a
client has a session, and the one without.

`application` loads this module with the first call: the SDK costs more than all the rest, and most servers never need
it.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.abc
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from interlock.app.home import Home
from interlock.errors import Forbidden, InterlockError, InvalidRequest
from interlock.surfaces.http.auth import PAGE, HttpPrincipal
from interlock.surfaces.http.failures import refuse
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.delivery_receipt import REMEMBERED, DeliveryReceipts
from interlock.surfaces.mcp.server import INSTRUCTIONS, Context, ToolServer, protocol_server
from interlock.surfaces.mcp.threads import in_thread

FACE = "mcp-http"
IDLE_SECONDS = 1800.0
"""After so long without a call a session ends."""
SWEEP_SECONDS = 60.0
MOST_SESSIONS = 1000
LONGEST_CANCELLATION = 65_536
"""Bytes of a request that may say that another one is cancelled."""
ABOUT = "You take part in a team that shares one list of tasks and mail; team_status says who you are. "


class McpClient:
    """Whom one client acts as, and the receipts of its latest answers, which a cancellation may be about.

    Nothing tells the answers of a client without a session on the wire from those of another one with the same token:
    they are remembered for their own request only.
    """

    def __init__(self, connection: Connection, on_the_wire: bool) -> None:
        self.connection = connection
        self.recent: deque[DeliveryReceipts] = deque(maxlen=REMEMBERED if on_the_wire else 0)
        self.used = 0.0

    def cancelled(self, body: bytes) -> None:
        """Give back the mail of the request that `body` says is cancelled. May block."""
        try:
            said = json.loads(body)
            request = said["params"]["requestId"] if said["method"] == "notifications/cancelled" else None
        except (ValueError, TypeError, LookupError, RecursionError):
            return  # The SDK says what is wrong with it.
        if isinstance(request, (str, int)):
            for receipts in list(self.recent):
                receipts.cancel(request)


class McpEndpoint:
    """The ASGI application at /mcp, within `run`."""

    def __init__(self, home: Home, shutdown: anyio.Event) -> None:
        self._home = home
        self._shutdown = shutdown
        self._clients: dict[tuple[str, ...], McpClient] = {}
        self._manager = StreamableHTTPSessionManager(
            protocol_server(_tools, ABOUT + INSTRUCTIONS), session_idle_timeout=IDLE_SECONDS, max_sessions=MOST_SESSIONS
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve within this block; sessions live as long as it."""
        async with self._manager.run(), anyio.create_task_group() as group:
            group.start_soon(self._sweep)
            yield
            group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: HttpPrincipal = scope["state"]["principal"]
        headers = Headers(scope=scope)
        try:
            client = await in_thread(self._connect, principal, headers)
        except InterlockError as error:
            await refuse(error, scope, receive, send)
            return
        # A session of the SDK can be used by its own caller only.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=principal.key, scopes=[]))
        receipts = DeliveryReceipts()
        client.recent.append(receipts)
        readmit = partial(scope["app"].state.authenticator.principal, headers)
        scope["state"]["tools"] = tools = ToolServer(client.connection, receipts, readmit)
        written = False
        try:
            written = await self._exchange(client, tools, scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await in_thread(receipts.end_all, written)
        if scope["method"] == "DELETE":
            await self._forget(client)

    async def _exchange(self, client: McpClient, tools: ToolServer, scope: Scope, receive: Receive, send: Send) -> bool:
        """Let the SDK answer; return whether the answer was written: mail in it counts as delivered only then."""
        put, take = anyio.create_memory_object_stream[Message](64)
        written = gone = False

        async def send_noticed(message: Message) -> None:
            nonlocal written
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                written = not gone

        async def listen() -> None:
            nonlocal gone
            body = b""
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    gone = True
                    tools.end_polls()
                elif len(body) < LONGEST_CANCELLATION:
                    body += message.get("body", b"")
                    if b"notifications/cancelled" in body and not message.get("more_body", False):
                        await in_thread(client.cancelled, body)  # Before the SDK ends that call.
                await put.send(message)
                if gone:
                    return

        async def end_with_server(group: anyio.abc.TaskGroup) -> None:
            await self._shutdown.wait()
            tools.end_polls()
            if scope["method"] == "GET":
                group.cancel_scope.cancel()

        with put, take:
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                group.start_soon(end_with_server, group)
                await self._manager.handle_request(scope, take.receive, send_noticed)
                group.cancel_scope.cancel()
        return written

    def _connect(self, principal: HttpPrincipal, headers: Headers) -> McpClient:
        """Return the client that calls. Blocks.

        Raises:
            InvalidRequest: a person does not say which of several teams is meant.
            Forbidden: a viewer, or a caller that would act as another.
            TeamNotFound, MemberNotFound: no such team or member.
        """
        if principal.face == PAGE:
            raise Forbidden("This needs a token: `interlock token create` makes one. A browser's cookie does not do.")
        principal.must("worker", "operator", "admin")
        team = headers.get("interlock-team") or principal.team
        if team is None:
            teams = self._home.teams()
            if len(teams) != 1:
                there = ", ".join(teams) or "none yet"
                raise InvalidRequest(
                    f"Say which team is meant, in the header Interlock-Team; there are: {there}.",
                    field="Interlock-Team",
                    teams=teams,
                )
            [team] = teams
        member = headers.get("interlock-member") or principal.name
        if principal.team not in (None, team) or (member != principal.name and principal.role != "admin"):
            raise Forbidden(f"This token acts as {principal.name} in {principal.team or team} only.")
        own = headers.get("interlock-session")
        wire = headers.get("mcp-session-id", "")
        session = own or f"mcp:{wire or principal.key}"
        key = (principal.key, team, member, session, wire)
        known = self._clients.get(key)
        if known is None:
            connection = Connection(
                self._home, team, member, session, given=own is not None, face=FACE,
                person=principal.role != "worker" and member == principal.name, origin=principal.origin,
            )  # fmt: skip
            connection.role = principal.role
            connection.adopt(self._home.team(team))
            known = self._clients.setdefault(key, McpClient(connection, bool(wire)))
        known.used = time.monotonic()
        return known

    async def _sweep(self) -> None:
        """End sessions that have been idle for long."""
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            before = time.monotonic() - IDLE_SECONDS
            for client in list(self._clients.values()):
                if client.used < before:
                    await self._forget(client)

    async def _forget(self, client: McpClient) -> None:
        for key, known in list(self._clients.items()):
            if known is client:
                del self._clients[key]
        try:
            await in_thread(client.connection.end)
        except InterlockError:
            pass  # The team is gone, or busy: a session that is not ended does no harm.


def _tools(context: Context) -> ToolServer:
    assert context.request is not None
    found: ToolServer = context.request.scope["state"]["tools"]
    return found
