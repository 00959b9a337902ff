"""What scenarios share: a row of the table, and how its numbers are taken."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measured piece of work.

    `measured` and `floor` are in `unit`, taken in the same run, so that a slow or busy machine shifts both. `goal` is
    what we promise ourselves, in the same unit; it is shown, and judged by people.
    """

    work: str
    measured: float
    floor: float | None = None
    goal: float | None = None
    unit: str = "ms"

    @property
    def ratio(self) -> float | None:
        """How many times the floor; null without one."""
        return self.measured / self.floor if self.floor else None

    def as_dict(self) -> dict[str, Any]:
        """The row as `--json` shows it."""
        return {**asdict(self), "ratio": self.ratio}


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def times(work: Callable[[], object], count: int, warm_up: int = 3) -> list[float]:
    """How long each of `count` calls of `work` took, in ms, after some that do not count."""
    for _ in range(warm_up):
        work()
    taken = []
    for _ in range(count):
        before = time.perf_counter_ns()
        work()
        taken.append((time.perf_counter_ns() - before) / 1e6)
    return taken
