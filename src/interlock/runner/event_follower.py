"""Following the events of teams, for what is sent on elsewhere: notices and telemetry.

A follower keeps its position in each team itself, in a file of the home, so that it sends at least once. Each has a
thread of its own: a server that does not answer delays nothing else.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

from interlock.clock import Clock
from interlock.core.unit_of_work import Workspace
from interlock.errors import InterlockError
from interlock.storage.ledger import Rows

LOOK_AGAIN = 1.0
SOON = 0.2
T = TypeVar("T")


class EventFollower(ABC):
    """A thread that calls `tell` again and again, from `start` to `stop`.

    Args:
        names: the teams to follow.
    """

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        workspace: Callable[[str], Workspace],
        clock: Clock,
    ) -> None:
        self._names = names
        self._workspace = workspace
        self._clock = clock
        self._heads: dict[str, int] = {}
        self._ending = threading.Event()

        def follow() -> None:
            while not self._ending.wait(LOOK_AGAIN):
                self.tell()

        self._thread = threading.Thread(target=follow, name=type(self).__name__, daemon=True)

    @abstractmethod
    def tell(self, *, hurry: bool = False) -> object:
        """Send what there is, if it is time. In a `hurry`, wait for nothing."""

    def start(self) -> None:
        """Begin; what happened before in a team that was not followed yet is not sent."""
        self._heads.update(self._each(lambda _, rows: (rows.team.get().id, rows.start.head)))
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(last=True)

    def stop(self, *, last: bool = False) -> None:
        """End. With `last`, what has come up is sent first, which takes as long as a sending may take."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(None if last else SOON)
        if last:
            self.tell(hurry=True)

    def _each(self, read: Callable[[Workspace, Rows], T]) -> Iterator[T]:
        """What is read in each team, of one moment. One that was deleted this instant, or is busy, is left out: the
        others do not wait for it."""
        for name in sorted(self._names()):
            try:
                workspace = self._workspace(name)
                with workspace.ledger.snapshot() as rows:
                    found = read(workspace, rows)
            except InterlockError:
                continue
            yield found

    def _place(self, places: dict[str, int], rows: Rows) -> int:
        """The event up to which the team was sent. A ledger that was restored may be behind what was sent of it."""
        id = rows.team.get().id
        return min(int(places.get(id, self._heads.get(id, 0))), rows.start.head)
