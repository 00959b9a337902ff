"""Panel: several agents look at one thing at once, and their answers are gathered behind a barrier (epics 5 and 6).

Reviewers of a change, validators of an artifact, voices of a discussion or of an ideation: each is a panel. Who is
asked, and in which form they answer, is data of its caller. What comes of the answers is data here, a `PanelRule` for
each kind of panel: how many must be heard, how their verdicts become one, how often and who is asked again. Starting
them together, time limits, stopping the others and merging what they found are here, once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio

from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.workflow.agents.assignment import Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.barrier import AGAIN, FIRST_PAUSE, BarrierResults, Barriers, SynchronizationBarrier, SyncTimeout
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


async def _ignored(report: Report) -> None:
    pass


async def ask(
    dispatcher: SubagentDispatcher,
    assignments: Sequence[Assignment],
    rule: PanelRule,
    *,
    limit: float = 0.0,
    heard: Callable[[int, Report], Awaitable[float | None]] | None = None,
    failed: Callable[[Report], Awaitable[None]] = _ignored,
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
                await failed(report)
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
