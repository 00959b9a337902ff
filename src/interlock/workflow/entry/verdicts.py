"""Verdicts: the words in which workflows say that something is good, or not (decision 39).

The built-in words of the specification (PASS/FAIL, APPROVED/REJECTED) are a small part of what real workflows print;
the table holds the others too. A word counts when it stands whole. In free text only the upper-case words count, since
"pass" and "block" are ordinary words; after a label (`Verdict:`, `Status:`) any case does.
"""

from __future__ import annotations

import re

from interlock.lazy_dataclass import dataclass

SUCCESS, FAILURE, PARTIAL = "success", "failure", "partial"

MEANINGS = {
    SUCCESS: (
        "APPROVE WITH COMMENTS", "APPROVED WITH COMMENTS", "COMPLETE PASS", "COMPLIANT", "APPROVED", "APPROVE",
        "PASSED", "READY", "PASS",
    ),
    FAILURE: (
        "CHANGES REQUESTED", "BLOCKING FAILURE", "REQUEST CHANGES", "NOT APPROVED", "NON-COMPLIANT", "NOT COMPLIANT",
        "NOT PASSED", "NEEDS WORK", "NOT READY", "NOT PASS", "REJECTED", "BLOCKED", "FAILED", "REJECT", "BLOCK", "FAIL",
    ),
    PARTIAL: ("PASS WITH NOTED DEFICIENCIES", "CONDITIONAL", "CONCERNS", "PARTIAL", "WAIVED"),
}  # fmt: skip
# Longest first, so that NOT READY is not read as READY.
_MEANING = {word: meaning for meaning, words in MEANINGS.items() for word in words}
WORDS = {word: _MEANING[word] for word in sorted(_MEANING, key=len, reverse=True)}
# Words that in free text, even in capitals, are mostly headings and labels; they count after a label or in a choice.
QUIET = {"CONDITIONAL", "CONCERNS", "PARTIAL", "WAIVED", "BLOCK", "READY", "BLOCKED", "COMPLIANT", "COMPLETE PASS"}

_ANY = "|".join(re.escape(word) for word in WORDS)
WORD = re.compile(rf"(?<![\w-])(?:{_ANY})(?![\w-])")
_ONE = rf"(?:{_ANY}|N/A|DONE|UNKNOWN)"
# Neither blanks nor a label said over and over may make the time grow with their square.
CHOICE = re.compile(rf"(?<![\w/|-])(?:[\[{{(]\s*+)?({_ONE}(?:\s*[/|]\s*{_ONE})+)\s*[\]}})]?(?![\w-])", re.IGNORECASE)
# `did not PASS` says the contrary of its word, `0 FAILED` nothing of the kind.
NEGATED = re.compile(r"(?:\b(?:not|never|cannot)|n['’]t)\s+$", re.IGNORECASE)
NONE_BEFORE = re.compile(r"(?<![\w.,])(?:0|no|zero)\s+$", re.IGNORECASE)
COUNT_AFTER = re.compile(r"(?<!\s)\s*+[:=]\s*\**(\d{1,9})")
LABEL = (
    r"(?:(?:overall|final|quality|review|validation|gate|compliance|readiness)\s{1,20}){0,4}"
    r"(?:verdict|outcome|result|status|decision|gate|assessment|recommendation|overall)"
)
LABELLED = re.compile(rf"\b{LABEL}\b[\s*_`\"']*[:=][^\w\n]*({_ANY})(?![\w-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
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
    said = [match for match in WORD.finditer(blank) if match[0] not in QUIET and _counts(blank, match)]
    if not said:
        return None
    last = said[-1]
    if WORDS[last[0]] == SUCCESS and NEGATED.search(blank, max(0, last.start() - 12), last.start()):
        return Verdict(f"NOT {last[0]}", FAILURE, last.start(), False)
    return Verdict(last[0], WORDS[last[0]], last.start(), False)


def _counts(text: str, match: re.Match[str]) -> bool:
    """Whether there is any of what a word counts: `PASS: 10 FAIL: 0` and `10 PASSED, 0 FAILED` have no failure."""
    after = COUNT_AFTER.match(text, match.end())
    if after:
        return int(after[1]) > 0
    return NONE_BEFORE.search(text, max(0, match.start() - 12), match.start()) is None


def _is_choice(text: str) -> bool:
    """Two ways out at least: `APPROVED/DONE` is none, `PASSED/FAILED` is one."""
    parts = {re.sub(r"\s+", " ", part.strip().upper()) for part in re.split(r"[/|]", text)}
    return len({WORDS[part] for part in parts if part in WORDS}) > 1


APPROVE, CHANGES, BLOCKED = "approve", "changes_requested", "blocked"
BLOCKS = frozenset(("BLOCKED", "BLOCK", "BLOCKING FAILURE"))
COUNTED = re.compile(r"(?<!\d)(\d++)\W{0,3}\s*+(critical|high|medium|med|major|low|minor)\b", re.IGNORECASE)
COUNTS = re.compile(r"^.*\b(?:issues|findings|problems)\b(?:\s+found)?\W{0,6}:?.*$", re.IGNORECASE | re.MULTILINE)
NUMBER = r"\W{0,8}\s*(\d+)"
FIXED = re.compile(rf"\b(?:issues fixed|patches handled|fixed)\b\s*:{NUMBER}", re.IGNORECASE)
LEFT = re.compile(rf"\b(?:action items created|left as action items)\b\s*:{NUMBER}", re.IGNORECASE)
PATCHES = re.compile(r"(?<!\d)(\d++)\W{0,3}\s*+`?(decision-needed|patch)`?(?=\s*[,.;]|\s+findings?\b|$)", re.IGNORECASE)
STORY = re.compile(r"\bstory status\b\W{0,6}:?\W{0,6}\s*(done|in-progress|in progress)\b", re.IGNORECASE)
CLEAN = re.compile(r"\bclean review\b|\ball layers passed\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """What a code review came to: approve, changes_requested or blocked. `printed`: it says so; else it was derived,
    as `why` tells. `left`: its findings were left for later, as somebody chose."""

    verdict: str
    printed: bool
    why: str
    left: bool = False


def of_word(word: str) -> str | None:
    """The outcome of a code review that one word or phrase means, None where it means none."""
    known = re.sub(r"[\s_]+", " ", word.strip(" *_`\"'.!").upper())
    outcome = WORDS.get(known)
    if outcome is None:
        return None
    return BLOCKED if known in BLOCKS else APPROVE if outcome == SUCCESS else CHANGES


def of_findings(grave: int) -> str:
    """The outcome that follows from the number of open High and Medium findings (decision 39)."""
    return CHANGES if grave else APPROVE


def review(text: str) -> ReviewVerdict | None:
    """What the text of a code review came to; None where nothing in it tells.

    Where no verdict is printed it is derived: from the story's status, which the review sets by the same rule, else
    from the findings it counts and those that it says were fixed.
    """
    left = any(int(found) for found in LEFT.findall(text))
    printed = read(text)
    said = of_word(printed.word) if printed is not None and printed.labelled else None
    if printed is not None and said is not None:
        return ReviewVerdict(said, True, f"it says {printed.word}", left)
    story = STORY.findall(text)
    if story:
        done = story[-1].lower() == "done"
        return ReviewVerdict(APPROVE if done else CHANGES, False, f"the story is {story[-1].lower()} after it", left)
    counted = _open(text)
    if counted is not None:
        fixed = sum(int(found) for found in FIXED.findall(text)[-1:])
        open_ = max(0, counted - fixed)
        return ReviewVerdict(of_findings(open_), False, f"{open_} High and Medium findings are open", left)
    if CLEAN.search(text):
        return ReviewVerdict(APPROVE, False, "it found nothing", left)
    if printed is not None and (said := of_word(printed.word)) is not None:
        return ReviewVerdict(said, True, f"it says {printed.word}", left)
    return None


def _open(text: str) -> int | None:
    """How many findings above Low the last count of `text` names, None where it counts none."""
    for line in reversed(COUNTS.findall(text)):
        found = COUNTED.findall(line)
        if found:
            return sum(int(number) for number, level in found if level.lower() not in ("low", "minor"))
    patches = PATCHES.findall(text)
    return sum(int(number) for number, _ in patches) if patches else None
