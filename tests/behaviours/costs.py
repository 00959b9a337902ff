"""What a verb costs that no clock is needed for: durable commits, and files written.

Commits are counted where they end up: a frame of the write-ahead log that ends a transaction says so in its header.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADER = 32
FRAME_HEADER = 24


@dataclass
class Found:
    """What something cost."""

    commits: int = 0
    files: set[str] = field(default_factory=set)


class Costs:
    """Measures verbs of the team in `directory`, by whichever process they are done."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._ledger = sqlite3.connect(self._directory / "ledger.db", isolation_level=None)
        self._page = self._ledger.execute("PRAGMA page_size").fetchone()[0]

    def close(self) -> None:
        """Give the connection back."""
        self._ledger.close()

    def of(self, verb: Callable[[], Any]) -> tuple[int, set[str]]:
        """(commits, names of the files that were written, moved or removed) of that verb."""
        with self.watched() as found:
            verb()
        return found.commits, found.files

    @contextmanager
    def watched(self) -> Iterator[Found]:
        """The same of whatever happens inside."""
        busy, *_ = self._ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
        before = self._files()
        found = Found()
        yield found
        after = self._files()
        found.files = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        found.commits = sum(1 for _ in self._commits())

    def _commits(self) -> Iterator[int]:
        log = (self._directory / "ledger.db-wal").read_bytes()
        for start in range(HEADER, len(log), FRAME_HEADER + self._page):
            pages = int.from_bytes(log[start + 4 : start + 8], "big")
            if pages:
                yield pages

    def _files(self) -> dict[str, tuple[int, int]]:
        """All files but the ledger's own and the mirror's note of how far it has come."""
        return {
            path.relative_to(self._directory).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in self._directory.rglob("*")
            if path.is_file() and not path.name.startswith(("ledger.db", ".mirror."))
        }
