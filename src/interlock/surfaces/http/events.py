"""The history: of one team as JSON, of all teams as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from interlock.errors import InterlockError, LimitReached
from interlock.surfaces.http import cursor, documents
from interlock.surfaces.http.access import Access
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.feed import Feed, Item
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Reader, Visitor

router = APIRouter(prefix="/api", tags=["events"])

HEARTBEAT = 10
"""Seconds between two comments that keep the line open."""
SEND_SECONDS = 30.0
"""Seconds a reader may leave its line blocked."""
MOST_READERS = 200
RETRY_MS = 1000
"""What browsers wait before they come again."""
LARGEST = 2**53 - 1
"""The largest number that every reader of JSON keeps exactly."""
MOST_AT_ONCE = 10_000


@router.get("/teams/{team}/events", responses={200: {"model": documents.Events}})
def of_team(
    visitor: Reader,
    team: TeamName,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """The team's events after a number, in commit order, without gaps. `next` says where to go on."""
    found, onward = visitor.team(team).events(after, limit=limit)
    return answer({"events": [event.as_dict() for event in found], "next": onward})


@router.get("/events", response_class=EventSourceResponse, include_in_schema=False)
async def of_all_teams(
    request: Request,
    visitor: Reader,
    after: Annotated[str | None, Query(max_length=cursor.LONGEST)] = None,
    last_event_id: Annotated[str | None, Header(max_length=cursor.LONGEST)] = None,
) -> Response:
    """Server-sent events over all teams, without gaps, those of new teams too. `after`: a cursor, `0` for everything,
    absent for what comes from now on. `Last-Event-ID` wins over it."""
    text = last_event_id or after
    positions = None if text is None else cursor.read(text)
    feed: Feed = request.app.state.feed
    if feed.readers >= MOST_READERS:
        raise LimitReached(f"{MOST_READERS} streams are open, which is the limit. Close one, and try again.")
    return EventSourceResponse(
        _lines(feed, positions, visitor, request),
        ping=HEARTBEAT,
        ping_message_factory=lambda: ServerSentEvent(comment="heartbeat"),
        send_timeout=SEND_SECONDS,
    )


async def _lines(
    feed: Feed, positions: dict[bytes, int] | None, visitor: Visitor, request: Request
) -> AsyncIterator[ServerSentEvent]:
    access: Access = request.app.state.access
    own = visitor.principal.team

    def may_stay() -> bool:
        try:
            access.principal(request.headers)
        except InterlockError:
            return False  # Its token was revoked.
        return True

    async for item in feed.read(positions, lambda team: own in (None, team), may_stay):
        yield _line(item)


def _line(item: Item) -> ServerSentEvent:
    if item.event is None:
        # No data: a browser fires nothing, but knows where to go on when the line breaks before the first event.
        return ServerSentEvent(id=item.cursor, retry=RETRY_MS, comment="here you are")
    shown = {"team": item.team, **item.event.as_dict()}
    return ServerSentEvent(json.dumps(shown, ensure_ascii=False, separators=(",", ":")), id=item.cursor)
