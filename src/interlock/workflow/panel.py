"""Panel: several agents look at one thing at once, and their answers are gathered behind a barrier (epics 5 and 6).

Reviewers of a change, validators of an artifact, voices of a discussion or of an ideation: each is a panel. Who is
asked, and in which form they answer, is data of its caller. What comes of the answers is data here, a `PanelRule` for
each kind of panel: how many must be heard, how their verdicts become one, how often and who is asked again. Starting
them together, time limits, stopping the others, merging what they found and the barrier are here, once.

Schema: each member answers with one JSON object, found in whatever stands around it. Agents wrap it in fences, say it
twice, leave a comma too many, call fields by other names. The schemas are pydantic models whose fields take anything:
what is not of a field's kind is its default, so that no answer is an error.

Synchronization barrier (BMAD-6.2, FR47a, FR47b): results are handed in from tasks of the event loop (`hand_in`) or from
threads (`deliver`); one lock, with a time limit, protects each of them. Whoever does not get it in time tries once more
and then breaks the barrier, with `sync_timeout`: nobody goes on waiting, nothing more is taken, and no lock of ours
stays held. The wait for all has a limit of its own, after which it is `barrier_timeout`. What was handed in before
stays in either case. Results lie in a mapping that is replaced and never changed, so it can be read while somebody else
holds the lock.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, Protocol, TypeVar

import anyio
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from interlock.errors import InterlockError
from interlock.model.json import Json
from interlock.workflow.agents.assignment import Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.engine.examination import (
    BLOCKED,
    CAPACITY,
    CHANGES,
    NOT_DONE,
    SEVERITIES,
    STOPPED,
    Examined,
    Finding,
)
from interlock.workflow.engine.ports import Superseded

FIRST_PAUSE = 1.0  # seconds before an agent that failed is asked again; doubled each time
AGAIN = frozenset(("failed", "timeout", "preempted"))
"""The statuses of a report after which its agent is asked again."""

LOCK_WAIT = 5.0  # seconds for one acquisition
ACQUISITIONS = 2  # the first, and exactly one retry
LOOK = 0.01  # seconds after which a task looks for the lock again
SYNC_TIMEOUT, BARRIER_TIMEOUT = "sync_timeout", "barrier_timeout"

Value = TypeVar("Value")


class Mutex(Protocol):
    """What `threading.Lock` can do, as far as we need it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; False where it was not to be had (in `timeout` seconds)."""

    def release(self) -> None:
        """Give it back."""


class SyncTimeout(Exception):
    """The lock could not be had in time, twice; the barrier is broken."""


@dataclass(frozen=True)
class BarrierResults(Generic[Value]):
    """What the barrier holds: the results in the order of its parties, those that are missing, and why it ended early
    (`sync_timeout`, `barrier_timeout`), null where all are there."""

    results: Mapping[str, Value]
    missing: tuple[str, ...] = ()
    error: str | None = None


@dataclass
class SynchronizationBarrier(Generic[Value]):
    """For one gathering of `parties`, whose order is that of the results. `lock_wait` is in seconds."""

    parties: Sequence[str]
    lock_wait: float = LOCK_WAIT
    lock: Mutex = field(default_factory=threading.Lock)
    _results: Mapping[str, Value] = field(default_factory=dict)
    _error: str | None = None
    _closed: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _wakers: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.parties:
            self._over.set()

    def deliver(self, party: str, value: Value) -> bool:
        """Hand a result in from a thread, which waits for the lock; False where it came too late, or for the second
        time, and is not taken.

        Raises:
            SyncTimeout: the lock was not to be had; the barrier is broken.
            ValueError: it waits for no such party.
        """
        self._require(party)
        for _ in range(ACQUISITIONS):
            if self.lock.acquire(timeout=self.lock_wait):
                return self._put(party, value)
        raise self._broken(party)

    async def hand_in(self, party: str, value: Value) -> bool:
        """The same from a task, which never blocks the loop.

        Raises:
            SyncTimeout, ValueError: as `deliver`.
        """
        self._require(party)
        for _ in range(ACQUISITIONS):
            if await self._acquired():
                return self._put(party, value)
        raise self._broken(party)

    async def wait(self, seconds: float) -> BarrierResults[Value]:
        """All results, as soon as they are there or the barrier is broken, but after `seconds` at the latest. It is
        over then: what comes later is not taken."""
        over, loop = anyio.Event(), asyncio.get_running_loop()
        self._wakers.append(lambda: loop.call_soon_threadsafe(over.set))
        # Whoever ends the barrier says so first and wakes then: looked at after the registration, nothing is missed.
        if not self._over.is_set():
            with anyio.move_on_after(seconds):
                await over.wait()
        self._wakers.clear()
        if not self._over.is_set():
            self._error = self._error or BARRIER_TIMEOUT
        return await self._close()

    async def _close(self) -> BarrierResults[Value]:
        """No more results, from one moment on: the lock is taken for it where it is to be had."""
        held = self._error != SYNC_TIMEOUT and await self._acquired()
        try:
            self._closed = True
            taken = self._results
        finally:
            if held:
                self.lock.release()
        results = {party: taken[party] for party in self.parties if party in taken}
        missing = tuple(party for party in self.parties if party not in taken)
        # The last one may have come in at the very end of the wait.
        return BarrierResults(results, missing, self._error if missing else None)

    async def _acquired(self) -> bool:
        """Whether the lock could be had in its time."""
        latest = anyio.current_time() + self.lock_wait
        while not self.lock.acquire(blocking=False):
            if anyio.current_time() >= latest:
                return False
            await anyio.sleep(LOOK)
        return True

    def _put(self, party: str, value: Value) -> bool:
        """Keep a result; the lock is held, and given back whatever happens."""
        try:
            if self._closed or self._error or party in self._results:
                return False
            self._results = {**self._results, party: value}
            whole = len(self._results) == len(self.parties)
        finally:
            self.lock.release()
        if whole:
            self._end()
        return True

    def _broken(self, party: str) -> SyncTimeout:
        self._error = SYNC_TIMEOUT
        self._end()
        return SyncTimeout(f"{SYNC_TIMEOUT}: the result of {party} could not be handed in")

    def _end(self) -> None:
        self._over.set()
        for wake in tuple(self._wakers):
            try:
                wake()
            except RuntimeError:  # The loop that waited is closed: nobody waits any more.
                continue

    def _require(self, party: str) -> None:
        if party not in self.parties:
            raise ValueError(f"the barrier waits for {', '.join(self.parties)}, not for {party}")


Barriers = Callable[[Sequence[str]], SynchronizationBarrier[Report]]


@dataclass(frozen=True, slots=True)
class PanelReports:
    """What came of a panel: the reports by place, as far as they came in time, and why the barrier ended early."""

    reports: Mapping[int, Report]
    error: str | None = None


def hindrance(reports: Iterable[Report]) -> Report | None:
    """The report that says why nobody can be asked for now: the run is being stopped, or a provider has no capacity
    left; of several the one that has some last."""
    found = [one for one in reports if one.status in ("cancelled", "capacity")]
    return max(found, key=lambda one: (one.status == "cancelled", one.retry_at or 0.0), default=None)


def ended_early(reports: Iterable[Report]) -> Examined | None:
    """What an examination comes to whose members cannot be asked for now; None where they can."""
    found = hindrance(reports)
    if found is None:
        return None
    if found.status == "cancelled":
        return Examined(STOPPED, "the review was stopped")
    why = found.detail or "the reviewers' provider has no capacity left"
    return Examined(CAPACITY, why, details={"retry_at": found.retry_at})


STRICTEST, MAJORITY, UNANIMOUS = "strictest", "majority", "unanimous"
MOST, ALL = "most", "all"
PROCEED = "proceed"
RETRY_FAILED = "retry_failed_sequentially"
RETRY_ALL = "retry_all"
WITH_CONTEXT = "retry_failed_with_context"
SEQUENTIAL = "sequential_fallback"


@dataclass(frozen=True, slots=True)
class PanelRule:
    """What a kind of panel comes to.

    `quorum` of its members must be heard, and of all of them `share`: more than half (MOST) or ALL. `short` is what it
    comes to otherwise, by how many were heard; its last entry counts for more. Of the verdicts the STRICTEST counts, or
    the one of the MAJORITY, or the one that all give (UNANIMOUS); `otherwise` where there is none. A member that fails
    is asked `tries` times at once, and then in one of the `ways`, by how many of six were heard.
    """

    merge: str
    quorum: int
    share: str = ""
    short: tuple[str, ...] = (NOT_DONE,)
    otherwise: str = ""
    tries: int = 1
    ways: tuple[tuple[int, str], ...] = ((0, PROCEED),)

    def missed(self, heard: int, of: int) -> str | None:
        """What it comes to where too few were heard; None where enough were."""
        needed = max(self.quorum, {MOST: of // 2 + 1, ALL: of}.get(self.share, 0))
        return self.short[min(heard, len(self.short) - 1)] if heard < needed else None

    def verdict(self, said: Collection[str]) -> str:
        """The verdict of those who were heard, together."""
        if self.merge == STRICTEST:
            return max(said, key=strictness, default=self.otherwise)
        most, votes = max(Counter(said).items(), key=lambda one: one[1], default=("", 0))
        agreed = votes == len(said) if self.merge == UNANIMOUS else votes * 2 > len(said)
        return most if agreed and most else self.otherwise

    def way(self, heard: int, of: int) -> str:
        """How those who were not heard are asked again. For fewer than six the same shares hold; one alone is always
        one."""
        sixths = 6 if heard >= of else heard if heard < 2 else 6 * heard / of
        return next(way for least, way in self.ways if sixths >= least)


REVIEW = PanelRule(STRICTEST, 1, tries=3)
VALIDATION = PanelRule(
    STRICTEST, 0, ALL, (NOT_DONE, BLOCKED),
    ways=((6, PROCEED), (4, RETRY_FAILED), (2, RETRY_ALL), (1, WITH_CONTEXT), (0, SEQUENTIAL)),
)  # fmt: skip
PRE_FINAL = PanelRule(MAJORITY, 2, short=(BLOCKED,), otherwise=CHANGES)
DISCUSSION = PanelRule(UNANIMOUS, 2)
"""One agent plays all voices."""
VOICES = PanelRule(UNANIMOUS, 2, MOST)
"""Each voice is an agent, and may fail."""


def strictness(verdict: str | None) -> int:
    """The stricter, the higher; what is no verdict is an approval."""
    return {CHANGES: 1, BLOCKED: 2}.get(verdict or "", 0)


def order(one: Finding) -> tuple[Any, ...]:
    """The gravest first, then by place and words."""
    rank = SEVERITIES.index(one.severity) if one.severity in SEVERITIES else len(SEVERITIES)
    path, line = place_of(one.location)
    return (rank, path, line or 0, one.title, one.location, one.fix, one.found_by, sorted(map(str, one.data.items())))


NEAR = 3  # lines that two readers of the same spot may be apart
ALIKE = 0.5  # of the words of two titles together that both have
_PLACE = re.compile(r"^(?P<path>.*?)(?:[:#]L?|,? *\(?(?:at )?lines? *)(?P<line>\d+)[^/]*$", re.IGNORECASE)
LONGEST_PLACE = 1000  # characters; more is no path with a line
_IDLE = frozenset("a an and are as at be by for from has have in is it its no not of on or that the to with".split())


def alike(one: Finding, other: Finding) -> bool:
    """Whether two readers saw one thing. What a reader tells as two things, in other words or places, is two."""
    path, line = place_of(one.location)
    its_path, its_line = place_of(other.location)
    if path != its_path or (line is None) != (its_line is None):
        return False
    if line is not None and its_line is not None and abs(line - its_line) > NEAR:
        return False
    words, its_words = words_of(one.title), words_of(other.title)
    if set(one.found_by) & set(other.found_by):
        return words == its_words and line == its_line
    return words == its_words or len(words & its_words) / len(words | its_words) >= ALIKE


def place_of(location: str) -> tuple[str, int | None]:
    """(path, line) of a location, as far as it says."""
    text = location.strip().strip("`'\"")
    matched = _PLACE.match(text) if len(text) <= LONGEST_PLACE else None
    path, line = (matched["path"], int(matched["line"][:9])) if matched else (text, None)
    return path.strip().replace("\\", "/").removeprefix("./").strip("`'\"").casefold(), line


def words_of(title: str) -> frozenset[str]:
    """The words of a title that tell it from others."""
    words = re.findall(r"\w+", title.casefold())
    return frozenset(word.removesuffix("s") for word in words if word not in _IDLE) or frozenset(words)


def merge(
    found: Mapping[str, Sequence[Finding]], same: Callable[[Finding, Finding], bool] = alike
) -> tuple[Finding, ...]:
    """The findings of all members by label, the worst first, each once.

    Two are the `same` where they name the same place and say it in similar words (`alike`): the worst severity counts,
    `found_by` names all who found it, and a fix that any of them gives is kept. The order of the members makes no
    difference.
    """
    given = [replace(one, found_by=(*one.found_by, label)) for label, listed in found.items() for one in listed]
    given = [replace(one, found_by=tuple(sorted({*one.found_by} - {""}))) for one in given]
    clusters: list[list[Finding]] = []
    for one in sorted(given, key=order):
        its = [cluster for cluster in clusters if any(same(one, other) for other in cluster)]
        joined = [member for cluster in its for member in cluster]
        clusters = [cluster for cluster in clusters if cluster not in its]
        clusters.append([*joined, one])
    merged = []
    for cluster in (sorted(one, key=order) for one in clusters):
        by = sorted({label for one in cluster for label in one.found_by})
        fix = next((one.fix for one in cluster if one.fix), "")
        data = {name: value for one in reversed(cluster) for name, value in one.data.items()}
        merged.append(replace(cluster[0], fix=fix, found_by=tuple(by), data=data))
    return tuple(sorted(merged, key=order))


async def ask(
    dispatcher: SubagentDispatcher,
    assignments: Sequence[Assignment],
    rule: PanelRule,
    *,
    limit: float = 0.0,
    heard: Callable[[int, Report], Awaitable[float | None]] | None = None,
    failed: Callable[[Report], None] = lambda report: None,
    barriers: Barriers = SynchronizationBarrier,
) -> PanelReports:
    """Carry out all assignments at once and gather the reports. Never raises for what agents do.

    Args:
        dispatcher: Who gives the work to agents.
        assignments: One for each member of the panel.
        rule: The panel's; how often each is asked where it fails, with growing pauses.
        limit: Seconds after which those that are missing are given up; 0 waits for all.
        heard: Told each report with its place as it comes; answers with the seconds that the others get then.
        failed: Told each report that is asked for again.
        barriers: Makes the barrier.

    Raises:
        InterlockError, Superseded: The run cannot be written, or is somebody else's now; the others were stopped.
    """
    barrier = barriers([str(place) for place in range(len(assignments))])
    lost: list[InterlockError | Superseded] = []
    gathered: BarrierResults[Report] | None = None
    patience = anyio.CancelScope()

    async def member(place: int, assignment: Assignment) -> None:
        try:
            report = await dispatcher.run(assignment)
            for number in range(1, rule.tries):
                if report.status not in AGAIN:
                    break
                failed(report)
                await anyio.sleep(FIRST_PAUSE * 2 ** (number - 1))
                report = await dispatcher.run(assignment)
            left = await heard(place, report) if heard is not None else None
            if left is not None:
                patience.deadline = min(patience.deadline, anyio.current_time() + left)
            await barrier.hand_in(str(place), report)
        except SyncTimeout:
            return  # The barrier is broken and says so to whoever waits.
        except (InterlockError, Superseded) as error:  # Not the agent's: raised below, not wrapped in a group.
            lost.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for place, assignment in enumerate(assignments):
            group.start_soon(member, place, assignment)
        with patience:
            gathered = await barrier.wait(limit or float("inf"))
        if gathered is None:
            gathered = await barrier.wait(0)
        group.cancel_scope.cancel()
    if lost:
        raise lost[0]
    assert gathered is not None
    return PanelReports({int(place): report for place, report in gathered.results.items()}, gathered.error)


OPENER = re.compile(r"\{(?=\s*\")")
TRAILING = re.compile(r",(?=\s*[}\]])")
ATTEMPTS = 2000  # braces that begin no object; an answer with more of them is not JSON
LONGEST = 2000  # characters of a field

_DECODER = json.JSONDecoder(strict=False)


def objects(text: str, names: Iterable[str]) -> Iterator[tuple[int, Json]]:
    """(place, object) of each JSON object in the text that has one of these fields, or holds one that has."""
    wanted, end = frozenset(names), 0
    forgiven = TRAILING.sub(" ", text)  # of the same length: places stay what they are
    for opener in list(OPENER.finditer(text))[-ATTEMPTS:]:
        if opener.start() < end:
            continue
        for attempt in (text, forgiven):
            try:
                value, end = _DECODER.raw_decode(attempt, opener.start())
            except (ValueError, RecursionError):
                continue
            found = (one for one in (value, *value.values()) if isinstance(one, dict) and wanted & one.keys())
            yield from ((opener.start(), one) for one in found)
            break


def text_of(value: object) -> str:
    """A field's text on one line; "" for what is none."""
    return " ".join(str(value).split())[:LONGEST] if isinstance(value, (str, int, float)) else ""


def tables_of(value: object) -> list[Any]:
    """The objects of a list; a plain text in it is an object's title."""
    listed = value if isinstance(value, list) else []
    return [one if isinstance(one, dict) else {"title": one} for one in listed if isinstance(one, (dict, str))]


def percent_of(value: object) -> float | None:
    """0 to 100; a fraction of one is meant as such. None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value.strip().rstrip("%"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and 0 < value <= 1:
        value *= 100
    return round(float(value), 1) if 0 <= value <= 100 else None


def plain(word: str) -> str:
    """A word as it is compared: its letters in lower case."""
    return re.sub(r"[^a-z]+", " ", word.casefold()).strip()


Text = Annotated[str, BeforeValidator(text_of)]
Percent = Annotated[float | None, BeforeValidator(percent_of)]


def called(*names: str, default: Any = "") -> Any:
    """A field of an answer, by any of the names that agents give it."""
    return Field(default, validation_alias=AliasChoices(*names))


class AnswerModel(BaseModel):
    """An answer, or a part of one; fields of other names are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)
