"""AOF/1: what agents say about their work, and a team's results at the end of a session."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.responses import Response

from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.slow import slow
from interlock.surfaces.http.visitor import Worker

router = APIRouter(prefix="/api/teams/{team}", tags=["protocol"])


@router.post("/protocol", responses={200: {"model": documents.Verdict}})
@slow
def protocol(visitor: Worker, team: TeamName, message: Annotated[Any, Body()]) -> Response:
    """Act on one AOF/1 message: an envelope, or its text. What is wrong with it is in the answer, which is 200 either
    way: `accepted` says whether it counted."""
    # What is neither is refused by the same rules and in the same words as on the command line.
    if isinstance(message, bytes):  # Sent as something else than JSON: its text.
        message = message.decode("utf-8", "replace")
    said = message if isinstance(message, (dict, str)) else json.dumps(message)
    return answer(visitor.acting(team).protocol(said))


@router.post("/session-end", responses={200: {"model": documents.Results}})
@slow
def session_end(visitor: Worker, team: TeamName, who: models.Nothing) -> Response:
    """Apply the results that the caller's runs have put down, of all runs for the lead and people."""
    return answer({"results": visitor.acting(team, who.by).session_end()})
