"""A server with Forgetful's three meta tools, and behind them the tools that are asked for here, to the letter of their
schemas (`forgetful_tools.json`): what it would refuse is refused. It keeps what it is given in the file DATA.

    forgetful.py DATA [http]      over stdio, or over HTTP on loopback: it prints its port

`CALLS`: a file that gets the name of each tool. `DIE_AT=TOOL`: it dies in the middle of that tool. `HANG_AT=TOOL`: it
never answers it, `SLOW_AT=TOOL`: after 1.2 seconds. `STAYS_DEAD=1`: once it has died it cannot be started again.
"""

import gc
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

DATA = Path(sys.argv[1])
DEAD = DATA.with_suffix(".dead")
if os.environ.get("STAYS_DEAD") and DEAD.exists():
    sys.exit("it cannot be started any more")

sys.path.append(str(Path(__file__).resolve().parents[3]))
import tests.lean_models  # noqa: E402, F401, I001 - before the library

import jsonschema  # noqa: E402
from mcp.server import MCPServer  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402

SCHEMAS = json.loads((Path(__file__).parent / "forgetful_tools.json").read_text())
NOW = "2026-11-21T10:01:05.465315"
server = MCPServer("Forgetful")


def load() -> dict[str, Any]:
    return json.loads(DATA.read_text()) if DATA.exists() else {"memories": [], "projects": []}  # type: ignore[no-any-return]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def similarity(query: str, memory: dict[str, Any]) -> float:
    asked, has = words(query), words(f"{memory['title']} {memory['content']}")
    return len(asked & has) / max(1, len(asked | has)) ** 0.5 / max(1, len(asked)) ** 0.5


class Tools:
    def __init__(self) -> None:
        self.all = load()

    def create_project(self, **given: Any) -> Any:
        made = {"status": "active", "repo_name": None, **given, "id": len(self.all["projects"]) + 1}
        self.all["projects"].append(made)
        return {**made, "memory_count": 0, "created_at": NOW + "Z", "updated_at": NOW + "Z"}

    def list_projects(self, name: str | None = None, **_: Any) -> Any:
        found = [one for one in self.all["projects"] if (name or "").lower() in one["name"].lower()]
        return {"projects": found[::-1], "total_count": len(found), "count": len(found), "name_filter": name}

    def create_memory(self, **given: Any) -> Any:
        made = {
            "project_ids": [], **{name: value for name, value in given.items() if value is not None},
            "id": len(self.all["memories"]) + 1, "created_at": NOW, "updated_at": NOW, "linked_memory_ids": [],
            "is_obsolete": False,
        }  # fmt: skip
        self.all["memories"].append(made)
        return {"id": made["id"], "title": made["title"], "linked_memory_ids": [], "project_ids": made["project_ids"]}

    def query_memory(self, query: str, project_ids: list[int] | None = None, k: int = 3, **_: Any) -> Any:
        some = [one for one in self.all["memories"] if not project_ids or set(project_ids) & set(one["project_ids"])]
        some = sorted(some, key=lambda one: -similarity(query, one))[:k]
        scores = [{"memory_id": one["id"], "similarity": similarity(query, one), "rerank_score": None} for one in some]
        return {
            "query": query, "primary_memories": some, "linked_memories": [], "scores": scores,
            "total_count": len(some), "token_count": 1, "truncated": False,
        }  # fmt: skip

    def get_recent_memories(
        self,
        limit: int = 10,
        offset: int = 0,
        project_ids: list[int] | None = None,
        tags: list[str] | None = None,
        **_: Any,
    ) -> Any:
        some = [one for one in self.all["memories"] if not project_ids or set(project_ids) & set(one["project_ids"])]
        some = [one for one in some if not tags or set(tags) & set(one["tags"])][::-1]
        some = some[offset : offset + limit]
        return {"memories": some, "total_count": len(some)}

    def link_memories(self, memory_id: int, related_ids: list[int]) -> Any:
        known = {one["id"]: one for one in self.all["memories"]}
        linked = [one for one in related_ids if one in known and one not in known[memory_id]["linked_memory_ids"]]
        for one in linked:
            known[memory_id]["linked_memory_ids"].append(one)
            known[one]["linked_memory_ids"].append(memory_id)
        return {"linked_memory_ids": linked}


@server.tool()
def discover_forgetful_tools(category: str | None = None) -> dict[str, Any]:
    """What there is."""
    return {"tools": sorted(SCHEMAS)}


@server.tool()
def how_to_use_forgetful_tool(tool_name: str) -> dict[str, Any]:
    """One tool."""
    return {"name": tool_name, "schema": SCHEMAS[tool_name]}


@server.tool()
def execute_forgetful_tool(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do it."""
    if calls := os.environ.get("CALLS"):
        with open(calls, "a") as file:
            file.write(f"{tool_name}\n")
    if os.environ.get("DIE_AT") == tool_name:
        DEAD.touch()
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(9)
    if os.environ.get("HANG_AT") == tool_name:
        threading.Event().wait()
    if os.environ.get("SLOW_AT") == tool_name:
        threading.Event().wait(1.2)
    if tool_name not in SCHEMAS:
        raise ToolError(f"Tool '{tool_name}' not found in registry.")
    try:
        jsonschema.validate(arguments, SCHEMAS[tool_name])
    except jsonschema.ValidationError as error:
        raise ToolError(f"Failed to execute '{tool_name}': 1 validation error\n{error.message}") from None
    tools = Tools()
    answer: dict[str, Any] = getattr(tools, tool_name)(**arguments)
    DATA.write_text(json.dumps(tools.all))
    return answer


if len(sys.argv) > 2:
    import uvicorn

    config = uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=0, log_level="error")
    listening = config.bind_socket()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])
else:
    server.run("stdio")
    gc.freeze()
