"""One task in the words of the front door, and the reply to its question."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from interlock.app.team import Team
from interlock.model.task import FRONT_DOOR
from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.front import shown
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.slow import slow
from interlock.surfaces.http.visitor import Operator, Reader, Visitor

router = APIRouter(prefix="/api", tags=["front door"])

ONE: dict[int | str, dict[str, Any]] = {200: {"model": documents.ShownTask}}
KEPT: dict[int | str, dict[str, Any]] = {200: {"model": documents.Artifacts}}
REPLIED: dict[int | str, dict[str, Any]] = {200: {"model": documents.Replied}}


@router.get("/tasks/{id}", responses=ONE)
def task(visitor: Reader, id: str) -> Response:
    """One task; its id must be the only one of that name in the home."""
    return answer(shown(_team(visitor, None, id).task(id)))


@router.get("/projects/{project}/tasks/{id}", responses=ONE)
def task_of(visitor: Reader, project: TeamName, id: str) -> Response:
    """One task of that project."""
    return answer(shown(_team(visitor, project, id).task(id)))


@router.get("/tasks/{id}/artifacts", responses=KEPT)
def artifacts(visitor: Reader, id: str) -> Response:
    """What the runs of a task made that is in no commit, and where it is kept."""
    return answer({"artifacts": _team(visitor, None, id).artifacts(id)})


@router.get("/projects/{project}/tasks/{id}/artifacts", responses=KEPT)
def artifacts_of(visitor: Reader, project: TeamName, id: str) -> Response:
    """The same of a task of that project."""
    return answer({"artifacts": _team(visitor, project, id).artifacts(id)})


@router.post("/tasks/{id}/reply", responses=REPLIED)
@slow
def reply(visitor: Operator, id: str, said: models.Reply) -> Response:
    """Answer the open question of a task."""
    return _reply(_team(visitor, None, id), id, said)


@router.post("/projects/{project}/tasks/{id}/reply", responses=REPLIED)
@slow
def reply_to(visitor: Operator, project: TeamName, id: str, said: models.Reply) -> Response:
    """Answer the open question of a task of that project."""
    return _reply(_team(visitor, project, id), id, said)


def _team(visitor: Visitor, project: str | None, id: str) -> Team:
    """The team that has the task, acting as the caller."""
    return visitor.team(visitor.home.locate(id, project=visitor.project(project)).name)


def _reply(team: Team, id: str, said: models.Reply) -> Response:
    before = team.task(id)
    after = team.reply(id, said.reply, question=said.question_id)
    done = {"task_id": after.id, "old_status": FRONT_DOOR[before.state], "new_status": FRONT_DOOR[after.state]}
    return answer({**done, "warnings": after.warnings} if after.warnings else done)
