"""Members of a team."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Admin, Reader, Worker

router = APIRouter(prefix="/api/teams/{team}", tags=["members"])


@router.get("/members", responses={200: {"model": documents.Members}})
def members(visitor: Reader, team: TeamName) -> Response:
    """Who takes part, and on what."""
    return answer({"members": [member.as_dict() for member in visitor.team(team).members()]})


@router.post("/members", status_code=201, responses={201: {"model": documents.MemberDocument}})
def spawn(visitor: Admin, team: TeamName, new: models.NewMember) -> Response:
    """Register a member."""
    member = visitor.acting(team, new.by).spawn(
        new.name, agent=new.agent, command=new.command, agent_id=new.agent_id, type=new.type, model=new.model,
        permissions=new.permissions,
    )  # fmt: skip
    return answer(member.as_dict(), 201)


@router.delete("/members/{member}", responses={200: {"model": documents.Removed}})
def remove(visitor: Admin, team: TeamName, member: str) -> Response:
    """Take a member out; its tasks go back to the queue."""
    return answer({"removed": member, "released": visitor.acting(team).remove(member)})


@router.post("/shutdown", status_code=201, responses={201: {"model": documents.Document}})
def request_shutdown(visitor: Worker, team: TeamName, asked: models.ShutdownRequest) -> Response:
    """Ask a member to stop, or, without one, announce that the caller will."""
    return answer(visitor.acting(team, asked.by).request_shutdown(asked.member, reason=asked.reason), 201)


@router.post("/shutdown/answer", responses={200: {"model": documents.Document}})
def answer_shutdown(visitor: Worker, team: TeamName, given: models.ShutdownAnswer) -> Response:
    """Approve or reject a shutdown request."""
    found = visitor.acting(team, given.by)
    return answer(found.answer_shutdown(given.request, approve=given.approve, reason=given.reason))
