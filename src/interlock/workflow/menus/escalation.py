"""When the builder module's validation results ask for help (BMAD-2b.3, FR9).

More than 3 blocking errors or 5 major issues call Party Mode; a compliance score below 70 calls Advanced Elicitation.
Party Mode goes first when both do (decision 29). Real reports call the two counts Critical and Major Issues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.lazy_dataclass import dataclass

PARTY_MODE, ADVANCED_ELICITATION, CONTINUE = "party_mode", "advanced_elicitation", "continue"

SCORE = re.compile(r"\bcompliance[ _]score\b\W*(\d{1,3}(?:\.\d+)?)\s*%?", re.IGNORECASE)
COUNTS = {
    "blocking_errors": re.compile(
        r"\b(?:blocking[ _]errors?|critical(?: issues?)?)\b\W{0,6}(\d{1,6})\b", re.IGNORECASE
    ),
    "major_issues": re.compile(r"\bmajor(?:[ _]issues?)?\b\W{0,6}(\d{1,6})\b", re.IGNORECASE),
}


@dataclass(frozen=True)
class Thresholds:
    """The limits; a project or workflow may set its own."""

    blocking_errors: int = 3
    major_issues: int = 5
    compliance_score: float = 70.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Thresholds:
        """With the numbers that `settings` gives; anything else in it is not for us."""
        default = cls()

        def number(name: str, otherwise: float) -> float:
            value = settings.get(name)
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise

        return cls(
            int(number("blocking_errors", default.blocking_errors)),
            int(number("major_issues", default.major_issues)),
            float(number("compliance_score", default.compliance_score)),
        )


@dataclass(frozen=True)
class BmbResult:
    """What one validation found; `compliance_score` is 0 to 100, or None where none was given."""

    blocking_errors: int = 0
    major_issues: int = 0
    compliance_score: float | None = None


def escalation(result: BmbResult, limits: Thresholds | None = None) -> str:
    """party_mode, advanced_elicitation or continue."""
    limits = limits or Thresholds()
    if result.blocking_errors > limits.blocking_errors or result.major_issues > limits.major_issues:
        return PARTY_MODE
    if result.compliance_score is not None and result.compliance_score < limits.compliance_score:
        return ADVANCED_ELICITATION
    return CONTINUE


def read(report: str) -> BmbResult:
    """The numbers of a validation report: the last of each kind."""
    plain = report.replace("*", "")
    scores = SCORE.findall(plain)
    counts = {name: [int(one) for one in pattern.findall(plain)] for name, pattern in COUNTS.items()}
    return BmbResult(
        counts["blocking_errors"][-1] if counts["blocking_errors"] else 0,
        counts["major_issues"][-1] if counts["major_issues"] else 0,
        float(scores[-1]) if scores else None,
    )
