"""All of HTTP as one ASGI application: guard, door, routers.

Guard ── Host, Origin, sizes; security headers
  Door ── who is it
    LastResort ── what nobody foresaw
      routers ── one file per resource
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial

import anyio
from fastapi import APIRouter, FastAPI
from starlette.routing import Route

from interlock.app.home import Home
from interlock.surfaces.http import (
    describing,
    events,
    failures,
    health,
    inbox,
    members,
    messages,
    metrics,
    projects,
    protocol,
    questions,
    sessions,
    task_groups,
    tasks,
    team_tasks,
    teams,
    workflows,
)
from interlock.surfaces.http.access import Access, Door
from interlock.surfaces.http.closing import Closing
from interlock.surfaces.http.failures import LastResort
from interlock.surfaces.http.feed import Feed
from interlock.surfaces.http.guard import BODY_BYTES, BODY_SECONDS, Guard
from interlock.surfaces.http.metrics import Meter, Metered
from interlock.surfaces.http.tools import PATH, Tools
from interlock.version import __version__

ROUTERS: tuple[APIRouter, ...] = (
    health.router, metrics.router, sessions.router, projects.router, task_groups.router, tasks.router,
    teams.router, members.router, team_tasks.router, messages.router,
    inbox.router, protocol.router, events.router, questions.router, workflows.router,
)  # fmt: skip


def create(
    home: Home,
    *,
    hosts: Collection[str] = (),
    any_address: bool = False,
    body_bytes: int = BODY_BYTES,
    body_seconds: float = BODY_SECONDS,
    pages: Collection[APIRouter] = (),
) -> FastAPI:
    """The application over one home.

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
            group.start_soon(tools.serve)
            yield
            close(app)
            group.cancel_scope.cancel()

    app = FastAPI(
        title="Interlock", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.home = home
    app.state.access = Access(home.path)
    app.state.closing = Closing()
    app.state.feed = Feed(home)
    app.state.meter = Meter()
    tools = Tools(home, app.state.closing)
    app.router.routes.append(Route(PATH, tools))
    # The last one added is the outermost.
    app.add_middleware(LastResort)
    app.add_middleware(Metered, meter=app.state.meter)
    app.add_middleware(Door, access=app.state.access)
    app.add_middleware(
        Guard, hosts=(*hosts, app.state.access.tokens.page_host), any_address=any_address, limit=body_bytes,
        seconds=body_seconds,
    )  # fmt: skip
    failures.install(app)
    app.openapi = partial(describing.describe, app)  # type: ignore[method-assign]
    for router in (*ROUTERS, *pages):
        app.include_router(router)
    return app


def close(app: FastAPI) -> None:
    """The server is about to end: streams end, those who wait for mail get their answer. Call it in the event loop."""
    app.state.closing.begin()
    app.state.feed.close()
