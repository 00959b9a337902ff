"""What was chosen in which menu, oldest first, at most 100 (BMAD-2b.5, FR12). Continues in a row take one entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

LIMIT = 100


@dataclass(frozen=True)
class Entry:
    """One selection. `timestamp` is ISO 8601 UTC, `confidence` 0 to 100, `count` how many equal ones it stands for;
    `decision_source` is what it came from: engine, human, or learned_preference."""

    timestamp: str
    menu_id: str
    selection: str
    confidence: int
    reason: str = ""
    automatic: bool = True
    count: int = 1
    decision_source: str = "engine"


@dataclass(frozen=True)
class History:
    """The selections so far."""

    entries: tuple[Entry, ...] = ()

    def add(self, entry: Entry) -> History:
        """With one more entry; the oldest goes when there are more than 100."""
        return History((*self.entries, entry)[-LIMIT:])

    def batch(self, entry: Entry) -> History:
        """With one more continue of a batch, which is added to the entry of the continue before it (BMAD-2b.6.6)."""
        last = self.entries[-1] if self.entries else None
        same = last is not None and (last.selection, last.decision_source) == (entry.selection, entry.decision_source)
        if last and same and last.automatic and entry.automatic:
            merged = replace(entry, count=last.count + entry.count, confidence=min(last.confidence, entry.confidence))
            return History((*self.entries[:-1], merged))
        return self.add(entry)

    def as_list(self) -> list[dict[str, Any]]:
        """The shape in which a workflow's state keeps it."""
        return [asdict(entry) for entry in self.entries]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> History:
        """The history that `as_list` wrote."""
        return cls(tuple(Entry(**row) for row in rows)[-LIMIT:])
