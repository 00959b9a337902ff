"""What waits for a human in one team. Answers are given at the front door, to one task."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Reader, Worker

router = APIRouter(prefix="/api/teams/{team}/questions", tags=["questions"])


@router.get("", responses={200: {"model": documents.Questions}})
def questions(visitor: Reader, team: TeamName) -> Response:
    """Open questions, oldest first."""
    return answer({"questions": [question.as_dict() for question in visitor.team(team).questions()]})


@router.post("", status_code=201, responses={201: {"model": documents.QuestionDocument}})
def ask(visitor: Worker, team: TeamName, asked: models.NewQuestion) -> Response:
    """Ask a person about a task, which waits for the answer. `reversible`: a time-out may take the default."""
    question = visitor.acting(team, asked.by).ask(asked.task_id, asked.text, **asked.given("by", "task_id", "text"))
    return answer(question.as_dict(), 201)
