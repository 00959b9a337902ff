"""A *channel* of Claude Code: it hears at once that mail waits, and what it asks at its prompt is asked of people, too.

Claude Code listens where it was started with `--channels` or `--dangerously-load-development-channels` and our name. It
loses what it is told while it does not listen, so a hint says that mail waits and never what is in it: mail is handed
over and acknowledged by hooks and tools alone. It hears unasked notifications only over the protocol of 2025, so
`server/discover` is not known here, and it begins with `initialize`.

What it relays is a question as long as its prompt may be open: until a person answers, `hold_time` is over, or the
connection ends. Its own prompt stays open, and it does not say when that was answered.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, NotificationParams
from pydantic import ConfigDict

from interlock.errors import InterlockError, TeamNotFound
from interlock.model.json import Json
from interlock.surfaces.mcp.connection import JoinedConnection
from interlock.surfaces.mcp.stdio import ServerStream
from interlock.surfaces.mcp.threads import in_thread

HINT = "notifications/claude/channel"
REQUEST = "notifications/claude/channel/permission_request"
VERDICT = "notifications/claude/channel/permission"
CAPABILITIES: dict[str, dict[str, Any]] = {"claude/channel": {}, "claude/channel/permission": {}}
UNKNOWN = frozenset({"server/discover"})
"""What a client asks that does not begin with `initialize`."""
INSTRUCTIONS = ' A <channel source="interlock"> event says that mail waits: call read_inbox.'
SETTLED = 1.0
"""Seconds that mail must have waited for a hint: what a hook hands over meanwhile needs none."""


class PermissionRequest(NotificationParams):
    """What Claude Code says of a prompt; all of it is text that an agent may have written."""

    model_config = ConfigDict(alias_generator=None)  # its names are no camelCase

    request_id: str
    tool_name: str
    description: str = ""
    input_preview: str = ""


class Channel:
    """The channel of one window."""

    def __init__(self, connection: JoinedConnection) -> None:
        self._connection = connection
        self._hinted: set[str] = set()
        self._asked: dict[str, str] = {}  # which request a question is
        self._listening = anyio.Event()

    def listen(self, server: Server[Any]) -> None:
        """Take from the client what it says of itself and of its prompts."""
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        server.add_notification_handler(REQUEST, PermissionRequest, self._permission)

    async def speak(self, outgoing: ServerStream) -> None:
        """Tell the client what there is, from when it listens until it is gone or the team is."""
        await self._listening.wait()
        try:
            team = await in_thread(self._connection.home.team, self._connection.team_name)
            async for _ in team.changes():
                if await in_thread(self._fresh_mail):
                    await anyio.sleep(SETTLED)
                for method, params in await in_thread(self._news):
                    await outgoing.send(
                        SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))
                    )
        except (TeamNotFound, anyio.BrokenResourceError):
            return

    def close(self) -> None:
        """Nobody waits at the prompt of this window any more."""
        for question in self._asked:
            self._withdraw(question, "its window is closed")

    async def _initialized(self, context: ServerRequestContext[Any, Any], params: NotificationParams) -> None:
        self._listening.set()

    async def _permission(self, context: ServerRequestContext[Any, Any], params: PermissionRequest) -> None:
        try:
            question, patience = await in_thread(self._ask, params)
        except InterlockError as refusal:  # Its prompt is open all the same.
            print(f"interlock mcp: a permission could not be asked for: {refusal}", file=sys.stderr)
            return
        if question is None:
            return
        await anyio.sleep(patience)
        if self._asked.pop(question, None) is not None:
            await in_thread(self._withdraw, question, f"nobody answered within {patience:.0f} s")

    def _ask(self, params: PermissionRequest) -> tuple[str | None, float]:
        """The question, null where the window works on no task, and how many seconds it is open."""
        if not self._connection.find_seat():
            return None, 0
        team = self._connection.team
        title = " ".join((params.description or params.input_preview).split())
        asked = team.relay_permission(
            params.request_id[:100], tool=params.tool_name[:100], title=title, preview=params.input_preview
        )
        if asked is None:
            return None, 0
        self._asked[asked.id] = params.request_id
        return asked.id, float(team.setting("hold_time")[0])

    def _fresh_mail(self) -> set[str]:
        """Mail that nobody was given and that no hint was of."""
        try:
            waits = self._connection.find_seat() and self._connection.team.inbox()
        except TeamNotFound:
            raise
        except InterlockError:
            return set()  # The ledger is busy: a hook brings the mail.
        stored = {message.id for message in waits or () if message.stage == "stored"}
        self._hinted &= stored
        return stored - self._hinted

    def _news(self) -> list[tuple[str, Json]]:
        """What the client is told now."""
        news: list[tuple[str, Json]] = []
        if fresh := self._fresh_mail():
            self._hinted |= fresh
            connection, many = self._connection, "s" if len(fresh) > 1 else ""
            said = f"{len(fresh)} new message{many} for {connection.member}: call read_inbox."
            news.append((HINT, {"content": said, "meta": {"team": connection.team_name, "member": connection.member}}))
        for question, request in list(self._asked.items()):
            try:
                answer = self._connection.team.relayed_verdict(question)
            except InterlockError:
                continue  # The ledger is busy: with the next change.
            if answer is not None and self._asked.pop(question, None) is not None:
                behavior = "allow" if answer == "allow" else "deny"
                news.append((VERDICT, {"request_id": request, "behavior": behavior}))
        return news

    def _withdraw(self, question: str, reason: str) -> None:
        try:
            self._connection.team.withdraw_relayed(question, reason)
        except InterlockError as refusal:
            print(f"interlock mcp: a question could not be withdrawn: {refusal}", file=sys.stderr)
