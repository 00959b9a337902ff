"""PORT within `workflow`: an examination of finished work by others than whoever made it (epics 5 and 6).

A code review after a story, the parallel validation of a generated agent, the review before a large project is closed:
each is one `Examination`. The controller takes them up as steps of their own, after the last one of the workflow
(`examining.py` leads them): it examines, hands findings to the agent that made the work, and examines again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from interlock.workflow.control.context import RunContext

APPROVE, CHANGES, BLOCKED = "approve", "changes_requested", "blocked"
BLOCKING, MAJOR, MINOR = "blocking", "major", "minor"
SEVERITIES = (BLOCKING, MAJOR, MINOR)

PRE_FINAL_REVIEW = "pre_final_review"
MANDATORY = frozenset({PRE_FINAL_REVIEW})
"""The names of those that nothing skips: not `--yolo`, no override, not an early end of the workflow (BMAD-5.3.4)."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where (`path:line` where it can be said), and what would mend it. `found_by` are the
    labels of those who found it, each by itself."""

    severity: str
    title: str
    location: str = ""
    fix: str = ""
    found_by: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """All fields."""
        return {
            "severity": self.severity,
            "title": self.title,
            "location": self.location,
            "fix": self.fix,
            "found_by": list(self.found_by),
            **self.data,
        }


@dataclass(frozen=True)
class Examined:
    """What an examination came to. `details` is kept with the run (reports, checklist, scores); `signals` are those of
    the confidence calculator that it gives, 0 to 100."""

    verdict: str
    summary: str
    findings: tuple[Finding, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The shape it is kept in."""
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "findings": [one.as_dict() for one in self.findings],
            **self.details,
        }


class Examination(Protocol):
    """See the module. `name` is that of its gate, `title` what people see."""

    name: str
    title: str

    def called_for(self, run: RunContext) -> str | None:
        """Why this run's work is to be examined, null where it is not. Cheap, and the same whenever it is asked."""

    async def examine(self, run: RunContext, round: int) -> Examined:
        """Look at the work as it is now; `round` counts from 1. Never raises for what agents do."""
