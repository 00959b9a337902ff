"""All of HTTP as one ASGI application: guard, door, routers.

Guard ── Host, Origin, sizes; security headers
  Door ── who is it
    LastResort ── what nobody foresaw
      routers ── one file per resource
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from interlock import __version__
from interlock.client import Home
from interlock.surfaces.http import (
    failures,
    health,
    members,
    messages,
    protocol,
    questions,
    sessions,
    team_tasks,
    teams,
    workflows,
)
from interlock.surfaces.http.access import Access, Door
from interlock.surfaces.http.failures import LastResort
from interlock.surfaces.http.guard import BODY_BYTES, Guard

ROUTERS: tuple[APIRouter, ...] = (
    health.router, sessions.router, teams.router, members.router, team_tasks.router, messages.router,
    protocol.router, questions.router, workflows.router,
)  # fmt: skip


def create(
    home: Home,
    *,
    hosts: Collection[str] = (),
    body_bytes: int = BODY_BYTES,
    ending: Callable[[], bool] = lambda: False,
    pages: Sequence[APIRouter] = (),
) -> FastAPI:
    """The application over one home.

    Args:
        hosts: names, beside those of loopback, that the server may be called by.
        body_bytes: most bytes of a request's body.
        ending: whether the server is about to end, for /readyz.
        pages: routers of the web page; they get the same principals.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield

    app = FastAPI(
        title="Interlock", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.home = home
    app.state.access = Access(home.path)
    app.state.ending = ending
    # The last one added is the outermost.
    app.add_middleware(LastResort)
    app.add_middleware(Door, access=app.state.access)
    app.add_middleware(Guard, hosts=hosts, limit=body_bytes)
    failures.install(app)
    for router in (*ROUTERS, *pages):
        app.include_router(router)
    return app
