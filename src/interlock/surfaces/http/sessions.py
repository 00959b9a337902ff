"""A link becomes a cookie and a key: the code in it is good once, and the address that stays in the browser holds none.

GET  /open/{code}    a page that asks to come in; changes nothing, so that no preview and no picture uses the link up
POST /open/{code}    303 to `/` with the cookie; asked for as JSON, `{"key"}` with it, for the page's script to keep;
                     a code that was used or is too old: 401
POST /api/sign-out   takes the cookie back
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from interlock.errors import Unauthorized
from interlock.surfaces.http import doorstep
from interlock.surfaces.http.access import LINK, Access
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.documents import SignedOut
from interlock.surfaces.http.visitor import Reader

router = APIRouter()


@router.get(LINK + "{code}", include_in_schema=False)
def open_link(code: str, request: Request) -> Response:
    """Ask to come in."""
    access: Access = request.app.state.access
    if not access.tokens.is_code(code):
        raise _used()
    return doorstep.entrance()


@router.post(LINK + "{code}", include_in_schema=False)
def redeem(code: str, request: Request) -> Response:
    """Turn a code into a cookie, and a key for a script."""
    access: Access = request.app.state.access
    origin = access.origin(request.scope)
    if origin is not None:
        raise origin.refusal("open the page")
    scripted = "application/json" in request.headers.get("accept", "")
    found = access.tokens.redeem(code, scripted=scripted)
    if found is None:
        raise _used()
    secret, key = found
    headers = {"set-cookie": access.set_cookie(secret)}
    return answer({"key": key}, headers=headers) if scripted else Response(None, 303, {"location": "/", **headers})


def _used() -> Unauthorized:
    return Unauthorized("This link was used, or is too old. `interlock open` makes a fresh one.")


@router.post("/api/sign-out", tags=["access"], responses={200: {"model": SignedOut}})
def sign_out(request: Request, visitor: Reader) -> Response:
    """Take the browser's cookie back."""
    access: Access = request.app.state.access
    secret = access.cookie(request.headers)
    if secret is not None:
        access.tokens.forget_cookie(secret)
    return answer({"signed_out": secret is not None}, headers={"set-cookie": access.drop_cookie()})
