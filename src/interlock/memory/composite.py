"""One memory to write, and others that are only read beside it: where those cannot be asked, they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.memory.store import (
    FLUSH_SECONDS,
    Condition,
    Log,
    Memory,
    MemoryQuery,
    MemoryReader,
    MemoryStore,
    MemoryUnavailable,
    RecallResult,
)


class CompositeMemory(MemoryStore):
    """`store` is written; `readers` are asked, too, what fits a query in words without tags."""

    def __init__(self, store: MemoryStore, readers: Sequence[MemoryReader], warn: Log = lambda *_: None) -> None:
        self._store = store
        self._readers = readers
        self._warn = warn

    def search(self, query: MemoryQuery) -> RecallResult:
        found = self._store.search(query)
        if query.tags or not query.text.strip():
            return found
        memories, servers = list(found.memories), list(found.servers)
        for reader in self._readers:
            try:
                read = reader.search(query)
            except MemoryUnavailable as error:
                self._warn(error.message, "read")
            else:
                memories += read.memories
                servers += read.servers
        return replace(found, memories=tuple(memories), servers=tuple(servers))

    def remember(self, memory: Memory) -> Memory:
        return self._store.remember(memory)

    def link(self, id: str, related: Sequence[str]) -> None:
        self._store.link(id, related)

    def flush(self, seconds: float = FLUSH_SECONDS, *, again: bool = False) -> int:
        return self._store.flush(seconds, again=again)

    def condition(self) -> Condition:
        return self._store.condition()

    def described(self) -> Condition:
        return self._store.described()

    def close(self) -> None:
        for memory in (self._store, *self._readers):
            memory.close()
