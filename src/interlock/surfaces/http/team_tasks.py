"""The tasks of one team, in the words of its members: `/tasks`, `/tasks/{id}` and a POST for every verb; the questions
about them, and AOF/1: what agents say about their work."""

from __future__ import annotations

import json
from operator import attrgetter, itemgetter
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.lists import MOST, ListPage, Paged
from interlock.surfaces.http.request_context import Reader, Worker, slow
from interlock.surfaces.http.responses import answer, artifact_name, documented
from interlock.surfaces.http.types import StateOrStatus, TeamName
from interlock.surfaces.http.verbs import VerbRoute, add

router = APIRouter(prefix="/api/teams/{team}")


@router.get("/tasks", tags=["tasks"], responses=documented(responses.TaskList))
def tasks(
    context: Reader,
    page: Paged,
    team: TeamName,
    status: StateOrStatus | None = None,
    owner: str | None = None,
    ready: bool = False,
) -> Response:
    """Tasks in order of creation; `ready` gives the ready queue in its order."""
    limit = page.limit or MOST
    found = context.team(team).tasks(status=status, owner=owner, ready=ready, limit=limit + 1, after=page.after)
    return answer(ListPage(limit).of("tasks", found, attrgetter("id")))


@router.get("/tasks/{id}/work-log", tags=["tasks"], responses=documented(responses.WorkLog))
def work_log(context: Reader, page: Paged, team: TeamName, id: str) -> Response:
    """The task's Work Log."""
    lines = context.team(team).work_log(id)
    return answer(page.of("work_log", [{"at": at, "author": author, "text": text} for at, author, text in lines]))


@router.get("/tasks/{id}/conversation", tags=["tasks"], responses=documented(responses.ConversationDocument))
def conversation(context: Reader, page: Paged, team: TeamName, id: str) -> Response:
    """Every question there was about a task, with its answer, oldest first."""
    told = [one.exchange() for one in context.team(team).conversation(id)]
    return answer(page.of("conversation", told, itemgetter("id")))


@router.get("/tasks/{id}/diff", tags=["tasks"], responses=documented(responses.Diff))
@slow
def diff(
    context: Reader, team: TeamName, id: str, stat: bool = False, binary: bool = False, start: int = 0
) -> Response:
    """What a task that works in a worktree of its own has changed; with `stat` only the files, with `binary` also what
    is in binary files. A part of at most 8 MiB, from the byte `start` on; `next` is where the next part begins. `raw`
    has its bytes in base64, where they are no UTF-8."""
    return answer(context.team(team).diff(id, stat=stat, binary=binary, start=start))


async def _text(request: Request) -> str:
    return (await request.body()).decode("utf-8", "replace")


@router.post(
    "/protocol", tags=["protocol"], responses=documented(responses.ProtocolResult),
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}},
)  # fmt: skip
@slow
def protocol(context: Worker, team: TeamName, text: Annotated[str, Depends(_text)]) -> Response:
    """Act on one AOF/1 message: an envelope, or its text. What is wrong with it is in the answer, which is 200 either
    way: `accepted` says whether it counted."""
    # What is neither is refused by the same rules and in the same words as on the command line.
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = text
    return answer(context.acting(team).protocol(message if isinstance(message, str) else text))


TASK, AT_TASK = responses.TaskDocument, "/tasks/{id}/"
SLOW = ("worktree", "complete", "approve")
TASK_VERBS = (
    "claim", "worktree", "depend", "release", "complete", "delete", "approve", "reject", "retry", "block", "unblock",
    "assign",
)  # fmt: skip

add(router, "tasks", (
    VerbRoute("/tasks", TASK, Worker, "create_task", request=requests.NewTask, status=201),
    VerbRoute("/tasks/{id}", TASK, verb="task"),
    VerbRoute(f"{AT_TASK}runs", responses.RunList, under="runs", named=lambda run: str(run.number)),
    VerbRoute(f"{AT_TASK}artifacts", responses.ArtifactList, under="artifacts", named=artifact_name),
    *(VerbRoute(f"{AT_TASK}{verb}", TASK, Worker, slow=verb in SLOW) for verb in TASK_VERBS),
    VerbRoute(f"{AT_TASK}update", TASK, Worker, request=requests.TaskEdit, slow=True),
    VerbRoute(f"{AT_TASK}cancel", responses.Cancelled, Worker, under="tasks"),
    VerbRoute(f"{AT_TASK}heartbeat", responses.RunDocument, Worker),
    VerbRoute("/tasks-next", responses.NextTask, Worker, "next_task", under="task"),
))  # fmt: skip
add(router, "questions", (
    VerbRoute("/questions", responses.QuestionList, under="questions", named=attrgetter("id")),
    VerbRoute("/questions", responses.QuestionDocument, Worker, "ask", request=requests.NewQuestion, status=201),
))  # fmt: skip
add(router, "protocol", (
    VerbRoute("/session-end", responses.SessionResults, Worker, "session_end", under="results", slow=True),
))  # fmt: skip
