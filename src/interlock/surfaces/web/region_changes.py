"""What has changed in a region since a page last fetched it (RFC 3229): the lines that differ, not the whole region.

Ages ("3m ago") are no change: the open page writes them itself, so a region that scripts fetch leaves them out.
"""

from __future__ import annotations

import json
import re
import threading
from difflib import SequenceMatcher

MANIPULATION = "interlock-lines"
"""What `A-IM` and `IM` call it: a JSON list of [from line, to line, lines that stand there now]."""
KEPT = 8_000_000
"""So many characters of regions are kept, the oldest let go first."""
MOST_LINES = 20_000
_AGE = re.compile(r'(<time datetime="[^"]*T[^"]*"[^>]*>)[^<]*')


def ageless(html: str) -> str:
    """Return the HTML of a region without ages."""
    return _AGE.sub(r"\1", str(html))  # Of Markup it would escape the rest.


class SentRegions:
    """Texts of regions by their ETag. It is safe to share between threads and readers: a change is told only to who
    names what it has."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._size = 0
        self._lock = threading.Lock()

    def keep(self, tag: str, text: str) -> None:
        """Keep it, as the newest."""
        with self._lock:
            self._size += len(text) - len(self._texts.pop(tag, ""))
            self._texts[tag] = text
            while self._size > KEPT:
                self._size -= len(self._texts.pop(next(iter(self._texts))))

    def change(self, tag: str, text: str) -> bytes | None:
        """Return what makes `text` of the region with that tag; None where that is unknown, or no shorter."""
        with self._lock:
            before = self._texts.get(tag)
        if before is None:
            return None
        old, new = before.split("\n"), text.split("\n")
        if max(len(old), len(new)) > MOST_LINES:
            return None
        found = [
            [start, end, new[n:m]]
            for kind, start, end, n, m in SequenceMatcher(None, old, new).get_opcodes()
            if kind != "equal"
        ]
        change = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
        return change if len(change) < len(text) // 2 else None
