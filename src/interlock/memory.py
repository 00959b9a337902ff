"""PORT: what earlier work has learned, and is looked up before new work begins.

A memory is one concept: a title, at most 2,000 characters, an importance from 1 to 10 (architectural decisions 9–10,
patterns 7–8, milestones 6–7), keywords and tags. What other memories' schemas lack travels as tags: `workflow:<id>`,
`type:<type>` (decision 41). Memory is optional: whoever asks it must do without when it raises `MemoryUnavailable`.

Implementations: `memories/local` (SQLite full text, on this machine), `memories/patient` (any other one, with retries,
a queue on disk and a cache for when it cannot be reached).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from interlock.errors import InterlockError

TITLE_CHARS = 200
CONTENT_CHARS = 2000
WORDS = 10
"""Keywords, and tags, of one memory."""
WORD_CHARS = 100
HIGH = 9
"""From that importance on it is an architectural decision."""
RECALL_SECONDS = 2.0


class MemoryUnavailable(InterlockError):
    """Memory cannot be reached or read now; work goes on without."""

    code = "memory_unavailable"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. `created_at` is ISO 8601 UTC; `project_id` null counts for every project; `relevance` (0 to 100) is
    how well it fits what was asked, 0 where nothing was."""

    title: str
    content: str
    importance: int = 7
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    project_id: str | None = None
    created_at: str = ""
    id: str = ""
    relevance: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """All fields."""
        return {
            "id": self.id,
            "title": self.title,
            "content": self.content,
            "importance": self.importance,
            "keywords": list(self.keywords),
            "tags": list(self.tags),
            "project_id": self.project_id,
            "created_at": self.created_at,
            "relevance": self.relevance,
        }

    def tagged(self, name: str) -> str | None:
        """The value of its tag `name:…`."""
        return next((tag.partition(":")[2] for tag in self.tags if tag.startswith(f"{name}:")), None)


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found, the most relevant first. `source` is `memory`, `cache` (then `stale`: there may be newer
    ones), or `degraded`: memory could not be asked, and this is what was at hand."""

    memories: tuple[Memory, ...]
    source: str = "memory"
    stale: bool = False


class MemoryStore(Protocol):
    """See the module."""

    def recall(
        self,
        query: str,
        *,
        project_id: str | None = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        time_limit: float = RECALL_SECONDS,
    ) -> Recalled:
        """Memories of that project (and of none) that have all `tags` and fit `query`; an empty query fits all, the
        newest first. `time_limit` in seconds.

        Raises:
            MemoryUnavailable: memory cannot be asked, or takes longer.
        """

    def remember(self, memory: Memory) -> Memory:
        """Keep a memory; the same content of the same project again is the one that is there already.

        Raises:
            MemoryUnavailable: it was not kept.
        """


def fitted(memory: Memory) -> Memory:
    """`memory` within the limits: what is too long ends at a sentence, with a mark that it was cut."""
    return Memory(
        shortened(" ".join(memory.title.split()), TITLE_CHARS),
        shortened(memory.content.strip(), CONTENT_CHARS),
        max(1, min(10, memory.importance)),
        tuple(word[:WORD_CHARS] for word in dict.fromkeys(memory.keywords) if word)[:WORDS],
        tuple(word[:WORD_CHARS] for word in dict.fromkeys(memory.tags) if word)[:WORDS],
        memory.project_id,
        memory.created_at,
        memory.id,
        memory.relevance,
    )


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of `text`: whole sentences where they fill half of it, else whole words."""
    if len(text) <= limit:
        return text
    room = text[: max(0, limit - 2)]
    ends = [room.rfind(mark) + 1 for mark in (". ", ".\n", "! ", "? ", "\n")]
    best = max(ends)
    if best < len(room) // 2:
        best = room.rfind(" ") if room.rfind(" ") >= len(room) // 2 else len(room)
    return (room[:best].rstrip() + " …")[:limit]
