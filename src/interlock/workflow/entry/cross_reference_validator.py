"""Cross-Reference Validator: whether PRD, architecture and stories speak of the same things (BMAD-1.3, FR15).

A requirement that the architecture or the stories do not name is orphaned; a decision that no story names is
unaddressed; an id that no document defines dangles. It errs on the side of reporting: the mention of an id anywhere in
the PRD makes it a requirement. Requirements and decisions are named as documents do: `FR12`, `NFR-3`, `FR19a`,
`FR1-FR6`, `ADR-001`. `FR-001` and `FR1` are one requirement. A range refers to every requirement between
its ends, lettered ones too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

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


@dataclass(frozen=True, slots=True)
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


REQUIREMENTS = ("FR", "NFR")
DECISIONS = ("ADR", "AD")
SEVERITIES = ("HIGH", "MEDIUM", "LOW")

COMPARED = (
    ("PRD", REQUIREMENTS, "architecture", "orphaned_requirement", "MEDIUM"),
    ("PRD", REQUIREMENTS, "stories", "requirement_without_story", "MEDIUM"),
    ("architecture", DECISIONS, "stories", "unaddressed_decision", "LOW"),
)
"""What one document names of which kinds, and another has to name too; the type of what it does not, and the severity
of an id that only the other one names."""
COMPONENTS = re.compile(
    r"^\W*(?:affected |impacted )?(?:components?|modules?|services?|affects|impacts)\W*:\W*(.+)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that does not fit."""

    severity: str
    type: str
    id: str
    affected_components: tuple[str, ...]
    message: str

    def as_dict(self) -> Json:
        """The shape in which it is shown."""
        return {**asdict(self), "affected_components": list(self.affected_components)}


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of a comparison; issues stand with the most severe first."""

    issues: tuple[Mismatch, ...]
    orphaned_requirements: tuple[str, ...] = ()
    unaddressed_decisions: tuple[str, ...] = ()

    def as_dict(self) -> Json:
        """The shape that `interlock analyze cross-reference` shows."""
        return {
            "alignment_status": "MISALIGNED" if self.issues else "ALIGNED",
            "issues": [issue.as_dict() for issue in self.issues],
            "orphaned_requirements": list(self.orphaned_requirements),
            "unaddressed_decisions": list(self.unaddressed_decisions),
        }


def compare(prd: str | None = None, architecture: str | None = None, stories: str | None = None) -> Alignment:
    """What the given documents do not agree about. A document that is None is not compared."""
    texts = {"PRD": prd, "architecture": architecture, "stories": stories}
    issues: list[Mismatch] = []
    unnamed: dict[str, dict[Key, Mention]] = {"PRD": {}, "architecture": {}}
    for source, kinds, document, type_, dangling in COMPARED:
        text, own = texts[document], texts[source]
        if text is None or own is None:
            continue
        known, named = mentions(own, kinds), mentions(text, kinds)
        met, verb = referenced(text, known), "does" if document == "architecture" else "do"
        what = "required" if source == "PRD" else "decided"
        for one in (known[key] for key in sorted(known) if key not in met):
            unnamed[source][one.key] = one
            severity = "HIGH" if one.key[0] == "FR" else "MEDIUM"
            affected = (document,) if source == "PRD" else components(own, one)
            message = f"{one.text} (line {one.line} of the {source}) is {what}, but the {document} {verb} not name it."
            issues.append(Mismatch(severity, type_, one.text, affected, message))
        for one in (named[key] for key in sorted(named) if key not in known):
            message = f"Line {one.line} of the {document} names {one.text}, which the {source} does not have."
            issues.append(Mismatch(dangling, "unknown_reference", one.text, (document,), message))
    return Alignment(
        tuple(sorted(issues, key=lambda issue: SEVERITIES.index(issue.severity))),
        *(tuple(unnamed[source][key].text for key in sorted(unnamed[source])) for source in unnamed),
    )


def components(architecture: str, mention: Mention) -> tuple[str, ...]:
    """The components that a decision concerns: what its section lists as such, else what its own line says.

    A row of a table gives the cells after the id; a heading or list item its title.
    """
    lines = architecture.splitlines()
    own = lines[mention.line - 1] if mention.line <= len(lines) else ""
    for line in lines[mention.line - 1 : mention.line + 30]:
        if line is not own and (line.startswith("#") or re.search(r"\bADR[-_ ]?\d", line)):
            break
        listed = COMPONENTS.match(line)
        if listed:
            parts = re.split(r",|;|\band\b", listed[1].replace("*", "").replace("`", ""))
            return tuple(part.strip(" .") for part in parts if part.strip(" ."))
    if own.lstrip().startswith("|"):
        cells = [cell.strip(" *`") for cell in own.strip().strip("|").split("|")]
        return tuple(cell for cell in cells if cell and mention.text not in cell)[:1]
    title = own.partition(mention.text)[2].strip(" :*-–—#.|`")
    return (title,) if title else ()
