"""What scenarios share: a row of the table with its goals, and how its numbers are taken."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

FULL = False
"""Whether sizes are those of the goals, also where filling a ledger takes an hour (`python -m bench --full`)."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on what was measured or, with `times`, on its ratio to the floor."""

    bound: float
    least: bool
    times: bool

    def text(self, unit: str) -> str:
        """The goal for people."""
        return f"{'≥' if self.least else '≤'} {self.bound:g}{'x' if self.times else f' {unit}'}"

    def met(self, measured: float, ratio: float | None) -> bool:
        """Whether the measurement keeps it; without a floor a ratio never does."""
        value = ratio if self.times else measured
        return value is not None and (value >= self.bound if self.least else value <= self.bound)


def at_most(bound: float) -> Goal:
    """The number itself must not be larger."""
    return Goal(bound, least=False, times=False)


def at_least(bound: float) -> Goal:
    """The number itself must not be smaller."""
    return Goal(bound, least=True, times=False)


def at_most_times(bound: float) -> Goal:
    """At most that many times the floor."""
    return Goal(bound, least=False, times=True)


def at_least_times(bound: float) -> Goal:
    """At least that share of the floor."""
    return Goal(bound, least=True, times=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured piece of work.

    `measured` and `floor` are in `unit`, taken in the same run, so that a slow or busy machine shifts both. The goals
    are what we promise ourselves; they are shown, and judged by people.
    """

    work: str
    measured: float
    floor: float | None = None
    goals: tuple[Goal, ...] = ()
    unit: str = "ms"

    @property
    def ratio(self) -> float | None:
        """How many times the floor; null without one."""
        return self.measured / self.floor if self.floor else None

    @property
    def met(self) -> bool | None:
        """Whether every goal is kept; null where there is none."""
        return all(goal.met(self.measured, self.ratio) for goal in self.goals) if self.goals else None

    def as_dict(self) -> dict[str, Any]:
        """The row as `--json` shows it."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def once(work: Callable[[], object]) -> float:
    """How long one call of `work` took, in ms."""
    before = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - before) / 1e6


def times(work: Callable[[], object], count: int, warm_up: int = 3) -> list[float]:
    """How long each of `count` calls of `work` took, in ms, after some that do not count."""
    for _ in range(warm_up):
        work()
    return [once(work) for _ in range(count)]


def in_turns(works: Sequence[Callable[[], object]], count: int, warm_up: int = 3) -> list[list[float]]:
    """As `times`, of several pieces of work that take turns, so that a busy moment meets all of them alike."""
    for work in works:
        times(work, 0, warm_up)
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(count):
        for found, work in zip(taken, works, strict=True):
            found.append(once(work))
    return taken
