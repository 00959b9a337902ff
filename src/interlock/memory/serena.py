"""What a Serena MCP server knows of a project: its memories, files of Markdown that its agents write. To read only.

They are few and named for what they are about, so those whose names or texts have words of the question are told. The
texts are kept while the server lives; each is read once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from interlock.memory.mcp_server import McpConnection
from interlock.memory.store import RECALL_SECONDS, Memory, MemoryRefused, RecallResult, fit, fitted, terms

READ = 12
"""Memories that one question reads."""
IMPORTANCE = 7


class Serena:
    """See `memory.MemoryReader`. `server` is started for one project, whatever `project_id` says."""

    def __init__(self, server: McpConnection) -> None:
        self._server = server
        self._texts: dict[str, str] = {}

    def recall(
        self,
        query: str,
        *,
        project_id: str | None = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        time_limit: float = RECALL_SECONDS,
    ) -> RecallResult:
        """See `memory.MemoryReader.recall`. Its memories have no tags: none is found by them."""
        asked = terms(query)
        if tags or not asked:
            return RecallResult(())
        self._server.start()
        end = time.monotonic() + time_limit
        names = _names(self._server.call("list_memories", {}, time_limit))
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
            one = Memory(title, self._texts[name], IMPORTANCE, (), ("type:serena",), project_id, id=f"serena:{name}")
            relevance = fit(asked, one)
            if relevance:
                kept = fitted(one)
                found.append(
                    Memory(kept.title, kept.content, IMPORTANCE, (), kept.tags, project_id, "", one.id, relevance)
                )
        return RecallResult(tuple(sorted(found, key=lambda one: -one.relevance)[:limit]), servers=("serena",))

    def close(self) -> None:
        """See `memory.MemoryReader.close`."""
        self._texts.clear()
        self._server.close()


def _names(answer: object) -> list[str]:
    """The names that `list_memories` tells; servers of different age tell them as a list, or within an object."""
    if isinstance(answer, dict):
        answer = answer.get("memories", answer.get("result", []))
    if isinstance(answer, str):
        try:
            return _names(json.loads(answer))
        except (ValueError, RecursionError):
            return []
    return [one for one in answer if isinstance(one, str)] if isinstance(answer, list) else []
