"""A link becomes a cookie and a key: the code in it is good once, and the address that stays in the browser holds none.

GET  /open/{code}    a page that asks to sign in; changes nothing, so that no preview and no picture uses the link up
POST /open/{code}    303 to `/` with the cookie; asked for as JSON, `{"key"}` with it, for the page's script to keep;
                     a code that was used or is too old: 401
POST /api/sign-out   takes the cookie back
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from interlock.errors import Unauthorized
from interlock.surfaces.http import failures, responses
from interlock.surfaces.http.auth import LINK, Authenticator
from interlock.surfaces.http.request_context import Reader
from interlock.surfaces.http.responses import answer, documented

USED = "This link was used, or is too old. `interlock open` makes a fresh one."

router = APIRouter()


@router.get(LINK + "{code}", include_in_schema=False)
def open_link(code: str, request: Request) -> Response:
    authenticator: Authenticator = request.app.state.authenticator
    if not authenticator.tokens.is_code(code):
        raise Unauthorized(USED)
    return failures.sign_in_page()


@router.post(LINK + "{code}", include_in_schema=False)
def redeem(code: str, request: Request) -> Response:
    authenticator: Authenticator = request.app.state.authenticator
    origin = authenticator.origin(request.scope)
    if origin is not None:
        raise origin.refusal("open the page")
    scripted = "application/json" in request.headers.get("accept", "")
    found = authenticator.tokens.redeem(code, scripted=scripted)
    if found is None:
        raise Unauthorized(USED)
    secret, key = found
    headers = {"set-cookie": authenticator.set_cookie(request.scope, secret)}
    return answer({"key": key}, headers=headers) if scripted else Response(None, 303, {"location": "/", **headers})


@router.post("/api/sign-out", tags=["access"], responses=documented(responses.SignedOut))
def sign_out(request: Request, context: Reader) -> Response:
    """Take the browser's cookie back."""
    authenticator: Authenticator = request.app.state.authenticator
    secret = authenticator.cookie(request.headers)
    if secret is not None:
        authenticator.tokens.forget_cookie(secret)
    return answer(
        {"signed_out": secret is not None}, headers={"set-cookie": authenticator.set_cookie(request.scope, seconds=0)}
    )
