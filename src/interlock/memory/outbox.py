"""What waits for a memory that is out of reach: the folder `<output_folder>/.memory-queue/` (NFR10).

* `pending.jsonl`: memories to be kept, one a line, the oldest first, each with its time and `"status": "pending"`; at
  most 100, then the oldest goes.
* `state.json`: since when memory has been out of reach, and why, for every process.
* `cache.json`: what the latest queries found, with their times.

Any number of processes may use it at once. None of them talks to memory while it holds the outbox's lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from interlock.clock import Clock, iso
from interlock.lazy_dataclass import dataclass
from interlock.memory.store import Memory, MemoryQuery, MemoryUnavailable
from interlock.model.json import Json
from interlock.storage.files import locked_directory

FOLDER = ".memory-queue"
FILE, STATE, CACHE, FLUSHING = "pending.jsonl", "state.json", "cache.json", ".flushing"
MOST = 100
CACHED = 10  # queries


@dataclass(frozen=True, slots=True)
class QueuedMemory:
    """One entry: its line in the file, which is its own alone, and the memory."""

    line: str
    memory: Memory


class Outbox:
    """See the module. `output_folder` is the project's."""

    def __init__(self, output_folder: str, clock: Clock) -> None:
        self.folder = os.path.join(output_folder, FOLDER)
        self.path = os.path.join(self.folder, FILE)
        self._clock = clock

    def entries(self) -> list[QueuedMemory]:
        """What waits, the oldest first; lines that cannot be read are left out."""
        found = []
        for line in self._lines():
            try:
                found.append(QueuedMemory(line, Memory.from_dict(json.loads(line))))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        return found

    def matching(self, query: MemoryQuery) -> list[Memory]:
        """What waits and answers the query, the newest first."""
        return [entry.memory for entry in reversed(self.entries()) if query.fits(entry.memory)]

    def add(self, memory: Memory) -> int:
        """Put a memory at the end; how many of the oldest had to go for it.

        Raises:
            MemoryUnavailable: it cannot be written.
        """
        at = iso(self._clock.now())
        shown = {
            **memory.as_dict(), "created_at": memory.created_at or at, "status": "pending", "queued_at": at,
            "entry": self._clock.new_id(),
        }  # fmt: skip
        with self._locked():
            lines = [*(entry.line for entry in self.entries()), json.dumps(shown, ensure_ascii=False)]
            self._write(lines[-MOST:])
        return max(0, len(lines) - MOST)

    def remove(self, entry: QueuedMemory) -> None:
        """Take an entry out, wherever it is by now.

        Raises:
            MemoryUnavailable: the file cannot be written.
        """
        with self._locked():
            lines = self._lines()
            if entry.line in lines:
                lines.remove(entry.line)
                self._write(lines)

    @contextmanager
    def flushing(self) -> Iterator[bool]:
        """Whether this process may hand over what waits: one at a time does, and none waits for it."""
        with ExitStack() as held:
            may = bool(self._lines())
            try:
                if may:
                    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                    descriptor = os.open(os.path.join(self.folder, FLUSHING), flags, 0o600)
                    held.callback(os.close, descriptor)
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                may = False
            yield may

    def state(self) -> Json:
        """What `note` wrote, empty while memory answers."""
        return self._read(STATE)

    def note(self, state: Json) -> None:
        """Write down since when memory has been out of reach; empty where it answers. Where that cannot be written,
        only this process knows."""
        if state or os.path.exists(os.path.join(self.folder, STATE)):
            self._replace(STATE, state)

    def cache(self, query: MemoryQuery, memories: Sequence[Memory]) -> None:
        """Keep the answer to a query."""
        known = self._read(CACHE)
        known.pop(_hash(query), None)
        known[_hash(query)] = {"at": self._clock.now(), "memories": [memory.as_dict() for memory in memories]}
        self._replace(CACHE, dict(list(known.items())[-CACHED:]))

    def cached(self, query: MemoryQuery, fresh: float) -> tuple[Memory, ...] | None:
        """The answer to that query, if it is not older than `fresh` seconds."""
        found = self._read(CACHE).get(_hash(query))
        try:
            if found is None or not 0 <= self._clock.now() - float(found["at"]) < fresh:
                return None
            return tuple(Memory.from_dict(fields) for fields in found["memories"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def _lines(self) -> list[str]:
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def _write(self, lines: Sequence[str]) -> None:
        temporary = f"{self.path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self.path)
        except (OSError, UnicodeError) as error:
            raise MemoryUnavailable(f"The queue of memories {self.path} cannot be written: {error}.") from error

    def _read(self, name: str) -> Json:
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _replace(self, name: str, value: Json) -> None:
        path = os.path.join(self.folder, name)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(value, file)
            os.rename(temporary, path)
        except (OSError, UnicodeError):
            return  # It only spares others a query; the queue itself is written by `_write`.

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as held:
            try:
                os.makedirs(self.folder, exist_ok=True)
                held.enter_context(locked_directory(self.folder))
            except OSError as error:
                raise MemoryUnavailable(f"The queue of memories {self.folder} cannot be used: {error}.") from error
            yield


def _hash(query: MemoryQuery) -> str:
    key = [query.text, query.project_id, query.tags, query.limit]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
