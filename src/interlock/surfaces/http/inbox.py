"""Handing over mail: an answer with messages counts as delivered only once it was written (decision 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import anyio
import anyio.abc
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlock.client import Mail, Team
from interlock.errors import InterlockError
from interlock.surfaces.http import documents, models
from interlock.surfaces.http.answers import answer
from interlock.surfaces.http.closing import Closing
from interlock.surfaces.http.shapes import TeamName
from interlock.surfaces.http.visitor import Worker
from interlock.surfaces.mcp.handover import Handover
from interlock.surfaces.mcp.threads import in_thread

router = APIRouter(prefix="/api/teams/{team}/inbox/{member}", tags=["messages"])

LONGEST_WAIT_MS = 600_000
WAITS_AT_ONCE = 100
_waits = anyio.CapacityLimiter(WAITS_AT_ONCE)
NOTHING: dict[str, Any] = {"messages": [], "timed_out": True}


@router.get("", responses={200: {"model": documents.Inbox}})
async def inbox(
    request: Request,
    visitor: Worker,
    team: TeamName,
    member: str,
    wait_ms: Annotated[int | None, Query(ge=0, le=LONGEST_WAIT_MS, include_in_schema=False)] = None,
    urgent_only: bool = False,
) -> Response:
    """Hand over the member's mail. Members read their own. The parameter `wait_ms` (0 to 600000) waits until there is
    some; it is not described here, so that tools which try everything do not spend their time waiting."""
    wait = None if wait_ms is None else wait_ms / 1000
    handover = Handover()

    def hand_over(found: Team) -> Mail:
        return handover.begin(found.mail(wait=wait, urgent_only=urgent_only))

    found = await in_thread(visitor.acting, team, member)
    closing: Closing = request.app.state.closing
    try:
        mail = await _unless_ended(request, closing, lambda: in_thread(hand_over, found))
    except BaseException:
        await in_thread(handover.end, False)
        raise
    if mail is None:
        await in_thread(handover.end, False)
        return answer(NOTHING)
    shown = {"messages": [message.as_dict() for message in mail.messages], "timed_out": mail.timed_out}
    return Handed(answer(shown), handover)


@router.post("/acknowledge", responses={200: {"model": documents.Acknowledged}})
def acknowledge(visitor: Worker, team: TeamName, member: str, seen: models.Acknowledge) -> Response:
    """Say that these messages were seen."""
    return answer({"acknowledged": visitor.acting(team, seen.by or member).acknowledge(seen.ids)})


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


class Handed(Response):
    """An answer with mail in it."""

    def __init__(self, inner: Response, handover: Handover) -> None:
        self._inner = inner
        self._handover = handover
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and note what became of it."""
        written = False
        try:
            await self._inner(scope, receive, send)
            written = True
        finally:
            with anyio.CancelScope(shield=True):
                await in_thread(self._handover.end, written)
