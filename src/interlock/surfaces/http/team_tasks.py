"""The tasks of one team, in the words of its members: `/tasks`, `/tasks/{id}` and a POST for every verb; the questions
about them, and AOF/1: what agents say about their work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.request_context import Reader, RequestContext, Worker, slow
from interlock.surfaces.http.requests import MemberRequest
from interlock.surfaces.http.responses import answer, documented
from interlock.surfaces.http.types import StateOrStatus, TeamName

router = APIRouter(prefix="/api/teams/{team}")
MOST_LISTED = 10_000
TASKS = documented(responses.TaskList)
ONE = documented(responses.TaskDocument)


@router.get("/tasks", tags=["tasks"], responses=TASKS)
def tasks(
    context: Reader,
    team: TeamName,
    status: StateOrStatus | None = None,
    owner: str | None = None,
    ready: bool = False,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED,
) -> Response:
    """Tasks in order of creation; `ready` gives the ready queue in its order."""
    found = context.team(team).tasks(status=status, owner=owner, ready=ready, limit=limit)
    return answer({"tasks": found})


@router.post("/tasks", tags=["tasks"], status_code=201, responses=documented(responses.TaskDocument, 201))
def create(context: Worker, team: TeamName, new: requests.NewTask) -> Response:
    """Create a task."""
    return answer(context.acting(team, new.by).create_task(**new.given()), 201)


@router.get("/tasks/{id}", tags=["tasks"], responses=ONE)
def show(context: Reader, team: TeamName, id: str) -> Response:
    """One task, whole."""
    return answer(context.team(team).task(id))


@router.get("/tasks/{id}/runs", tags=["tasks"], responses=documented(responses.RunList))
def runs(context: Reader, team: TeamName, id: str) -> Response:
    """All attempts at a task, oldest first."""
    return answer({"runs": context.team(team).runs(id)})


@router.get("/tasks/{id}/work-log", tags=["tasks"], responses=documented(responses.WorkLog))
def work_log(context: Reader, team: TeamName, id: str) -> Response:
    """The task's Work Log."""
    lines = context.team(team).work_log(id)
    return answer({"work_log": [{"at": at, "author": author, "text": text} for at, author, text in lines]})


@router.get("/tasks/{id}/conversation", tags=["tasks"], responses=documented(responses.ConversationDocument))
def conversation(context: Reader, team: TeamName, id: str) -> Response:
    """Every question there was about a task, with its answer, oldest first."""
    return answer({"conversation": context.team(team).conversation(id)})


@router.get("/tasks/{id}/diff", tags=["tasks"], responses=documented(responses.Diff))
@slow
def diff(context: Reader, team: TeamName, id: str, stat: bool = False) -> Response:
    """What a task that works in a worktree of its own has changed; with `stat` only the files."""
    return answer(context.team(team).diff(id, stat=stat))


@router.get("/tasks/{id}/artifacts", tags=["tasks"], responses=documented(responses.ArtifactList))
def artifacts(context: Reader, team: TeamName, id: str) -> Response:
    """What the runs of a task made that is in no commit, and where it is kept."""
    return answer({"artifacts": context.team(team).artifacts(id)})


@dataclass(frozen=True, slots=True)
class TaskVerb:
    """A verb of `Team` that takes a task and answers it. `slow`: it runs a check, git or a setup."""

    name: str
    about: str
    request: type[MemberRequest] = MemberRequest
    slow: bool = False


VERBS = (
    TaskVerb("claim", "Take a task.", requests.ClaimRequest),
    TaskVerb(
        "worktree",
        "Give a task that the caller works on a git worktree of its own, in a team with `isolation: worktree`.",
        slow=True,
    ),
    TaskVerb(
        "update",
        "Edit a task, add a `log` line to it, or take it forward to a `status`.",
        requests.TaskEdit,
        slow=True,
    ),
    TaskVerb("depend", "Make a task wait for another, or no longer.", requests.DependencyChange),
    TaskVerb("release", "Give a task back.", requests.OptionalReason),
    TaskVerb(
        "complete",
        "Report a task as finished. Its `verify` is run here, before the answer.",
        requests.OptionalSummary,
        slow=True,
    ),
    TaskVerb("delete", "Delete a task that is not final."),
    TaskVerb("approve", "Approve a task in review.", requests.OptionalSummary, slow=True),
    TaskVerb(
        "reject", "Send a task in review back to its author, with the reason as findings.", requests.RequiredReason
    ),
    TaskVerb("retry", "Give a task in deadletter another chance."),
    TaskVerb("block", "Stop for a reason that is not a dependency.", requests.RequiredReason),
    TaskVerb("unblock", "Say that the reason is gone."),
    TaskVerb("assign", "Reserve a task for a member; `null` frees it.", requests.AssignRequest),
)


def _add(verb: TaskVerb) -> None:
    def endpoint(context: RequestContext, team: str, id: str, given: MemberRequest) -> Response:
        act = getattr(context.acting(team, given.by), verb.name)
        return answer(act(id, **given.given()))

    # FastAPI reads a request's model from here, and each verb has its own.
    endpoint.__annotations__.update(context=Worker, team=TeamName, given=verb.request)
    router.add_api_route(
        f"/tasks/{{id}}/{verb.name}", slow(endpoint) if verb.slow else endpoint, methods=["POST"], name=verb.name,
        tags=["tasks"], description=verb.about, responses=ONE,
    )  # fmt: skip


for _verb in VERBS:
    _add(_verb)


@router.post("/tasks/{id}/cancel", tags=["tasks"], responses=TASKS)
def cancel(context: Worker, team: TeamName, id: str, how: requests.CancelRequest) -> Response:
    """Cancel a task, with `cascade` also what waits for it; answers what was cancelled."""
    found = context.acting(team, how.by).cancel(id, reason=how.reason, cascade=how.cascade)
    return answer({"tasks": found})


@router.post("/tasks/{id}/heartbeat", tags=["tasks"], responses=documented(responses.RunDocument))
def heartbeat(context: Worker, team: TeamName, id: str, who: MemberRequest) -> Response:
    """Show that the run lives."""
    return answer(context.acting(team, who.by).heartbeat(id))


@router.post("/tasks-next", tags=["tasks"], responses=documented(responses.NextTask))
def next_task(context: Worker, team: TeamName, who: MemberRequest) -> Response:
    """Claim the most urgent, oldest ready task the caller may have; `task` is null where there is none."""
    found = context.acting(team, who.by).next_task()
    return answer({"task": found})


@router.get("/questions", tags=["questions"], responses=documented(responses.QuestionList))
def questions(context: Reader, team: TeamName) -> Response:
    """Open questions, oldest first. They are answered at the front door."""
    return answer({"questions": context.team(team).questions()})


@router.post("/questions", tags=["questions"], status_code=201, responses=documented(responses.QuestionDocument, 201))
def ask(context: Worker, team: TeamName, asked: requests.NewQuestion) -> Response:
    """Ask a person about a task, which waits for the answer. `reversible`: a time-out may take the default."""
    question = context.acting(team, asked.by).ask(asked.task_id, asked.text, **asked.given("task_id", "text"))
    return answer(question, 201)


@router.post("/protocol", tags=["protocol"], responses=documented(responses.ProtocolResult))
@slow
def protocol(context: Worker, team: TeamName, message: Annotated[Any, Body()]) -> Response:
    """Act on one AOF/1 message: an envelope, or its text. What is wrong with it is in the answer, which is 200 either
    way: `accepted` says whether it counted."""
    # What is neither is refused by the same rules and in the same words as on the command line.
    if isinstance(message, bytes):  # Sent as something else than JSON: its text.
        message = message.decode("utf-8", "replace")
    said = message if isinstance(message, (dict, str)) else json.dumps(message)
    return answer(context.acting(team).protocol(said))


@router.post("/session-end", tags=["protocol"], responses=documented(responses.SessionResults))
@slow
def session_end(context: Worker, team: TeamName, who: MemberRequest) -> Response:
    """Apply the results that the caller's runs have put down, of all runs for the lead and people."""
    return answer({"results": context.acting(team, who.by).session_end()})
