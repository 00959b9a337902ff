"""Teams and their members: list, create, look at, pause, delete; what they are doing and what they did."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.clock import iso, seconds
from interlock.errors import InvalidRequest
from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.request_context import Admin, Operator, Reader, Worker, slow
from interlock.surfaces.http.responses import OpenDocument, answer, documented
from interlock.surfaces.http.types import Moment, TeamName

router = APIRouter(prefix="/api/teams", tags=["teams"])
TEAM = documented(responses.TeamDocument)


@router.get("", responses=documented(responses.TeamNames))
def teams(context: Reader) -> Response:
    """The names of all teams."""
    return answer({"teams": context.teams()})


@router.post("", status_code=201, responses=documented(responses.TeamDocument, 201))
def create(context: Admin, new: requests.NewTeam) -> Response:
    """Create a team."""
    team = context.home.create_team(new.name, new.lead, claim_policy=new.claim_policy, workdir=new.workdir)
    return answer(team.describe(), 201)


@router.get("/{team}", responses=TEAM)
def show(context: Reader, team: TeamName) -> Response:
    """One team with its members and the number of its tasks in each state."""
    return answer(context.team(team).describe())


@router.delete("/{team}", responses=documented(responses.Deleted))
@slow
def delete(context: Admin, team: TeamName, force: bool = False) -> Response:
    """Delete a team with everything in it. Members at work are asked to stop first; `force` ends them."""
    context.home.delete_team(team, force=force)
    return answer({"deleted": team})


@router.get("/{team}/status", responses=documented(responses.TeamStatus))
def status(context: Reader, team: TeamName) -> Response:
    """What needs a human, what runs since when with its last words, what is next."""
    return answer(context.team(team).status())


@router.get("/{team}/report", responses=documented(OpenDocument))
def report(context: Reader, team: TeamName, since: Moment | None = None) -> Response:
    """What needs you, what is done with its evidence, what failed and why, what it cost."""
    if since is not None:
        try:
            since = iso(seconds(since))
        except (ValueError, OverflowError):
            raise InvalidRequest(
                "since must be an ISO 8601 time, such as 2026-11-21T07:00:00Z.", field="since"
            ) from None
    return answer(context.team(team).report(since))


@router.post("/{team}/merge", responses=documented(responses.MergeResult))
@slow
def merge(context: Operator, team: TeamName, what: requests.MergeRequest) -> Response:
    """Merge the finished work of tasks, or all of it, into a branch of the user's; `dry_run` shows what would come and
    what is in the way. For teams that work in worktrees. With conflicts, or changes in the way, nothing is changed."""
    acting = context.acting(team)
    return answer(acting.merge(what.tasks, everything=what.all, into=what.into, dry_run=what.dry_run))


@router.post("/{team}/pause", responses=TEAM)
def pause(context: Operator, team: TeamName, how: requests.PauseRequest) -> Response:
    """Let runners start nothing new, in the team or of one member."""
    found = context.acting(team, how.by)
    found.pause(how.member, reason=how.reason)
    return answer(found.describe())


@router.post("/{team}/resume", responses=TEAM)
def resume(context: Operator, team: TeamName, how: requests.ResumeRequest) -> Response:
    """Continue after a pause."""
    found = context.acting(team, how.by)
    found.resume(how.member)
    return answer(found.describe())


@router.get("/{team}/members", tags=["members"], responses=documented(responses.MemberList))
def members(context: Reader, team: TeamName) -> Response:
    """Who takes part, and on what."""
    return answer({"members": context.team(team).members()})


@router.post("/{team}/members", tags=["members"], status_code=201, responses=documented(responses.MemberDocument, 201))
def spawn(context: Admin, team: TeamName, new: requests.NewMember) -> Response:
    """Register a member."""
    return answer(context.acting(team, new.by).spawn(**new.given()), 201)


@router.delete("/{team}/members/{member}", tags=["members"], responses=documented(responses.Removed))
def remove(context: Admin, team: TeamName, member: str) -> Response:
    """Remove a member; its tasks go back to the queue."""
    return answer({"removed": member, "released": context.acting(team).remove(member)})


@router.get("/{team}/shutdown", tags=["members"], responses=documented(OpenDocument))
def shutdown_requests(context: Reader, team: TeamName) -> Response:
    """Shutdown requests that are still open."""
    return answer({"shutdown_requests": context.team(team).shutdown_requests()})


@router.post("/{team}/shutdown", tags=["members"], status_code=201, responses=documented(OpenDocument, 201))
def request_shutdown(context: Worker, team: TeamName, asked: requests.ShutdownRequest) -> Response:
    """Ask a member to stop, or, without one, announce that the caller will."""
    return answer(context.acting(team, asked.by).request_shutdown(asked.member, reason=asked.reason), 201)


@router.post("/{team}/shutdown/answer", tags=["members"], responses=documented(OpenDocument))
def answer_shutdown(context: Worker, team: TeamName, given: requests.ShutdownAnswer) -> Response:
    """Approve or reject a shutdown request."""
    found = context.acting(team, given.by)
    return answer(found.answer_shutdown(given.request, approve=given.approve, reason=given.reason))
