"""Whether the server lives, and whether it can do its work. The only addresses that need no token."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from interlock.errors import InterlockError
from interlock.surfaces.http import documents
from interlock.surfaces.http.answers import answer

router = APIRouter(tags=["health"])


@router.get("/healthz", responses={200: {"model": documents.Health}})
async def healthz() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/readyz", responses={200: {"model": documents.Health}, 503: {"model": documents.Health}})
def readyz(request: Request) -> Response:
    """The home can be read, and the server is not about to end."""
    if request.app.state.closing.begun:
        return answer({"status": "ending"}, 503)
    try:
        request.app.state.home.teams()
    except InterlockError:
        # What is wrong with it is nobody's business who comes without a token.
        return answer({"status": "home_unreadable"}, 503)
    return answer({"status": "ready"})
