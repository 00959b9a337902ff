"""Requirements and decisions as documents name them: `FR12`, `NFR-3`, `FR19a`, `FR1-FR6`, `ADR-001`.

`FR-001` and `FR1` are one requirement. A range refers to every requirement between its ends, lettered ones too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

KIND = r"(NFR|FR|ADR|AD)"
ID = re.compile(rf"(?<![A-Za-z0-9-]){KIND}[-_ ]?0*(\d{{1,5}})([a-z])?(?![A-Za-z0-9])", re.IGNORECASE)
RANGE = re.compile(
    rf"(?<![A-Za-z0-9-]){KIND}[-_ ]?0*(\d{{1,5}})([a-z])?"
    rf"(?:\s*(?:–|—|-|\.\.\.?|\bto\b|\bthrough\b)\s*(?:\1)[-_ ]?|[-–—](?=\d))0*(\d{{1,5}})([a-z])?(?![A-Za-z0-9])",
    re.IGNORECASE,
)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Lines that name a requirement only to say that nothing is done about it.
DENIED = re.compile(
    r"\b(?:not (?:yet )?(?:addressed|covered|supported|implemented|handled|in scope)|out of scope|uncovered"
    r"|unaddressed|no (?:coverage|story|component)|missing|deferred|orphan(?:ed)?)\b",
    re.IGNORECASE,
)

Key = tuple[str, int, str]


@dataclass(frozen=True)
class Mention:
    """One id in a document: what it is compared by, how it was written, and the line (from 1)."""

    key: Key
    text: str
    line: int


def mentions(text: str, kinds: Iterable[str]) -> dict[Key, Mention]:
    """The first mention of every id of these kinds, in the order of the text. Comments do not count."""
    wanted = {kind.upper() for kind in kinds}
    found: dict[Key, Mention] = {}
    for number, line in enumerate(_visible(text).splitlines(), 1):
        for match in ID.finditer(line):
            key = _key(match[1], match[2], match[3])
            if key[0] in wanted:
                found.setdefault(key, Mention(key, match[0], number))
    return found


def referenced(text: str, known: Iterable[Key]) -> set[Key]:
    """Which of the known ids `text` refers to, one by one or by a range; to say that one is left out does not count."""
    ids = set(known)
    found: set[Key] = set()
    for line in _visible(text).splitlines():
        if DENIED.search(line):
            continue
        found |= {key for match in ID.finditer(line) if (key := _key(match[1], match[2], match[3])) in ids}
        for match in RANGE.finditer(line):
            low, high = _key(match[1], match[2], match[3]), _key(match[1], match[4], match[5])
            # FR1-FR6 means FR6a too, as FR16-FR19j means FR17.
            top = high if high[2] else (high[0], high[1], "z")
            found |= {key for key in ids if key[0] == low[0] and low <= key <= top}
    return found


def _visible(text: str) -> str:
    # Where none is closed any more, none is looked for: each that is open would be followed to the end of the text.
    closed = text.rfind("-->") + 3 if "-->" in text else 0
    return COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text[:closed]) + text[closed:]


def _key(kind: str, number: str, letter: str | None) -> Key:
    return (kind.upper(), int(number), (letter or "").lower())
