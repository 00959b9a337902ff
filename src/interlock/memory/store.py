"""PORT: what earlier work has learned, and is looked up before new work begins.

A memory is one concept: a title, at most 2,000 characters, an importance from 1 to 10 (architectural decisions 9–10,
patterns 7–8, milestones 6–7), keywords and tags. What other memories' schemas lack travels as tags: `workflow:<id>`,
`type:<type>` (decision 41). Memory is optional: whoever asks it must do without when it raises `MemoryUnavailable`.

Implementations: `memories/local` (SQLite full text, on this machine), `memories/forgetful` (a Forgetful MCP server),
`memories/patient` (any one, with retries, a queue on disk and a cache for when it cannot be reached), `memories/serena`
(what a Serena MCP server knows of the project, to read only) and `memories/joined` (one to write, others to read).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
AVAILABLE, UNAVAILABLE, PERMANENTLY_UNAVAILABLE = "AVAILABLE", "UNAVAILABLE", "PERMANENTLY_UNAVAILABLE"
SAME = 0.8
"""Share of words in common from which two memories say the same."""
WORD = re.compile(r"\w{2,}")


class MemoryUnavailable(InterlockError):
    """Memory cannot be reached or read now; work goes on without."""

    code = "memory_unavailable"


class MemoryRefused(MemoryUnavailable):
    """Memory was reached and will not keep this one; asking again would not help."""

    code = "memory_refused"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. `created_at` is ISO 8601 UTC; `project_id` null counts for every project; `relevance` (0 to 100) is
    how well it fits what was asked, 0 where nothing was. `linked` are the ids of those it was linked to."""

    title: str
    content: str
    importance: int = 7
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    project_id: str | None = None
    created_at: str = ""
    id: str = ""
    relevance: float = 0.0
    linked: tuple[str, ...] = ()

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
            "linked": list(self.linked),
        }

    def tagged(self, name: str) -> str | None:
        """The value of its tag `name:…`."""
        return next((tag.partition(":")[2] for tag in self.tags if tag.startswith(f"{name}:")), None)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What was found, the most relevant first. `source` is `memory`, `cache` (then `stale`: there may be newer
    ones), or `degraded`: memory could not be asked, and this is what was at hand. `servers` are the MCP servers that
    answered."""

    memories: tuple[Memory, ...]
    source: str = "memory"
    stale: bool = False
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """How memory is. `kind` names it, `where` is its file, program or address; `status` is AVAILABLE, UNAVAILABLE or
    PERMANENTLY_UNAVAILABLE, `since` when it was first out of reach (ISO 8601 UTC), `problem` what was wrong then.
    `queued` memories wait for it in `queue`."""

    kind: str
    where: str
    status: str = AVAILABLE
    since: str | None = None
    problem: str | None = None
    queued: int = 0
    queue: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """All fields."""
        return {name: getattr(self, name) for name in self.__slots__}


Log = Callable[[str, str], None]
"""Told what went wrong: (reason, operation)."""


class MemoryReader(Protocol):
    """What is known beside memory, to read only. See the module."""

    def recall(
        self,
        query: str,
        *,
        project_id: str | None = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        time_limit: float = RECALL_SECONDS,
    ) -> RecallResult:
        """Memories of that project (and of none) that have all `tags` and fit `query`; an empty query fits all, the
        newest first. `time_limit` in seconds.

        Raises:
            MemoryUnavailable: memory cannot be asked, or takes longer.
        """

    def close(self) -> None:
        """Give back what it holds: connections, programs. It may be used again afterwards."""


class MemoryStore(MemoryReader, Protocol):
    """See the module."""

    def remember(self, memory: Memory) -> Memory:
        """Keep a memory; the same content of the same project again is the one that is there already.

        Raises:
            MemoryUnavailable: it was not kept.
            MemoryRefused: it never will be.
        """

    def link(self, id: str, related: Sequence[str]) -> None:
        """Link a memory with others, both ways; those that are linked, or unknown, make no difference.

        Raises:
            MemoryUnavailable: they were not linked.
        """

    def flush(self, seconds: float = 2.0, *, again: bool = False) -> int:
        """Hand over what waits, for at most so long; how many that were. `again` asks a memory that was given up.

        Raises:
            MemoryUnavailable: memory cannot be reached; the rest waits on.
        """

    def condition(self) -> Condition:
        """How it is now; it is asked for that. Never raises."""

    def described(self) -> Condition:
        """What and where it is, as far as that is known without asking."""


class OpenMemory(Protocol):
    """Opens memory for the work on one project, as its settings say. `settings` are those in force, `project` its
    directory, `output_folder` where what waits is queued."""

    def __call__(self, settings: Any, project: str, output_folder: str, log: Log) -> MemoryStore:
        """Nothing is started or asked before the first call of what is opened."""


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
        memory.linked,
    )


def words(text: str) -> frozenset[str]:
    """The words that a text is compared by."""
    return frozenset(re.findall(r"\w+", text.lower()))


def same(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two texts, as `words`, say the same."""
    return len(one & other) >= SAME * max(1, len(one | other))


def fit(asked: Sequence[str], memory: Memory) -> float:
    """How well a memory fits the words that were asked for, 0 to 100: of a long question nobody expects more than a
    handful."""
    has = {word.lower() for word in WORD.findall(f"{memory.title} {memory.content} {' '.join(memory.keywords)}")}
    hits = sum(any(word.startswith(term[:6]) for word in has) for term in asked)
    return min(100.0, round(100 * hits / max(1, min(5, len(asked))), 1)) if asked else 0.0


STOP = frozenset(
    "the and for with that this from into are was were not you your our its has have will can may all any how what "
    "when then than but use using step steps workflow".split()
)
TERMS = 40


def terms(query: str) -> list[str]:
    """The words of a question that are looked up, each once."""
    found = (word.lower() for word in WORD.findall(query))
    return list(dict.fromkeys(word for word in found if word not in STOP))[:TERMS]


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
