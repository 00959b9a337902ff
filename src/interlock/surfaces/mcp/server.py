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

from interlock.errors import Forbidden, InterlockError, InvalidRequest
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.delivery_receipt import DeliveryReceipts, NotDelivered
from interlock.surfaces.mcp.stdio import ClientStream, ServerStream, standard_streams
from interlock.surfaces.mcp.team_tools import NOTHING_CAME, TOOLS, visible
from interlock.surfaces.mcp.threads import in_thread
from interlock.surfaces.mcp.tool import McpTool, ToolCall, camel, nearest
from interlock.version import __version__

CALLS_AT_ONCE = 32
POLLS_AT_ONCE = 8
INSTRUCTIONS = (
    "Work in a loop: task_claim, do the work, task_complete. A second block after a result is news: read_inbox then. "
    "With nothing to do, poll_inbox. Errors say in `message` what to do next."
)

Context = ServerRequestContext[Any, Any]


def run(connection: Connection) -> None:
    """Serve `connection` over stdin and stdout until stdin closes, the client stops reading, or a signal says so."""
    anyio.run(_serve, connection)


async def _serve(connection: Connection) -> None:
    receipts = DeliveryReceipts()
    tools = ToolServer(connection, receipts)
    role = "its lead" if connection.leads else "a member"
    you = f"{connection.member}, {role}," if connection.settled else role
    server: Server[Any] = Server(
        "interlock",
        version=__version__,
        instructions=f"You are {you} in the team {connection.team_name}, which shares one list of tasks and mail. "
        + INSTRUCTIONS,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
    )
    file, descriptor = standard_streams()
    outgoing = ServerStream(descriptor, receipts)
    incoming = ClientStream(file, outgoing, tools.end_polls)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, incoming.stop)
    try:
        await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        outgoing.close()
        receipts.end_all()


class ToolServer:
    """Lists tools and calls them. Verbs block, so each call runs in a thread of its own."""

    def __init__(self, connection: Connection, receipts: DeliveryReceipts) -> None:
        self._connection = connection
        self._receipts = receipts
        self._polls: set[anyio.CancelScope] = set()
        self._ending = False
        self._calls_limit = anyio.CapacityLimiter(CALLS_AT_ONCE)
        self._polls_limit = anyio.CapacityLimiter(POLLS_AT_ONCE)

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[listed(tool) for tool in visible(self._connection.leads)])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Call one tool. Every refusal is a result with `isError`, never an error of the protocol."""
        try:
            tool = self._tool(params.name)
            arguments = tool.checked(params.arguments)
        except InterlockError as refusal:
            return _result(refusal.as_dict(), failed=True)
        assert context.request_id is not None
        call = ToolCall(self._connection, self._receipts.open(context.request_id) if tool.hands_over else None)
        with anyio.CancelScope() as scope:
            if tool.waits:
                if self._ending:
                    scope.cancel()
                self._polls.add(scope)
            try:
                async with self._polls_limit if tool.waits else self._calls_limit:
                    return await in_thread(self._answer, tool, call, arguments)
            finally:
                self._polls.discard(scope)
        # Only `end_polls` gets here: a cancellation from outside is raised.
        return _result(NOTHING_CAME)

    def end_polls(self) -> None:
        """Answer those who wait for mail: the connection closes."""
        self._ending = True
        for scope in list(self._polls):
            scope.cancel()

    def _tool(self, name: str) -> McpTool:
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

    def _answer(self, tool: McpTool, call: ToolCall, arguments: dict[str, Any]) -> CallToolResult:
        """Run the verb, and look whether there is news. Blocks."""
        connection = self._connection
        failed = True
        try:
            connection.settle()
            self._receipts.settle()
            connection.acted |= tool.hands_over
            value = tool.run(call, **arguments)
            connection.acted |= not tool.reads
            failed = False
        except InterlockError as refusal:
            value = refusal.as_dict()
        except NotDelivered:
            return _result(NOTHING_CAME)  # The call was given up: nobody reads this.
        except Exception:  # boundary: a fault of ours must not take the connection, and the work in it, down
            traceback.print_exc(file=sys.stderr)
            told = "Interlock failed inside; its stderr says where. `interlock doctor` looks for damage."
            value = {"error": "error", "message": told, "tool": tool.name}
        try:
            news = None if tool.hands_over else connection.news()
        except InterlockError:
            news = None  # The answer itself stands; news that cannot be had now comes with the next one.
        return _result(value, news, failed=failed)


def _result(value: Any, news: str | None = None, *, failed: bool = False) -> CallToolResult:
    blocks = [json.dumps(camel(value), ensure_ascii=False, separators=(",", ":"))]
    if news is not None:
        blocks.append(news)
    return CallToolResult(content=[TextContent(type="text", text=block) for block in blocks], is_error=failed)


def listed(tool: McpTool) -> ListedTool:
    """Return a tool as `tools/list` shows it."""
    return ListedTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=ToolAnnotations(read_only_hint=True) if tool.reads else None,
    )
