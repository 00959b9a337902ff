"""Projects and their chat: a project is a team with a working directory, a message makes one task."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Admin, Operator, Reader

router = APIRouter(prefix="/api/projects", tags=["front door"])


@router.get("", responses={200: {"model": documents.Projects}})
def projects(visitor: Reader) -> Response:
    """All projects."""
    own = visitor.principal.team
    found = visitor.home.projects()
    return answer({"projects": [project for project in found if own in (None, project["id"])]})


@router.post("", status_code=201, responses={201: {"model": documents.Project}})
def create(visitor: Admin, new: models.NewProject) -> Response:
    """Make a project."""
    return answer(visitor.home.create_project(new.id, new.workdir), 201)


@router.post("/{project}/chat", status_code=201, responses={201: {"model": documents.Chatted}})
def chat(visitor: Operator, project: TeamName, said: models.Chat) -> Response:
    """Say something: it makes exactly one task of its session's group, or fails."""
    made = visitor.home.chat(
        project, said.content, session_id=said.session_id, task_type=said.task_type, by=visitor.name,
        face=visitor.principal.face,
    )  # fmt: skip
    return answer(made, 201)
