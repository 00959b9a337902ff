"""Cross-Reference Validator: whether PRD, architecture and stories speak of the same things (BMAD-1.3, FR15).

A requirement that the architecture or the stories do not name is orphaned; a decision that no story names is
unaddressed; an id that no document defines dangles. It errs on the side of reporting: the mention of an id anywhere in
the PRD makes it a requirement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.workflow.entry.references import Key, Mention, mentions, referenced

REQUIREMENTS = ("FR", "NFR")
DECISIONS = ("ADR", "AD")
SEVERITIES = ("HIGH", "MEDIUM", "LOW")

COMPONENTS = re.compile(
    r"^\W*(?:affected |impacted )?(?:components?|modules?|services?|affects|impacts)\W*:\W*(.+)$", re.IGNORECASE
)
NEW_SECTION = re.compile(r"^#{1,6}\s|^\s*$")


@dataclass(frozen=True)
class Issue:
    """One thing that does not fit."""

    severity: str
    type: str
    id: str
    affected_components: tuple[str, ...]
    message: str

    def as_dict(self) -> dict[str, Any]:
        """The shape in which it is shown."""
        return {
            "severity": self.severity,
            "type": self.type,
            "id": self.id,
            "affected_components": list(self.affected_components),
            "message": self.message,
        }


@dataclass(frozen=True)
class Alignment:
    """The result of a comparison; issues stand with the most severe first."""

    issues: tuple[Issue, ...]
    orphaned_requirements: tuple[str, ...] = ()
    unaddressed_decisions: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze cross-reference` shows."""
        return {
            "alignment_status": "MISALIGNED" if self.issues else "ALIGNED",
            "issues": [issue.as_dict() for issue in self.issues],
            "orphaned_requirements": list(self.orphaned_requirements),
            "unaddressed_decisions": list(self.unaddressed_decisions),
        }


def compare(prd: str | None = None, architecture: str | None = None, stories: str | None = None) -> Alignment:
    """What the given documents do not agree about. A document that is None is not compared."""
    required = mentions(prd or "", REQUIREMENTS)
    decided = mentions(architecture or "", DECISIONS)
    issues: list[Issue] = []
    orphans: dict[Key, Mention] = {}
    for name, text in (("architecture", architecture), ("stories", stories)):
        if prd is None or text is None:
            continue
        unnamed = _unnamed(required, text)
        orphans |= unnamed
        issues += [_orphan(mention, name) for mention in unnamed.values()]
        issues += _dangling(mentions(text, REQUIREMENTS), required, name, "the PRD", "MEDIUM")
    unaddressed: dict[Key, Mention] = {}
    if architecture is not None and stories is not None:
        unaddressed = _unnamed(decided, stories)
        issues += [_unaddressed(mention, architecture) for mention in unaddressed.values()]
        issues += _dangling(mentions(stories, DECISIONS), decided, "stories", "the architecture", "LOW")
    return Alignment(
        tuple(sorted(issues, key=lambda issue: SEVERITIES.index(issue.severity))),
        tuple(orphans[key].text for key in sorted(orphans)),
        tuple(unaddressed[key].text for key in sorted(unaddressed)),
    )


def _unnamed(known: Mapping[Key, Mention], text: str) -> dict[Key, Mention]:
    named = referenced(text, known)
    return {key: known[key] for key in sorted(known) if key not in named}


def _orphan(mention: Mention, document: str) -> Issue:
    severity = "HIGH" if mention.key[0] == "FR" else "MEDIUM"
    verb = "does" if document == "architecture" else "do"
    type_ = "orphaned_requirement" if document == "architecture" else "requirement_without_story"
    message = f"{mention.text} (line {mention.line} of the PRD) is required, but the {document} {verb} not name it."
    return Issue(severity, type_, mention.text, (document,), message)


def _unaddressed(mention: Mention, architecture: str) -> Issue:
    affected = components(architecture, mention)
    message = f"{mention.text} (line {mention.line} of the architecture) is decided, but no story names it."
    return Issue("MEDIUM", "unaddressed_decision", mention.text, affected, message)


def _dangling(
    named: Mapping[Key, Mention], defined: Mapping[Key, Mention], document: str, source: str, severity: str
) -> Iterable[Issue]:
    verb = "names" if document == "architecture" else "name"
    for key in sorted(named):
        if key not in defined:
            mention = named[key]
            message = f"The {document} {verb} {mention.text} in line {mention.line}, which {source} does not have."
            yield Issue(severity, "unknown_reference", mention.text, (document,), message)


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
