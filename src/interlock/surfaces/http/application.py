"""All of HTTP as one ASGI application.

SecurityMiddleware ── Host, Origin, sizes; security headers
  AuthMiddleware ── who is it
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
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.app.home import Home
from interlock.surfaces.http import (
    events,
    failures,
    front_door,
    mail,
    monitoring,
    openapi,
    sign_in,
    team_tasks,
    teams,
    workflows,
)
from interlock.surfaces.http.auth import Authenticator, AuthMiddleware
from interlock.surfaces.http.failures import UnexpectedErrorMiddleware
from interlock.surfaces.http.feed import Feed
from interlock.surfaces.http.monitoring import RequestMeter, ServerMetrics
from interlock.surfaces.http.security_middleware import BODY_BYTES, BODY_SECONDS, SecurityMiddleware
from interlock.version import __version__

ROUTERS: tuple[APIRouter, ...] = tuple(
    one.router for one in (monitoring, sign_in, front_door, teams, team_tasks, mail, events, workflows)
)


def create(
    home: Home,
    *,
    hosts: Collection[str] = (),
    any_address: bool = False,
    body_bytes: int = BODY_BYTES,
    body_seconds: float = BODY_SECONDS,
    pages: Collection[APIRouter] = (),
) -> FastAPI:
    """Return the application over one home.

    Args:
        hosts: names, beside those of loopback, that the server may be called by.
        any_address: whether it may also be called by any bare IP address, as one on a network is.
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
    app.router.routes.append(Route("/mcp", mcp))
    # The last one added is the outermost.
    app.add_middleware(UnexpectedErrorMiddleware)
    app.add_middleware(RequestMeter, metrics=app.state.metrics)
    app.add_middleware(AuthMiddleware, authenticator=app.state.authenticator)
    app.add_middleware(
        SecurityMiddleware, hosts=(*hosts, app.state.authenticator.tokens.page_host), any_address=any_address,
        limit=body_bytes, seconds=body_seconds,
    )  # fmt: skip
    failures.install(app)
    app.openapi = partial(openapi.describe, app)  # type: ignore[method-assign]
    for router in (*ROUTERS, *pages):
        app.include_router(router)
    return app


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
