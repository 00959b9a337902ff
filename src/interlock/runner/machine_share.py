"""Which team begins the next run, where the teams that one process works for share a bound.

What a team was given counts by its weight, and of those that ask for a run the one that was given least is next. One
that comes with work after a while starts level with the others: what it did not ask for, it has not saved. So while a
team asks, each other one gets, beyond what its weight allows, one run at most, however many tasks it has. A place
that nobody else asks for is free for whoever does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from interlock.lazy_dataclass import dataclass

PATIENCE = 15.0
"""Seconds after which a team that has asked and not come back is passed over: its runner may be stuck."""


@dataclass(slots=True)
class TeamShare:
    """One team: its open runs, what it was given so far in runs by its weight, and until when it asks for more."""

    weight: int = 1
    runs: int = 0
    given: float = 0.0
    asks_until: float = 0.0


class MachineShare:
    """At most `limit` runs at once in all teams. Safe to share among threads.

    Args:
        wake: tells a team's runner that its turn has come.
    """

    def __init__(
        self, limit: int, wake: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._wake = wake
        self._now = monotonic
        self._teams: dict[str, TeamShare] = {}
        self._level = 0.0
        """What whoever began last had been given before."""
        self._lock = threading.Lock()

    def take(self, team: str, weight: int) -> bool:
        """Let a team that has a task to do begin a run; False where it has to wait for its turn."""
        with self._lock:
            one, now = self._teams.setdefault(team, TeamShare()), self._now()
            if one.asks_until <= now:
                one.given = max(one.given, self._level)
            one.weight, one.asks_until = weight, now + PATIENCE
            if self._next(now) != team:
                return False
            self._level = one.given
            one.given += 1 / weight
            one.runs += 1
            return True

    def give_back(self, team: str) -> None:
        """The run that was allowed last was not begun."""
        with self._lock:
            one = self._teams[team]
            one.runs -= 1
            one.given -= 1 / one.weight

    def looked(self, team: str, runs: int, *, asks: bool) -> None:
        """The team's runner has looked for work: so many runs are open, and it `asks` for one that it did not get."""
        with self._lock:
            one, now = self._teams.setdefault(team, TeamShare()), self._now()
            one.runs = runs
            one.asks_until = now + PATIENCE if asks else 0.0
            following = self._next(now)
        if following not in (None, team):
            self._wake(following)

    def leave(self, team: str) -> None:
        """Nobody works for the team any more."""
        with self._lock:
            self._teams.pop(team, None)
            following = self._next(self._now())
        if following is not None:
            self._wake(following)

    def _next(self, now: float) -> str | None:
        """The team whose turn it is; None where all places are taken, or nobody asks for one."""
        if sum(one.runs for one in self._teams.values()) >= self._limit:
            return None
        asking = [(one.given, name) for name, one in self._teams.items() if one.asks_until > now]
        return min(asking)[1] if asking else None
