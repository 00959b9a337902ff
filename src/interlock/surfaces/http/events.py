"""The history: of one team as JSON, of all teams as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from interlock.errors import InterlockError, LimitReached
from interlock.surfaces.http import feed, responses
from interlock.surfaces.http.mail import LARGEST
from interlock.surfaces.http.request_context import Reader, RequestContext
from interlock.surfaces.http.responses import answer, documented
from interlock.surfaces.http.types import TeamName

router = APIRouter(prefix="/api", tags=["events"])

HEARTBEAT = 10
"""Seconds between two comments that keep the connection open."""
SEND_SECONDS = 30.0
"""Seconds a reader may leave its connection blocked."""
MOST_READERS = 200
RETRY_MS = 1000
"""What browsers wait before they connect again."""
MOST_AT_ONCE = 10_000


@router.get("/teams/{team}/events", responses=documented(responses.EventList))
def of_team(
    context: Reader,
    team: TeamName,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """The team's events after a number, in commit order, without gaps. `next` is the `after` of the following page."""
    found, onward = context.team(team).events(after, limit=limit)
    return answer({"events": [event.as_dict() for event in found], "next": onward})


@router.get("/events", response_class=EventSourceResponse, include_in_schema=False)
async def of_all_teams(
    request: Request,
    context: Reader,
    after: Annotated[str | None, Query(max_length=feed.LONGEST_CURSOR)] = None,
    last_event_id: Annotated[str | None, Header(max_length=feed.LONGEST_CURSOR)] = None,
) -> Response:
    """Server-sent events over all teams, without gaps, those of new teams too. `after`: a cursor, `0` for everything,
    absent for what comes from now on. `Last-Event-ID` wins over it."""
    text = last_event_id or after
    positions = None if text is None else feed.parse_cursor(text)
    if request.app.state.feed.readers >= MOST_READERS:
        raise LimitReached(f"{MOST_READERS} streams are open, which is the limit. Close one, and try again.")
    return EventSourceResponse(
        _lines(request, context, positions),
        ping=HEARTBEAT,
        ping_message_factory=lambda: ServerSentEvent(comment="heartbeat"),
        send_timeout=SEND_SECONDS,
    )


async def _lines(
    request: Request, context: RequestContext, positions: dict[bytes, int] | None
) -> AsyncIterator[ServerSentEvent]:
    state, own = request.app.state, context.principal.team

    def may_stay() -> bool:
        try:
            state.authenticator.principal(request.headers)
        except InterlockError:
            return False  # Its token was revoked.
        return True

    async for item in state.feed.read(positions, lambda team: own in (None, team), may_stay):
        if item.event is None:
            # No data: a browser fires nothing, but knows its place when the connection breaks before the first event.
            yield ServerSentEvent(id=item.cursor, retry=RETRY_MS, comment="connected")
        else:
            shown = {"team": item.team, **item.event.as_dict()}
            text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            yield ServerSentEvent(text, id=item.cursor)
