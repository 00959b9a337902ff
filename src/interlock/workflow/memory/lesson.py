"""One thing worth knowing later, and how much it is worth (FR33, BMAD-memory). Pure.

The importance follows from what is said: architectural decisions 9–10, implementation patterns, fixes and decisions
of people 7–8, milestones 6–7; how a menu was answered is below them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.memory.store import CONTENT_CHARS, shortened

ARCHITECTURE, DECISION, PATTERN = "architecture", "decision", "implementation_pattern"
MILESTONE, FIX, PROBLEM, SELECTION = "milestone", "fix_pattern", "problem_solution", "selection_pattern"
IMPORTANCE = {
    ARCHITECTURE: (9, 10), DECISION: (8, 8), PATTERN: (7, 8), FIX: (7, 8), PROBLEM: (7, 8), MILESTONE: (6, 7),
    SELECTION: (5, 5),
}  # fmt: skip
"""Of an ordinary one, and of one that gives its reason (for a decision: what it was preferred to)."""

CHOSEN = re.compile(
    r"\b(cho(?:se|sen|ose)|decided (?:on|to|for|against)|select(?:ed)?|adopt(?:ed)?|picked|went with|settled on|"
    r"opted for|switch(?:ed)? to|migrated? to|standardi[sz]ed? on|replaced?|preferred|rejected)\b",
    re.IGNORECASE,
)
PREFERRED = re.compile(r"\b(over|instead of|rather than|in favou?r of|against|and not)\b", re.IGNORECASE)
BUILDING = re.compile(
    r"\b(architect\w*|database|postgres\w*|sqlite|mysql|mongo\w*|redis|kafka|queue|broker|framework|language|runtime|"
    r"protocol|api|rest|graphql|grpc|monolith\w*|micro-?services?|modul\w+|layer\w*|schema|storage|auth\w*|"
    r"encrypt\w*|deploy\w*|cloud|kubernetes|docker|serverless|event[- ]sourc\w+|cqrs|frontend|backend|react|vue|"
    r"django|fastapi|platform|tenan\w+|licen[cs]e)\b",
    re.IGNORECASE,
)
REASON = re.compile(
    r"\b(because|since|so that|due to|as it|to avoid|which keeps|which makes|otherwise)\b", re.IGNORECASE
)
DONE = re.compile(
    r"\b(?:phase|milestone|epic|story|sprint|release|version|mvp|iteration|migration)\b.{0,60}\b(?:complete[d]?|done|"
    r"finished|shipped|released|reached|delivered|closed)\b|\b(?:completed|finished|shipped|released|delivered|reached|"
    r"closed)\b.{0,30}\b(?:phase|milestone|epic|story|sprint|release|version|mvp|iteration|migration)\b",
    re.IGNORECASE,
)
# Of a line whose blanks are single spaces.
SOLVED = re.compile(
    r"^(?P<problem>.{8,}?)(?<![,;:.–—-])[,;:.–—-]*+ (?:(?:was|were|is|are|got|could be) )?(?:fixed|solved|resolved|"
    r"worked around|cured|mended) (?:by|with|through) (?P<solution>.{4,})$|"
    r"^(?:problem|error|symptom) ?: ?(?P<named>.+?)[;.,]? (?:solution|fix|workaround|cure) ?: ?(?P<cure>.+)$",
    re.IGNORECASE | re.DOTALL,
)
ACTED = re.compile(
    r"\b(used?|using|appl(?:y|ied)|implement(?:s|ed)?|wrap(?:s|ped)?|introduc(?:e|ed)|add(?:ed)?|refactored|extracted|"
    r"cached?|retr(?:y|ies|ied)|validated?)\b",
    re.IGNORECASE,
)
MEANS = re.compile(
    r"\b(with|via|by|through|behind|pattern|backoff|retry|cache|decorator|factory|adapter|repository|middleware|fixture|"
    r"queue|batch\w*|lock\w*|transaction\w*|migration)\b",
    re.IGNORECASE,
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


def lesson(text: str, *, decided: bool = False, certain: bool = True, at: str = "") -> Lesson | None:
    """What a sentence is worth keeping as. `decided`: whoever said it calls it a decision. `certain`: somebody said
    that it matters; without that, only what clearly is a decision, a milestone, a solution or a practice is."""
    line = " ".join(text.split())
    solved = SOLVED.match(line)
    if solved is not None:
        problem, solution = solved["problem"] or solved["named"], solved["solution"] or solved["cure"]
        return problem_solution(problem.strip(" ,;:"), solution.strip(), at=at)
    if DONE.search(line):
        return Lesson(MILESTONE, line, _of(MILESTONE, line), at)
    chosen = CHOSEN.search(line) is not None
    if (chosen or decided) and (BUILDING.search(line) or (chosen and PREFERRED.search(line))):
        low, high = IMPORTANCE[ARCHITECTURE]
        return Lesson(ARCHITECTURE, line, high if PREFERRED.search(line) else low, at)
    if decided:
        return Lesson(DECISION, line, IMPORTANCE[DECISION][0], at)
    acted = ACTED.search(line)
    if certain or (acted and MEANS.search(line, acted.end())):
        return Lesson(PATTERN, line, _of(PATTERN, line), at)
    return None


def problem_solution(signature: str, solution: str, *, kind: str = PROBLEM, at: str = "") -> Lesson:
    """A problem and what solved it."""
    return Lesson(kind, f"{signature} {solution}", _of(kind, solution), at, signature, solution)


def condensed(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, whole sentences, in their order: the first, then those with the decisions,
    reasons, names and numbers, then what there is room for. What is left out is marked."""
    text = text.strip()
    if len(text) <= limit:
        return text
    sentences = [one for one in (found.strip() for found in SENTENCE.findall(text)) if one]
    order = sorted(range(len(sentences)), key=lambda n: (n != 0, -_weight(sentences[n]), n))
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


def _weight(sentence: str) -> int:
    return 3 * bool(CHOSEN.search(sentence)) + 2 * bool(REASON.search(sentence)) + bool(KEY.search(sentence))


def _of(kind: str, text: str) -> int:
    low, high = IMPORTANCE[kind]
    return high if REASON.search(text) else low
