"""A memory that may be out of reach, and what makes that bearable (NFR9, NFR10): three tries a tenth of a second apart,
writes queued below `<output_folder>/.memory-queue/`, reads answered from a cache of five minutes, and after four hours
without an answer no more tries. What is queued is found by reads too, and handed over in order once memory answers.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from interlock.clock import iso
from interlock.memory import RECALL_SECONDS, Memory, MemoryStore, MemoryUnavailable, Recalled, fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.clock import Clock

FOLDER = ".memory-queue"
FILE = "pending.jsonl"
TRIES = 3
PAUSE = 0.1
MOST = 100
FRESH = 300.0
GIVEN_UP = 4 * 3600.0
AVAILABLE, UNAVAILABLE, PERMANENTLY_UNAVAILABLE = "AVAILABLE", "UNAVAILABLE", "PERMANENTLY_UNAVAILABLE"
T = TypeVar("T")


class PatientMemory:
    """See `memory.MemoryStore`; `inner` is the one that may be out of reach, `warn` gets (reason, operation)."""

    def __init__(
        self, inner: MemoryStore, output_folder: str, clock: Clock, warn: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        self._inner = inner
        self._path = os.path.join(output_folder, FOLDER, FILE)
        self._clock = clock
        self._warn = warn
        self._cache: dict[tuple[Any, ...], tuple[float, Recalled]] = {}
        self._since: float | None = None

    @property
    def status(self) -> str:
        """AVAILABLE, UNAVAILABLE, or, after four hours of that, PERMANENTLY_UNAVAILABLE: it is not tried again by this
        process."""
        if self._since is None:
            return AVAILABLE
        return PERMANENTLY_UNAVAILABLE if self._clock.monotonic() - self._since >= GIVEN_UP else UNAVAILABLE

    def recall(
        self,
        query: str,
        *,
        project_id: str | None = None,
        tags: Sequence[str] = (),
        limit: int = 20,
        time_limit: float = RECALL_SECONDS,
    ) -> Recalled:
        """See `memory.MemoryStore.recall`; never raises."""
        key = (query, project_id, tuple(tags), limit)
        try:
            self.flush()
            found = self._tried(
                lambda: self._inner.recall(query, project_id=project_id, tags=tags, limit=limit, time_limit=time_limit)
            )
        except MemoryUnavailable as error:
            self._warn(error.message, "recall")
            return self._at_hand(key)
        self._cache[key] = (self._clock.monotonic(), found)
        return found

    def remember(self, memory: Memory) -> Memory:
        """See `memory.MemoryStore.remember`; what cannot be kept now is queued.

        Raises:
            MemoryUnavailable: not even the queue can be written.
        """
        try:
            self.flush()
            return self._tried(lambda: self._inner.remember(memory))
        except MemoryUnavailable as error:
            self._warn(error.message, "remember")
            queued = fitted(memory)
            self._queue(queued)
            return queued

    def flush(self) -> int:
        """Hand over what is queued, in order; how many that were. The first that is refused ends it.

        Raises:
            MemoryUnavailable: memory cannot be reached; the rest stays queued.
        """
        if not os.path.exists(self._path):
            return 0
        with self._locked():
            waiting, done = self.queued(), 0
            try:
                for memory in waiting:
                    self._tried(lambda one=memory: self._inner.remember(one))  # type: ignore[misc]
                    done += 1
            finally:
                if done:
                    self._write(waiting[done:])
        return done

    def queued(self) -> list[Memory]:
        """What waits, the oldest first; lines that cannot be read are left out."""
        found = []
        try:
            with open(self._path, encoding="utf-8") as file:
                lines = file.readlines()
        except OSError:
            return []
        for line in lines:
            try:
                one = json.loads(line)
                found.append(
                    Memory(
                        one["title"], one["content"], one["importance"], tuple(one["keywords"]), tuple(one["tags"]),
                        one["project_id"], one["created_at"],
                    )
                )  # fmt: skip
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def _tried(self, ask: Callable[[], T]) -> T:
        if self.status == PERMANENTLY_UNAVAILABLE:
            raise MemoryUnavailable("Memory has not answered for four hours and is not asked again. Restart to try.")
        for attempt in range(TRIES):
            try:
                answer = ask()
            except MemoryUnavailable:
                if attempt == TRIES - 1:
                    self._since = self._clock.monotonic() if self._since is None else self._since
                    raise
                self._clock.sleep(PAUSE)
            else:
                self._since = None
                return answer
        raise AssertionError("unreachable")

    def _at_hand(self, key: tuple[Any, ...]) -> Recalled:
        query, project, tags, limit = key
        words = set(query.lower().split())
        own = [
            memory
            for memory in reversed(self.queued())
            if memory.project_id in (None, project)
            and set(tags) <= set(memory.tags)
            and (
                not words or words & set(f"{memory.title} {memory.content} {' '.join(memory.keywords)}".lower().split())
            )
        ]
        cached = self._cache.get(key)
        if cached is not None and self._clock.monotonic() - cached[0] < FRESH:
            return Recalled((*own, *cached[1].memories)[:limit], "cache", stale=True)
        return Recalled(tuple(own[:limit]), "degraded")

    def _queue(self, memory: Memory) -> None:
        with self._locked():
            waiting = [*self.queued(), memory]
            if len(waiting) > MOST:
                self._warn(f"the queue of memories was full ({MOST}); its oldest was removed", "remember")
            self._write(waiting[-MOST:])

    def _write(self, waiting: Sequence[Memory]) -> None:
        temporary = f"{self._path}.{os.getpid()}.tmp"
        now = iso(self._clock.now())
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                for memory in waiting:
                    shown = {**memory.as_dict(), "created_at": memory.created_at or now, "status": "pending"}
                    file.write(json.dumps(shown, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self._path)
        except OSError as error:
            raise MemoryUnavailable(f"The queue of memories {self._path} cannot be written: {error}.") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.path.dirname(self._path)
        try:
            os.makedirs(folder, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise MemoryUnavailable(f"The queue of memories {folder} cannot be used: {error}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
