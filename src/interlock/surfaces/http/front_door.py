"""The front door: projects and their chat, task groups (one chat session each), and their tasks with the reply.

A project is a team with a working directory. The short addresses work where an id is unique in the home.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from interlock.app.team import Team
from interlock.model.task import FRONT_DOOR
from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.lists import Paged
from interlock.surfaces.http.request_context import Admin, Operator, Reader, RequestContext, slow
from interlock.surfaces.http.responses import answer, artifact_name, documented, front_door_task
from interlock.surfaces.http.types import Limit, TeamName

router = APIRouter(prefix="/api", tags=["projects and chat"])

Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]
GROUPS = documented(responses.TaskGroupPage)
GROUP_TASKS = documented(responses.GroupTasks)
ONE = documented(responses.FrontDoorTask)
ARTIFACTS = documented(responses.ArtifactList)
REPLIED = documented(responses.ReplyResult)


@router.get("/projects", responses=documented(responses.ProjectList))
def projects(context: Reader, page: Paged) -> Response:
    """All projects, by name."""
    found = context.home.projects(within=context.principal.team)
    return answer(context.warned(page.of("projects", found, attrgetter("id"))))


@router.post("/projects", status_code=201, responses=documented(responses.Project, 201))
def create_project(context: Admin, new: requests.NewProject) -> Response:
    """Create a project."""
    context.need_home()
    return answer(context.home.create_project(new.id, new.workdir), 201)


@router.post("/projects/{project}/chat", status_code=201, responses=documented(responses.ChatResult, 201))
@slow
def chat(context: Operator, project: TeamName, said: requests.ChatMessage) -> Response:
    """Say something: it makes exactly one task of its session's group, or fails."""
    context.check(project)
    made = context.home.chat(
        project, said.content, session_id=said.session_id, task_type=said.task_type, by=context.name,
        face=context.principal.face,
    )  # fmt: skip
    return answer(made, 201)


@router.get("/projects/{project}/task-groups", responses=GROUPS)
@router.get("/task-groups", responses=GROUPS)
def groups(
    context: Reader,
    project: TeamName | None = None,
    offset: Offset = 0,
    limit: Limit = 50,
    after: Offset | None = None,
) -> Response:
    """One page of groups, the latest first. `after`, the `next` of the page before, wins over `offset`."""
    start = offset if after is None else after
    found, total = context.home.task_groups(context.project(project), offset=start, limit=limit)
    end = start + len(found)
    onward = end if found and end < total else None
    return answer(context.warned({"task_groups": found, "total_count": total, "next": onward}))


@router.get("/projects/{project}/task-groups/{group}/tasks", responses=GROUP_TASKS)
@router.get("/task-groups/{group}/tasks", responses=GROUP_TASKS)
def group_tasks(context: Reader, page: Paged, group: str, project: TeamName | None = None) -> Response:
    """The tasks of a group, in order."""
    tasks = [front_door_task(task) for task in context.home.group_tasks(group, project=context.project(project))]
    return answer(context.warned({"task_group_id": group, **page.of("tasks", tasks, itemgetter("id"))}))


@router.get("/projects/{project}/tasks/{id}", responses=ONE)
@router.get("/tasks/{id}", responses=ONE)
def task(context: Reader, id: str, project: TeamName | None = None) -> Response:
    """One task; without a project its id, or the last digits of it, must be the only one like it in the home."""
    return answer(context.warned(front_door_task(_team(context, project, id).task(id))))


@router.get("/projects/{project}/tasks/{id}/artifacts", responses=ARTIFACTS)
@router.get("/tasks/{id}/artifacts", responses=ARTIFACTS)
def artifacts(context: Reader, page: Paged, id: str, project: TeamName | None = None) -> Response:
    """What the runs of a task made that is in no commit, and where it is kept."""
    found = _team(context, project, id).artifacts(id)
    return answer(context.warned(page.of("artifacts", found, artifact_name)))


@router.post("/projects/{project}/tasks/{id}/reply", responses=REPLIED)
@router.post("/tasks/{id}/reply", responses=REPLIED)
@slow
def reply(context: Operator, id: str, said: requests.Reply, project: TeamName | None = None) -> Response:
    """Answer the open question of a task."""
    team = _team(context, project, id, every=True)
    before = team.task(id)
    after = team.reply(id, said.reply, question=said.question_id)
    done = {"task_id": after.id, "old_status": FRONT_DOOR[before.state], "new_status": FRONT_DOOR[after.state]}
    return answer({**done, "warnings": after.warnings} if after.warnings else done)


def _team(context: RequestContext, project: str | None, id: str, *, every: bool = False) -> Team:
    """Return the team that has the task, acting as the caller; with `every`, only where all teams could be asked."""
    return context.team(context.home.locate(id, project=context.project(project), every=every).name)
