"""Several reviewers of one piece of work: what they are asked, what they answer, and what it comes to (FR23b).

`fork` gives all of them the same context and each another emphasis. None knows of the others or of what they found, so
that nobody agrees with somebody; `merge` brings their findings together once all have answered. Everything here is
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
               "location": "path:line", "fix": "what would fix it"}]}
```

blocking: it must not be used like this; major: to be fixed before it is accepted; minor: may stay. Without findings
the list is empty."""

SAID = {
    **dict.fromkeys(("blocking", "blocker", "critical", "must", "must fix", "fatal", "high"), BLOCKING),
    **dict.fromkeys(("major", "medium", "med", "moderate", "important", "should", "should fix", "error"), MAJOR),
    **dict.fromkeys(("minor", "low", "nit", "nitpick", "info", "trivial", "could", "suggestion", "style"), MINOR),
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


@dataclass(frozen=True)
class Answer:
    """What a reviewer answered. Not `readable`: there was no block of the form, so nothing is known about its
    findings; ask it again. `verdict` is as it was printed, "" where it was not."""

    readable: bool
    findings: tuple[Finding, ...] = ()
    verdict: str = ""
    summary: str = ""


def answer(text: str, label: str = "") -> Answer:
    """The last block with findings in `text`, whatever stands around it; a bare list of findings counts too."""
    for found in _blocks(text[-LOOKED:]):
        listed = found.get("findings") if isinstance(found, dict) else found
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            continue
        findings = tuple(one for one in (_finding(given, label) for given in listed[:MOST]) if one is not None)
        if isinstance(found, dict):
            return Answer(True, findings, _word(found, "verdict").casefold(), _word(found, "summary"))
        if findings or not listed:
            return Answer(True, findings)
    return Answer(False)


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


def akin(one: Finding, other: Finding) -> bool:
    """Whether two findings may be about one thing, told at different times: in the same file, or in like words."""
    (path, _), (its_path, _) = _place(one.location), _place(other.location)
    words, its_words = _words(one.title), _words(other.title)
    alike = words == its_words or len(words & its_words) / len(words | its_words) >= ALIKE
    return alike or path == its_path or not its_path


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
    severity = SAID.get(re.sub(r"[^a-z]+", " ", _word(given, "severity").casefold()).strip(), MAJOR)
    location = _word(given, "location") or _word(given, "file") or _word(given, "path")
    line = given.get("line")
    if isinstance(line, int) and not isinstance(line, bool) and location and ":" not in location:
        location = f"{location}:{line}"
    fix = _word(given, "fix") or _word(given, "suggestion") or _word(given, "recommendation")
    return Finding(severity, title, location, fix, (label,) if label else ())


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
