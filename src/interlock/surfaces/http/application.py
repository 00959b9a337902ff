"""All of HTTP as one ASGI application.

SecurityMiddleware ── Host, Origin, sizes; security headers
  AuthMiddleware ── who is it
    IdempotencyMiddleware ── a change that is sent again is made once
      RequestMeter ── counts and times
        UnexpectedErrorMiddleware ── what nothing foresaw
          routers ── one file per resource
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module

import anyio
import anyio.to_thread
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.app.home import Home
from interlock.model.json import Json
from interlock.surfaces.http import (
    events,
    failures,
    front_door,
    mail,
    monitoring,
    remote_verbs,
    sign_in,
    team_tasks,
    teams,
    workflows,
)
from interlock.surfaces.http.auth import OPEN, Authenticator, AuthMiddleware
from interlock.surfaces.http.events import Feed
from interlock.surfaces.http.failures import UnexpectedErrorMiddleware
from interlock.surfaces.http.idempotency import IdempotencyMiddleware
from interlock.surfaces.http.monitoring import RequestMeter, ServerMetrics
from interlock.surfaces.http.requests import EXAMPLES
from interlock.surfaces.http.responses import Failure
from interlock.surfaces.http.security_middleware import BODY_BYTES, BODY_SECONDS, SecurityMiddleware, networks
from interlock.version import __version__

ABOUT = (
    "Teams of coding agents: their tasks, mail, questions and history. Every failure is "
    '`{"error": code, "message": sentence, …details}`; codes stay the same between versions. Beside what is listed '
    "here there are `GET /api/events`, server-sent events that never end, and `/mcp`."
)
FAILURES: dict[str, str] = {
    "400": "The request makes no sense.",
    "401": "No valid token or cookie.",
    "403": "The caller may not do that.",
    "404": "Something named in the request does not exist.",
    "409": "The present state does not allow it.",
    "413": "Too large.",
    "429": "A limit; `setting` names the setting that raises it.",
    "501": "Announced, but not in this version.",
    "502": "An agent program could not be started or spoken to.",
    "503": "Try again: nothing was changed.",
}
TAGS: dict[str, str] = {
    "health": "Whether the server lives, is ready, and how it does.",
    "access": "The session of a browser.",
    "projects and chat": "Projects, and what is asked for in words.",
    "teams": "Teams, and what was done in them.",
    "members": "Who is in a team, and leaving it.",
    "tasks": "Tasks, their runs, and their states.",
    "protocol": "AOF/1: what agents say about their work.",
    "questions": "What waits for a person.",
    "messages": "Mail between members.",
    "events": "The history of a team.",
    "workflows": "Runs of workflows, and their queue.",
}

ROUTERS: tuple[APIRouter, ...] = (
    monitoring.router, sign_in.router, front_door.router, teams.router, teams.one, team_tasks.router, mail.router,
    events.router, workflows.router,
)  # fmt: skip


def create(
    home: Home,
    *,
    hosts: Collection[str] = (),
    any_address: bool = False,
    proxies: str = "",
    body_bytes: int = BODY_BYTES,
    body_seconds: float = BODY_SECONDS,
    pages: Collection[APIRouter] = (),
) -> FastAPI:
    """Return the application over one home.

    Args:
        hosts: names, beside those of loopback, that the server may be called by.
        any_address: whether it may also be called by any bare IP address, as one on a network is.
        proxies: addresses and networks of proxies before it, with spaces between.
        body_bytes: most bytes of a request's body; body_seconds: the time that all of it may take.
        pages: routers of the web page; they get the same principals.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(app.state.feed.run)
            group.start_soon(mcp.serve)
            yield
            close(app)
            group.cancel_scope.cancel()

    app = FastAPI(
        title="Interlock", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.home = home
    app.state.authenticator = Authenticator(home)
    app.state.shutdown_signal = anyio.Event()
    app.state.feed = Feed(home)
    app.state.metrics = ServerMetrics()
    mcp = _McpOnDemand(home, app.state.shutdown_signal)
    app.router.routes += [*remote_verbs.ROUTES, Route("/mcp", mcp)]
    # The last one added is the outermost.
    app.add_middleware(UnexpectedErrorMiddleware)
    app.add_middleware(RequestMeter, metrics=app.state.metrics)
    app.add_middleware(IdempotencyMiddleware)
    app.add_middleware(AuthMiddleware, authenticator=app.state.authenticator)
    app.add_middleware(
        SecurityMiddleware, hosts=(*hosts, app.state.authenticator.tokens.page_host), any_address=any_address,
        limit=body_bytes, seconds=body_seconds, proxies=networks(proxies),
    )  # fmt: skip
    failures.install(app)
    app.openapi = partial(described, app)  # type: ignore[method-assign]
    for router in (*ROUTERS, *pages):
        app.include_router(router)
    return app


def described(app: FastAPI) -> Json:
    """Return /openapi.json, made once: what FastAPI finds by itself, with our failures in place of its own, and how to
    authenticate."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title, version=app.version, routes=app.routes, description=ABOUT, servers=[{"url": "/"}],
            license_info={"name": "MIT", "identifier": "MIT"}, contact={"name": "Interlock"},
        )  # fmt: skip
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Failure"] = Failure.model_json_schema()
        for name, example in EXAMPLES.items():
            schemas[name]["examples"] = [example]
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        shape = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
        for path, methods in found["paths"].items():
            for operation in methods.values():
                operation["responses"].pop("422", None)
                operation["security"] = [] if path in OPEN else [{"token": []}]
                for status in ("403",) if path in OPEN else FAILURES:  # 403: by a name that is not the server's.
                    operation["responses"].setdefault(status, {"description": FAILURES[status], "content": shape})
        found["tags"] = [{"name": tag, "description": words} for tag, words in TAGS.items()]
        app.openapi_schema = found
    return app.openapi_schema


def close(app: FastAPI) -> None:
    """Say that the server is about to end: streams end, those who wait for mail get their answer.

    Call it in the event loop.
    """
    app.state.shutdown_signal.set()
    app.state.feed.close()


class _McpOnDemand:
    """`mcp_endpoint`, imported with the first call: most servers never need the SDK, which takes half a second."""

    def __init__(self, home: Home, shutdown: anyio.Event) -> None:
        self._home = home
        self._shutdown = shutdown
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._endpoint: ASGIApp | None = None

    async def serve(self) -> None:
        await self._wanted.wait()
        module = await anyio.to_thread.run_sync(import_module, "interlock.surfaces.http.mcp_endpoint")
        endpoint = module.McpEndpoint(self._home, self._shutdown)
        async with endpoint.run():
            self._endpoint = endpoint
            self._ready.set()
            await anyio.sleep_forever()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._wanted.set()
        await self._ready.wait()
        assert self._endpoint is not None
        await self._endpoint(scope, receive, send)
