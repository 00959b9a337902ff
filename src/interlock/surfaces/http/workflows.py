"""Workflows of many steps: their runs in all teams that the caller may see, and the queues of those that wait.

A run is known by its id, which is unique in practice; `team` says where to look when it is not.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from interlock.app.team import Team
from interlock.errors import AmbiguousId, Forbidden, InvalidRequest, WorkflowNotFound
from interlock.surfaces.http import documents, models, workflow_documents
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Operator, Reader, Visitor

router = APIRouter(prefix="/api/workflows", tags=["workflows"])

ONE: dict[int | str, dict[str, Any]] = {200: {"model": workflow_documents.Workflow}}


@router.get("", responses={200: {"model": workflow_documents.Workflows}})
def workflows(visitor: Reader, team: TeamName | None = None) -> Response:
    """The runs of workflows, the newest of each team first."""
    found = [{**run, "team": one.name} for one in _teams(visitor, team) for run in one.workflow_runs()]
    return answer({"workflows": found})


@router.post("", status_code=201, responses={201: {"model": workflow_documents.Workflow}})
def start(visitor: Operator, new: models.NewWorkflow) -> Response:
    """Begin a run. A `directory` other than the team's own may be named by an admin only."""
    if new.directory is not None and visitor.principal.role != "admin":
        raise Forbidden("Only an admin may name another directory than the team's own.", field="directory")
    run = visitor.acting(new.team).start_workflow(**new.given("team"))
    return answer({**run, "team": new.team}, 201)


@router.get("/queue", responses={200: {"model": workflow_documents.WorkflowQueue}})
def queue(visitor: Reader, team: TeamName) -> Response:
    """What waits for its turn in a team, in the order in which it will start."""
    return answer({"queue": visitor.team(team).workflow_queue()})


@router.post("/queue", status_code=201, responses={201: {"model": workflow_documents.WorkflowEntry}})
def enqueue(visitor: Operator, new: models.QueuedWorkflow) -> Response:
    """Queue a workflow, by its task or an invocation."""
    return answer(visitor.acting(new.team).queue_workflow(new.what, priority=new.priority), 201)


@router.get("/{id}", responses=ONE)
def show(visitor: Reader, id: str, team: TeamName | None = None) -> Response:
    """One run."""
    found, run = _find(visitor, id, team)
    return answer({**run, "team": found.name})


@router.get("/{id}/decisions", responses={200: {"model": documents.Document}})
def decisions(visitor: Reader, id: str, team: TeamName | None = None) -> Response:
    """Every decision of a run, whole and in order."""
    found, run = _find(visitor, id, team)
    return answer({"decisions": found.workflow_decisions(str(run["workflow_id"]))})


@router.post("/{id}/resume", responses=ONE)
def resume(visitor: Operator, id: str, team: TeamName | None = None) -> Response:
    """Take an interrupted or failed run up again."""
    found, run = _find(visitor, id, team)
    return answer(visitor.acting(found.name).resume_workflow(str(run["workflow_id"])))


@router.post("/{id}/adjust", responses={200: {"model": workflow_documents.Adjusted}})
def adjust(visitor: Operator, id: str, words: models.Adjustment, team: TeamName | None = None) -> Response:
    """Say how careful or talkative a run is (`use tier 3`, `be careful`, `progress: silent`); without words, see what
    is in force."""
    found, run = _find(visitor, id, team)
    acting = visitor.acting(found.name)
    return answer(acting.adjust_workflow(words.said, str(run["workflow_id"]), clear=words.clear))


@router.get("/{id}/checkpoints", responses={200: {"model": workflow_documents.Checkpoints}})
def checkpoints(visitor: Reader, id: str, team: TeamName | None = None) -> Response:
    """What a run can be rolled back to, the newest first."""
    found, run = _find(visitor, id, team)
    return answer({"checkpoints": found.workflow_checkpoints(str(run["workflow_id"]))})


@router.post("/{id}/rollback", responses={200: {"model": workflow_documents.RolledBack}})
def rollback(visitor: Operator, id: str, how: models.Rollback, team: TeamName | None = None) -> Response:
    """Take a run back to before a step, its state and the files that it wrote, or `undo` the last rollback. With
    `dry_run` nothing is changed: `asked` are the files that somebody else has changed, which stay unless `include`
    names them (`*` for all)."""
    found, run = _find(visitor, id, team)
    if how.undo == (how.to is not None):
        raise InvalidRequest("Say `to`, the step to go back to before, or `undo`: true.", field="to")
    acting = visitor.acting(found.name)
    return answer(
        acting.rollback_workflow(str(run["workflow_id"]), to=how.to, include=how.include, dry_run=how.dry_run)
    )


@router.get("/{id}/feedback", responses={200: {"model": workflow_documents.Preferences}})
def preferences(visitor: Reader, id: str, team: TeamName | None = None) -> Response:
    """What was learned of people in the project of a run, and is heeded."""
    found, run = _find(visitor, id, team)
    return answer({"preferences": found.learned_preferences(str(run["workflow_id"]))})


@router.post("/{id}/feedback", responses={200: {"model": workflow_documents.FeedbackGiven}})
def feedback(visitor: Operator, id: str, words: models.Feedback, team: TeamName | None = None) -> Response:
    """Say what you think of the last thing that a run decided, or what is to be remembered."""
    found, run = _find(visitor, id, team)
    return answer(visitor.acting(found.name).workflow_feedback(words.text, run=str(run["workflow_id"])))


@router.delete("/{id}/feedback/{preference}", responses={200: {"model": workflow_documents.Preference}})
def forget(visitor: Operator, id: str, preference: str, team: TeamName | None = None) -> Response:
    """Let something that was learned count no more."""
    found, run = _find(visitor, id, team)
    return answer(visitor.acting(found.name).forget_preference(preference, run=str(run["workflow_id"])))


@router.post("/{id}/cancel", responses=ONE)
def cancel(visitor: Operator, id: str, team: TeamName | None = None) -> Response:
    """Call a run off."""
    found, run = _find(visitor, id, team)
    return answer(visitor.acting(found.name).cancel_workflow(str(run["workflow_id"])))


def _teams(visitor: Visitor, team: str | None) -> list[Team]:
    return [visitor.team(name) for name in ([team] if team is not None else visitor.teams())]


def _find(visitor: Visitor, id: str, team: str | None) -> tuple[Team, dict[str, Any]]:
    """The team that has the run, and the run.

    Raises:
        WorkflowNotFound: none has it. AmbiguousId: several have.
    """
    found = []
    for one in _teams(visitor, team):
        try:
            found.append((one, one.workflow_run(id)))
        except WorkflowNotFound:
            continue
    if not found:
        raise WorkflowNotFound(f"No team has a run {id[:80]!r}. GET /api/workflows lists all.", workflow_id=id)
    if len(found) > 1:
        raise AmbiguousId(
            f"{id[:80]} is in several teams; name one with ?team=.",
            candidates=[f"{one.name}/{run['workflow_id']}" for one, run in found],
        )
    return found[0]
