"""One memory to write, and others that are only read beside it: where those cannot be asked, they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.memory.store import (
    RECALL_SECONDS,
    Condition,
    Log,
    Memory,
    MemoryReader,
    MemoryStore,
    MemoryUnavailable,
    RecallResult,
)


class CompositeMemory:
    """See `memory.MemoryStore`; `store` is written, `readers` are asked for what fits a question too."""

    def __init__(self, store: MemoryStore, readers: Sequence[MemoryReader], warn: Log = lambda *_: None) -> None:
        self._store = store
        self._readers = readers
        self._warn = warn

    def recall(
        self,
        query: str,
        *,
        project_id: str | None = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        time_limit: float = RECALL_SECONDS,
    ) -> RecallResult:
        """See `memory.MemoryStore.recall`. Only questions in words, without tags, are put to the others."""
        found = self._store.recall(query, project_id=project_id, tags=tags, limit=limit, time_limit=time_limit)
        if tags or not query.strip():
            return found
        more, servers = list[Memory](), list(found.servers)
        for reader in self._readers:
            try:
                read = reader.recall(query, project_id=project_id, limit=limit, time_limit=time_limit)
            except MemoryUnavailable as error:
                self._warn(error.message, "read")
            else:
                more += read.memories
                servers += read.servers
        return replace(found, memories=(*found.memories, *more), servers=tuple(servers))

    def remember(self, memory: Memory) -> Memory:
        """See `memory.MemoryStore.remember`."""
        return self._store.remember(memory)

    def link(self, id: str, related: Sequence[str]) -> None:
        """See `memory.MemoryStore.link`."""
        self._store.link(id, related)

    def flush(self, seconds: float = 2.0, *, again: bool = False) -> int:
        """See `memory.MemoryStore.flush`."""
        return self._store.flush(seconds, again=again)

    def condition(self) -> Condition:
        """See `memory.MemoryStore.condition`."""
        return self._store.condition()

    def described(self) -> Condition:
        """See `memory.MemoryStore.described`."""
        return self._store.described()

    def close(self) -> None:
        """See `memory.MemoryStore.close`."""
        self._store.close()
        for reader in self._readers:
            reader.close()
