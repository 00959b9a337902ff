"""Teams and their members: list, create, look at, pause, delete; what they are doing and what they did."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from interlock.clock import iso, seconds
from interlock.errors import InvalidRequest
from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.lists import Paged
from interlock.surfaces.http.request_context import Admin, Operator, Reader, Worker, slow
from interlock.surfaces.http.responses import OpenDocument, OpenList, answer, documented
from interlock.surfaces.http.types import Limit, Moment, TeamName
from interlock.surfaces.http.verbs import VerbRoute, add

router = APIRouter(prefix="/api/teams", tags=["teams"])
Pausing = Annotated[requests.PauseRequest, Body(default_factory=requests.PauseRequest)]
Resuming = Annotated[requests.ResumeRequest, Body(default_factory=requests.ResumeRequest)]
TEAM = documented(responses.TeamDocument)


@router.get("", responses=documented(responses.TeamNames))
def teams(context: Reader, page: Paged) -> Response:
    """The names of all teams, in order."""
    return answer(page.of("teams", context.teams(), str))


@router.post("", status_code=201, responses=documented(responses.TeamDocument, 201))
def create(context: Admin, new: requests.NewTeam) -> Response:
    """Create a team."""
    context.need_home()
    team = context.home.create_team(new.name, new.lead, claim_policy=new.claim_policy, workdir=new.workdir)
    return answer(team.describe(), 201)


@router.delete("/{team}", responses=documented(responses.Deleted))
@slow
def delete(context: Admin, team: TeamName, force: bool = False) -> Response:
    """Delete a team with everything in it. Members at work are asked to stop first; `force` ends them."""
    context.check(team)
    context.home.delete_team(team, force=force)
    return answer({"deleted": team})


@router.get("/{team}/report", responses=documented(OpenDocument))
def report(context: Reader, team: TeamName, since: Moment | None = None, limit: Limit = 100) -> Response:
    """What needs you, what is done with its evidence, what failed and why, what it cost.

    Lists have the newest `limit`; `left_out` counts the others. `interlock report --json` has all.
    """
    if since is not None:
        try:
            since = iso(seconds(since))
        except (ValueError, OverflowError):
            raise InvalidRequest(
                "since must be an ISO 8601 time, such as 2026-11-21T07:00:00Z.", field="since"
            ) from None
    return answer(context.team(team).report(since, limit=limit))


@router.post("/{team}/pause", responses=TEAM)
def pause(context: Operator, team: TeamName, how: Pausing) -> Response:
    """Let runners start nothing new, in the team or of one member."""
    found = context.acting(team, how.by)
    found.pause(how.member, reason=how.reason)
    return answer(found.describe())


@router.post("/{team}/resume", responses=TEAM)
def resume(context: Operator, team: TeamName, how: Resuming) -> Response:
    """Continue after a pause."""
    found = context.acting(team, how.by)
    found.resume(how.member)
    return answer(found.describe())


@router.delete("/{team}/members/{member}", tags=["members"], responses=documented(responses.Removed))
def remove(context: Admin, team: TeamName, member: str) -> Response:
    """Remove a member; its tasks go back to the queue."""
    return answer({"removed": member, "released": context.acting(team).remove(member)})


one = APIRouter(prefix="/api/teams/{team}")
add(one, "teams", (
    VerbRoute("", responses.TeamDocument, verb="describe"),
    VerbRoute("/status", responses.TeamStatus),
    VerbRoute("/merge", responses.MergeResult, Operator, request=requests.MergeRequest, slow=True),
))  # fmt: skip
add(one, "members", (
    VerbRoute("/members", responses.MemberList, under="members", named=attrgetter("name")),
    VerbRoute("/members", responses.MemberDocument, Admin, "spawn", request=requests.NewMember, status=201),
    VerbRoute("/shutdown", OpenList, verb="shutdown_requests", under="shutdown_requests", named=attrgetter("id")),
    VerbRoute("/shutdown", OpenDocument, Worker, "request_shutdown", status=201),
    VerbRoute("/shutdown/answer", OpenDocument, Worker, "answer_shutdown", request=requests.ShutdownAnswer),
))  # fmt: skip
