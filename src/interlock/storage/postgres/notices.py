"""LISTEN and NOTIFY: which team has changed, for those who wait on other machines (see `wakeup.relay`).

A notice is a hint: it names a team and what has changed, so that who waits for something else sleeps on; and whoever
waits looks for itself as well.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Iterator

import psycopg
from psycopg import sql

from interlock.errors import InterlockError
from interlock.storage.postgres.server import LedgerServer

APART = 0.05
"""Seconds between two notices of a process about one team: each takes a lock of the whole server for a moment."""
MARKS = 100
"""With more topics than so many, a notice is for all who wait: its length is limited."""
LOOK = 1.0
"""Seconds after which who listens sees that it is to end."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"


class Notices:
    """Notices on the channel of a catalog."""

    def __init__(self, server: LedgerServer) -> None:
        self._server = server
        self._mutex = threading.Lock()
        self._said: dict[str, float] = {}
        """When each team was told of last."""
        self._waiting: dict[str, set[str]] = {}
        """What will be told of a team next."""
        self._late: list[threading.Timer] = []
        self._ending = threading.Event()

    def tell(self, team: str, marks: Collection[str]) -> None:
        with self._mutex:
            if team in self._waiting:
                self._waiting[team].update(marks)  # A notice is on its way, and comes after this commit.
                return
            pause = self._said.get(team, -APART) + APART - (now := time.monotonic())
            if pause > 0:
                self._waiting[team] = set(marks)
                self._late = [one for one in self._late if one.is_alive()]
                self._late.append(threading.Timer(pause, self._say_late, (team,)))
                self._late[-1].start()
                return
            self._said[team] = now
        self._say(team, marks)

    def _say_late(self, team: str) -> None:
        with self._mutex:
            self._said[team], marks = time.monotonic(), self._waiting.pop(team)
        self._say(team, marks)

    def _say(self, team: str, marks: Collection[str]) -> None:
        said = " ".join([team, *(sorted(marks) if len(marks) <= MARKS else ())])
        try:
            with self._server.lent() as raw:
                raw.execute(_NOTIFY, (self._server.schema, said))
        except InterlockError:
            return  # Whoever waits, looks for itself.

    def told(self) -> Iterator[tuple[str, Collection[str]] | None]:
        self._ending = ending = threading.Event()
        pause = FIRST_PAUSE
        while not ending.is_set():
            try:
                with self._server.direct() as raw:
                    raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._server.schema)))
                    pause = FIRST_PAUSE
                    yield None
                    while not ending.is_set():
                        for notice in raw.notifies(timeout=LOOK):
                            team, *marks = notice.payload.split(" ")
                            yield team, marks
            except psycopg.Error:
                ending.wait(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, LONGEST_PAUSE)

    def close(self) -> None:
        """Say what is still to be said, and listen no more until somebody does again."""
        self._ending.set()
        for one in self._late:
            one.join()
