"""Mail over HTTP: shown by GET, handed over to a named session by `receive`, acknowledged by `ack` and nothing else.

Whether anybody read an answer, only its reader can say (decisions 5 and 50).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import anyio
import anyio.abc
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from interlock.app.mail import Mail
from interlock.app.team import Team
from interlock.errors import Forbidden, InterlockError
from interlock.model.message import Message
from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.closing import Closing
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Reader, Worker
from interlock.surfaces.mcp.handover import Handover
from interlock.surfaces.mcp.threads import in_thread

router = APIRouter(prefix="/api/teams/{team}/inbox/{member}", tags=["messages"])

WAITS_AT_ONCE = 100
_waits = anyio.CapacityLimiter(WAITS_AT_ONCE)
NOTHING: dict[str, Any] = {"messages": [], "timed_out": True}


@router.get("", responses={200: {"model": documents.Inbox}})
def inbox(
    visitor: Reader,
    team: TeamName,
    member: str,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0,
) -> Response:
    """Show the mail that the member has not acknowledged, and change nothing. Members see their own. `receive` hands it
    over."""
    if visitor.principal.team is not None and member != visitor.name:
        raise Forbidden(f"This token shows the messages of {visitor.name} only.", member=member)
    found = visitor.team(team).inbox(member, limit=limit + 1, after=after)
    shown = found[:limit]
    more = shown[-1].n if len(found) > limit else None
    return answer({"messages": [_shown(message) for message in shown], "next": more})


@router.post("/receive", responses={200: {"model": documents.Received}})
async def receive(request: Request, visitor: Worker, team: TeamName, member: str, wanted: models.Receive) -> Response:
    """Hand over the member's mail to this session. What was handed over before and never acknowledged, to this session
    or another, comes again with `redelivered`: a reader that died with it lost none. Members receive their own."""
    wait = None if wanted.wait_ms is None else wanted.wait_ms / 1000
    handover = Handover()

    def hand_over(found: Team) -> Mail:
        return handover.begin(found.mail(wait=wait, urgent_only=wanted.urgent_only, again=True))

    found = await in_thread(visitor.acting, team, member, wanted.session)
    closing: Closing = request.app.state.closing
    try:
        mail = await _unless_ended(request, closing, lambda: in_thread(hand_over, found))
    except BaseException:
        await in_thread(handover.end, False)
        raise
    if mail is None:
        await in_thread(handover.end, False)
        return answer(NOTHING)
    # Noted before a byte is sent: should the answer never arrive, the messages are not acknowledged, and come again.
    await in_thread(handover.end, True)
    return answer({"messages": [_shown(message) for message in mail.messages], "timed_out": mail.timed_out})


@router.post("/ack", responses={200: {"model": documents.Acknowledged}})
def ack(visitor: Worker, team: TeamName, member: str, seen: models.Acknowledge) -> Response:
    """Say that these messages were dealt with, so that they are not handed over again. Saying it twice is harmless;
    `unknown` lists ids of no message that was handed over to this member."""
    known = visitor.acting(team, member, seen.session).acknowledge(seen.ids)
    return answer({"acknowledged": known, "unknown": [id for id in dict.fromkeys(seen.ids) if id not in known]})


def _shown(message: Message) -> dict[str, Any]:
    return {**message.as_dict(), "attempt": message.attempt}


async def _unless_ended(request: Request, closing: Closing, begin: Callable[[], Any]) -> Mail | None:
    """What `begin` answers; null when the server ends or the caller is gone first."""
    found: Mail | None = None
    refused: InterlockError | None = None

    async def wait_for(group: anyio.abc.TaskGroup) -> None:
        nonlocal found, refused
        try:
            async with _waits:
                found = await begin()
        except InterlockError as error:
            refused = error
        group.cancel_scope.cancel()

    async def end_with(group: anyio.abc.TaskGroup) -> None:
        await closing.wait()
        group.cancel_scope.cancel()

    async def leave_with(group: anyio.abc.TaskGroup) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for one in (wait_for, end_with, leave_with):
            group.start_soon(one, group)
    if refused is not None:
        raise refused
    return found
