"""Several reviewers of one piece of work: what they are asked, what they answer, and what it comes to (FR23b).

`fork` gives all of them the same context and each another emphasis. None knows of the others or of what they found.

No finding is forgotten: the answers of a reviewer are taken together (`combined`), and over the rounds a finding stays
open until a reviewer gives a verdict on that very finding (`followed`). Everything here is pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow import panel
from interlock.workflow.agents.assignment import CODE_REVIEW, NORMAL, Assignment
from interlock.workflow.answers import AnswerModel, Text, called, objects, plain, tables_of, text_of
from interlock.workflow.engine.examination import BLOCKING, MAJOR, MINOR, SET_ASIDE, SEVERITIES, Finding
from interlock.workflow.entry import verdicts
from interlock.workflow.panel import place_of, words_of

LABEL = "reviewer-"


@dataclass(frozen=True, slots=True)
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


def instead(findings: Sequence[Finding]) -> Emphasis:
    """What somebody looks at who takes the place of those that gave no verdict on these findings."""
    listed = "\n".join(f"- {one.data['id']}: {one.title} ({one.location or 'no place'})" for one in findings)
    return Emphasis(
        "instead",
        "Only these. Whoever reported them was asked twice, and has not said whether they still stand. Read the code, "
        f'and give your verdict on each by its id in "earlier":\n\n{listed}\n\n"findings" is empty, unless you come '
        "across something that must not stay as it is.",
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
_FENCE = re.compile(r"```[a-z]*[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
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


class FindingVerdict(AnswerModel):
    """A verdict on one finding that was reported before, named by its id or its title: fixed, open or withdrawn."""

    finding: Text = called("finding", "id", "title")
    verdict: Annotated[str, BeforeValidator(lambda said: CLOSING.get(plain(text_of(said)), STILL_OPEN))] = STILL_OPEN
    why: Text = ""

    def concerns(self, one: Finding) -> bool:
        """Whether it is about that finding."""
        return self.finding.casefold() == str(one.data.get("id", "")).casefold() or words_of(self.finding) == words_of(
            one.title
        )


class FindingSaid(AnswerModel):
    """A finding as a reviewer writes it."""

    severity: Annotated[str, BeforeValidator(lambda said: SAID.get(plain(text_of(said)), MAJOR))] = MAJOR
    title: Text = called("title", "issue", "description", "message")
    location: Text = called("location", "file", "path")
    line: Annotated[int | None, BeforeValidator(lambda said: said if type(said) is int else None)] = None
    fix: Text = called("fix", "suggestion", "recommendation")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reviewer answered. Not `readable`: nothing is known about its findings; ask it again. `verdict` is as it
    was printed, "" where it was not; `earlier` are verdicts on findings that were reported before."""

    readable: bool
    findings: tuple[Finding, ...] = ()
    verdict: str = ""
    summary: str = ""
    earlier: tuple[FindingVerdict, ...] = ()


def answer(text: str, label: str = "") -> Answer:
    """All blocks with findings in `text`, whatever stands around them; a bare list of findings counts too."""
    text = text[-LOOKED:]
    said = [
        Answer(
            True,
            findings_of(block["findings"], label),
            text_of(block.get("verdict")).casefold(),
            text_of(block.get("summary")),
            verdicts_of(block.get("earlier")),
        )
        for _, block in objects(text, ("findings",))
        if isinstance(block["findings"], list) and all(isinstance(one, dict) for one in block["findings"])
    ]
    if said:
        return combined(said)
    for bare in (*reversed(_FENCE.findall(text)), text):
        try:
            listed = json.loads(bare)
        except (ValueError, RecursionError):
            continue
        findings = findings_of(listed, label)
        if findings or listed == []:
            return Answer(True, findings)
    return Answer(False)


def findings_of(listed: object, label: str = "") -> tuple[Finding, ...]:
    """The findings of a list as agents write it."""
    found = []
    for one in map(FindingSaid.model_validate, tables_of(listed)[:MOST]):
        place = f"{one.location}:{one.line}" if one.line and one.location and ":" not in one.location else one.location
        found.append(Finding(one.severity, one.title, place, one.fix, (label,) if label else ()))
    return tuple(one for one in found if one.title)


def verdicts_of(listed: object) -> tuple[FindingVerdict, ...]:
    """The verdicts on earlier findings of a list as agents write it. What is neither fixed nor withdrawn is open."""
    return tuple(one for one in map(FindingVerdict.model_validate, tables_of(listed)[:MOST]) if one.finding)


def combined(answers: Sequence[Answer]) -> Answer:
    """All that one reviewer has answered in a round, in order: a later answer adds to an earlier one and never erases
    it. A finding goes only where a later answer withdraws it by name; of several verdicts the strictest counts."""
    findings: list[Finding] = []
    for one in answers:
        gone = [given for given in one.earlier if given.verdict == WITHDRAWN]
        findings = [kept for kept in findings if not any(given.concerns(kept) for given in gone)]
        findings += [given for given in one.findings if given not in findings]
    strictest = max((one.verdict for one in answers), key=lambda one: panel.strictness(verdicts.of_word(one)))
    summary = next((one.summary for one in answers if one.summary), "")
    return Answer(True, tuple(findings), strictest, summary, tuple(given for one in answers for given in one.earlier))


@dataclass(frozen=True, slots=True)
class Followed:
    """The findings that are open after a round, the worst first, each with its id; those that the round closed, with
    the verdict that did (`{id, title, verdict, why, by}`); the ids of the open ones that nobody gave a verdict on."""

    open: tuple[Finding, ...]
    closed: tuple[Mapping[str, Any], ...] = ()
    unjudged: tuple[str, ...] = ()

    def beyond(self, most: int) -> Json:
        """What a round keeps beside its first `most` open findings."""
        return {"further": [one.as_dict() for one in self.open[most:]], "closed": [dict(one) for one in self.closed]}


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
    found = list(panel.merge({label: one.findings for label, one in answers.items()}))
    earlier = open_after(rounds)
    open_, closed, unjudged = [], [], []
    for one in earlier:
        id = str(one.data["id"])
        # Reported again is what names the same file in the same words; lines have moved. In other words it is another
        # finding, and the open one is asked about.
        spot = words_of(one.title), place_of(one.location)[0]
        again = [new for new in found if (words_of(new.title), place_of(new.location)[0]) == spot]
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
    return Followed(tuple(sorted(open_, key=panel.order)), tuple(closed), tuple(unjudged))


def highest(rounds: Sequence[Mapping[str, Any]]) -> int:
    """The highest number of a finding in any round."""
    lists = ("findings", "further", "closed", SET_ASIDE)
    kept = (one for round in rounds for name in lists for one in round.get(name, ()))
    return max((int(one["id"][1:]) for one in kept if re.fullmatch(r"F\d{1,9}", str(one.get("id", "")))), default=0)
