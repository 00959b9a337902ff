"""Every verb of `Home` and `Team` that can be called from elsewhere: `POST /api/verbs/home/{verb}` and
`POST /api/verbs/teams/{team}/{verb}`, for the clients of `interlock.remote`.

What a body and an answer hold follows from the verb's signature (`app.verbs`), and so changes with the version: other
programs use the addresses of /openapi.json. So these are plain routes, before all others: FastAPI would compare an
address with all of its own first, which takes as long as the verb. Two verbs wait here, for at most `SLICE` seconds a
call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from types import NoneType
from typing import TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.app.home import Home
from interlock.app.team import EVENTS_AT_ONCE, Team
from interlock.app.verbs import OWN_MAIL, PLACES_OF_HOME, RUN, RemoteVerb, verb_of
from interlock.errors import AnswerLost, LedgerBusy
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.message import Message
from interlock.model.task import Task
from interlock.surfaces.http.mail import hand_over
from interlock.surfaces.http.request_context import SLOW_VERBS, RequestContext
from interlock.surfaces.http.requests import StrictRequest
from interlock.surfaces.http.responses import MEDIA_TYPE, answer
from interlock.surfaces.http.types import Session, Text
from interlock.version import __version__

SLICE = 20.0
WARNINGS = "interlock-warnings"
"""The header for what a verb met that only read."""
EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])
MAIL: TypeAdapter[tuple[list[Message], bool, str]] = TypeAdapter(tuple[list[Message], bool, str])
Model = TypeVar("Model", bound=BaseModel)


class VerbCall(StrictRequest):
    """The arguments of a verb, and whom it acts as: by default the caller."""

    arguments: Json = Field(default_factory=dict)
    name: Text | None = None
    session: Session | None = None
    run: int | None = None


class MailWanted(StrictRequest):
    """As `Team.mail`."""

    wait: float | None = None
    urgent_only: bool = False
    inject: bool = False
    again: bool = False


async def hello(request: Request) -> Response:
    """Who the caller is here, and which version this is."""
    caller = context_of(request).principal
    session = caller.origin.session if caller.run is not None and caller.origin is not None else None
    return answer(
        {"version": __version__, "name": caller.name, "role": caller.role, "team": caller.team, "session": session}
    )


async def of_home(request: Request) -> Response:
    """Call a verb of the home."""
    return await in_thread(request, _of_home)


def _of_home(context: RequestContext, call: VerbCall, verb: str) -> Response:
    found = verb_of(Home, verb)
    context.principal.must(*found.roles)
    arguments = parsed(found, call)
    named = next((arguments[one] for one in found.team_named if arguments.get(one)), None)
    if named:
        context.check(named)
    elif "within" not in found.filled:
        context.need_home()
    who = {
        "by": context.named(call.name), "face": context.principal.face, "within": context.principal.team,
        "here": False,
    }  # fmt: skip
    arguments |= {name: who[name] for name in found.filled}
    return warned(context, written(found, getattr(context.home, verb)(**arguments)))


async def follow(request: Request) -> Response:
    """The events after `since`; where there are none yet, those that come within `SLICE` seconds."""
    found, context = verb_of(Team, "events"), context_of(request)
    context.principal.must(*found.roles)
    since = parsed(found, received(VerbCall, await request.body())).get("since", 0)
    seen = await anyio.to_thread.run_sync(context.team, request.path_params["team"])
    events: list[Event] = []
    with anyio.move_on_after(SLICE):
        async with aclosing(seen.changes()) as changes:
            async for _ in changes:
                events, _ = await anyio.to_thread.run_sync(partial(seen.events, since, limit=EVENTS_AT_ONCE))
                if events:
                    break
    return Response(EVENTS.dump_json(events), media_type=MEDIA_TYPE)


async def mail(request: Request) -> Response:
    """Offer the caller's mail, as `Team.mail`. The caller says that it was delivered (`finish_handover`); what it says
    nothing of is soon offered again, to any session, and at once where the connection ends before the answer."""
    context = context_of(request)
    context.principal.must(*RUN)
    call = received(VerbCall, await request.body())
    wanted = received(MailWanted, json.dumps(call.arguments).encode())
    wait = None if wanted.wait is None else min(wanted.wait, SLICE)
    how = {"urgent_only": wanted.urgent_only, "inject": wanted.inject, "again": wanted.again}
    acts = partial(acting, context, request.path_params["team"], call)
    found = await hand_over(request, acts, wait=wait, only_offer=True, **how)
    if found is None:
        raise LedgerBusy("The server ends, or the connection was cut. Nothing was handed over; ask again.")
    return Response(MAIL.dump_json((found.messages, found.timed_out, found.state)), media_type=MEDIA_TYPE)


async def of_team(request: Request) -> Response:
    """Call a verb of a team."""
    return await in_thread(request, _of_team)


def _of_team(context: RequestContext, call: VerbCall, team: str, verb: str) -> Response:
    found = verb_of(Team, verb)
    context.principal.must(*found.roles)
    arguments = parsed(found, call)
    for name in PLACES_OF_HOME:
        if arguments.get(name) is not None:
            context.need_admin(name)
    if verb in OWN_MAIL:
        context.own_mail_only(arguments.get("member") or (context.name if verb == "inbox" else None))
    try:
        answered = getattr(acting(context, team, call), verb)(**arguments)
    except AnswerLost as lost:
        # What it was is told by what there is now, unless somebody has done something since.
        if found.kind is Task and lost.details["task"]:
            seen = context.team(team)
            answered = seen.task(lost.details["task"])
            later, _ = seen.events(lost.details["events"][1])
            if verb != "create_task" and any(event.task_id == answered.id for event in later):
                raise
        elif found.kind is NoneType:
            answered = None
        else:
            raise
    return warned(context, written(found, answered), team)


async def in_thread(request: Request, verb: Callable[..., Response]) -> Response:
    """What a verb answers, which may take minutes: it uses none of the threads that answer the rest."""
    context, body = context_of(request), await request.body()

    def carried_out() -> Response:
        return verb(context, received(VerbCall, body), **request.path_params)

    return await anyio.to_thread.run_sync(carried_out, limiter=SLOW_VERBS)


def context_of(request: Request) -> RequestContext:
    return RequestContext(request.app.state.home, request.state.principal)


def received(model: type[Model], body: bytes) -> Model:
    """What a body holds. Raises RequestValidationError, as FastAPI does."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise RequestValidationError(faults) from None


def parsed(verb: RemoteVerb, call: VerbCall) -> Json:
    return verb.parse(json.dumps(call.arguments).encode())


def acting(context: RequestContext, team: str, call: VerbCall) -> Team:
    return context.acting(team, call.name, call.session, call.run)


def written(verb: RemoteVerb, found: object) -> Response:
    return Response(verb.write(found), media_type=MEDIA_TYPE)


def warned(context: RequestContext, response: Response, team: str | None = None) -> Response:
    """The answer, with what was met while it was made in its header."""
    warnings = context.home.warnings(team or context.principal.team)
    if warnings:
        response.headers[WARNINGS] = " ".join(map(quote, warnings))
    return response


ROUTES = [
    Route("/api/verbs", hello, methods=["GET"], include_in_schema=False),
    *(
        Route(f"/api/verbs/{path}", endpoint, methods=["POST"], include_in_schema=False)
        for path, endpoint in (
            ("home/{verb}", of_home), ("teams/{team}/follow", follow), ("teams/{team}/mail", mail),
            ("teams/{team}/{verb}", of_team),
        )
    ),
]  # fmt: skip
