"""The checklist of a code review: the installed package's own, else ours of as many items, and how it was evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from interlock.lazy_dataclass import dataclass

ITEMS = (
    "The story was read whole, and its status allows a review",
    "Epic and story number are known",
    "The story's context and notes for its developer were read, or are noted as missing",
    "The technical specification of its epic was read, or is noted as missing",
    "Architecture and coding standards of the project were read, as far as there are any",
    "Languages, frameworks and their versions are known",
    "What is claimed of libraries and interfaces was checked against their documentation",
    "Each acceptance criterion was compared with the code that is to meet it",
    "Each task that is marked as done was found done",
    "The list of changed files is complete, and nothing else was changed",
    "Each acceptance criterion has a test; what has none is named",
    "The tests assert what they claim, and would fail without the change",
    "Errors and edge cases are handled, or named as missing",
    "The quality of the changed code was judged: structure, names, duplication",
    "The security of the changed code and its dependencies was judged",
    "The outcome was decided: Approve, Changes Requested or Blocked",
    "Notes of the review were added to the story",
    "The story's change log has an entry of the review",
    "The status of the story, and where there is one the project's status file, say what came of it",
)
PASS, FAIL, NONE, OPEN = "pass", "fail", "n/a", "not evaluated"

BOX = re.compile(r"^[^\S\n]*[-*][^\S\n]+\[[ xX]?\][^\S\n]+(\S.*)$", re.MULTILINE)
_WORD = r"(PASS(?:ED)?|FAIL(?:ED)?|PARTIAL|WARN(?:ING)?|N/?A|NOT APPLICABLE)\b\W{0,4}(.*)$"
LINES = (
    re.compile(
        r"^[ \t\r>*|-]*+(?:\[[ xX]\]\s*)?\**(?:item\s*)?#?(\d{1,3})\**\s*+[.):|-]++\W{0,6}" + _WORD,
        re.IGNORECASE | re.MULTILINE,
    ),
    re.compile(
        r"^[ \t\r>*|-]*+(?:\[[ xX]\]\s*)?(\d{1,3})[.)][^\S\n]++[^\n]{3,200}?[:|—–-]\s*\W{0,4}" + _WORD, re.MULTILINE
    ),
)
"""`3. PASS: …`, and `3. What the item says: PASS …`."""
OURS = (
    (re.compile(r"\boutcome\b.{0,200}\bdecided\b", re.IGNORECASE), "decided"),
    (re.compile(r"\bnotes\b.{0,200}\b(?:appended|added)\b", re.IGNORECASE), "notes"),
    (re.compile(r"\bchange log\b", re.IGNORECASE), "change log"),
    (re.compile(r"\bsprint status\b|\bstatus updated\b|\bstatus of the story\b", re.IGNORECASE), "status"),
    (re.compile(r"\bstory saved\b", re.IGNORECASE), "notes"),
)
"""Items about what follows from a review: Interlock does that itself, and says so."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One item and how it is met: pass, fail, n/a or not evaluated; `by` are those who looked at it."""

    number: int
    text: str
    result: str
    note: str = ""
    by: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """All fields."""
        return {**asdict(self), "by": list(self.by)}


def items_of(text: str | None) -> tuple[str, ...]:
    """The items of a checklist: its open check boxes, in their order."""
    return tuple(" ".join(found.split()) for found in BOX.findall(text or ""))


def checklist_text(items: Sequence[str]) -> str:
    """The checklist as reviewers are given it."""
    listed = "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    return (
        "Evaluate every item, each on a line of its own, before the JSON block: its number, PASS, FAIL or N/A, and the "
        "evidence, so: `3. PASS: src/login.py:12 does`. What Interlock does after the review (notes, change log, "
        f"statuses) is N/A to you.\n\n{listed}"
    )


def evaluated(items: Sequence[str], answers: Mapping[str, str]) -> tuple[Evaluated, ...]:
    """Every item as the reviewers' answers (label: text) have it: one FAIL outweighs others, a verdict an N/A."""
    said: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for label, text in answers.items():
        for number, word, note in (found for line in LINES for found in line.findall(text)):
            result = {"P": PASS, "N": NONE}.get(word[0].upper(), FAIL) if word.upper() != "PARTIAL" else FAIL
            said.setdefault((int(number), result), []).append((" ".join(note.split())[:300], label))
    found = []
    for number, item in enumerate(items, 1):
        result = next((one for one in (FAIL, PASS, NONE) if (number, one) in said), OPEN)
        mine = said.get((number, result), [("", "")])
        by = tuple(dict.fromkeys(label for _, label in mine if label))
        found.append(Evaluated(number, item, result, mine[0][0], by))
    return tuple(found)


def settled(found: Sequence[Evaluated], done: Mapping[str, str]) -> tuple[Evaluated, ...]:
    """The same with the items about what Interlock did itself: notes, change log, status, decided (name: how it went,
    "" for not at all)."""
    settled = []
    for one in found:
        name = next((name for pattern, name in OURS if pattern.search(one.text)), None)
        if name is not None and name in done:
            note = done[name] or "not done: there is no such file, or it could not be written"
            one = replace(one, result=PASS if done[name] else NONE, note=note, by=("Interlock",))
        settled.append(one)
    return tuple(settled)


def unseen(found: Sequence[Evaluated]) -> list[int]:
    """The numbers of those that nobody has evaluated, and that Interlock does not see to itself after a review."""
    return [one.number for one in found if one.result == OPEN and not any(ours.search(one.text) for ours, _ in OURS)]
