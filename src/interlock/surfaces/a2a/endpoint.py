"""The addresses of A2A within `interlock up`, behind the same checks of Host, Origin, size and token as all others.

    GET  /a2a/{team}/.well-known/agent-card.json   the card of a team
    GET  /.well-known/agent-card.json              the same, where the caller sees one team only
    POST /a2a/{team}                               its methods, as JSON-RPC

What the token does not allow is refused as everywhere, before the SDK sees it. `serve` loads this with the setting on.
"""

from __future__ import annotations

import logging
from typing import Any, cast

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.errors import InvalidRequest
from interlock.surfaces.a2a import words
from interlock.surfaces.a2a.methods import TeamMethods
from interlock.surfaces.http.request_context import RequestContext
from interlock.surfaces.http.responses import answer
from interlock.surfaces.mcp.threads import in_thread

CARD = "/.well-known/agent-card.json"
READERS = ("viewer", "operator", "admin", "worker")
ROLES = {
    **dict.fromkeys(("SendMessage", "SendStreamingMessage", "message/send", "message/stream"), ("operator", "admin")),
    **dict.fromkeys(("CancelTask", "tasks/cancel"), ("operator", "admin", "worker")),
}
"""Who may call a method that changes something, as over HTTP; the others are everybody's."""


def routes() -> list[Route]:
    """The addresses above."""
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # It logs what clients send wrong, with tracebacks.
    dispatcher = JsonRpcDispatcher(cast(Any, TeamMethods()), cast(Any, ContextOfRequest()), enable_v0_3_compat=True)

    async def methods(request: Request) -> Response:
        context = _context(request)
        try:
            said = await request.json()  # Kept by the request; what is too large or too slow is refused here.
        except (ValueError, RecursionError):
            said = None  # The SDK says what is wrong with it.
        method = said.get("method") if isinstance(said, dict) else None
        context.principal.must(*ROLES.get(method, READERS) if isinstance(method, str) else READERS)
        request.state.a2a_context = context
        request.state.a2a_team = await in_thread(context.team, request.path_params["team"])
        found: Response = await dispatcher.handle_requests(request)
        return found

    return [
        Route(CARD, _card, methods=["GET"]),
        Route(f"/a2a/{{team}}{CARD}", _card, methods=["GET"]),
        Route("/a2a/{team}", methods, methods=["POST"]),
    ]


class ContextOfRequest:
    """Gives the methods the request that they answer."""

    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(state={"headers": dict(request.headers), "request": request})


async def _card(request: Request) -> Response:
    context = _context(request)
    name = request.path_params.get("team")
    if name is None:
        teams = await in_thread(context.teams)
        if len(teams) != 1:
            raise InvalidRequest(
                f"Say which team is meant, as /a2a/TEAM{CARD}; there are: {', '.join(teams) or 'none yet'}.",
                field="team", teams=teams,
            )  # fmt: skip
        [name] = teams
    team = await in_thread(context.team, name)
    url = f"{request.url.scheme}://{request.headers['host']}/a2a/{team.name}"
    return answer(agent_card_to_dict(words.card(team.name, url)))


def _context(request: Request) -> RequestContext:
    return RequestContext(request.app.state.home, request.state.principal)
