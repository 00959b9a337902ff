"""What a contender does in a race: tasks created, claimed and finished, messages sent and read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

LEAD = "lead"
MEMBERS = ("m0", "m1", "m2", "m3")


class Failed(Exception):
    """A call that should have worked did not: a crash, a time-out, or an answer that cannot be read."""


class Contender:
    """One tool in one place. Processes that race open the same place, so all that they share is in it.

    `lacks` names the pieces of work that it cannot do, each with the reason.
    """

    lacks: ClassVar[Mapping[str, str]] = {}

    def __init__(self, place: Path) -> None:
        self.place = place
        self._refused: set[str] = set()

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Make an empty team with its members in the place, and serve it for as long as this lasts."""
        raise NotImplementedError
        yield

    def create(self, subject: str) -> str:
        """Make a task; its id."""
        raise NotImplementedError

    def tasks(self) -> list[str]:
        """The ids of all tasks that nobody has claimed, in order."""
        raise NotImplementedError

    def claim(self, task: str, member: str) -> bool:
        """Claim a task; false when somebody else has it."""
        raise NotImplementedError

    def finish(self, task: str, member: str) -> None:
        """Report a claimed task as finished."""
        raise NotImplementedError

    def send(self, sender: str, to: str, content: str) -> None:
        """Send a message."""
        raise NotImplementedError

    def read(self, member: str) -> list[str]:
        """The texts of the messages that arrived; waits for those that are on their way, but not for ever."""
        raise NotImplementedError

    def next(self, member: str) -> str | None:
        """Claim whichever task is free; null when none is left.

        Where there is no verb for it: the first on the list that was not refused already.
        """
        while left := [task for task in self.tasks() if task not in self._refused]:
            if self.claim(left[0], member):
                return left[0]
            self._refused.add(left[0])
        return None

    def remember(self, **values: str) -> None:
        """Leave something for the processes that race."""
        (self.place / "state.json").write_text(json.dumps(values))

    def remembered(self, name: str) -> Any:
        """What the preparation left."""
        return json.loads((self.place / "state.json").read_text())[name]
