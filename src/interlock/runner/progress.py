"""Whether a run gets anywhere, judged from outside: what its agent did, what it said, and what lies in its directory.

A turn moves on when a tool call changed something, when a file in the working directory is another one than before, or
when the agent says something that it did not say the turn before. So many turns in a row without any of that, and the
run is *stuck*: it is told so once, and then ended. What was looked at is written down as evidence.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from interlock.agent import Update

CHANGING = frozenset({"edit", "delete", "move", "execute"})
"""Kinds of tool calls that may have changed something."""
FILES_LOOKED_AT = 20_000
CACHES = frozenset({".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"})
PASSED_OVER = CACHES | {"node_modules", ".venv"}


class Progress:
    """Of one run in `workdir`."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir
        self._changes = 0
        self._said = ""
        self._files: str | None = ""
        self.idle_turns = 0
        self.evidence: dict[str, Any] = {}

    def begin(self) -> None:
        """Before the first turn: what lies there now. Reads the directory."""
        self._files = fingerprint(self._workdir)

    def hear(self, update: Update) -> None:
        """Something the agent did."""
        done = update.kind == "tool" and update.data.get("status") == "completed"
        if done and update.data.get("kind") in CHANGING:
            self._changes += 1

    def turn_ended(self, output: str) -> None:
        """A turn is over; `output` is what it said. Reads the directory."""
        said = hashlib.sha256(" ".join(output.split()).encode("utf-8", "replace")).hexdigest()[:16]
        files = fingerprint(self._workdir)
        same = said == self._said and files == self._files and not self._changes
        self.idle_turns = self.idle_turns + 1 if same else 0
        self.evidence = {"turns": self.idle_turns + 1, "output": said, "files": files, "changes": self._changes}
        self._said, self._files, self._changes = said, files, 0


def everything(directory: str) -> str | None:
    """`fingerprint`, also of what programs install for themselves; null where that is too much to look at."""
    return fingerprint(directory, CACHES, whole=True)


def fingerprint(directory: str, but: frozenset[str] = PASSED_OVER, *, whole: bool = False) -> str | None:
    """A hash of names, sizes and times of what lies below `directory`, of so many files at most; null where there are
    more and it is to be `whole`."""
    found = hashlib.sha256()
    count = 0
    for where, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name not in but)
        for name in sorted(files):
            count += 1
            if count > FILES_LOOKED_AT:
                return None if whole else found.hexdigest()[:16]
            try:
                about = os.lstat(os.path.join(where, name))
            except OSError:
                continue
            found.update(
                f"{os.path.relpath(where, directory)}/{name} {about.st_size} {about.st_mtime_ns}\n".encode(
                    "utf-8", "replace"
                )
            )
    return found.hexdigest()[:16]
