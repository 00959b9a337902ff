"""PORT: what earlier work has learned, and is looked up before new work begins.

A memory is one concept: a title, at most 2,000 characters, an importance from 1 to 10 (architectural decisions 9–10,
patterns 7–8, milestones 6–7), keywords and tags. What other memories' schemas lack travels as tags: `workflow:<id>`,
`type:<type>` (decision 41). Memory is optional: whoever asks it must do without when it raises `MemoryUnavailable`.

Implementations: `local` (SQLite full text, on this machine), `forgetful` (a Forgetful MCP server), `retrying` (another
one, with retries, an outbox and a cache for when it cannot be reached), `serena` (what a Serena MCP server knows of the
project, to read only) and `composite` (one to write, others to read).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

TITLE_CHARS = 200
CONTENT_CHARS = 2000
WORDS = 10
"""Keywords, and tags, of one memory."""
WORD_CHARS = 100
HIGH = 9
"""From that importance on it is an architectural decision."""
RECALL_SECONDS = 5.0
FLUSH_SECONDS = 2.0
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
    """One memory. `created_at` is ISO 8601 UTC; `project_id` None counts for every project; `relevance` (0 to 100) is
    how well it fits the query, 0 without one. `linked` are the ids of those it was linked to."""

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

    def as_dict(self) -> Json:
        names = ("id", "title", "content", "importance", "keywords", "tags", "project_id", "created_at", "relevance",
                 "linked")  # fmt: skip
        values = ((name, getattr(self, name)) for name in names)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    @classmethod
    def from_dict(cls, fields: Json) -> Memory:
        """Read what `as_dict` gave.

        Raises:
            KeyError, TypeError, ValueError: it is not that.
        """
        project = fields["project_id"]
        return cls(
            str(fields["title"]), str(fields["content"]), int(fields["importance"]),
            tuple(map(str, fields["keywords"])), tuple(map(str, fields["tags"])),
            None if project is None else str(project), str(fields["created_at"]), str(fields.get("id", "")),
            float(fields.get("relevance", 0.0)), tuple(map(str, fields.get("linked", ()))),
        )  # fmt: skip

    def tagged(self, name: str) -> str | None:
        """The value of its tag `name:…`."""
        return next((tag.partition(":")[2] for tag in self.tags if tag.startswith(f"{name}:")), None)


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """What is looked up; see `MemoryReader.recall`."""

    text: str
    project_id: str | None = None
    tags: tuple[str, ...] = ()
    limit: int = 20
    time_limit: float = RECALL_SECONDS

    def fits(self, memory: Memory) -> bool:
        """Whether a memory answers the query."""
        asked = terms(self.text)
        of_project = memory.project_id in (None, self.project_id)
        return of_project and set(self.tags) <= set(memory.tags) and (not asked or fit(asked, memory) > 0)


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

    def as_dict(self) -> Json:
        return asdict(self)


Log = Callable[[str, str], None]
"""Told what went wrong: (reason, operation)."""


class MemoryReader(ABC):
    """What is known beside memory, to read only. See the module."""

    @abstractmethod
    def search(self, query: MemoryQuery) -> RecallResult:
        """As `recall`."""

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
        return self.search(MemoryQuery(query, project_id, tuple(tags), limit, time_limit))

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds: connections, programs. It may be used again afterwards."""


class MemoryStore(MemoryReader):
    """See the module."""

    @abstractmethod
    def remember(self, memory: Memory) -> Memory:
        """Keep a memory; the same content of the same project again is the one that is there already.

        Raises:
            MemoryUnavailable: it was not kept.
            MemoryRefused: it never will be.
        """

    @abstractmethod
    def link(self, id: str, related: Sequence[str]) -> None:
        """Link a memory with others, both ways; those that are linked, or unknown, make no difference.

        Raises:
            MemoryUnavailable: they were not linked.
        """

    def flush(self, seconds: float = FLUSH_SECONDS, *, again: bool = False) -> int:
        """Hand over what waits, for at most so long; how many that were. `again` asks a memory that was given up.

        Raises:
            MemoryUnavailable: memory cannot be reached; the rest waits on.
        """
        return 0  # where nothing ever waits

    @abstractmethod
    def described(self) -> Condition:
        """What and where it is, as far as that is known without asking."""

    def condition(self) -> Condition:
        """How it is now; it is asked for that. Never raises."""
        try:
            self.recall("", limit=1)
        except MemoryUnavailable as error:
            return replace(self.described(), status=UNAVAILABLE, problem=error.message)
        return self.described()


class OpenMemory(Protocol):
    """Opens memory for the work on one project, as its settings say. `settings` are those in force, `project` its
    directory, `output_folder` where what waits is queued."""

    def __call__(self, settings: Any, project: str, output_folder: str, log: Log) -> MemoryStore:
        """Nothing is started or asked before the first call of what is opened."""


def fitted(memory: Memory) -> Memory:
    """`memory` within the limits: what is too long ends at a sentence, with a mark that it was cut."""
    return replace(
        memory,
        title=shortened(" ".join(memory.title.split()), TITLE_CHARS),
        content=shortened(memory.content.strip(), CONTENT_CHARS),
        importance=max(1, min(10, memory.importance)),
        keywords=tuple(word[:WORD_CHARS] for word in dict.fromkeys(memory.keywords) if word)[:WORDS],
        tags=tuple(word[:WORD_CHARS] for word in dict.fromkeys(memory.tags) if word)[:WORDS],
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
