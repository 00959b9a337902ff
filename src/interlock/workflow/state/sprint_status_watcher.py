"""Sprint Status Watcher: watches a project's status files while a workflow is at work, and puts what changed into the
team's history (BMAD-3.3, FR28, decision 38). Background work: nothing that goes wrong here stops the run.

Many writes within the debounce are one change. What was told is remembered per key: the same change within 30 s is not
told twice, and told after all when those are over and it still stands, so that nobody is left with an old status. A
status that goes to and fro more than three times is warned about, and the debounce doubled. A story that comes back
from review and returns to it is at work, not cycling, as long as it takes as long as work does.

Time and changes come through a `Source`: tests own both, `FileChanges` looks at the times of real files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, field
from functools import partial
from math import inf
from typing import Protocol

import anyio
import anyio.to_thread

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.model.names import SYSTEM
from interlock.settings import stamp
from interlock.workflow.state import status_file

DEBOUNCE = 0.5
LONGEST_DEBOUNCE = 8.0
WINDOW = 30.0
POLL = 5.0
"""Seconds after which files are read though their times are the same (NFR5)."""
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

    async def changed(self, timeout: float) -> bool:
        """Wait for a change of a file, for `timeout` seconds at most; whether there was one."""


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
        """Watch for ever."""
        while True:
            changed = await self._source.changed(self._patience())
            began = self._source.now()
            while changed and self._source.now() - began < self.debounce * MANY:
                changed = await self._source.changed(self.debounce)
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


MOST = 100  # changes in one event; a first look at a large file has more


class StatusEvents:
    """`on_change` and `on_cycling` of a watcher, each one event."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def changed(self, changes: list[StatusChange]) -> None:
        """Log what changed, one event for each file."""
        for path in dict.fromkeys(one.path for one in changes):
            here = [asdict(one) for one in changes if one.path == path]
            with self._workspace.act(Principal(SYSTEM)) as act:
                act.event("workflow.status_changed", path=path, changes=here[:MOST], count=len(here))

    def cycling(self, found: Cycling) -> None:
        """Log a warning."""
        with self._workspace.act(Principal(SYSTEM)) as act:
            act.event("workflow.status_cycling", **{**asdict(found), "statuses": list(found.statuses)})


LOOK = 0.2
"""Seconds between two looks at the times of the files."""


class FileChanges:
    """See `Source`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._seen: list[tuple[int, ...] | None] = []  # What happened before the first look is a change.

    def now(self) -> float:
        """See the port."""
        return anyio.current_time()

    async def changed(self, timeout: float) -> bool:
        """See the port."""
        until = self.now() + timeout
        while (seen := [stamp(path) for path in self._paths]) == self._seen:
            left = until - self.now()
            if left <= 0:
                return False
            await anyio.sleep(min(LOOK, left))
        self._seen = seen
        return True


LAST = 5.0  # seconds for what is still to be written when the run ends


@asynccontextmanager
async def watched(workspace: Workspace, project: str, config: dict[str, object]) -> AsyncIterator[None]:
    """Watch the status files of `project`, which its `config` places, while the block runs."""
    events = StatusEvents(workspace)
    paths = status_file.paths(project, config)
    send, receive = anyio.create_memory_object_stream[Callable[[], None]](inf)
    written = anyio.Event()

    async def write() -> None:
        async with receive:
            async for one in receive:
                try:
                    await anyio.to_thread.run_sync(one)
                except InterlockError:
                    continue  # The ledger is busy or gone; the run itself will say so.
        written.set()

    failed: Exception | None = None
    async with send, anyio.create_task_group() as group:
        watcher = SprintStatusWatcher(
            paths,
            FileChanges(paths),
            lambda changes: send.send_nowait(partial(events.changed, changes)),
            lambda found: send.send_nowait(partial(events.cycling, found)),
        )
        group.start_soon(write)
        group.start_soon(watcher.run)
        try:
            yield
        except Exception as error:  # boundary: raised again below, not wrapped in a group
            failed = error
        finally:
            watcher.look()  # What changed at the very end.
            send.close()
            with anyio.move_on_after(LAST, shield=True):
                await written.wait()
            group.cancel_scope.cancel()
    if failed is not None:
        raise failed
