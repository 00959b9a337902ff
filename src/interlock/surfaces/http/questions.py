"""What waits for a human in one team."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.surfaces.http import documents
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Reader

router = APIRouter(prefix="/api/teams/{team}/questions", tags=["questions"])


@router.get("", responses={200: {"model": documents.Questions}})
def questions(visitor: Reader, team: TeamName) -> Response:
    """Open questions, oldest first."""
    return answer({"questions": [question.as_dict() for question in visitor.team(team).questions()]})
