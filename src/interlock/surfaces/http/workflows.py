"""Workflows of many steps: their runs in all teams that the caller may see, and the queues of those that wait.

A run is known by its id, which is unique in practice; `team` says where to look when it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Annotated, TypeVar

from fastapi import APIRouter, Body, Depends
from starlette.responses import Response

from interlock.app.team import Team
from interlock.errors import AmbiguousId, InvalidRequest, WorkflowNotFound
from interlock.model.json import Json
from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.lists import Paged
from interlock.surfaces.http.request_context import Operator, Reader, RequestContext, slow
from interlock.surfaces.http.responses import OpenList, answer, documented
from interlock.surfaces.http.types import TeamName

router = APIRouter(prefix="/api/workflows", tags=["workflows"])

T = TypeVar("T")

Adjusting = Annotated[requests.WorkflowAdjustment, Body(default_factory=requests.WorkflowAdjustment)]

ONE = documented(responses.WorkflowDocument)


@router.get("", responses=documented(responses.WorkflowList))
def workflows(context: Reader, page: Paged, team: TeamName | None = None) -> Response:
    """The runs of workflows, the newest of each team first."""
    found = [{**run, "team": name} for name, runs in _asking(context, team, Team.workflow_runs) for run in runs]
    return answer(context.warned(page.of("workflows", found, lambda run: f"{run['team']}/{run['workflow_id']}")))


@router.post("", status_code=201, responses=documented(responses.WorkflowDocument, 201))
def start(context: Operator, new: requests.NewWorkflow) -> Response:
    """Begin a run. A `directory` other than the team's own may be named by an admin only."""
    if new.directory is not None:
        context.need_admin("directory")
    run = context.acting(new.team).start_workflow(**new.given("team"))
    return answer({**run, "team": new.team}, 201)


@router.get("/queue", responses=documented(responses.QueueList))
def queue(context: Reader, page: Paged, team: TeamName) -> Response:
    """What waits for its turn in a team, in the order in which it will start."""
    return answer(page.of("queue", context.team(team).workflow_queue(), itemgetter("task_id")))


@router.post("/queue", status_code=201, responses=documented(responses.QueueEntry, 201))
def enqueue(context: Operator, new: requests.NewQueueEntry) -> Response:
    """Queue a workflow, by its task or an invocation."""
    return answer(context.acting(new.team).queue_workflow(new.what, priority=new.priority), 201)


@router.get("/{id}", responses=ONE)
def show(context: Reader, id: str, team: TeamName | None = None) -> Response:
    """One run."""
    found, run = _find(context, id, team)
    return answer(context.warned({**run, "team": found.name}))


@router.get("/{id}/decisions", responses=documented(OpenList))
def decisions(context: Reader, page: Paged, id: str, team: TeamName | None = None) -> Response:
    """Every decision of a run, whole and in order."""
    found, run = _find(context, id, team)
    return answer(page.of("decisions", found.workflow_decisions(str(run["workflow_id"]))))


@router.get("/{id}/checkpoints", responses=documented(responses.CheckpointList))
def checkpoints(context: Reader, page: Paged, id: str, team: TeamName | None = None) -> Response:
    """What a run can be rolled back to, the newest first."""
    found, run = _find(context, id, team)
    return answer(page.of("checkpoints", found.workflow_checkpoints(str(run["workflow_id"])), itemgetter("id")))


@router.get("/{id}/feedback", responses=documented(responses.PreferenceList))
@slow
def preferences(context: Reader, page: Paged, id: str, team: TeamName | None = None) -> Response:
    """What was learned of people in the project of a run, and is in force."""
    found, run = _find(context, id, team)
    return answer(page.of("preferences", found.learned_preferences(str(run["workflow_id"])), itemgetter("id")))


def _acting_on_run(context: Operator, id: str, team: TeamName | None = None) -> tuple[Team, str]:
    found, run = _find(context, id, team)
    return context.acting(found.name), str(run["workflow_id"])


ActingOnRun = Annotated[tuple[Team, str], Depends(_acting_on_run)]
"""The run's team, acting as the caller, who may operate; and the run's whole id."""


@router.post("/{id}/resume", responses=ONE)
def resume(target: ActingOnRun) -> Response:
    """Continue an interrupted or failed run."""
    team, run = target
    return answer(team.resume_workflow(run))


@router.post("/{id}/cancel", responses=ONE)
def cancel(target: ActingOnRun) -> Response:
    """Cancel a run."""
    team, run = target
    return answer(team.cancel_workflow(run))


@router.post("/{id}/adjust", responses=documented(responses.AdjustmentResult))
def adjust(target: ActingOnRun, words: Adjusting) -> Response:
    """Say how careful or talkative a run is (`use tier 3`, `be careful`, `progress: silent`); without words, see what
    is in force."""
    team, run = target
    return answer(team.adjust_workflow(words.said, run, clear=words.clear))


@router.post("/{id}/rollback", responses=documented(responses.RollbackResult))
@slow
def rollback(target: ActingOnRun, how: requests.RollbackRequest) -> Response:
    """Take a run back to before a step, its state and the files that it wrote, or `undo` the last rollback. With
    `dry_run` nothing is changed: `asked` are the files that somebody else has changed, which stay unless `include`
    names them (`*` for all)."""
    if how.undo == (how.to is not None):
        raise InvalidRequest("Say `to`, the step to go back to before, or `undo`: true.", field="to")
    team, run = target
    return answer(team.rollback_workflow(run, to=how.to, include=how.include, dry_run=how.dry_run))


@router.post("/{id}/feedback", responses=documented(responses.FeedbackResult))
@slow
def feedback(target: ActingOnRun, words: requests.WorkflowFeedback) -> Response:
    """Say what you think of the last thing that a run decided, or what is to be remembered."""
    team, run = target
    return answer(team.workflow_feedback(words.text, run=run))


@router.delete("/{id}/feedback/{preference}", responses=documented(responses.PreferenceDocument))
@slow
def forget(target: ActingOnRun, preference: str) -> Response:
    """Forget something that was learned."""
    team, run = target
    return answer(team.forget_preference(preference, run=run))


def _asking(context: RequestContext, team: str | None, ask: Callable[[Team], T]) -> Iterator[tuple[str, T]]:
    """What that team answers, or each that the caller may see and that can be read."""
    if team is not None:
        return iter([(team, ask(context.team(team)))])
    return context.home.readable(context.teams(), lambda name: ask(context.team(name)))


def _find(context: RequestContext, id: str, team: str | None) -> tuple[Team, Json]:
    """Return the team that has the run, and the run.

    Raises:
        WorkflowNotFound: none has it. AmbiguousId: several have.
    """

    def run_of(one: Team) -> tuple[Team, Json] | None:
        try:
            return one, one.workflow_run(id)
        except WorkflowNotFound:
            return None

    found = [has_it for _, has_it in _asking(context, team, run_of) if has_it is not None]
    if not found:
        told = f"No team has a run {id[:80]!r}. GET /api/workflows lists all."
        raise WorkflowNotFound(" ".join([told, *context.warned({}).get("warnings", ())]), workflow_id=id)
    if len(found) > 1:
        raise AmbiguousId(
            f"{id[:80]} is in several teams; name one with ?team=.",
            candidates=[f"{one.name}/{run['workflow_id']}" for one, run in found],
        )
    return found[0]
