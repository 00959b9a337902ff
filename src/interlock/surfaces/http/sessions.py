"""A link becomes a cookie: the code in it is good for one visit, and the address that stays in the browser holds none.

GET  /open/{code}    303 to `/` with the cookie; a code that was used or is too old: 401
POST /api/sign-out   takes the cookie back
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from interlock.errors import Unauthorized
from interlock.surfaces.http.access import LINK, Access
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.documents import SignedOut
from interlock.surfaces.http.visitor import Reader

router = APIRouter()


@router.get(LINK + "{code}", include_in_schema=False)
def open_link(code: str, request: Request) -> Response:
    """Turn a code into a cookie."""
    access: Access = request.app.state.access
    secret = access.tokens.redeem(code)
    if secret is None:
        raise Unauthorized("This link was used, or is too old. `interlock open` makes a fresh one.")
    return Response(status_code=303, headers={"location": "/", "set-cookie": access.set_cookie(secret)})


@router.post("/api/sign-out", tags=["access"], responses={200: {"model": SignedOut}})
def sign_out(request: Request, visitor: Reader) -> Response:
    """Take the browser's cookie back."""
    access: Access = request.app.state.access
    secret = access.cookie(request.headers)
    if secret is not None:
        access.tokens.forget_cookie(secret)
    return answer({"signed_out": secret is not None}, headers={"set-cookie": access.drop_cookie()})
