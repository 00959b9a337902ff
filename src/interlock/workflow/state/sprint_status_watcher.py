"""Sprint Status Watcher: watches a project's status files and says what changed (BMAD-3.3, FR28, decision 38).

Many writes within the debounce are one change. What was told is remembered per key: the same change within 30 s is not
told twice, and told after all when those are over and it still stands, so that nobody is left with an old status. A
status that goes to and fro more than three times is warned about, and the debounce doubled. A story that comes back
from review and returns to it is at work, not cycling, as long as it takes as long as work does.

Time and changes come through a `Source`: tests own both, `file_changes.FileChanges` watches real files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from interlock.workflow.state import status_file

DEBOUNCE = 0.5
LONGEST_DEBOUNCE = 8.0
WINDOW = 30.0
POLL = 5.0
"""Seconds after which files are looked at though nobody told of a change (NFR5)."""
CYCLES = 3
AT_WORK = frozenset({"review", "in-progress"})
SOON = 0.05
MANY = 10  # debounces after which a file that never rests is looked at all the same


@dataclass(frozen=True)
class StatusChange:
    """One status that changed; null before it was there, or after it went."""

    path: str
    key: str
    before: str | None
    after: str | None

    def as_dict(self) -> dict[str, Any]:
        """The shape in which it is logged."""
        return {"path": self.path, "key": self.key, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class Cycling:
    """A status that goes to and fro; `debounce` is what it is from now on, in seconds."""

    path: str
    key: str
    statuses: tuple[str, ...]
    count: int
    debounce: float


class Source(Protocol):
    """Where changes of files come from."""

    def now(self) -> float:
        """Seconds that never run backwards."""

    async def changes(self, timeout: float) -> frozenset[str] | None:
        """Paths of which something was heard within `timeout` seconds, maybe none; null when the watching ends."""


@dataclass
class _Key:
    told: str | None = None
    seen: str | None = None
    raised: dict[tuple[str | None, str | None], float] = field(default_factory=dict)
    trail: list[tuple[str, float]] = field(default_factory=list)
    cycles: int = 0


class SprintStatusWatcher:
    """See the module. `on_change` gets all that changed at once, `on_cycling` each warning; neither may block."""

    def __init__(
        self,
        paths: Sequence[str],
        source: Source,
        on_change: Callable[[list[StatusChange]], None],
        on_cycling: Callable[[Cycling], None] = lambda _: None,
        *,
        read: Callable[[str], dict[str, str] | None] = status_file.read,
    ) -> None:
        self.debounce = DEBOUNCE
        self._paths = tuple(dict.fromkeys(paths))
        self._source = source
        self._on_change = on_change
        self._on_cycling = on_cycling
        self._read = read
        self._keys: dict[tuple[str, str], _Key] = {}
        for path in self._paths:
            for key, status in (read(path) or {}).items():
                self._keys[path, key] = _Key(status, status, trail=[(status, source.now())])

    async def run(self) -> None:
        """Watch until the source ends."""
        while True:
            heard = await self._source.changes(self._patience())
            if heard is None:
                return
            began = self._source.now()
            while heard and self._source.now() - began < self.debounce * MANY:
                more = await self._source.changes(self.debounce)
                if more is None:
                    self.look()
                    return
                if not more:
                    break
            self.look()

    def look(self) -> list[StatusChange]:
        """Read the files, and tell what changed since it was last told."""
        found: list[StatusChange] = []
        now = self._source.now()
        for path in self._paths:
            statuses = self._read(path)
            if statuses is None:
                continue  # Not there, or half written: the next look sees it.
            for key in [*statuses, *(known for where, known in self._keys if where == path and known not in statuses)]:
                change = self._compare(path, key, statuses.get(key), now)
                if change is not None:
                    found.append(change)
        if found:
            self._on_change(found)
        return found

    def _compare(self, path: str, key: str, status: str | None, now: float) -> StatusChange | None:
        known = self._keys.setdefault((path, key), _Key())
        if status != known.seen:
            known.seen = status
            self._follow(path, key, known, status, now)
        if status == known.told:
            return None
        change = (known.told, status)
        if now - known.raised.get(change, -WINDOW) < WINDOW:
            return None
        known.raised = {one: at for one, at in known.raised.items() if now - at < WINDOW} | {change: now}
        told, known.told = known.told, status
        return StatusChange(path, key, told, status)

    def _follow(self, path: str, key: str, known: _Key, status: str | None, now: float) -> None:
        """Count how often the status returns to where it came from."""
        trail = known.trail
        trail.append((status or "", now))
        del trail[:-8]
        if len(trail) < 3 or trail[-1][0] != trail[-3][0]:
            known.cycles = 0
            return
        if {trail[-1][0], trail[-2][0]} <= AT_WORK and trail[-1][1] - trail[-2][1] >= WINDOW:
            return
        known.cycles += 1
        if known.cycles > CYCLES:
            self.debounce = min(LONGEST_DEBOUNCE, self.debounce * 2)
            statuses = tuple(one for one, _ in trail)
            self._on_cycling(Cycling(path, key, statuses, known.cycles, self.debounce))

    def _patience(self) -> float:
        """Until the next look: the poll, or earlier where something was held back."""
        now = self._source.now()
        due = [
            known.raised[known.told, known.seen] + WINDOW - now
            for known in self._keys.values()
            if known.seen != known.told and (known.told, known.seen) in known.raised
        ]
        return max(SOON, min([POLL, *due]))
