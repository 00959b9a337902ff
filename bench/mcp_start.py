"""How long an agent waits for its tools, and for the answer to a call.

The floor is the official SDK's own low-level server over its own stdio, with one tool that does nothing: what any MCP
server built on it costs. Both are asked by the same bare client, which adds next to nothing of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measure import Row, at_most, median, quantile, times
from interlock.wiring import connect

STARTS = 7
CALLS = 100
SOURCE = str(Path(__file__).resolve().parent.parent / "src")

SERVER = f"""
import sys
sys.path.insert(0, {SOURCE!r})
from interlock.surfaces.mcp import serve
from interlock.wiring import connect
serve(connect(sys.argv[1]), "bench", "ada", None)
"""

BARE_SERVER = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="task_list", input_schema={"type": "object"})])

async def call_tool(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="{}")])

async def main():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


def run() -> list[Row]:
    """Start, list, call; with Interlock and without."""
    with tempfile.TemporaryDirectory(prefix="il-", dir="/tmp") as home:
        opened = connect(home)
        team = opened.create_team("bench")
        team.spawn("ada")
        for number in range(10):
            team.create_task(f"task {number}")
        ours = [start(SERVER, home) for _ in range(STARTS)]
        floor = [start(BARE_SERVER, home) for _ in range(STARTS)]
        with ExitStack() as stack:
            mine, bare = (Server(stack, code, home) for code in (SERVER, BARE_SERVER))
            reads = times(lambda: mine.call("task_list"), CALLS)
            writes = times(lambda: mine.call("task_create", subject="x"), CALLS)
            nothing = times(lambda: bare.call("task_list"), CALLS)
        opened.close()
    return [
        Row("MCP start to first list of tools, median", median(ours), median(floor), goals=(at_most(1000),)),
        Row("MCP start to first list of tools, slowest", max(ours), max(floor)),
        Row("MCP task_list of ten, median", median(reads), median(nothing)),
        Row("MCP task_create, median", median(writes), median(nothing)),
        Row("MCP task_create, p99", quantile(writes, 0.99), quantile(nothing, 0.99)),
    ]


def start(code: str, home: str) -> float:
    """From the start of a server process until its tools are listed, ms."""
    before = time.perf_counter_ns()
    with ExitStack() as stack:
        Server(stack, code, home).ask("tools/list", {})
        return (time.perf_counter_ns() - before) / 1e6


class Server:
    """A server process and the least client that can speak to it."""

    def __init__(self, stack: ExitStack, code: str, home: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-c", code, home], stdin=pipe, stdout=pipe)
        stack.enter_context(self._process)
        assert self._process.stdin is not None
        stack.callback(self._process.stdin.close)
        self._id = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", hello)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> None:
        """Call a tool and wait for its answer."""
        self.ask("tools/call", {"name": tool, "arguments": arguments})

    def ask(self, method: str, params: dict[str, Any]) -> None:
        """One request and its answer."""
        self._id += 1
        self._say({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        if answer.get("id") != self._id or answer.get("result", {}).get("isError", "result" not in answer):
            raise RuntimeError(f"{method} was answered with {answer}")

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
