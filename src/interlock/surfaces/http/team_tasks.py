"""The tasks of one team, in the words of its members: `/tasks`, `/tasks/{id}` and a POST for every verb."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from interlock.model.task import Task
from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import StateOrStatus, TeamName
from interlock.surfaces.http.slow import slow
from interlock.surfaces.http.visitor import Reader, Worker

router = APIRouter(prefix="/api/teams/{team}/tasks", tags=["tasks"])
MOST_LISTED = 10_000
ONE: dict[int | str, dict[str, Any]] = {200: {"model": documents.TaskDocument}}


def _shown(task: Task, status: int = 200) -> Response:
    return answer(task.as_dict(), status)


@router.get("", responses={200: {"model": documents.Tasks}})
def tasks(
    visitor: Reader,
    team: TeamName,
    status: StateOrStatus | None = None,
    owner: str | None = None,
    ready: bool = False,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED,
) -> Response:
    """Tasks in order of creation; `ready` gives the ready queue in its order."""
    found = visitor.team(team).tasks(status=status, owner=owner, ready=ready, limit=limit)
    return answer({"tasks": [task.as_dict() for task in found]})


@router.post("", status_code=201, responses={201: {"model": documents.TaskDocument}})
def create(visitor: Worker, team: TeamName, new: models.NewTask) -> Response:
    """Create a task."""
    return _shown(visitor.acting(team, new.by).create_task(**new.given("by")), 201)


@router.get("/{id}", responses=ONE)
def show(visitor: Reader, team: TeamName, id: str) -> Response:
    """One task, whole."""
    return _shown(visitor.team(team).task(id))


@router.get("/{id}/runs", responses={200: {"model": documents.Runs}})
def runs(visitor: Reader, team: TeamName, id: str) -> Response:
    """All attempts at a task, oldest first."""
    return answer({"runs": [run.as_dict() for run in visitor.team(team).runs(id)]})


@router.get("/{id}/work-log", responses={200: {"model": documents.WorkLog}})
def work_log(visitor: Reader, team: TeamName, id: str) -> Response:
    """The task's Work Log."""
    lines = visitor.team(team).work_log(id)
    return answer({"work_log": [{"at": at, "author": author, "text": text} for at, author, text in lines]})


@router.get("/{id}/conversation", responses={200: {"model": documents.Conversation}})
def conversation(visitor: Reader, team: TeamName, id: str) -> Response:
    """Every question there was about a task, with its answer, oldest first."""
    return answer({"conversation": visitor.team(team).conversation(id)})


@router.get("/{id}/diff", responses={200: {"model": documents.Diff}})
def diff(visitor: Reader, team: TeamName, id: str, stat: bool = False) -> Response:
    """What a task that works in a worktree of its own has changed; with `stat` only the files."""
    return answer(visitor.team(team).diff(id, stat=stat))


@router.get("/{id}/artifacts", responses={200: {"model": documents.Artifacts}})
def artifacts(visitor: Reader, team: TeamName, id: str) -> Response:
    """What the runs of a task made that is in no commit, and where it is kept."""
    return answer({"artifacts": visitor.team(team).artifacts(id)})


@router.post("/{id}/claim", responses=ONE)
def claim(visitor: Worker, team: TeamName, id: str, how: models.Claim) -> Response:
    """Take a task."""
    return _shown(visitor.acting(team, how.by).claim(id, force=how.force, take_over=how.take_over))


@router.post("/{id}/worktree", responses=ONE)
def worktree(visitor: Worker, team: TeamName, id: str, who: models.Nothing) -> Response:
    """Give a task that the caller works on a git worktree of its own, in a team with `isolation: worktree`."""
    return _shown(visitor.acting(team, who.by).worktree(id))


@router.post("/{id}/update", responses=ONE)
@slow
def update(visitor: Worker, team: TeamName, id: str, edit: models.Edit) -> Response:
    """Edit a task, add a `log` line to it, or take it forward to a `status`."""
    return _shown(visitor.acting(team, edit.by).update(id, **edit.given("by")))


@router.post("/{id}/depend", responses=ONE)
def depend(visitor: Worker, team: TeamName, id: str, edge: models.Depend) -> Response:
    """Make a task wait for another, or no longer."""
    return _shown(visitor.acting(team, edge.by).depend(id, on=edge.on, remove=edge.remove))


@router.post("/{id}/release", responses=ONE)
def release(visitor: Worker, team: TeamName, id: str, why: models.Because) -> Response:
    """Give a task back."""
    return _shown(visitor.acting(team, why.by).release(id, reason=why.reason))


@router.post("/{id}/complete", responses=ONE)
@slow
def complete(visitor: Worker, team: TeamName, id: str, done: models.Summary) -> Response:
    """Report a task as finished. Its `verify` is run here, before the answer."""
    return _shown(visitor.acting(team, done.by).complete(id, summary=done.summary))


@router.post("/{id}/delete", responses=ONE)
def delete(visitor: Worker, team: TeamName, id: str, who: models.Nothing) -> Response:
    """Delete a task that is not final."""
    return _shown(visitor.acting(team, who.by).delete(id))


@router.post("/{id}/approve", responses=ONE)
@slow
def approve(visitor: Worker, team: TeamName, id: str, done: models.Summary) -> Response:
    """A reviewer's yes."""
    return _shown(visitor.acting(team, done.by).approve(id, summary=done.summary))


@router.post("/{id}/reject", responses=ONE)
def reject(visitor: Worker, team: TeamName, id: str, why: models.Reason) -> Response:
    """A reviewer's no: back to the author with the reason as findings."""
    return _shown(visitor.acting(team, why.by).reject(id, reason=why.reason))


@router.post("/{id}/retry", responses=ONE)
def retry(visitor: Worker, team: TeamName, id: str, who: models.Nothing) -> Response:
    """Another chance for a task in deadletter."""
    return _shown(visitor.acting(team, who.by).retry(id))


@router.post("/{id}/cancel", responses={200: {"model": documents.Tasks}})
def cancel(visitor: Worker, team: TeamName, id: str, how: models.Cancel) -> Response:
    """Call a task off, with `cascade` also what waits for it; answers what was cancelled."""
    found = visitor.acting(team, how.by).cancel(id, reason=how.reason, cascade=how.cascade)
    return answer({"tasks": [task.as_dict() for task in found]})


@router.post("/{id}/block", responses=ONE)
def block(visitor: Worker, team: TeamName, id: str, why: models.Reason) -> Response:
    """Stop for a reason that is not a dependency."""
    return _shown(visitor.acting(team, why.by).block(id, reason=why.reason))


@router.post("/{id}/unblock", responses=ONE)
def unblock(visitor: Worker, team: TeamName, id: str, who: models.Nothing) -> Response:
    """The reason is gone."""
    return _shown(visitor.acting(team, who.by).unblock(id))


@router.post("/{id}/assign", responses=ONE)
def assign(visitor: Worker, team: TeamName, id: str, whom: models.Assign) -> Response:
    """Reserve a task for a member; null frees it."""
    return _shown(visitor.acting(team, whom.by).assign(id, to=whom.to))


@router.post("/{id}/heartbeat", responses={200: {"model": documents.Heartbeat}})
def heartbeat(visitor: Worker, team: TeamName, id: str, who: models.Nothing) -> Response:
    """Show that the run lives."""
    return answer(visitor.acting(team, who.by).heartbeat(id).as_dict())


@router.post("-next", responses={200: {"model": documents.MaybeTask}})
def next_task(visitor: Worker, team: TeamName, who: models.Nothing) -> Response:
    """Claim the most urgent, oldest ready task the caller may have; `task` is null where there is none."""
    found = visitor.acting(team, who.by).next_task()
    return answer({"task": None if found is None else found.as_dict()})
