"""Every failure as the contract shows it: `{"error": code, "message": sentence, …details}` and its status.

A browser that is not signed in gets no file of ours, so the page it is shown, and the one that signs it in, carry
their own style and script, and a policy that knows those by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock import errors
from interlock.errors import InterlockError
from interlock.surfaces.http.responses import answer

STATUSES: tuple[tuple[type[InterlockError], int], ...] = (
    (errors.MessageTooLarge, 413),
    (errors.RequestTooLarge, 413),
    (errors.RequestTooSlow, 408),
    (errors.MethodNotAllowed, 405),
    (errors.WorktreeRefused, 409),  # the repository does not allow it as it is
    (errors.InvalidRequest, 400),
    (errors.Unauthorized, 401),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.LimitReached, 429),
    (errors.LedgerBusy, 503),
    (errors.LedgerUnusable, 503),
    (errors.StorageError, 503),
    (errors.CommitUnknown, 500),  # not 503, which invites to try again unseen
    (errors.AgentError, 502),
    (errors.NotAvailable, 501),
)
"""The first that fits counts. What is not listed is a defect of ours: 500."""

MESSAGE_REFUSED: Mapping[str, int] = {"unauthorized_agent": 403, "task_not_found": 404}
"""Statuses of refused AOF/1 messages, whose code is the reason; the others are conflicts."""

AGAIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Interlock</title>
<meta http-equiv="refresh" content="0"><p>One moment …</p></html>"""

CONNECTION = "connection"
"""Where the state of a request holds what is known of its connection."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOT_PAGES = ("/api", "/a2a/", "/mcp", "/metrics", "/openapi", "/healthz", "/readyz")

FILES = Path(__file__).parent / "pages"
STYLE, SCRIPT = (FILES / "page.css").read_text(), (FILES / "sign_in.js").read_text()
"""The script keeps the key of this browser where only pages of this origin, port included, find it."""
TEMPLATE = Environment(loader=FileSystemLoader(FILES), autoescape=True).get_template("page.html")
TITLES = {401: "Sign in with a link", 404: "Nothing here"}

log = logging.getLogger("interlock.http")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _policy(forms: str, more: str = "") -> str:
    return (
        f"default-src 'none'; style-src {_hash(STYLE)}; img-src data:; form-action '{forms}'; base-uri 'none'; "
        f"frame-ancestors 'none'{more}"
    )


POLICY = _policy("none")
SIGN_IN_POLICY = _policy("self", f"; connect-src 'self'; script-src {_hash(SCRIPT)}")


def sign_in_page() -> HTMLResponse:
    """Return the page that a link leads to; its button, or its script, signs the browser in."""
    html = TEMPLATE.render(title="Sign in", style=STYLE, script=SCRIPT)
    return HTMLResponse(html, headers={"content-security-policy": SIGN_IN_POLICY})


def page(status: int, message: str, headers: dict[str, str], *, link: bool = False) -> HTMLResponse:
    """Return the page that says why something was not done, and what to do.

    Args:
        message: may hold `code`.
        link: the browser followed a link that is not valid any more.
    """
    said = Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(message))))
    title = TITLES.get(status, "That did not work")
    html = TEMPLATE.render(title=title, style=STYLE, status=status, message=said, link=link)
    return HTMLResponse(html, status, {**headers, "content-security-policy": POLICY})


def status_of(error: InterlockError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, errors.MessageRefused):
        return MESSAGE_REFUSED.get(error.code, 409)
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def wants_page(scope: Scope) -> bool:
    """Whether whoever asks is a browser that shows a page."""
    accepts_html = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
    return accepts_html and not scope["path"].startswith(NOT_PAGES)


def refusal(error: InterlockError, scope: Scope) -> Response:
    """Return an error as an answer: JSON, or a plain page for a browser that asked for one."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="interlock"'
    if status == 408:
        headers["connection"] = "close"  # What is still to come would be taken for the next request.
    if status == 503:
        headers["retry-after"] = "1"
    if status == 405:
        headers["allow"] = ", ".join(error.details.get("allowed", ()))
    if not wants_page(scope):
        return answer(error.as_dict(), status, headers)
    if status == 401 and scope["method"] == "GET" and (b"sec-fetch-site", b"cross-site") in scope["headers"]:
        # A browser keeps our cookie to itself when another site, or a file, led here. From here it is sent.
        return HTMLResponse(AGAIN, status)
    return page(status, error.message, headers, link=scope["path"].startswith("/open/"))


async def refuse(error: InterlockError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with an error, and let people see what a process of a run was refused."""
    await note(error, scope)
    await refusal(error, scope)(scope, receive, send)


async def note(error: InterlockError, scope: Scope) -> None:
    """Let people see what a process of a run was refused."""
    origin = scope.get("state", {}).get(CONNECTION, {}).get("origin")
    if origin is not None and isinstance(error, errors.Forbidden):
        await run_in_threadpool(scope["app"].state.home.note_refusal, origin, error, "http")


def install(app: FastAPI) -> None:
    """Let `app` answer every failure in our shape."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, InterlockError)
        await note(error, request.scope)
        if status_of(error) == 500:
            log.error("%s %s: %s", request.method, quote(request.url.path), error.message)
        return refusal(error, request.scope)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refusal(_invalid(error), request.scope)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refusal(_http(error, request), request.scope)

    app.add_exception_handler(InterlockError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


class UnexpectedErrorMiddleware:
    """ASGI middleware, the innermost: what nothing foresaw is logged, and answered like everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_noticed(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_noticed)
        except ClientDisconnect:
            return  # It went before it had said all: nobody is there to be answered.
        except Exception as error:  # boundary: the caller learns nothing of our inside, the log everything
            known = error if isinstance(error, InterlockError) else None
            if known is None:
                log.exception("%s %s failed", scope.get("method"), quote(scope["path"]))
            if begun:
                raise
            told = "Interlock failed inside; its log says where. `interlock doctor` looks for damage."
            await refusal(known or errors.InternalError(told), scope)(scope, receive, send)


def _invalid(error: RequestValidationError) -> InterlockError:
    found = error.errors()
    if any(fault["type"] == "json_invalid" for fault in found):
        return errors.InvalidRequest("The body is not JSON. Send one JSON document, in UTF-8.")
    if any(fault["type"] == "model_attributes_type" and tuple(fault["loc"]) == ("body",) for fault in found):
        if isinstance(error.body, bytes):  # As it came: nothing said that it is JSON.
            told = "The body is taken for JSON only with the header `Content-Type: application/json`: send that, too."
        else:
            told = "The body must be one JSON object. /openapi.json shows what it holds."
        return errors.InvalidRequest(told, field="body")
    # `("body", "blocked_by", 0)` is `blocked_by.0`.
    faults = [
        {"path": ".".join(map(str, fault["loc"][1:] or fault["loc"])), "message": str(fault["msg"])} for fault in found
    ]
    first = faults[0] if faults else {"path": "", "message": "it cannot be read"}
    where = f"{first['path']}: " if first["path"] else ""
    return errors.InvalidRequest(
        f"The request is not valid: {where}{first['message']}. /openapi.json shows what is.",
        field=first["path"],
        errors=faults[:20],
    )


def _http(error: HTTPException, request: Request) -> InterlockError:
    if isinstance(error.__cause__, InterlockError):
        return error.__cause__  # What SecurityMiddleware said of a body while it was read.
    if error.status_code == 405:
        # Starlette names the methods of the first route of that address only.
        asked = [{**request.scope, "method": method} for method in METHODS]
        routes = request.app.routes
        allowed = [one["method"] for one in asked if any(route.matches(one)[0] is Match.FULL for route in routes)]
        return errors.MethodNotAllowed(
            f"{request.method} is not possible here, only {', '.join(allowed)}.", allowed=allowed
        )
    if error.status_code == 404:
        more = "" if wants_page(request.scope) else " /openapi.json lists all addresses."
        return errors.NotFound(f"There is nothing at {request.url.path[:200]}.{more}")
    if error.status_code == 413:
        return errors.RequestTooLarge("The request is too large.")
    cause = error.__cause__
    if isinstance(cause, UnicodeDecodeError):
        return errors.InvalidRequest(f"The body is not UTF-8: {cause.reason} at byte {cause.start}. Send it in UTF-8.")
    if isinstance(cause, RecursionError):
        return errors.InvalidRequest("The body is JSON that is nested too deep. Send it with fewer levels.")
    if isinstance(cause, ValueError):
        return errors.InvalidRequest(f"The body cannot be read as JSON: {cause}.")
    return errors.InvalidRequest(str(error.detail) or "The request cannot be read.")
