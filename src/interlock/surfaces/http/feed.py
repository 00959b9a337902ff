"""The events of all teams, live, for any number of readers.

One watcher per team sleeps until the team changes (see `notifier`) and pokes the readers; each reader then asks the
ledger for what lies after its own place. So nothing is queued for a slow reader, nothing can be lost between two
sources, and a place is all one needs to go on after a broken line or a restart. Without readers nothing is watched.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.app.home import Home
from interlock.errors import InterlockError
from interlock.model.event import Event
from interlock.surfaces.http import cursor
from interlock.wakeup.notifier import woken

LOOK_FOR_TEAMS = 1.0
"""Seconds between two looks for teams that were made or deleted."""
AT_ONCE = 200
LEAVE_AFTER = 10.0
"""Seconds after which a reader is asked whether it may still read."""


@dataclass(frozen=True, slots=True)
class Item:
    """One event of one team, and the cursor after it; without an event it only says where the reader stands."""

    team: str
    event: Event | None
    cursor: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A team that is watched. `mark` tells it from one made anew under its name."""

    name: str
    key: bytes
    mark: tuple[int, int]
    scope: anyio.CancelScope


class Reader:
    """Who reads, and what has changed since it last looked."""

    def __init__(self) -> None:
        self.placed = anyio.Event()
        """Set once all teams of that moment are watched."""
        self.poked = anyio.Event()
        self._changed: dict[str, None] = {}

    def poke(self, *teams: str) -> None:
        """These teams have changed."""
        self._changed.update(dict.fromkeys(teams))
        self.poked.set()

    def next(self) -> str | None:
        """A team to look at, the one that waits longest first."""
        name = next(iter(self._changed), None)
        if name is not None:
            del self._changed[name]
        return name

    async def wait(self, seconds: float) -> None:
        """Sleep until poked, at most so long."""
        with anyio.move_on_after(seconds):
            await self.poked.wait()
        self.poked = anyio.Event()


class Feed:
    """See the module. `run` lives as long as the server; `close` ends all readers."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._readers: set[Reader] = set()
        self._watched: dict[str, Watched] = {}
        self._look = anyio.Event()
        self.closed = False

    @property
    def readers(self) -> int:
        """How many read."""
        return len(self._readers)

    async def run(self) -> None:
        """Watch the teams while somebody reads. Ends when cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                if self._readers:
                    known = list(self._readers)
                    await self._take_stock(group)
                    for reader in known:
                        reader.placed.set()
                    with anyio.move_on_after(LOOK_FOR_TEAMS):
                        await self._look.wait()
                else:
                    for watched in self._watched.values():
                        watched.scope.cancel()
                    self._watched.clear()
                    await self._look.wait()
                self._look = anyio.Event()

    def close(self) -> None:
        """The server ends: so do all readers."""
        self.closed = True
        for reader in self._readers:
            reader.placed.set()
            reader.poked.set()

    async def read(
        self,
        positions: Mapping[bytes, int] | None,
        may_see: Callable[[str], bool] = lambda team: True,
        may_stay: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Item]:
        """Events after `positions`, and then as they come, until the feed is closed.

        Args:
            positions: by the key of each team; one that is not among them is read from its beginning. Null: from now.
            may_see: whether the reader may see a team of that name.
            may_stay: asked, in a thread, every few seconds.
        """
        reader = Reader()
        self._readers.add(reader)
        try:
            # With us among the readers: what is committed from here on pokes us.
            self._look.set()
            await reader.placed.wait()
            places = dict(positions) if positions is not None else await self._heads()
            yield Item("", None, cursor.written(places))
            reader.poke(*self._watched)
            while not self.closed and await anyio.to_thread.run_sync(may_stay):
                while not self.closed and (name := reader.next()) is not None:
                    watched = self._watched.get(name)
                    if watched is None or not may_see(name):
                        continue
                    events = await self._events(name, places.get(watched.key, 0))
                    for event in events:
                        places[watched.key] = event.seq
                        yield Item(name, event, cursor.written(places))
                    if len(events) == AT_ONCE:
                        reader.poke(name)
                if not self.closed:
                    await reader.wait(LEAVE_AFTER)
        finally:
            self._readers.discard(reader)
            self._look.set()

    async def _heads(self) -> dict[bytes, int]:
        def heads() -> dict[bytes, int]:
            return {watched.key: self._home.team(watched.name).head() for watched in list(self._watched.values())}

        return await anyio.to_thread.run_sync(heads)

    async def _events(self, name: str, since: int) -> list[Event]:
        try:
            return (await anyio.to_thread.run_sync(lambda: self._home.team(name).events(since, limit=AT_ONCE)))[0]
        except InterlockError:
            # Deleted meanwhile, or busy: the next look at the teams finds out which.
            return []

    async def _take_stock(self, group: TaskGroup) -> None:
        found = await anyio.to_thread.run_sync(self._teams)
        for name, watched in list(self._watched.items()):
            if found.get(name) != watched.mark:
                watched.scope.cancel()
                del self._watched[name]
        for name, mark in found.items():
            if name not in self._watched:
                try:
                    id = await anyio.to_thread.run_sync(self._id_of, name)
                except InterlockError:
                    continue
                watched = Watched(name, cursor.key_of(id), mark, anyio.CancelScope())
                self._watched[name] = watched
                group.start_soon(self._watch, watched)

    def _id_of(self, name: str) -> str:
        return str(self._home.team(name).describe()["id"])

    def _teams(self) -> dict[str, tuple[int, int]]:
        found = {}
        try:
            for name in self._home.teams():
                there = os.stat(self._home.team(name).directory)
                found[name] = (there.st_dev, there.st_ino)
        except (InterlockError, OSError):
            pass  # One was deleted this instant; we look again in a second.
        return found

    async def _watch(self, watched: Watched) -> None:
        with watched.scope:
            try:
                waiter = await anyio.to_thread.run_sync(lambda: self._home.team(watched.name).waiter())
            except InterlockError:
                # Deleted this instant, or busy. The next look at the teams tries again, if there is still one.
                if self._watched.get(watched.name) is watched:
                    del self._watched[watched.name]
                return
            try:
                while True:
                    # Also before the first sleep: something may have come before there was a waiter.
                    for reader in self._readers:
                        reader.poke(watched.name)
                    try:
                        await woken(waiter, 3600.0)
                    except InterlockError:
                        await anyio.sleep(LOOK_FOR_TEAMS)
            finally:
                waiter.close()
