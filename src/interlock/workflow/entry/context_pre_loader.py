"""Context Pre-Loader: what an agent is told of earlier work before a workflow begins (BMAD-2a.5, FR31, FR35, NFR3).

Looked up by project and the words of the workflow; said once, decisions first, cut to fit. Memory is optional: when it
cannot be asked in time, that is logged and the context is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from interlock.lazy_dataclass import dataclass
from interlock.memory.store import HIGH, RECALL_SECONDS, Memory, MemoryReader, MemoryUnavailable, same, shortened
from interlock.memory.store import words as words_of
from interlock.model.json import Json, fields_of

CONTEXT_CHARS = 4000
EACH_CHARS = 500
LOOKED_UP = 40
FOUNDING = "type:architecture"
"""The tag of decisions that the project is built on (see `workflow.memory.lesson`)."""
LEAST = 120  # characters of a memory, below which it is rather left out
HEAD = "What earlier work on this project has established; the more important first:"


@dataclass(frozen=True, slots=True)
class PreLoaded:
    """`context` is the text for the agent, empty where nothing is known. `relevance` (0–100) is that of the best
    memory, null without any. `source` is that of the memory, `degraded` where it could not be asked (`problem` says
    why). `servers` are the MCP servers that answered. `left_out` counts what did not fit, `duplicates` what was said
    already."""

    context: str = ""
    memories: tuple[Memory, ...] = ()
    relevance: float | None = None
    source: str = "memory"
    problem: str | None = None
    left_out: int = 0
    duplicates: int = 0
    servers: tuple[str, ...] = ()

    def as_dict(self) -> Json:
        """The shape in which it is logged."""
        shown = fields_of(self, ("relevance", "source", "problem", "left_out", "duplicates"))
        return {"memories": [memory.title for memory in self.memories], **shown}


class ContextPreLoader:
    """`memory` is asked, `log` gets what went wrong (reason, operation)."""

    def __init__(self, memory: MemoryReader, log: Callable[[str, str], None] = lambda *_: None) -> None:
        self._memory = memory
        self._log = log

    def load(
        self,
        project_id: str,
        words: Iterable[str],
        *,
        limit: int = CONTEXT_CHARS,
        time_limit: float = RECALL_SECONDS,
    ) -> PreLoaded:
        """The context for a workflow of that project; `words` are those of its name, description and brief. `limit` in
        characters, `time_limit` in seconds. Never raises."""
        try:
            recalled = self._memory.recall(
                " ".join(words), project_id=project_id, limit=LOOKED_UP, time_limit=time_limit
            )
            # What the project is built on concerns every workflow, whatever its words are.
            founding = self._memory.recall("", project_id=project_id, tags=[FOUNDING], limit=LOOKED_UP)
        except MemoryUnavailable as error:
            self._log(error.message, "recall")
            return PreLoaded(source="degraded", problem=error.message)
        known = {(one.title, one.content) for one in recalled.memories}
        memories = [*recalled.memories, *(one for one in founding.memories if (one.title, one.content) not in known)]
        return replace(prepared(memories, limit, recalled.source), servers=recalled.servers)


def prepared(memories: Iterable[Memory], limit: int = CONTEXT_CHARS, source: str = "memory") -> PreLoaded:
    """The context made of these memories: ordered, each thing once, at most `limit` characters."""
    ordered = sorted(
        memories, key=lambda one: (one.importance < HIGH, -one.relevance * one.importance, -one.importance)
    )
    unique: list[Memory] = []
    seen: list[frozenset[str]] = []
    for memory in ordered:
        words = words_of(f"{memory.title} {memory.content}")
        if not any(same(words, known) for known in seen):
            unique.append(memory)
            seen.append(words)
    lines, shown = [HEAD], list[Memory]()
    room = limit - len(HEAD)
    for memory in unique:
        # The first one is always told, cut as short as need be.
        content, kind = " ".join(memory.content.split()), memory.tagged("type")
        head = f"- {memory.title}" + (f" ({kind})" if kind else "")
        longest = min(EACH_CHARS, room - 1)
        text = shortened(f"{head}: {content}" if content else head, longest if shown else max(40, longest))
        if shown and (room - 1 < LEAST or len(text) + 1 > room):
            continue
        lines.append(text)
        shown.append(memory)
        room -= len(text) + 1
    if not shown:
        return PreLoaded(source=source)
    return PreLoaded(
        "\n".join(lines), tuple(shown), max(one.relevance for one in shown), source, None, len(unique) - len(shown),
        len(ordered) - len(unique),
    )  # fmt: skip
