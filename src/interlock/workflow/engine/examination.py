"""What an examination of finished work by others than whoever made it comes to (epics 5 and 6): verdict and findings.

The examinations themselves are the port `context.Examination`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.workflow.entry.verdicts import APPROVE as APPROVE
from interlock.workflow.entry.verdicts import BLOCKED as BLOCKED
from interlock.workflow.entry.verdicts import CHANGES as CHANGES
from interlock.workflow.state.document import CODE_REVIEW

NOT_DONE, SKIPPED, CAPACITY, STOPPED = "not_done", "skipped", "capacity", "stopped"
"""Of an examination that came to no verdict: nobody could look at the work, a setting leaves it out, the provider of
those who would look at it has no capacity left (`details.retry_at`, seconds since the epoch, where it says when), the
run is being stopped."""
BLOCKING, MAJOR, MINOR = "blocking", "major", "minor"
SEVERITIES = (BLOCKING, MAJOR, MINOR)

PRE_FINAL_REVIEW = "pre_final_review"
BUILD_RESULT = "build_result"
PROJECT_CHECK = "project_check"
DELIVERABLE = "deliverable"
FACTS = frozenset({BUILD_RESULT, PROJECT_CHECK, DELIVERABLE})
"""The names of those that look at what is there, which is the same whoever looks."""
SET_ASIDE = "set_aside"
"""Of a round that is kept: the findings that nobody follows any more, since a person has the work examined afresh."""
MANDATORY = frozenset({PRE_FINAL_REVIEW, BUILD_RESULT, PROJECT_CHECK, DELIVERABLE, CODE_REVIEW})
"""The names of those that nothing skips: not `--yolo`, no override, not an early end of the workflow (BMAD-5.3.4)."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where (`path:line` where it can be said), and what would fix it. `found_by` are the
    labels of those who found it, each by itself."""

    severity: str
    title: str
    location: str = ""
    fix: str = ""
    found_by: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> Json:
        """All fields, those of `data` beside them."""
        return {
            **fields_of(self, ("severity", "title", "location", "fix")),
            "found_by": list(self.found_by),
            **self.data,
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Finding:
        """The finding that `as_dict` gave."""
        severity, title, location, fix = (str(kept.get(name, "")) for name in ("severity", "title", "location", "fix"))
        data = {name: value for name, value in kept.items() if name not in cls.__dataclass_fields__}
        return cls(severity, title, location, fix, tuple(kept.get("found_by", ())), data)


@dataclass(frozen=True)
class Examined:
    """What an examination came to. `details` is kept with the run (reports, checklist, scores); `told` stands in its
    event beside verdict and round; `signals` are those of the confidence calculator that it gives, 0 to 100; `written`
    are the project's files that it wrote."""

    verdict: str
    summary: str
    findings: tuple[Finding, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)
    written: tuple[str, ...] = ()

    def as_dict(self) -> Json:
        """The shape it is kept in."""
        findings = [one.as_dict() for one in self.findings]
        return {"verdict": self.verdict, "summary": self.summary, "findings": findings, **self.details}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Examined:
        """Verdict, summary and findings as `as_dict` gave them."""
        return cls(
            str(kept.get("verdict", "")),
            str(kept.get("summary", "")),
            tuple(Finding.of(one) for one in kept.get("findings", ())),
        )
