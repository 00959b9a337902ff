"""Task groups: one chat session each. The short addresses work where an id is unique in the home."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from interlock.surfaces.http import documents
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.front import shown
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Reader, Visitor

router = APIRouter(prefix="/api", tags=["front door"])

Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]
Limit = Annotated[int, Query(ge=1, le=1000)]
PAGE: dict[int | str, dict[str, Any]] = {200: {"model": documents.TaskGroups}}
TASKS: dict[int | str, dict[str, Any]] = {200: {"model": documents.ShownTasks}}


@router.get("/task-groups", responses=PAGE)
def groups(visitor: Reader, project: TeamName | None = None, offset: Offset = 0, limit: Limit = 50) -> Response:
    """One page of groups, the latest first."""
    return _page(visitor, project, offset, limit)


@router.get("/projects/{project}/task-groups", responses=PAGE)
def groups_of(visitor: Reader, project: TeamName, offset: Offset = 0, limit: Limit = 50) -> Response:
    """One page of a project's groups, the latest first."""
    return _page(visitor, project, offset, limit)


@router.get("/task-groups/{group}/tasks", responses=TASKS)
def tasks(visitor: Reader, group: str) -> Response:
    """The tasks of a group, in order."""
    return _tasks(visitor, None, group)


@router.get("/projects/{project}/task-groups/{group}/tasks", responses=TASKS)
def tasks_of(visitor: Reader, project: TeamName, group: str) -> Response:
    """The tasks of a group of that project, in order."""
    return _tasks(visitor, project, group)


def _page(visitor: Visitor, project: str | None, offset: int, limit: int) -> Response:
    found, total = visitor.home.task_groups(visitor.project(project), offset=offset, limit=limit)
    return answer({"task_groups": found, "total_count": total})


def _tasks(visitor: Visitor, project: str | None, group: str) -> Response:
    found = visitor.home.group_tasks(group, project=visitor.project(project))
    return answer({"task_group_id": group, "tasks": [shown(task) for task in found]})
