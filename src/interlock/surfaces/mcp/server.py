"""The tools on the official SDK's low-level server, which leaves schemas, results and errors to us."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import traceback
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from interlock import __version__
from interlock.errors import Forbidden, InterlockError, InvalidRequest
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.handover import Handovers, NotHandedOver
from interlock.surfaces.mcp.mail_tools import NOTHING_CAME
from interlock.surfaces.mcp.shapes import camel
from interlock.surfaces.mcp.stdio import Incoming, Outgoing, standard_streams
from interlock.surfaces.mcp.threads import in_thread
from interlock.surfaces.mcp.tool import Call, Tool, nearest
from interlock.surfaces.mcp.tools import TOOLS, visible

CALLS_AT_ONCE = 32
POLLS_AT_ONCE = 8

Context = ServerRequestContext[Any, Any]


def run(connection: Connection) -> None:
    """Serve `connection` over stdin and stdout until stdin closes, the client stops reading, or a signal says so."""
    anyio.run(_serve, connection)


async def _serve(connection: Connection) -> None:
    handovers = Handovers()
    face = Face(connection, handovers)
    server: Server[Any] = Server(
        "interlock",
        version=__version__,
        instructions=_instructions(connection),
        on_list_tools=face.list_tools,
        on_call_tool=face.call_tool,
    )
    file, descriptor = standard_streams()
    outgoing = Outgoing(descriptor, handovers)
    incoming = Incoming(file, outgoing, face.end_polls)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, incoming.stop)
    try:
        await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        outgoing.close()
        handovers.end_all()


class Face:
    """Answers what clients ask: lists tools and calls them. Verbs block, so each call runs in a thread of its own."""

    def __init__(self, connection: Connection, handovers: Handovers) -> None:
        self._connection = connection
        self._handovers = handovers
        self._polls: set[anyio.CancelScope] = set()
        self._ending = False
        self._calls_limit = anyio.CapacityLimiter(CALLS_AT_ONCE)
        self._polls_limit = anyio.CapacityLimiter(POLLS_AT_ONCE)

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools this member may use."""
        return ListToolsResult(tools=[_listed(tool) for tool in visible(self._connection.leads)])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """One call. Every refusal is a result with `isError`, never an error of the protocol."""
        try:
            tool = self._tool(params.name)
            arguments = tool.checked(params.arguments)
        except InterlockError as refusal:
            return _result(camel(refusal.as_dict()), None, failed=True)
        assert context.request_id is not None
        handover = self._handovers.open(context.request_id) if tool.hands_over else None
        call = Call(self._connection, arguments, handover)
        limit = self._polls_limit if tool.waits else self._calls_limit
        with anyio.CancelScope() as scope:
            if tool.waits:
                if self._ending:
                    scope.cancel()
                self._polls.add(scope)
            try:
                async with limit:
                    return await in_thread(self._answer, tool, call)
            finally:
                self._polls.discard(scope)
        # Only `end_polls` gets here: a cancellation from outside is raised.
        return _result(camel(NOTHING_CAME), None)

    def end_polls(self) -> None:
        """The connection closes: answer those who wait for mail."""
        self._ending = True
        for scope in list(self._polls):
            scope.cancel()

    def _tool(self, name: str) -> Tool:
        tool = TOOLS.get(name)
        if tool is None:
            shown = [tool.name for tool in visible(self._connection.leads)]
            close = nearest(name, shown)
            hint = f"Did you mean {close}?" if close else f"There are: {', '.join(shown)}."
            raise InvalidRequest(f"There is no tool {name[:80]!r}. {hint}", tool=name[:200], suggestion=close)
        if tool.for_leads and not self._connection.leads:
            raise Forbidden(
                f"{name} is for the lead; you are {self._connection.member}. Ask the lead with send_message.", tool=name
            )
        return tool

    def _answer(self, tool: Tool, call: Call) -> CallToolResult:
        """In a thread: run the verb, and look whether there is news."""
        connection = self._connection
        try:
            connection.settle()
            self._handovers.settle()
            connection.acted |= tool.hands_over
            value, failed = camel(tool.run(call)), False
            connection.acted |= not tool.reads
        except InterlockError as refusal:
            value, failed = camel(refusal.as_dict()), True
        except NotHandedOver:
            return _result(camel(NOTHING_CAME), None)  # The call was given up: nobody reads this.
        except Exception:  # boundary: a fault of ours must not take the connection, and the work in it, down
            traceback.print_exc(file=sys.stderr)
            told = "Interlock failed inside; its stderr says where. `interlock doctor` looks for damage."
            value, failed = {"error": "error", "message": told, "tool": tool.name}, True
        return _result(value, None if call.handover is not None else self._news(), failed=failed)

    def _news(self) -> str | None:
        try:
            return self._connection.news()
        except InterlockError:
            return None  # The answer itself stands; news that cannot be had now comes with the next one.


def _result(value: Any, news: str | None, *, failed: bool = False) -> CallToolResult:
    blocks = [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    if news is not None:
        blocks.append(news)
    return CallToolResult(content=[TextContent(type="text", text=block) for block in blocks], is_error=failed)


def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=ToolAnnotations(read_only_hint=True) if tool.reads else None,
    )


def _instructions(connection: Connection) -> str:
    role = "its lead" if connection.leads else "a member"
    you = f"{connection.member}, {role}," if connection.settled else role
    return (
        f"You are {you} in the team {connection.team_name}, which shares one list of tasks and "
        "mail. Work in a loop: task_claim, do the work, task_complete. A second block after a result is news: "
        "read_inbox then. With nothing to do, poll_inbox. Errors say in `message` what to do next."
    )
