"""Memory Bridge: writes what a run decides and how it turns out to memory, and finds what helped before (FR32, FR34).

In: `Lesson`s and failures of one run (`Origin`); out: `Written`. Each memory is one concept with its project, run,
keywords, tags and importance. What is known already is linked with the new ones instead of being kept twice. Memory
may be out of reach: nothing here raises, and what cannot be kept now waits in the queue (see `memories/patient`).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interlock.memory.store import Log, Memory, MemoryStore, MemoryUnavailable, same, words
from interlock.workflow.memory.lesson import FIX, Lesson, problem_solution

RELEVANT = 50.0  # of 100: what fits a failure less is no fix for it
SIGNATURE_CHARS = 400
LOOKED_AT = 5  # memories that a new one is compared with
ASKED_CHARS = 500


@dataclass(frozen=True)
class Origin:
    """Where a memory comes from: the project by its name, the run, and its workflow."""

    project_id: str
    workflow_id: str
    skill: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """How memory knows it."""
        return (f"workflow_id:{self.workflow_id}", *((f"workflow:{self.skill}",) if self.skill else ()))


@dataclass(frozen=True)
class Written:
    """What became of lessons: `kept` again, `known` already and linked with them, `queued` for later (of those kept),
    `left` because time was up, or memory would not have them."""

    kept: tuple[Memory, ...] = ()
    known: tuple[Memory, ...] = ()
    queued: int = 0
    left: int = 0


class MemoryBridge:
    """Of one run; `log` gets what went wrong (reason, operation)."""

    def __init__(self, memory: MemoryStore, origin: Origin, log: Log = lambda *_: None) -> None:
        self._memory = memory
        self._origin = origin
        self._log = log

    def fix(self, failure: str) -> str | None:
        """What resolved that failure before: the same one, else one that is much like it."""
        project = self._origin.project_id
        for tags, least in ((_failure(failure), 0.0), (f"type:{FIX}", RELEVANT)):
            try:
                found = self._memory.recall(failure, project_id=project, tags=[tags], limit=1).memories
            except MemoryUnavailable as error:
                self._log(error.message, "recall")
                return None
            if found and (found[0].relevance >= least):
                return found[0].content
        return None

    def fixed(self, failure: str, solution: str) -> Memory | None:
        """Keep what resolved a failure, as a memory of the type `fix_pattern` with the failure's signature and the
        solution; the one that says the same where it is known. Null where it could not even be queued."""
        memory = memory_of(problem_solution(failure, solution, kind=FIX), self._origin)
        return self.similar(memory) or self._keep(memory)

    def write(
        self, lessons: Sequence[Lesson], *, seconds: float = 30.0, now: Callable[[], float] = time.monotonic
    ) -> Written:
        """Keep lessons, the most important first; one that is known already is linked with the first new one. Nothing
        begins after `seconds`."""
        end = now() + seconds
        kept, known = list[Memory](), list[Memory]()
        refused = taken = 0
        for lesson in lessons:
            if now() >= end:
                break
            taken += 1
            memory = memory_of(lesson, self._origin)
            similar = self.similar(memory)
            if similar is not None:
                known.append(similar)
                continue
            found = self._keep(memory)
            if found is None:
                refused += 1
            else:
                kept.append(found)
        self._link(kept, known)
        queued = sum(not one.id for one in kept)
        return Written(tuple(kept), tuple(known), queued, len(lessons) - taken + refused)

    def similar(self, memory: Memory) -> Memory | None:
        """The memory of the same kind that says the same, if there is one."""
        kind = memory.tagged("type")
        asked = f"{memory.title} {memory.content}"[:ASKED_CHARS]
        try:
            found = self._memory.recall(
                asked, project_id=memory.project_id, tags=[f"type:{kind}"], limit=LOOKED_AT
            ).memories
        except MemoryUnavailable as error:
            self._log(error.message, "recall")
            return None
        own = words(memory.content)
        return next((one for one in found if same(own, words(one.content))), None)

    def _keep(self, memory: Memory) -> Memory | None:
        try:
            return self._memory.remember(memory)
        except MemoryUnavailable as error:
            self._log(error.message, "remember")
            return None

    def _link(self, kept: Iterable[Memory], known: Iterable[Memory]) -> None:
        """The memories of one run are linked with its first one; where all were known, with the first of those."""
        ids = list(dict.fromkeys(one.id for one in (*kept, *known) if one.id))
        if len(ids) < 2:
            return
        try:
            self._memory.link(ids[0], ids[1:])
        except MemoryUnavailable as error:
            self._log(error.message, "link")


def memory_of(lesson: Lesson, origin: Origin) -> Memory:
    """The memory that a lesson is kept as."""
    tags = (f"type:{lesson.kind}", *origin.tags, *((_failure(lesson.signature),) if lesson.signature else ()))
    return Memory(
        lesson.heading, lesson.content, lesson.importance, lesson.keywords, tags, origin.project_id, lesson.at
    )


def _failure(text: str) -> str:
    """The tag that a failure is known by: its words, without numbers, paths and quotes, which change each time."""
    plain = re.sub(r"(?:/[\w.-]+)+|0x[0-9a-f]+|\d+|[\"'`].*?[\"'`]", "#", text.lower())
    plain = " ".join(plain.split())[:SIGNATURE_CHARS]
    return f"failure:{hashlib.sha256(plain.encode('utf-8', 'replace')).hexdigest()[:32]}"
