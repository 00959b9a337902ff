"""Time and identifiers, injected everywhere so that a test or a simulation can own both.

Times inside Interlock are text, ISO 8601 UTC with milliseconds and a `Z`: they sort as text, and every interface shows
what the ledger stores.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the system takes its time and its identifiers from."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds that never run backwards."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""

    def new_id(self) -> str:
        """A fresh UUID4 as text."""


def iso(seconds: float) -> str:
    """`seconds` since the epoch as `2026-11-21T03:35:13.123Z`."""
    whole = int(seconds)
    millis = int((seconds - whole) * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{millis:03d}Z"


def seconds(text: str) -> float:
    """The reverse of `iso`; also reads any ISO 8601 time with an offset.

    Raises:
        ValueError: `text` is not an ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def new_id(self) -> str:
        return str(uuid.uuid4())


class ManualClock:
    """A clock that moves only when told to, with ids that count up: for tests, simulations and replays."""

    def __init__(self, start: float = 1_795_000_000.0) -> None:
        self._now = start
        self._ticks = 0.0
        self._ids = 0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._ticks

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative number only sets the wall clock back."""
        self._now += seconds
        self._ticks += max(seconds, 0.0)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, while no time passes."""
        self._now += seconds

    def new_id(self) -> str:
        self._ids += 1
        return f"00000000-0000-4000-8000-{self._ids:012x}"
