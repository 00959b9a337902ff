"""One thing worth knowing later, and how much it is worth (FR33, BMAD-memory). Pure.

The agent says so itself, by a schema that each session is told (`engine.prompts`): kind, text, and an importance within
the range of its kind. How a menu was answered is worth less than all that is said.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, Field, ValidationError

from interlock.lazy_dataclass import dataclass
from interlock.memory.store import CONTENT_CHARS, shortened
from interlock.model.json import Json

ARCHITECTURE, DECISION, PATTERN = "architecture", "decision", "implementation_pattern"
MILESTONE, FIX, PROBLEM, SELECTION = "milestone", "fix_pattern", "problem_solution", "selection_pattern"
IMPORTANCE = {
    ARCHITECTURE: (9, 10), DECISION: (8, 8), PATTERN: (7, 8), FIX: (7, 8), PROBLEM: (7, 8), MILESTONE: (6, 7),
    SELECTION: (5, 5),
}  # fmt: skip
"""The range of each kind."""
CALLED = {"decided": DECISION, "learned": PATTERN, "fixed": FIX}
"""What is said without a kind, and what the engine saw itself."""

CHOSEN = re.compile(
    r"\b(cho(?:se|sen|ose)|decided (?:on|to|for|against)|select(?:ed)?|adopt(?:ed)?|picked|went with|settled on|"
    r"opted for|switch(?:ed)? to|migrated? to|standardi[sz]ed? on|replaced?|preferred|rejected)\b",
    re.IGNORECASE,
)
REASON = re.compile(
    r"\b(because|since|so that|due to|as it|to avoid|which keeps|which makes|otherwise)\b", re.IGNORECASE
)
KEY = re.compile(
    r"\d|`|\b(must|never|always|only|error|fail\w*|fix\w*|require\w*)\b|(?<![\w./-])[\w./-]+\.\w{1,5}\b", re.IGNORECASE
)
SENTENCE = re.compile(r".+?(?:[.!?](?=\s)|\n+|$)", re.DOTALL)
KEYWORD = re.compile(r"[A-Za-z][\w+#-]{2,}")
COMMON = frozenset(
    "about after also because before being between chose chosen could decided does done each from have into instead "
    "just more most must only other over rather should since some such than that their them then there these they "
    "this those through using used very were what when where which while will with without would your and the for are "
    "was not but its has had our all any may can out one two new now per via why how who".split()
)


@dataclass(frozen=True)
class Lesson:
    """One concept. `kind` is one of those above, `text` what is known, `signature` and `solution` those of a problem
    that was solved; `at` is when it came up (ISO 8601 UTC)."""

    kind: str
    text: str
    importance: int
    at: str = ""
    signature: str = ""
    solution: str = ""
    title: str = ""

    @property
    def content(self) -> str:
        """What memory keeps: at most 2,000 characters."""
        if self.signature:
            half = CONTENT_CHARS // 2 - 40
            problem, solution = condensed(self.signature, half), condensed(self.solution, half)
            return f"Problem: {problem}\n\nWhat helped: {solution}"
        return condensed(self.text, CONTENT_CHARS)

    @property
    def heading(self) -> str:
        """Its title."""
        names = {FIX: "Fix: ", PROBLEM: "Solved: "}
        return self.title or shortened(
            f"{names.get(self.kind, '')}{' '.join((self.signature or self.text).split())}", 120
        )

    @property
    def keywords(self) -> tuple[str, ...]:
        """Its own words, names first."""
        return keywords(f"{self.text} {self.signature} {self.solution}")


def keywords(text: str) -> tuple[str, ...]:
    """The words that a text is found by, names first; at most ten."""
    words = KEYWORD.findall(text)
    named = [one for one in words if one[0].isupper() or any(c.isdigit() or c in "+#_" for c in one)]
    plain = [one for one in words if len(one) > 3]
    chosen = dict.fromkeys(one.lower() for one in (*named, *plain) if one.lower() not in COMMON)
    return tuple(chosen)[:10]


class LessonForm(BaseModel):
    """The schema: `text` is what is known, of a problem the problem, whose `solution` is what helped."""

    kind: str
    text: str = Field(min_length=4)
    importance: int | None = None
    solution: str = ""
    at: str = ""


def lesson(entry: Json) -> Lesson | None:
    """What the agent said, as it is kept; None for what is none. A kind that there is not is a pattern, and an
    importance outside the range of its kind the nearest one within."""
    try:
        said = LessonForm.model_validate(entry)
    except ValidationError:
        return None
    kind = CALLED.get(said.kind, said.kind if said.kind in IMPORTANCE else PATTERN)
    low, high = IMPORTANCE[kind]
    importance = min(high, max(low, said.importance or low))
    if said.solution:
        return problem_solution(said.text, said.solution, kind=kind, importance=importance, at=said.at)
    return Lesson(kind, said.text, importance, said.at)


def problem_solution(
    signature: str, solution: str, *, kind: str = PROBLEM, importance: int = 7, at: str = ""
) -> Lesson:
    """A problem and what solved it."""
    return Lesson(kind, f"{signature} {solution}", importance, at, signature, solution)


def condensed(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, whole sentences, in their order: the first, then those with the decisions,
    reasons, names and numbers, then what there is room for. What is left out is marked."""
    text = text.strip()
    if len(text) <= limit:
        return text

    def worth(sentence: str) -> int:
        return 3 * bool(CHOSEN.search(sentence)) + 2 * bool(REASON.search(sentence)) + bool(KEY.search(sentence))

    sentences = [one for one in (found.strip() for found in SENTENCE.findall(text)) if one]
    order = sorted(range(len(sentences)), key=lambda n: (n != 0, -worth(sentences[n]), n))
    room, kept = limit, set[int]()
    for number in order:
        cost = len(sentences[number]) + 3  # a space, and the mark of what is left out before it
        if cost <= room:
            kept.add(number)
            room -= cost
    if not kept:
        return shortened(text, limit)
    parts: list[str] = []
    for number, sentence in enumerate(sentences):
        if number in kept:
            parts.append(sentence)
        elif parts and parts[-1] != "…":
            parts.append("…")
    return shortened(" ".join(parts), limit)
