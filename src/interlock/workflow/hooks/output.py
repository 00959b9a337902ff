"""What hooks print, within limits (FR52): one stream, one hook's result, and all results of one step.

Sizes are bytes. A stream is cut at its limit while the program still runs; of a step's results, the oldest output goes
first when all of it is too much. Whatever is cut says how much, and how much there was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.hooks.definitions import Hook

STDOUT = 65_536
STDERR = 16_384
STEP = 262_144
"""Of a step: standard output, standard error and what is known about each run of a hook, as the JSON that is kept."""

Status = Literal["ok", "refused", "failed", "cancelled"]


class Cut:
    """The beginning of a stream, and how long it was."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take what was printed; what is beyond the limit is counted and forgotten."""
        self.total += len(chunk)
        if len(self._kept) < self.limit:
            self._kept += chunk[: self.limit - len(self._kept)]

    @property
    def raw(self) -> bytes:
        """What was kept."""
        return bytes(self._kept)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of a hook: its text, cut at the limit, and how many bytes were printed."""

    text: str = ""
    printed: int = 0
    limit: int = STDOUT

    @property
    def truncated(self) -> bool:
        """Whether something was cut."""
        return self.printed > self.limit

    def message(self, name: str) -> str | None:
        """How much was cut; None where nothing was."""
        if not self.truncated:
            return None
        return f"{name}: {self.printed - self.limit} bytes truncated, its original size is {self.printed} bytes"


@dataclass(frozen=True, slots=True)
class HookResult:
    """How one run of a hook ended.

    `ok`: exit 0. `refused`: a PreToolUse hook's exit 2, its word against the tool. `failed`: anything else that went
    wrong, `reason` says what. `cancelled`: the run was stopped meanwhile. `exit_code` is None where nothing was started
    or it had to be ended.
    """

    hook: Hook
    status: Status
    reason: str = ""
    exit_code: int | None = None
    stdout: Stream = Stream()
    stderr: Stream = Stream(limit=STDERR)
    seconds: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether its output was cut."""
        return self.stdout.truncated or self.stderr.truncated

    @property
    def message(self) -> str:
        """What was cut of it, a sentence; empty where nothing was."""
        said = (self.stdout.message("stdout"), self.stderr.message("stderr"))
        return "; ".join(one for one in said if one)

    def summary(self) -> Json:
        """What is known about it, without its output."""
        hook = self.hook
        found: Json = {
            "event": hook.event, "command": hook.name, "status": self.status, "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3), "reason": self.reason, "critical": hook.critical,
            "truncated": self.truncated, "stdout_bytes": self.stdout.printed, "stderr_bytes": self.stderr.printed,
            "message": self.message,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value not in ("", None)}

    def entry(self, **more: Any) -> Json:
        """All of it, as it is kept for the step."""
        return {**more, **self.summary(), "stdout": self.stdout.text, "stderr": self.stderr.text}


def size(entry: Json) -> int:
    """What an entry takes, with its line break."""
    return len(line(entry))


def line(entry: Json) -> bytes:
    """An entry as it is written down."""
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def pruned(entries: Sequence[Json], limit: int = STEP) -> list[Json]:
    """The entries within `limit`: the oldest lose their output first, then the oldest go altogether."""
    kept = [dict(one) for one in entries]
    sizes = [size(one) for one in kept]
    for place, entry in enumerate(kept):
        if sum(sizes) <= limit:
            return kept
        printed = int(entry.get("stdout_bytes", 0)) + int(entry.get("stderr_bytes", 0))
        had = len((str(entry.get("stdout", "")) + str(entry.get("stderr", ""))).encode("utf-8", "replace"))
        if had:
            entry |= {"stdout": "", "stderr": "", "pruned": True}
            entry["message"] = f"pruned: {had} bytes truncated, its original size is {printed} bytes"
            sizes[place] = size(entry)
    while sum(sizes) > limit:
        kept, sizes = kept[1:], sizes[1:]
    return kept
