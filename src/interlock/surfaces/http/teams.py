"""Teams: list, make, look at, pause, delete; what they are doing and what they did."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.clock import iso, seconds
from interlock.errors import InvalidRequest
from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import Moment, TeamName
from interlock.surfaces.http.visitor import Admin, Operator, Reader

router = APIRouter(prefix="/api/teams", tags=["teams"])


@router.get("", responses={200: {"model": documents.Teams}})
def teams(visitor: Reader) -> Response:
    """The names of all teams."""
    return answer({"teams": visitor.teams()})


@router.post("", status_code=201, responses={201: {"model": documents.TeamDocument}})
def create(visitor: Admin, new: models.NewTeam) -> Response:
    """Make a team."""
    team = visitor.home.create_team(new.name, new.lead, claim_policy=new.claim_policy, workdir=new.workdir)
    return answer(team.describe(), 201)


@router.get("/{team}", responses={200: {"model": documents.TeamDocument}})
def show(visitor: Reader, team: TeamName) -> Response:
    """One team with its members and the number of its tasks in each state."""
    return answer(visitor.team(team).describe())


@router.delete("/{team}", responses={200: {"model": documents.Deleted}})
def delete(visitor: Admin, team: TeamName, force: bool = False) -> Response:
    """Delete a team with everything in it. Members at work are asked to stop first; `force` ends them."""
    visitor.home.delete_team(team, force=force)
    return answer({"deleted": team})


@router.get("/{team}/status", responses={200: {"model": documents.Status}})
def status(visitor: Reader, team: TeamName) -> Response:
    """What needs a human, what runs since when with its last words, what is next."""
    return answer(visitor.team(team).status())


@router.get("/{team}/report", responses={200: {"model": documents.Document}})
def report(visitor: Reader, team: TeamName, since: Moment | None = None) -> Response:
    """What needs you, what is done with its evidence, what failed and why, what it cost."""
    if since is not None:
        try:
            since = iso(seconds(since))
        except (ValueError, OverflowError):
            raise InvalidRequest(
                "since must be an ISO 8601 time, such as 2026-11-21T07:00:00Z.", field="since"
            ) from None
    return answer(visitor.team(team).report(since))


@router.post("/{team}/merge", responses={200: {"model": documents.Merged}})
def merge(visitor: Operator, team: TeamName, what: models.Merge) -> Response:
    """Merge the finished work of tasks, or all of it, into a branch of the user's; `dry_run` shows what would come and
    what is in the way. For teams that work in worktrees. With conflicts, or changes in the way, nothing is changed."""
    acting = visitor.acting(team)
    return answer(acting.merge(what.tasks, everything=what.all, into=what.into, dry_run=what.dry_run))


@router.post("/{team}/pause", responses={200: {"model": documents.TeamDocument}})
def pause(visitor: Operator, team: TeamName, how: models.Pause) -> Response:
    """Let runners start nothing new, in the team or of one member."""
    found = visitor.acting(team, how.by)
    found.pause(how.member, reason=how.reason)
    return answer(found.describe())


@router.post("/{team}/resume", responses={200: {"model": documents.TeamDocument}})
def resume(visitor: Operator, team: TeamName, how: models.Resume) -> Response:
    """Go on after a pause."""
    found = visitor.acting(team, how.by)
    found.resume(how.member)
    return answer(found.describe())


@router.get("/{team}/shutdown", responses={200: {"model": documents.Document}})
def shutdown_requests(visitor: Reader, team: TeamName) -> Response:
    """Shutdown requests that are still open."""
    return answer({"shutdown_requests": visitor.team(team).shutdown_requests()})
