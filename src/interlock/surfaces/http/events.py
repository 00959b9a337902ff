"""The history: of one team as JSON, of all teams as server-sent events, live, for any number of readers.

One watcher per team sleeps until the team changes (see `Team.changes`) and wakes the readers; each reader then asks the
ledger for what comes after its own place. So nothing is queued for a slow reader, nothing can be lost between two
sources, and a place is all one needs to continue after a broken connection or a restart. Without readers nothing is
watched.

A place in all teams is one opaque text, the cursor: the number of the last event of each team. A team is known by five
bytes of the digest of its id, so that a new team under an old name begins at its beginning, and the text stays short:
about ten bytes a team before it is made printable. `0` is the beginning of everything.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Annotated

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from interlock.app.home import Home
from interlock.errors import InterlockError, InvalidRequest, LimitReached
from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.surfaces.http import responses
from interlock.surfaces.http.mail import LARGEST
from interlock.surfaces.http.request_context import Reader
from interlock.surfaces.http.responses import answer, documented
from interlock.surfaces.http.types import TeamName

router = APIRouter(prefix="/api", tags=["events"])

HEARTBEAT = 10
"""Seconds between two comments that keep the connection open."""
SEND_SECONDS = 30.0
"""Seconds a reader may leave its connection blocked."""
MOST_READERS = 200
RETRY_MS = 1000
"""What browsers wait before they connect again."""
MOST_AT_ONCE = 10_000
LOOK_FOR_TEAMS = 1.0
"""Seconds between two looks for teams that were created or deleted."""
AT_ONCE = 200
LEAVE_AFTER = 10.0
"""Seconds after which a reader is asked whether it may still read."""
CURSOR_VERSION = "c1"
"""How every cursor but `0` begins."""
KEY_BYTES = 5
LONGEST_CURSOR = 20_000


@router.get("/teams/{team}/events", responses=documented(responses.EventList))
def of_team(
    context: Reader,
    team: TeamName,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """The team's events after a number, in commit order, without gaps. `next` is the `after` of the following page."""
    found, onward = context.team(team).events(after, limit=limit)
    return answer({"events": found, "next": onward})


@router.get("/events", response_class=EventSourceResponse, include_in_schema=False)
async def of_all_teams(
    request: Request,
    context: Reader,
    after: Annotated[str | None, Query(max_length=LONGEST_CURSOR)] = None,
    last_event_id: Annotated[str | None, Header(max_length=LONGEST_CURSOR)] = None,
) -> Response:
    """Server-sent events over all teams, without gaps, those of new teams too. `after`: a cursor, `0` for everything,
    absent for what comes from now on. `Last-Event-ID` wins over it."""
    text = last_event_id or after
    positions = None if text is None else parse_cursor(text)
    own = context.principal.team
    return EventSourceResponse(
        _lines(reading(request, positions, lambda team: own in (None, team))),
        ping=HEARTBEAT,
        ping_message_factory=lambda: ServerSentEvent(comment="heartbeat"),
        send_timeout=SEND_SECONDS,
    )


def reading(
    request: Request, positions: Mapping[bytes, int] | None, may_see: Callable[[str], bool]
) -> AsyncGenerator[FeedItem]:
    """Read the server's feed (see `Feed.read`) for as long as the caller of a request is known.

    Raises:
        LimitReached: so many read already.
    """
    feed, authenticator = request.app.state.feed, request.app.state.authenticator
    if feed.readers >= MOST_READERS:
        raise LimitReached(f"{MOST_READERS} streams are open, which is the limit. Close one, and try again.")

    def may_stay() -> bool:
        try:
            authenticator.principal(request.headers)
        except InterlockError:
            return False  # Its token was revoked.
        return True

    found: AsyncGenerator[FeedItem] = feed.read(positions, may_see, may_stay)
    return found


async def _lines(items: AsyncGenerator[FeedItem]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(items):
        async for item in items:
            if item.event is None:
                # No data: a browser fires nothing, but knows its place when the connection breaks before an event.
                yield ServerSentEvent(id=item.cursor, retry=RETRY_MS, comment="connected")
            else:
                shown = {"team": item.team, **item.event.as_dict()}
                text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
                yield ServerSentEvent(text, id=item.cursor)


@dataclass(frozen=True, slots=True)
class FeedItem:
    """One event of one team, and the cursor after it; without an event it only says where the reader is."""

    team: str
    event: Event | None
    cursor: str


@dataclass(frozen=True, slots=True)
class WatchedTeam:
    name: str
    id: str
    scope: anyio.CancelScope

    @property
    def key(self) -> bytes:
        """How the team is known in a cursor."""
        return hashlib.sha256(self.id.encode()).digest()[:KEY_BYTES]


class FeedReader:
    """One reader, and which teams have changed since it last looked."""

    def __init__(self) -> None:
        self.placed = anyio.Event()
        """Set once all teams of that moment are watched."""
        self.woken = anyio.Event()
        self._changed: dict[str, None] = {}

    def wake(self, *teams: str) -> None:
        self._changed.update(dict.fromkeys(teams))
        self.woken.set()

    def next(self) -> str | None:
        """Return a team to look at, the one that waits longest first."""
        name = next(iter(self._changed), None)
        if name is not None:
            del self._changed[name]
        return name

    async def wait(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self.woken.wait()
        self.woken = anyio.Event()


class Feed:
    """`run` lives as long as the server; `close` ends all readers."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._readers: set[FeedReader] = set()
        self._watched: dict[str, WatchedTeam] = {}
        self._look = anyio.Event()
        self.closed = False

    @property
    def readers(self) -> int:
        return len(self._readers)

    async def run(self) -> None:
        """Watch the teams while anybody reads, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                if self._readers:
                    known = list(self._readers)
                    await self._find_teams(group)
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
        """End all readers: the server ends."""
        self.closed = True
        for reader in self._readers:
            reader.placed.set()
            reader.woken.set()

    async def read(
        self, positions: Mapping[bytes, int] | None, may_see: Callable[[str], bool], may_stay: Callable[[], bool]
    ) -> AsyncGenerator[FeedItem]:
        """Yield events after `positions`, and then as they come, until the feed is closed.

        Args:
            positions: by the key of each team; one that is not among them is read from its beginning. `None`: from now.
            may_see: whether the reader may see a team of that name.
            may_stay: asked, in a thread, every few seconds.
        """
        reader = FeedReader()
        self._readers.add(reader)
        try:
            # With us among the readers: what is committed from here on wakes us.
            self._look.set()
            await reader.placed.wait()
            places = dict(positions) if positions is not None else await anyio.to_thread.run_sync(self._heads)
            yield FeedItem("", None, write_cursor(places))
            reader.wake(*self._watched)
            while not self.closed and await anyio.to_thread.run_sync(may_stay):
                while not self.closed and (name := reader.next()) is not None:
                    watched = self._watched.get(name)
                    if watched is None or not may_see(name):
                        continue
                    events = await anyio.to_thread.run_sync(self._events, name, places.get(watched.key, 0))
                    for event in events:
                        places[watched.key] = event.seq
                        yield FeedItem(name, event, write_cursor(places))
                        # That a reader has left is noticed between two lines, not after a whole page of them.
                        await anyio.lowlevel.checkpoint()
                    if len(events) == AT_ONCE:
                        reader.wake(name)
                if not self.closed:
                    await reader.wait(LEAVE_AFTER)
        finally:
            self._readers.discard(reader)
            self._look.set()

    def _heads(self) -> dict[bytes, int]:
        return {watched.key: self._home.team(watched.name).head() for watched in list(self._watched.values())}

    def _events(self, name: str, since: int) -> list[Event]:
        try:
            return self._home.team(name).events(since, limit=AT_ONCE)[0]
        except InterlockError:
            return []  # Deleted meanwhile, or busy: the next look at the teams finds out which.

    async def _find_teams(self, group: TaskGroup) -> None:
        found = await anyio.to_thread.run_sync(self._ids)
        for name, watched in list(self._watched.items()):
            if found.get(name) != watched.id:
                watched.scope.cancel()
                del self._watched[name]
        for name, id in found.items():
            if name not in self._watched:
                self._watched[name] = watched = WatchedTeam(name, id, anyio.CancelScope())
                group.start_soon(self._watch, watched)

    def _ids(self) -> dict[str, str]:
        found = {}
        for name in self._home.teams():
            try:
                found[name] = self._home.team(name).id()
            except InterlockError:
                # Deleted this instant, or busy: one that is watched stays so, and we look again in a second.
                if name in self._watched:
                    found[name] = self._watched[name].id
        return found

    async def _watch(self, watched: WatchedTeam) -> None:
        with watched.scope:
            try:
                team = await anyio.to_thread.run_sync(self._home.team, watched.name)
                async with aclosing(team.changes()) as changes:
                    # Also before the first sleep: something may have come before there was a waiter.
                    async for _ in changes:
                        for reader in self._readers:
                            reader.wake(watched.name)
            except InterlockError:
                # Deleted this instant, or busy. The next look at the teams tries again, if there is still one.
                if self._watched.get(watched.name) is watched:
                    del self._watched[watched.name]


def write_cursor(positions: Mapping[bytes, int]) -> str:
    """Return the cursor for these positions: each a key and a number of seven bits a byte, the lowest first."""
    raw = bytearray()
    for key, seq in sorted(positions.items()):
        raw += key
        while seq > 0x7F:
            raw.append(seq & 0x7F | 0x80)  # The eighth bit says that more follow.
            seq >>= 7
        raw.append(seq)
    return CURSOR_VERSION + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_cursor(text: str) -> dict[bytes, int]:
    """Return the positions that a cursor stands for.

    Raises:
        InvalidRequest: `text` is not a cursor.
    """
    if text == "0":
        return {}
    try:
        if not text.startswith(CURSOR_VERSION) or len(text) > LONGEST_CURSOR:
            raise ValueError(text)
        encoded = text.removeprefix(CURSOR_VERSION)
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        found, place = {}, 0
        while place < len(raw):
            key = raw[place : place + KEY_BYTES]
            place += KEY_BYTES
            found[key] = shift = 0
            while raw[place] > 0x7F:
                found[key] |= (raw[place] & 0x7F) << shift
                place, shift = place + 1, shift + 7
                if shift > 63:
                    raise ValueError("no such number")
            found[key] |= raw[place] << shift
            place += 1
        return found
    except (ValueError, IndexError, binascii.Error):
        raise InvalidRequest(
            "That is not a cursor. Use the `id` of the last event you have, `0` for everything, or none for new ones.",
            field="after",
        ) from None
