"""The same tools over streamable HTTP: the SDK speaks the protocol, and each request brings its own connection.

Both revisions of the transport are served: the older, in which a client has a session, and the one without.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
from starlette.types import Receive, Scope, Send

from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.handover import Handovers
from interlock.surfaces.mcp.server import Context, Face
from interlock.version import __version__

IDLE_SECONDS = 1800.0
MOST_SESSIONS = 1000
INSTRUCTIONS = (
    "You take part in a team that shares one list of tasks and mail; team_status says who you are. Work in a loop: "
    "task_claim, do the work, task_complete. A second block after a result is news: read_inbox then. With nothing to "
    "do, poll_inbox. Errors say in `message` what to do next."
)


class Exchange:
    """One HTTP request: whose it is, and the mail that its answer carries. `recent`: what earlier answers to the same
    client carried, which a cancellation may be about."""

    def __init__(self, connection: Connection, recent: deque[Handovers]) -> None:
        self.handovers = Handovers()
        self.face = Face(connection, self.handovers)
        self._recent = recent
        recent.append(self.handovers)

    def cancelled(self, body: bytes) -> None:
        """Where this request says that the client cancelled another, the mail of that one goes back. May block."""
        try:
            said = json.loads(body)
            request = said["params"]["requestId"] if said["method"] == "notifications/cancelled" else None
        except (ValueError, TypeError, LookupError, RecursionError):
            return  # The SDK says what is wrong with it.
        if isinstance(request, (str, int)):
            for handovers in list(self._recent):
                handovers.cancel(request)

    def end_polls(self) -> None:
        """Nobody waits for the answer any more, or the server ends."""
        self.face.end_polls()


class Sessions:
    """The SDK's server and its sessions. Use it once."""

    def __init__(self) -> None:
        self._server: Server[Any] = Server(
            "interlock",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,
        )
        self._manager = StreamableHTTPSessionManager(
            self._server, session_idle_timeout=IDLE_SECONDS, max_sessions=MOST_SESSIONS
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Sessions live as long as this block."""
        return self._manager.run()

    def begin(self, scope: Scope, connection: Connection, recent: deque[Handovers], key: str) -> Exchange:
        """A request of the caller that `key` stands for; a session of the SDK can be used by its own caller only."""
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=key, scopes=[]))
        exchange = Exchange(connection, recent)
        scope["state"]["exchange"] = exchange
        return exchange

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request that `begin` has prepared."""
        await self._manager.handle_request(scope, receive, send)


def _exchange(context: Context) -> Exchange:
    assert context.request is not None
    found: Exchange = context.request.scope["state"]["exchange"]
    return found


async def _list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    return await _exchange(context).face.list_tools(context, params)


async def _call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
    return await _exchange(context).face.call_tool(context, params)
