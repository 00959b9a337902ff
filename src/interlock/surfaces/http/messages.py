"""Mail of a team: send, broadcast, history. Handing it over is in `inbox`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from interlock.errors import Forbidden
from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Reader, Worker

router = APIRouter(prefix="/api/teams/{team}", tags=["messages"])


@router.get("/messages", responses={200: {"model": documents.Messages}})
def history(
    visitor: Reader,
    team: TeamName,
    member: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**53 - 1)] = None,
) -> Response:
    """The newest messages to or from a member, or of the whole team, in order; marks nothing. A member sees its own."""
    if visitor.principal.team is not None:
        if member not in (None, visitor.name):
            raise Forbidden(f"This token shows the messages of {visitor.name} only.", member=member)
        member = visitor.name
    found = visitor.team(team).history(member=member, limit=limit, before=before)
    return answer({"messages": [message.as_dict() for message in found]})


@router.post("/messages", status_code=201, responses={201: {"model": documents.MessageDocument}})
def send(visitor: Worker, team: TeamName, new: models.NewMessage) -> Response:
    """Send one message. `client_id` makes a repeated send harmless."""
    return answer(visitor.acting(team, new.by).send(**new.given("by")).as_dict(), 201)


@router.post("/broadcast", status_code=201, responses={201: {"model": documents.Broadcast}})
def broadcast(visitor: Worker, team: TeamName, new: models.NewBroadcast) -> Response:
    """Send to all members but the sender."""
    return answer(visitor.acting(team, new.by).broadcast(**new.given("by")), 201)
