"""One memory to write, and others that are only read beside it: where those cannot be asked, they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.clock import SystemClock
from interlock.memory.forgetful import Forgetful
from interlock.memory.local import LocalMemory
from interlock.memory.mcp_server import McpConnection
from interlock.memory.retrying import RetryingMemory
from interlock.memory.serena import Serena
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
from interlock.processes.commands import words_of
from interlock.settings import Settings


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


def open_memory(home: str, settings: Settings, project: str, output_folder: str, log: Log) -> MemoryStore:
    """The local file, or Forgetful with the patience that a server needs, and what Serena knows beside it.

    Args:
        home: where the local file is.
        project: the directory of the project; programs that serve memory start in it.
        output_folder: where what a server did not take waits to be sent again.
        log: where its faults are told.
    """

    def server(name: str) -> McpConnection:
        url, command = str(settings.get(f"{name}_url")), str(settings.get(f"{name}_command"))
        words = [] if url else words_of(command, f"{name}_command")
        return McpConnection(name.capitalize(), command=words, url=url, directory=project)

    store: MemoryStore = LocalMemory(home, SystemClock())
    if settings.get("memory") == "forgetful":
        store = RetryingMemory(Forgetful(server("forgetful")), output_folder, SystemClock(), log)
    if settings.get("serena_command") or settings.get("serena_url"):
        return CompositeMemory(store, [Serena(server("serena"))], log)
    return store
