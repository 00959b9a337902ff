"""All of it on the official SDK's low-level server, which leaves schemas, results and errors to us."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
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
from interlock.model.json import Json
from interlock.model.message import Message
from interlock.model.task import Task
from interlock.surfaces.mcp.channel import CAPABILITIES, UNKNOWN, Channel
from interlock.surfaces.mcp.channel import INSTRUCTIONS as CHANNEL_INSTRUCTIONS
from interlock.surfaces.mcp.connection import Connection, JoinedConnection
from interlock.surfaces.mcp.delivery_receipt import DeliveryReceipts, NotDelivered
from interlock.surfaces.mcp.durable_tasks import EXTENSION, AboutTask, AnswersToTask, DurableTasks, declared
from interlock.surfaces.mcp.resources import ResourceServer
from interlock.surfaces.mcp.stdio import ClientStream, ServerStream
from interlock.surfaces.mcp.team_tools import NOTHING_CAME, TOOLS, visible
from interlock.surfaces.mcp.threads import in_thread
from interlock.surfaces.mcp.tool import McpTool, ToolCall, as_text, nearest
from interlock.surfaces.stdio import standard_streams
from interlock.version import __version__

CALLS_AT_ONCE = 32
POLLS_AT_ONCE = 8
INSTRUCTIONS = (
    "Work in a loop: task_claim, do the work, task_complete. A second block after a result is news: read_inbox then. "
    "With nothing to do, poll_inbox. Errors say in `message` what to do next."
)

ECHOED: dict[type, tuple[str, ...]] = {Task: ("id", "state", "status", "warnings"), Message: ("id", "recipient")}
"""What an agent that the runner drives is shown of what it has written itself, or has in its prompt."""
OTHER_TOOLS: dict[str, tuple[str, Json]] = {
    "task_find_available": ("task_list", {"ready": True}), "task_auto_claim": ("task_claim", {}),
    "inbox": ("read_inbox", {}),
}  # fmt: skip
"""Tools of OpenClaw that have another name here, and what they stand for."""

ALWAYS_LOADED: Json = {"anthropic/alwaysLoad": True}
"""Has Claude Code show a tool at once; behind its search for tools, which stays on, are those of other servers."""

Context = ServerRequestContext[Any, Any]


def run(connection: Connection) -> None:
    """Serve `connection` over stdin and stdout until stdin closes, the client stops reading, or a signal says so."""
    anyio.run(_serve, connection)


async def _serve(connection: Connection) -> None:
    receipts = DeliveryReceipts()
    tools = ToolServer(connection, receipts)
    server = protocol_server(lambda context: tools, _instructions(connection), driven=connection.driven)
    if not isinstance(connection, JoinedConnection) or not connection.channel:
        await _speak(server, receipts, tools.end_polls)
        return
    channel = Channel(connection)
    channel.listen(server)
    try:
        await _speak(server, receipts, tools.end_polls, channel)
    finally:
        channel.close()


def run_without_tools() -> None:
    """Serve a list of no tools over stdin and stdout, until stdin closes."""

    async def nothing(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[])

    server: Server[Any] = Server("interlock", version=__version__, on_list_tools=nothing)
    anyio.run(_speak, server, DeliveryReceipts(), lambda: None)


async def _speak(
    server: Server[Any], receipts: DeliveryReceipts, end_polls: Callable[[], None], channel: Channel | None = None
) -> None:
    file, descriptor = standard_streams()
    outgoing = ServerStream(descriptor, receipts)
    incoming = ClientStream(file, outgoing, end_polls, () if channel is None else UNKNOWN)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, incoming.stop)
    try:
        async with anyio.create_task_group() as beside:
            if channel is not None:
                beside.start_soon(channel.speak, outgoing)
            can = None if channel is None else CAPABILITIES
            await server.run(incoming, outgoing, server.create_initialization_options(None, can))
            beside.cancel_scope.cancel()
    finally:
        outgoing.close()
        receipts.end_all()


def protocol_server(
    of: Callable[[Context], ToolServer], instructions: str | None, *, driven: bool = False
) -> Server[Any]:
    """Make the SDK's server, whose calls go to what `of` finds for them; for an agent that the runner drives without
    resources and prompts."""

    def handler(answer: Callable[[ToolServer, Context, Any], Awaitable[Any]]) -> Callable[[Context, Any], Any]:
        async def handle(context: Context, params: Any) -> Any:
            return await answer(of(context), context, params)

        return handle

    readable: Json = {
        "on_list_resources": handler(lambda served, context, params: served.resources.list_resources()),
        "on_list_resource_templates": handler(lambda served, context, params: served.resources.list_templates()),
        "on_read_resource": handler(lambda served, context, params: served.resources.read(params)),
        "on_list_prompts": handler(lambda served, context, params: served.resources.list_prompts()),
        "on_completion": handler(lambda served, context, params: served.resources.complete(params)),
        "on_get_prompt": handler(lambda served, context, params: served.resources.get_prompt(params)),
    }
    server: Server[Any] = Server(
        "interlock",
        version=__version__,
        instructions=instructions,
        on_list_tools=handler(ToolServer.list_tools),
        on_call_tool=handler(ToolServer.call_tool),
        **({} if driven else readable),
    )
    if not driven:
        polled: dict[str, tuple[type[AboutTask], Callable[[ToolServer, Context, Any], Awaitable[Any]]]] = {
            "tasks/get": (AboutTask, lambda served, context, params: served.durable_tasks.get(context, params)),
            "tasks/update": (
                AnswersToTask,
                lambda served, context, params: served.durable_tasks.update(context, params),
            ),
            "tasks/cancel": (AboutTask, lambda served, context, params: served.durable_tasks.cancel(context, params)),
        }
        server.extensions[EXTENSION] = {}
        for method, (kind, answer) in polled.items():
            server.add_request_handler(method, kind, handler(answer))
    return server


def _instructions(connection: Connection) -> str | None:
    """Return what an agent is told of the team; one that the runner drives has it from its prompts."""
    if connection.driven:
        return None
    role = "its lead" if connection.leads else "a member"
    you = f"{connection.member}, {role}," if connection.settled else role
    told = f"You are {you} in the team {connection.team_name}, which shares one list of tasks and mail. {INSTRUCTIONS}"
    return told + CHANNEL_INSTRUCTIONS if connection.channel else told


class ToolServer:
    """Lists tools and calls them. Verbs block, so each call runs in a thread of its own.

    Args:
        readmit: refuses a caller who may no longer come in; asked, in a thread, once a call has waited.
    """

    def __init__(
        self, connection: Connection, receipts: DeliveryReceipts, readmit: Callable[[], object] = lambda: None
    ) -> None:
        self._connection = connection
        self._receipts = receipts
        self._readmit = readmit
        self.resources = ResourceServer(connection)
        self.durable_tasks = DurableTasks(connection)
        self._polls: set[anyio.CancelScope] = set()
        self._ending = False
        self._calls_limit = anyio.CapacityLimiter(CALLS_AT_ONCE)
        self._polls_limit = anyio.CapacityLimiter(POLLS_AT_ONCE)

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        in_workflow = await in_thread(lambda: self._connection.in_workflow)
        leads, driven = self._connection.leads, self._connection.driven
        shown = visible(leads, in_workflow, driven, self._connection.home.elsewhere)
        return ListToolsResult(tools=[listed(tool, driven) for tool in shown])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | Json:
        """Call one tool. Every refusal is a result with `isError`, never an error of the protocol. A client that takes
        tasks is answered with one by a tool that only begins something."""
        try:
            name, more = OTHER_TOOLS.get(params.name, (params.name, {}))
            tool = self._tool(name)
            arguments = tool.checked(self._of_this_team(tool, {**more, **(params.arguments or {})}))
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
                    return await in_thread(self._answer, tool, call, arguments, tool.begins_task and declared(context))
            finally:
                self._polls.discard(scope)
        # Only `end_polls` gets here: a cancellation from outside is raised.
        return _result(NOTHING_CAME)

    def end_polls(self) -> None:
        """Answer those who wait for mail: the connection closes."""
        self._ending = True
        for scope in list(self._polls):
            scope.cancel()

    def _of_this_team(self, tool: McpTool, arguments: Json) -> Json:
        """The arguments without the name of the team, which other programs' tools take with every call."""
        if tool.name == "team_create":
            return arguments
        said = {arguments.pop(name) for name in ("team_name", "teamName") if isinstance(arguments.get(name), str)}
        if said - {self._connection.team_name}:
            raise InvalidRequest(
                f"This connection is of the team {self._connection.team_name!r}: leave team_name out, or connect to "
                "the other.",
                field="team_name",
            )
        return arguments

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

    def _answer(self, tool: McpTool, call: ToolCall, arguments: Json, as_task: bool) -> CallToolResult | Json:
        """Run the verb, and look whether there is news. Blocks."""
        connection = self._connection
        failed = True
        try:
            connection.settle()
            self._receipts.settle()
            connection.acted |= tool.hands_over
            value = tool.run(call, **arguments)
            if tool.waits:
                self._readmit()
            connection.acted |= not tool.reads
            if as_task:
                return self.durable_tasks.begun(value["task_id"])
            failed = False
            if connection.driven and (shown := ECHOED.get(type(value))):
                value = {name: one for name in shown if (one := getattr(value, name))}
        except InterlockError as refusal:
            if call.receipt is not None:
                call.receipt.end(False)
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
    blocks = [as_text(value)]
    if news is not None:
        blocks.append(news)
    return CallToolResult(content=[TextContent(type="text", text=block) for block in blocks], is_error=failed)


def listed(tool: McpTool, driven: bool = False) -> ListedTool:
    """Return a tool as `tools/list` shows it, to an agent that the runner drives in brief."""
    brief = driven and tool.driven is not None
    return ListedTool(
        name=tool.name,
        description=tool.summary if brief else tool.description,
        input_schema=tool.brief if brief else tool.schema,
        annotations=ToolAnnotations(read_only_hint=True) if tool.reads else None,
        _meta=ALWAYS_LOADED if driven else None,
    )
