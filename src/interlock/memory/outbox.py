"""What waits for a memory that is out of reach: the folder `<output_folder>/.memory-queue/` (NFR10).

* `pending.jsonl`: memories to be kept, one a line, the oldest first, each with its time and `"status": "pending"`; at
  most 100, then the oldest goes.
* `state.json`: since when memory has been out of reach, and why. So that holds for every process.
* `cache.json`: what the latest questions found, with their times.

Any number of processes may use it at once. Nobody talks to memory while he holds the queue's lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from interlock.clock import iso
from interlock.memory.store import Memory, MemoryUnavailable
from interlock.storage.files import locked_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clock import Clock

FOLDER = ".memory-queue"
FILE, STATE, CACHE, FLUSHING = "pending.jsonl", "state.json", "cache.json", ".flushing"
MOST = 100
CACHED = 10  # questions


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
                found.append(QueuedMemory(line, memory_of(json.loads(line))))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        return found

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
            lines = [*(one.line for one in self.entries()), json.dumps(shown, ensure_ascii=False)]
            self._write(lines[-MOST:])
        return max(0, len(lines) - MOST)

    def remove(self, entry: QueuedMemory) -> None:
        """Take an entry out, wherever it stands by now.

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
        """Whether this process may hand over what waits: one at a time does, and nobody waits for it."""
        if not self._lines():
            yield False
            return
        try:
            descriptor = os.open(os.path.join(self.folder, FLUSHING), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield False
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def state(self) -> dict[str, Any]:
        """What `note` wrote, empty while memory answers."""
        return self._read(STATE)

    def note(self, state: dict[str, Any]) -> None:
        """Write down since when memory has been out of reach; nothing of it where it answers. Where that cannot be
        written, only this process knows."""
        if state:
            self._replace(STATE, state)
        elif os.path.exists(os.path.join(self.folder, STATE)):
            self._replace(STATE, {})

    def cache(self, key: Sequence[object], memories: Sequence[Memory]) -> None:
        """Keep the answer to a question."""
        known = self._read(CACHE)
        known.pop(_hash(key), None)
        known[_hash(key)] = {"at": self._clock.now(), "memories": [one.as_dict() for one in memories]}
        self._replace(CACHE, dict(list(known.items())[-CACHED:]))

    def cached(self, key: Sequence[object], fresh: float) -> tuple[Memory, ...] | None:
        """The answer to that question, if it is not older than `fresh` seconds."""
        found = self._read(CACHE).get(_hash(key))
        try:
            if found is None or not 0 <= self._clock.now() - float(found["at"]) < fresh:
                return None
            return tuple(memory_of(one) for one in found["memories"])
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

    def _read(self, name: str) -> dict[str, Any]:
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _replace(self, name: str, value: dict[str, Any]) -> None:
        path = os.path.join(self.folder, name)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(value, file)
            os.rename(temporary, path)
        except (OSError, UnicodeError):
            return  # It only spares others a question; the queue itself is written by `_write`.

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            os.makedirs(self.folder, exist_ok=True)
            held = ExitStack()
            held.enter_context(locked_directory(self.folder))
        except OSError as error:
            raise MemoryUnavailable(f"The queue of memories {self.folder} cannot be used: {error}.") from error
        with held:
            yield


def memory_of(one: dict[str, Any]) -> Memory:
    """The memory that `as_dict` gave.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    project = one["project_id"]
    return Memory(
        str(one["title"]), str(one["content"]), int(one["importance"]), tuple(map(str, one["keywords"])),
        tuple(map(str, one["tags"])), None if project is None else str(project), str(one["created_at"]),
        str(one.get("id", "")), float(one.get("relevance", 0.0)), tuple(map(str, one.get("linked", ()))),
    )  # fmt: skip


def _hash(key: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(key, default=list).encode()).hexdigest()[:32]
