"""Waking waiters on other machines too: what one process tells a server, the others are told by it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from interlock.wakeup.notifier import Waiter
from interlock.wakeup.socket import SocketNotifier, hears, mark


class Relay(Protocol):
    """A server that passes on, to whoever listens, which team has changed in what."""

    def tell(self, team: str, marks: Collection[str]) -> None:
        """Tell the others; `marks` are those of topics. Never raises, and does not wait for them."""

    def told(self) -> Iterator[tuple[str, Collection[str]] | None]:
        """The teams that others tell of, as they come, each with marks, none for all; None once it is listened, and
        again after each time in which something may not have been heard. Ends when the relay is closed."""


class RelayNotifier(SocketNotifier):
    """Wakes this machine by sockets, and others by a relay. Safe to share among threads."""

    def __init__(self, home: str, relay: Relay) -> None:
        super().__init__(home)
        self._relay = relay
        self._mutex = threading.Lock()
        self._listening = False

    def notify(self, team: str, topics: Collection[str]) -> None:
        super().notify(team, topics)
        if topics:
            self._relay.tell(team, {mark(topic) for topic in topics})

    def waiter(self, team: str, topics: Collection[str], changed: Callable[[], bool] | None = None) -> Waiter:
        found = super().waiter(team, topics, changed)
        with self._mutex:
            if not self._listening:
                self._listening = True
                threading.Thread(target=self._listen, daemon=True).start()
        return found

    def _listen(self) -> None:
        for told in self._relay.told():
            for team, marks in [(team, ()) for team in list(self._directories)] if told is None else [told]:
                self._rouse_own(team, marks)
        with self._mutex:
            self._listening = False

    def _rouse_own(self, team: str, marks: Collection[str]) -> None:
        """Wake the waiters of this process; those of the others are told of by the relay themselves."""
        own = f"{os.getpid()}~"
        self._rouse(self._directory(team), lambda name: name.startswith(own) and hears(name, marks))
