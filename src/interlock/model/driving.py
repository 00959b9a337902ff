"""Work under way: what is heard of it, and how it is asked to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

from interlock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Update:
    """Something an agent said or did during a turn.

    `text` is what the agent says, `thought` what it says to itself. `tool` is a tool call, begun or changed: `data` has
    `id`, `title`, `kind`, `status` (pending, in_progress, completed, failed) and `paths`, and where the agent tells
    them, digests of its `input` and `output`. `error` is a line of the program's own log, which is shown to nobody.
    `usage` is what was spent since the last one: `data` has those of `turns`, `input_tokens`, `output_tokens`,
    `cost_usd` that the agent tells.
    A runner adds whose it is; `member` and `task_id` are empty for what concerns the run as a whole.
    """

    kind: Literal["text", "thought", "tool", "error", "notice", "usage"]
    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    member: str = ""
    task_id: str = ""


class Stop:
    """How a run is asked to end: softly (nothing new starts), then hard (everything is ended now).

    Safe to use from signal handlers and other threads. A second request makes the first one hard.
    """

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.soft = False
        self.hard = False
        self.reason: str | None = None

    def request(self, reason: str = "asked to stop", *, now: bool = False) -> None:
        """Ask to end: softly the first time, hard the second time or with `now`."""
        self.hard = self.hard or now or self.soft
        self.soft = True
        self.reason = self.reason or reason
        # No lock, here or below: a signal handler may interrupt `listen` in this very thread.
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` at each request, until what this answers is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
