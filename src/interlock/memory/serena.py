"""What a Serena MCP server knows of a project: its memories, files of Markdown that its agents write. To read only.

They are few and named for what they are about, so those whose names or texts have words of the query are told. The
texts are kept while the server lives; each is read once.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

from interlock.memory.mcp_server import McpConnection
from interlock.memory.store import (
    Memory,
    MemoryQuery,
    MemoryReader,
    MemoryRefused,
    RecallResult,
    fit,
    fitted,
    terms,
)

READ = 12
"""Memories that one query reads."""
IMPORTANCE = 7


class Serena(MemoryReader):
    """`server` is started for one project, whatever the `project_id` of a query. Its memories have no tags: none is
    found by them."""

    def __init__(self, server: McpConnection) -> None:
        self._server = server
        self._texts: dict[str, str] = {}

    def search(self, query: MemoryQuery) -> RecallResult:
        asked = terms(query.text)
        if query.tags or not asked:
            return RecallResult(())
        self._server.start()
        end = time.monotonic() + query.time_limit
        names = _names(self._server.call("list_memories", {}, query.time_limit))
        # Those named for something that was asked for come first; of the others as many as there is time for.
        names.sort(key=lambda name: -fit(asked, Memory(name.replace("_", " ").replace("/", " "), "")))
        found = []
        for name in names[:READ]:
            if name not in self._texts:
                if time.monotonic() >= end:
                    break
                try:
                    text = self._server.call("read_memory", {"memory_name": name}, end - time.monotonic())
                except MemoryRefused:  # gone since it was listed
                    continue
                self._texts[name] = text if isinstance(text, str) else json.dumps(text)
            title = name.replace("_", " ").replace("/", ": ")
            read = Memory(
                title, self._texts[name], IMPORTANCE, (), ("type:serena",), query.project_id, id=f"serena:{name}"
            )
            if relevance := fit(asked, read):
                found.append(replace(fitted(read), relevance=relevance))
        best = sorted(found, key=lambda memory: -memory.relevance)[: query.limit]
        return RecallResult(tuple(best), servers=("serena",))

    def close(self) -> None:
        self._texts.clear()
        self._server.close()


def _names(answer: object) -> list[str]:
    """The names that `list_memories` tells: as a list, or within an object, by the age of the server."""
    if isinstance(answer, dict):
        answer = answer.get("memories", answer.get("result", []))
    if isinstance(answer, str):
        try:
            return _names(json.loads(answer))
        except (ValueError, RecursionError):
            return []
    return [one for one in answer if isinstance(one, str)] if isinstance(answer, list) else []
