"""A server with the tools of Serena's that are asked for here; its memories are the files of `.serena/memories`."""

import gc
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))
import tests.lean_models  # noqa: F401, I001 - before the library

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

FOLDER = Path(".serena/memories")
server = MCPServer("Serena")


@server.tool(structured_output=False)
def list_memories(topic: str = "") -> str:
    """Lists available memories, optionally filtered by topic."""
    found = sorted(str(one.relative_to(FOLDER).with_suffix("")) for one in FOLDER.rglob("*.md"))
    return json.dumps({"memories": [one for one in found if one.startswith(topic)]})


@server.tool(structured_output=False)
def read_memory(memory_name: str) -> str:
    """Use to read a memory that is likely to be relevant to the current task."""
    path = FOLDER / f"{memory_name}.md"
    if not path.is_file():
        raise ToolError(f"Error executing tool read_memory: FileNotFoundError: Memory named '{memory_name}' not found")
    return path.read_text()


server.run("stdio")
gc.freeze()
