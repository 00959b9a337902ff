"""A memory that may be out of reach, and what makes that bearable (NFR9, NFR10): a try and three more, a tenth of a
second apart, writes queued below `<output_folder>/.memory-queue/`, reads answered from a cache of five minutes, and
after four hours without an answer no more tries. What is queued is found by reads too, and handed over in order once
memory answers.

Since when memory is out of reach is kept with the queue, so four hours are four hours for all processes. What has been
given up is asked once more by each one that is opened, with a single try: nobody has to say that it is back.

Nobody waits long: what waits is handed over for two seconds at a time, and a memory that answers nothing at all, not
even that it cannot, is left alone for ten times as long as that took, half a minute at least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from interlock.clock import Clock, iso
from interlock.memory.outbox import MOST, Outbox
from interlock.memory.store import (
    AVAILABLE,
    FLUSH_SECONDS,
    PERMANENTLY_UNAVAILABLE,
    RECALL_SECONDS,
    UNAVAILABLE,
    Condition,
    Log,
    Memory,
    MemoryQuery,
    MemoryRefused,
    MemoryStore,
    MemoryUnavailable,
    RecallResult,
    fitted,
)

RETRIES = 3  # after the first try
PAUSE = 0.1
PATIENCE = 5.0  # seconds after which no further try begins
SLOW, QUIET = RECALL_SECONDS, 30.0  # what took that long to fail is not asked again for so long, or longer
FRESH = 300.0
GIVEN_UP = 4 * 3600.0
T = TypeVar("T")


class RetryingMemory(MemoryStore):
    """`inner` is the one that may be out of reach, `warn` gets (reason, operation)."""

    def __init__(self, inner: MemoryStore, output_folder: str, clock: Clock, warn: Log = lambda *_: None) -> None:
        self._inner = inner
        self._outbox = Outbox(output_folder, clock)
        self._clock = clock
        self._warn = warn
        self._quiet = 0.0
        self._since = self._known_since()
        self._problem: str | None = None if self._since is None else self._outbox.state().get("problem")
        self._chance = self.status == PERMANENTLY_UNAVAILABLE

    @property
    def status(self) -> str:
        """AVAILABLE, UNAVAILABLE, or, after four hours of that, PERMANENTLY_UNAVAILABLE: it is not tried again."""
        if self._since is None:
            return AVAILABLE
        return PERMANENTLY_UNAVAILABLE if self._clock.now() - self._since >= GIVEN_UP else UNAVAILABLE

    def search(self, query: MemoryQuery) -> RecallResult:
        """As `recall`; never raises."""
        try:
            self.flush()
            found = self._tried(lambda: self._inner.search(query))
        except MemoryUnavailable as error:
            self._warn(error.message, "recall")
            cached = self._outbox.cached(query, FRESH)
            found = RecallResult(cached or (), "degraded" if cached is None else "cache", stale=cached is not None)
        else:
            self._outbox.cache(query, found.memories)
        waiting = self._outbox.matching(query)
        return replace(found, memories=(*waiting, *found.memories)[: query.limit]) if waiting else found

    def remember(self, memory: Memory) -> Memory:
        """Keep a memory; what cannot be kept now is queued, behind what waits already.

        Raises:
            MemoryUnavailable: not even the queue can be written.
            MemoryRefused: memory will not have it.
        """
        try:
            self.flush()
            if not self._outbox.entries():
                return self._tried(lambda: self._inner.remember(memory))
        except MemoryRefused:
            raise
        except MemoryUnavailable as error:
            self._warn(error.message, "remember")
        queued = fitted(memory)
        if self._outbox.add(queued):
            self._warn(f"the queue of memories was full ({MOST}); its oldest was removed", "remember")
        return queued

    def link(self, id: str, related: Sequence[str]) -> None:
        """Link memories; links are not queued, for what waits has no id yet."""
        known = [one for one in related if one]
        if id and known:
            self._tried(lambda: self._inner.link(id, known))

    def flush(self, seconds: float = FLUSH_SECONDS, *, again: bool = False) -> int:
        """Hand over what waits, in order, for at most so long; how many that were. What memory refuses is let go, with
        a warning. `again` asks a memory that was given up.

        Raises:
            MemoryUnavailable: memory cannot be reached; the rest stays queued.
        """
        if again:
            self._chance, self._quiet = self.status == PERMANENTLY_UNAVAILABLE, 0.0
        done, end = 0, self._clock.monotonic() + seconds
        with self._outbox.flushing() as mine:
            while mine and (done == 0 or self._clock.monotonic() < end):
                waiting = self._outbox.entries()
                if not waiting:
                    break
                try:
                    self._tried(lambda one=waiting[0].memory: self._inner.remember(one))  # type: ignore[misc]
                except MemoryRefused as error:
                    self._warn(f"{error.message} It is not kept: {waiting[0].memory.title}", "flush")
                self._outbox.remove(waiting[0])
                done += 1
        return done

    def queued(self) -> list[Memory]:
        """What waits, the oldest first."""
        return [entry.memory for entry in self._outbox.entries()]

    def condition(self) -> Condition:
        """How it is now; one that was given up is not asked."""
        if self.status != PERMANENTLY_UNAVAILABLE or self._chance:
            self._chance = False
            found = self._inner.condition()
            if found.status == AVAILABLE:
                self._reached()
            else:
                self._lost(found.problem or "it does not answer", 0.0)
        else:
            found = self._inner.described()
        since = None if self._since is None else iso(self._since)
        return replace(
            found, status=self.status, since=since, problem=self._problem, queued=len(self._outbox.entries()),
            queue=self._outbox.path,
        )  # fmt: skip

    def described(self) -> Condition:
        return replace(self._inner.described(), status=self.status, queued=len(self._outbox.entries()))

    def close(self) -> None:
        self._inner.close()

    def _tried(self, ask: Callable[[], T]) -> T:
        tries = 1 + RETRIES
        if self.status == PERMANENTLY_UNAVAILABLE:
            if not self._chance:
                raise MemoryUnavailable(
                    "Memory has not answered for four hours and is not asked again now. `interlock memory flush` asks "
                    "it, and hands over what waits."
                )
            self._chance, tries = False, 1
        began = self._clock.monotonic()
        if began < self._quiet:
            raise MemoryUnavailable("Memory does not answer in time; it is left alone for a while.")
        for attempt in range(1, tries + 1):
            try:
                answer = ask()
            except MemoryRefused:
                self._reached()
                raise
            except MemoryUnavailable as error:
                took = self._clock.monotonic() - began
                if attempt == tries or took >= PATIENCE:
                    self._lost(error.message, took)
                    raise
                self._clock.sleep(PAUSE)
            else:
                self._reached()
                return answer
        raise AssertionError("unreachable")

    def _reached(self) -> None:
        if self._since is not None:
            self._since = self._problem = None
            self._outbox.note({})

    def _lost(self, problem: str, took: float) -> None:
        if took >= SLOW:
            self._quiet = self._clock.monotonic() + max(QUIET, 10 * took)
        if self._since is None:
            # Another process may have found it before.
            self._since = self._known_since() or self._clock.now()
        self._problem = problem
        self._outbox.note({"since": self._since, "problem": problem, "status": self.status})

    def _known_since(self) -> float | None:
        """Since when it is out of reach for all processes; a clock that was set back since then knows nothing of it."""
        since = self._outbox.state().get("since")
        return float(since) if isinstance(since, (int, float)) and since <= self._clock.now() else None
