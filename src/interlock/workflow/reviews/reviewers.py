"""Several reviewers of one piece of work: what they are asked, what they answer, and what it comes to (FR23b).

`fork` gives all of them the same context and each another emphasis. None knows of the others or of what they found, so
that nobody agrees with somebody; `merge` brings their findings together once all have answered.

Nothing that was found is forgotten: what a reviewer says in several answers is taken together (`combined`), and over
the rounds a finding stays open until a reviewer gives a verdict on that very finding (`followed`). Everything here is
pure: the dispatcher runs the assignments.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.workflow.agents.assignment import CODE_REVIEW, NORMAL, Assignment
from interlock.workflow.engine.examination import BLOCKING, MAJOR, MINOR, SEVERITIES, Finding
from interlock.workflow.entry import verdicts

LABEL = "reviewer-"


@dataclass(frozen=True)
class Emphasis:
    """What one reviewer looks at above all. `name` goes into its label: "reviewer-security"."""

    name: str
    text: str


EMPHASES = (
    Emphasis(
        "correctness",
        "Correctness and acceptance criteria. Take every criterion and find the code that meets it; a criterion "
        "without such code is a finding. Follow the code by hand: wrong conditions, forgotten cases, errors that are "
        "swallowed, work that is claimed as done and is not.",
    ),
    Emphasis(
        "security",
        "Security. Whatever comes from outside: where is it checked, and what happens where it is not? Injection, "
        "paths, permissions, secrets in code or logs, defaults that are open, resources without a limit.",
    ),
    Emphasis(
        "tests",
        "Tests. Does each test prove what its name says, and would it fail without the change? Missing are the edges, "
        "the errors, the things that happen at the same time; tests that assert nothing or only mocks are findings.",
    ),
    Emphasis(
        "maintainability",
        "Maintainability and performance. What will the next reader misunderstand? Duplication, wrong places, names "
        "that lie, departures from the architecture and conventions of the project; work that grows faster than what "
        "it is about, and what is done again and again without need.",
    ),
)

FORM = """## How to answer

Change nothing. Say what you looked at, then end with one JSON block:

```json
{"verdict": "approve" or "changes_requested" or "blocked", "summary": "one sentence",
 "findings": [{"severity": "blocking" or "major" or "minor", "title": "what is wrong, in a few words",
               "location": "path:line", "fix": "what would fix it"}],
 "earlier": [{"finding": "id of a finding listed as open", "verdict": "fixed" or "open" or "withdrawn",
              "why": "path:line that shows it"}]}
```

blocking: it must not be used like this; major: to be fixed before it is accepted; minor: may stay. Without findings
the list is empty. `earlier` closes findings that were reported before: fixed, or withdrawn because it never was a
problem. A finding that it does not name stays open."""

SAID = {
    **dict.fromkeys(("blocking", "blocker", "critical", "must", "must fix", "fatal", "high"), BLOCKING),
    **dict.fromkeys(("major", "medium", "med", "moderate", "important", "should", "should fix", "error"), MAJOR),
    **dict.fromkeys(("minor", "low", "nit", "nitpick", "info", "trivial", "could", "suggestion", "style"), MINOR),
}
FIXED, STILL_OPEN, WITHDRAWN = "fixed", "open", "withdrawn"
CLOSING = {
    **dict.fromkeys(("fixed", "resolved", "closed", "done", "addressed"), FIXED),
    **dict.fromkeys(("withdrawn", "withdraw", "retracted", "invalid", "not a problem", "false positive"), WITHDRAWN),
}
MOST = 200  # findings of one answer
LOOKED = 100_000  # characters at an answer's end that are read


def fork(
    base: str, emphases: Sequence[Emphasis] = EMPHASES, *, priority: str = NORMAL, time_limit: float = 0.0
) -> list[Assignment]:
    """One assignment for each emphasis, all with the context `base` (what is to be reviewed, and against what).

    Raises:
        ValueError: two emphases of one name would be one reviewer.
    """
    if len({one.name for one in emphases}) != len(emphases):
        raise ValueError("each emphasis needs a name of its own")
    return [
        Assignment(
            f"{LABEL}{one.name}",
            f"{base.rstrip()}\n\n## What you look for\n\n{one.text}\n\n{FORM}",
            CODE_REVIEW,
            priority=priority,
            time_limit=time_limit,
        )
        for one in emphases
    ]


@dataclass(frozen=True, slots=True)
class FindingVerdict:
    """A verdict on one finding that was reported before, named by its id or its title: fixed, open or withdrawn."""

    finding: str
    verdict: str
    why: str = ""

    def concerns(self, one: Finding) -> bool:
        """Whether it is about that finding."""
        return self.finding.casefold() == str(one.data.get("id", "")).casefold() or _words(self.finding) == _words(
            one.title
        )


@dataclass(frozen=True)
class Answer:
    """What a reviewer answered. Not `readable`: there was no block of the form, so nothing is known about its
    findings; ask it again. `verdict` is as it was printed, "" where it was not; `earlier` are verdicts on findings that
    were reported before."""

    readable: bool
    findings: tuple[Finding, ...] = ()
    verdict: str = ""
    summary: str = ""
    earlier: tuple[FindingVerdict, ...] = ()


def answer(text: str, label: str = "") -> Answer:
    """All blocks with findings in `text`, whatever stands around them; a bare list of findings counts too."""
    said: list[Answer] = []
    for found in _blocks(text[-LOOKED:]):
        listed = found.get("findings") if isinstance(found, dict) else found
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            continue
        findings = findings_of(listed, label)
        if isinstance(found, dict):
            words = _word(found, "verdict").casefold(), _word(found, "summary")
            said.append(Answer(True, findings, *words, verdicts_of(found.get("earlier"))))
        elif not said and (findings or not listed):
            return Answer(True, findings)
    return combined(said[::-1]) if said else Answer(False)


def findings_of(listed: object, label: str = "") -> tuple[Finding, ...]:
    """The findings of a list as agents write it."""
    tables = (
        [one if isinstance(one, dict) else {"title": one} for one in listed[:MOST]] if isinstance(listed, list) else []
    )
    return tuple(one for one in (_finding(given, label) for given in tables) if one is not None)


def verdicts_of(listed: object) -> tuple[FindingVerdict, ...]:
    """The verdicts on earlier findings of a list as agents write it. What is neither fixed nor withdrawn is open."""
    tables = [one for one in listed[:MOST] if isinstance(one, dict)] if isinstance(listed, list) else []
    return tuple(
        FindingVerdict(name, CLOSING.get(_plain(_word(one, "verdict")), STILL_OPEN), _word(one, "why"))
        for one in tables
        if (name := _word(one, "finding") or _word(one, "id") or _word(one, "title"))
    )


def combined(answers: Sequence[Answer]) -> Answer:
    """All that one reviewer has answered in a round, in order: a later answer adds to an earlier one and never erases
    it. A finding goes only where a later answer withdraws it by name; of several verdicts the strictest counts."""
    findings: list[Finding] = []
    for one in answers:
        gone = [given for given in one.earlier if given.verdict == WITHDRAWN]
        findings = [kept for kept in findings if not any(given.concerns(kept) for given in gone)]
        findings += [given for given in one.findings if given not in findings]
    strictness = {verdicts.BLOCKED: 2, verdicts.CHANGES: 1}
    strictest = max((one.verdict for one in answers), key=lambda one: strictness.get(verdicts.of_word(one) or "", 0))
    summary = next((one.summary for one in answers if one.summary), "")
    return Answer(True, tuple(findings), strictest, summary, tuple(given for one in answers for given in one.earlier))


@dataclass(frozen=True, slots=True)
class Followed:
    """The findings that are open after a round, the worst first, each with its id; those that the round closed, with
    the verdict that did (`{id, title, verdict, why, by}`); the ids of the open ones that nobody gave a verdict on."""

    open: tuple[Finding, ...]
    closed: tuple[Mapping[str, Any], ...] = ()
    unjudged: tuple[str, ...] = ()


OF_EVIDENCE = ("evidence",)
"""Who found what the gate of a story finds: it looks again by itself, and nobody is asked about it."""


def open_after(rounds: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """The findings that the rounds so far have left open. Those of a run that began before findings had ids get one."""
    if not rounds:
        return ()
    last = rounds[-1]
    kept = [Finding.of(one) for one in (*last.get("findings", ()), *last.get("further", ()))]
    number = highest(rounds)
    found = []
    for one in (one for one in kept if one.found_by != OF_EVIDENCE):
        number += "id" not in one.data
        found.append(one if "id" in one.data else replace(one, data={**one.data, "id": f"F{number}"}))
    return tuple(found)


def followed(rounds: Sequence[Mapping[str, Any]], answers: Mapping[str, Answer]) -> Followed:
    """What is open after the reviewers' answers by label: what they have found, and of what earlier rounds found all
    that no verdict closes. Of several verdicts on a finding the strictest counts, and reporting it again keeps it open.
    """
    found = list(merge({label: one.findings for label, one in answers.items()}))
    earlier = open_after(rounds)
    open_, closed, unjudged = [], [], []
    for one in earlier:
        id = str(one.data["id"])
        again = [new for new in found if _again(one, new)]
        found = [new for new in found if new not in again]
        given = [(label, said) for label, answer in answers.items() for said in answer.earlier if said.concerns(one)]
        if given and not again and all(said.verdict != STILL_OPEN for _, said in given):
            said = given[0][1]
            by = [label for label, _ in given]
            closed.append({"id": id, "title": one.title, "verdict": said.verdict, "why": said.why, "by": by})
            continue
        if not given and not again:
            unjudged.append(id)
        worst = min((one, *again), key=lambda one: SEVERITIES.index(one.severity))
        by_all = sorted({label for other in (one, *again) for label in other.found_by})
        open_.append(replace(one, severity=worst.severity, found_by=tuple(by_all)))
    number = max(highest(rounds), *(int(str(one.data["id"])[1:]) for one in earlier), 0)
    open_ += [replace(one, data={**one.data, "id": f"F{n}"}) for n, one in enumerate(found, number + 1)]
    return Followed(tuple(sorted(open_, key=_order)), tuple(closed), tuple(unjudged))


def highest(rounds: Sequence[Mapping[str, Any]]) -> int:
    """The highest number of a finding in any round."""
    kept = (one for round in rounds for name in ("findings", "further", "closed") for one in round.get(name, ()))
    return max((int(one["id"][1:]) for one in kept if re.fullmatch(r"F\d{1,9}", str(one.get("id", "")))), default=0)


def _again(one: Finding, new: Finding) -> bool:
    """Whether a later round reports an open finding again: in the same file, in the same words; lines have moved. In
    other words it is another finding, and the open one is asked about."""
    return _words(one.title) == _words(new.title) and _place(one.location)[0] == _place(new.location)[0]


def merge(found: Mapping[str, Sequence[Finding]]) -> tuple[Finding, ...]:
    """The findings of all reviewers by label, the worst first, each once.

    Two are the same where they name the same place and say it in similar words: the worst severity counts, `found_by`
    names all who found it, and a fix that any of them gives is kept. The order of the reviewers makes no difference.
    """
    given = [
        replace(one, found_by=tuple(sorted({*one.found_by, label} - {""})))
        for label in sorted(found)
        for one in found[label]
    ]
    given.sort(key=_order)
    clusters: list[list[Finding]] = []
    for one in given:
        same = [cluster for cluster in clusters if any(_same(one, other) for other in cluster)]
        joined = [member for cluster in same for member in cluster]
        clusters = [cluster for cluster in clusters if cluster not in same]
        clusters.append([*joined, one])
    return tuple(sorted((_joined(cluster) for cluster in clusters), key=_order))


def _joined(cluster: Sequence[Finding]) -> Finding:
    first = min(cluster, key=_order)
    by = sorted({label for one in cluster for label in one.found_by})
    fix = first.fix or next((one.fix for one in sorted(cluster, key=_order) if one.fix), "")
    data: dict[str, Any] = {}
    for one in sorted(cluster, key=_order, reverse=True):
        data.update(one.data)
    return replace(first, fix=fix, found_by=tuple(by), data=data)


def _order(one: Finding) -> tuple[Any, ...]:
    rank = SEVERITIES.index(one.severity) if one.severity in SEVERITIES else len(SEVERITIES)
    path, line = _place(one.location)
    return (rank, path, line or 0, one.title, one.location, one.fix, one.found_by, sorted(map(str, one.data.items())))


NEAR = 3  # lines that two readers of the same spot may be apart
ALIKE = 0.5  # of the words of two titles together that both have
_PLACE = re.compile(r"^(?P<path>.*?)(?:[:#]L?|,? *\(?(?:at )?lines? *)(?P<line>\d+)[^/]*$", re.IGNORECASE)
LONGEST_PLACE = 1000  # characters; more is no path with a line
_IDLE = frozenset("a an and are as at be by for from has have in is it its no not of on or that the to with".split())


def _same(one: Finding, other: Finding) -> bool:
    """Whether two readers saw one thing. What a reader tells as two things, in other words or places, is two."""
    path, line = _place(one.location)
    its_path, its_line = _place(other.location)
    if path != its_path or (line is None) != (its_line is None):
        return False
    if line is not None and its_line is not None and abs(line - its_line) > NEAR:
        return False
    words, its_words = _words(one.title), _words(other.title)
    if set(one.found_by) & set(other.found_by):
        return words == its_words and line == its_line
    return words == its_words or len(words & its_words) / len(words | its_words) >= ALIKE


def _place(location: str) -> tuple[str, int | None]:
    """(path, line) of a location, as far as it says."""
    text = location.strip().strip("`'\"")
    matched = _PLACE.match(text) if len(text) <= LONGEST_PLACE else None
    path, line = (matched["path"], int(matched["line"][:9])) if matched else (text, None)
    return path.strip().replace("\\", "/").removeprefix("./").strip("`'\"").casefold(), line


def _words(title: str) -> frozenset[str]:
    words = re.findall(r"\w+", title.casefold())
    return frozenset(word.removesuffix("s") for word in words if word not in _IDLE) or frozenset(words)


def _finding(given: Mapping[str, Any], label: str) -> Finding | None:
    title = _word(given, "title") or _word(given, "issue") or _word(given, "description") or _word(given, "message")
    if not title:
        return None
    severity = SAID.get(_plain(_word(given, "severity")), MAJOR)
    location = _word(given, "location") or _word(given, "file") or _word(given, "path")
    line = given.get("line")
    if isinstance(line, int) and not isinstance(line, bool) and location and ":" not in location:
        location = f"{location}:{line}"
    fix = _word(given, "fix") or _word(given, "suggestion") or _word(given, "recommendation")
    return Finding(severity, title, location, fix, (label,) if label else ())


def _plain(word: str) -> str:
    return re.sub(r"[^a-z]+", " ", word.casefold()).strip()


def _word(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return " ".join(str(value).split())[:2000] if isinstance(value, (str, int, float)) else ""


_FENCE = re.compile(r"```[a-z]*[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_TRAILING = re.compile(r",(\s*[}\]])")
_BLOCKS = 8  # lists of findings that are tried
_OPENERS = 12  # brackets before each that may begin its block


def _blocks(text: str) -> Iterator[Any]:
    """Whatever in the text may be such a block, the last first."""
    openers = [match.start() for match in re.finditer("{", text)]
    named = [match.start() for match in re.finditer('"findings"', text)]
    for place in reversed(named[-_BLOCKS:]):
        before = openers[: bisect(openers, place)]
        for at in reversed(before[-_OPENERS:]):
            found = _parsed(text[at:])
            if isinstance(found, dict) and "findings" in found:
                yield found
                break
    for body in reversed(_FENCE.findall(text)[-_BLOCKS:]):
        yield _parsed(body.strip())
    yield _parsed(text.strip())


def _parsed(text: str) -> Any:
    """The JSON value that `text` begins with, None where it begins with none; a comma too many is forgiven."""
    for attempt in (text, _TRAILING.sub(r"\1", text)):
        try:
            return json.JSONDecoder(strict=False).raw_decode(attempt)[0]
        except (ValueError, RecursionError):
            continue
    return None
