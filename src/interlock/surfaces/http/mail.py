"""Mail of a team: sent, shown by GET, handed over to a named session by `receive`, acknowledged by `ack` alone.

Whether anybody read an answer, only its reader can say (decisions 5 and 50).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

import anyio
import anyio.abc
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from interlock.app.mail import Mail
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model.json import Json
from interlock.model.message import Message
from interlock.surfaces.http import requests, responses
from interlock.surfaces.http.lists import ListPage
from interlock.surfaces.http.request_context import Reader, Worker
from interlock.surfaces.http.responses import answer, documented
from interlock.surfaces.http.types import Limit, TeamName
from interlock.surfaces.http.verbs import VerbRoute, add
from interlock.surfaces.mcp.delivery_receipt import DeliveryReceipt
from interlock.surfaces.mcp.threads import in_thread

router = APIRouter(prefix="/api/teams/{team}")

LARGEST = 2**53 - 1
"""The largest number that every reader of JSON keeps exactly."""
RECEIVERS = anyio.CapacityLimiter(100)


@router.get("/messages", tags=["messages"], responses=documented(responses.MessageList))
def history(
    context: Reader,
    team: TeamName,
    member: str | None = None,
    limit: Limit = 100,
    before: Annotated[int | None, Query(ge=1, le=LARGEST)] = None,
    after: Annotated[int | None, Query(ge=1, le=LARGEST)] = None,
) -> Response:
    """The newest messages to or from a member, or of the whole team, in order; marks nothing. A member sees its own.
    `next` is the `after`, or, which is the same, the `before` of the page with the older ones."""
    if member is None and context.principal.is_member:
        member = context.name
    context.own_mail_only(member)
    older = min((n for n in (before, after) if n is not None), default=None)
    found = context.team(team).history(member=member, limit=limit + 1, before=older)
    page = ListPage(limit).of("messages", found[::-1], attrgetter("n"))
    return answer({**page, "messages": page["messages"][::-1]})


add(router, "messages", (
    VerbRoute("/messages", responses.MessageDocument, Worker, "send", status=201),
    VerbRoute("/broadcast", responses.Broadcast, Worker, status=201),
))  # fmt: skip


@router.get("/inbox/{member}", tags=["messages"], responses=documented(responses.Inbox))
def inbox(
    context: Reader,
    team: TeamName,
    member: str,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
) -> Response:
    """Show the mail that the member has not acknowledged, and change nothing. Members see their own. `receive` hands it
    over. `next` is the `after` of the following page."""
    context.own_mail_only(member)
    found = context.team(team).inbox(member, limit=limit + 1, after=after)
    page = ListPage(limit).of("messages", found, attrgetter("n"))
    return answer({**page, "messages": [_shown(message) for message in page["messages"]]})


@router.post("/inbox/{member}/receive", tags=["messages"], responses=documented(responses.Received))
async def receive(
    request: Request, context: Worker, team: TeamName, member: str, wanted: requests.ReceiveRequest
) -> Response:
    """Hand over the member's mail to this session. What was handed over before and never acknowledged, to this session
    or another, comes again with `redelivered`: a reader that died with it lost none. Members receive their own."""
    wait = None if wanted.wait_ms is None else wanted.wait_ms / 1000
    acting = partial(context.acting, team, member, wanted.session)
    mail = await hand_over(request, acting, wait=wait, urgent_only=wanted.urgent_only, again=True)
    if mail is None:
        return answer({"messages": [], "timed_out": True})
    return answer({"messages": [_shown(message) for message in mail.messages], "timed_out": mail.timed_out})


async def hand_over(request: Request, acting: Callable[[], Team], **how: Any) -> Mail | None:
    """Hand over the mail of whom `acting` opens, as `Team.mail` does; null where the server ends or the caller is gone,
    and it went back.

    Raises:
        InterlockError: what the verb, or opening the team, raises.
    """
    receipt = DeliveryReceipt()
    mail: Mail | None = None
    refused: InterlockError | None = None

    async def take(group: anyio.abc.TaskGroup) -> None:
        nonlocal mail, refused
        try:
            found = await in_thread(acting)
            async with RECEIVERS:
                taken = await in_thread(lambda: receipt.begin(found.mail(**how, given_up=receipt.ended)))
            if how["wait"]:  # Its token may have been revoked meanwhile.
                await in_thread(request.app.state.authenticator.principal, request.headers)
            mail = taken
        except InterlockError as error:
            refused = error
        group.cancel_scope.cancel()

    async def end_with_server(group: anyio.abc.TaskGroup) -> None:
        await request.app.state.shutdown_signal.wait()
        group.cancel_scope.cancel()

    async def end_with_caller(group: anyio.abc.TaskGroup) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    handed_over = False
    try:
        async with anyio.create_task_group() as group:
            for one in (take, end_with_server, end_with_caller):
                group.start_soon(one, group)
        handed_over = mail is not None
    finally:
        # Noted before a byte is sent: should the answer never arrive, the messages are not acknowledged, and come
        # again. Without mail the server ends or the caller is gone, and what comes too late goes back.
        with anyio.CancelScope(shield=True):
            await in_thread(receipt.end, handed_over)
    if refused is not None:
        raise refused
    return mail


@router.post("/inbox/{member}/ack", tags=["messages"], responses=documented(responses.Acknowledged))
def ack(context: Worker, team: TeamName, member: str, seen: requests.Acknowledgement) -> Response:
    """Say that these messages were dealt with, so that they are not handed over again. Saying it twice is harmless;
    `unknown` lists ids of no message that was handed over to this member."""
    known = context.acting(team, member, seen.session).acknowledge(seen.ids)
    return answer({"acknowledged": known, "unknown": [id for id in dict.fromkeys(seen.ids) if id not in known]})


def _shown(message: Message) -> Json:
    return {**message.as_dict(), "attempt": message.attempt}
