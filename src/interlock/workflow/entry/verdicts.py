"""Verdicts: the words in which workflows say that something is good, or not (decision 39).

The built-in words of the specification (PASS/FAIL, APPROVED/REJECTED) are a small part of what real workflows print;
the table holds the others too. A word counts when it stands whole. In free text only the upper-case words count, since
"pass" and "block" are ordinary words; after a label (`Verdict:`, `Status:`) any case does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SUCCESS, FAILURE, PARTIAL = "success", "failure", "partial"

# Longest first, so that NOT READY is not read as READY.
WORDS: dict[str, str] = {
    "PASS WITH NOTED DEFICIENCIES": PARTIAL,
    "APPROVE WITH COMMENTS": SUCCESS,
    "APPROVED WITH COMMENTS": SUCCESS,
    "CHANGES REQUESTED": FAILURE,
    "BLOCKING FAILURE": FAILURE,
    "REQUEST CHANGES": FAILURE,
    "NOT APPROVED": FAILURE,
    "NON-COMPLIANT": FAILURE,
    "NOT COMPLIANT": FAILURE,
    "COMPLETE PASS": SUCCESS,
    "NOT PASSED": FAILURE,
    "NEEDS WORK": FAILURE,
    "CONDITIONAL": PARTIAL,
    "NOT READY": FAILURE,
    "COMPLIANT": SUCCESS,
    "APPROVED": SUCCESS,
    "REJECTED": FAILURE,
    "CONCERNS": PARTIAL,
    "BLOCKED": FAILURE,
    "PARTIAL": PARTIAL,
    "APPROVE": SUCCESS,
    "PASSED": SUCCESS,
    "FAILED": FAILURE,
    "REJECT": FAILURE,
    "WAIVED": PARTIAL,
    "BLOCK": FAILURE,
    "READY": SUCCESS,
    "PASS": SUCCESS,
    "FAIL": FAILURE,
}
# Words that in free text, even in capitals, are mostly headings and labels; they count after a label or in a choice.
QUIET = {"CONDITIONAL", "CONCERNS", "PARTIAL", "WAIVED", "BLOCK", "READY", "BLOCKED", "COMPLIANT", "COMPLETE PASS"}

_ANY = "|".join(re.escape(word) for word in WORDS)
WORD = re.compile(rf"(?<![\w-])(?:{_ANY})(?![\w-])")
_ONE = rf"(?:{_ANY}|N/A|DONE|UNKNOWN)"
CHOICE = re.compile(rf"(?<![\w/|-])[\[{{(]?\s*({_ONE}(?:\s*[/|]\s*{_ONE})+)\s*[\]}})]?(?![\w-])", re.IGNORECASE)
LABEL = (
    r"(?:(?:overall|final|quality|review|validation|gate|compliance|readiness)\s+)*"
    r"(?:verdict|outcome|result|status|decision|gate|assessment|recommendation)"
)
LABELLED = re.compile(rf"\b{LABEL}\b[\s*_`\"']*[:=][^\w\n]*({_ANY})(?![\w-])", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """One verdict: the word in capitals, what it means, and where it stands (characters from the start)."""

    word: str
    outcome: str
    position: int
    labelled: bool


def choices(text: str) -> list[str]:
    """The choices between verdicts in `text`, as written: `PASS/FAIL`, `READY/NEEDS WORK/NOT READY`."""
    found = (match[1].strip() for match in CHOICE.finditer(text))
    return list(dict.fromkeys(one for one in found if _is_choice(one)))


def words(text: str) -> set[str]:
    """The upper-case verdict words in `text`."""
    return {match[0] for match in WORD.finditer(text)}


def read(text: str) -> Verdict | None:
    """The verdict that `text` gives: the last one after a label, else the last word in capitals; None without one.

    A choice between verdicts, as a template has it, is no verdict.
    """
    blank = CHOICE.sub(lambda found: " " * len(found[0]) if _is_choice(found[1]) else found[0], text)
    labelled = [
        Verdict(match[1].upper(), WORDS[re.sub(r"\s+", " ", match[1].upper())], match.start(1), True)
        for match in LABELLED.finditer(blank)
    ]
    if labelled:
        return labelled[-1]
    said = [
        Verdict(match[0], WORDS[match[0]], match.start(), False)
        for match in WORD.finditer(blank)
        if match[0] not in QUIET
    ]
    return said[-1] if said else None


def _is_choice(text: str) -> bool:
    """Two ways out at least: `APPROVED/DONE` is none, `PASSED/FAILED` is one."""
    parts = {re.sub(r"\s+", " ", part.strip().upper()) for part in re.split(r"[/|]", text)}
    return len({WORDS[part] for part in parts if part in WORDS}) > 1
