"""The result of checking an artifact against the packages' standards (BMAD-6.4): issues, a score, a status.

100 less 20 for each blocking error, 10 for each major and 3 for each minor issue, never below 0; COMPLIANT is 100.
The two counts are what the builder's thresholds are about, so a caller can go on with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.menus import escalation

BLOCKING, MAJOR, MINOR = "blocking", "major", "minor"
COST = {BLOCKING: 20, MAJOR: 10, MINOR: 3}


@dataclass(frozen=True)
class Issue:
    """One deviation: which field, what it should be, what it is, and what to do."""

    field: str
    expected: str
    actual: str
    remediation: str
    severity: str = MAJOR

    def as_dict(self) -> dict[str, str]:
        """The shape in which it is shown."""
        return {
            "field": self.field,
            "expected": self.expected,
            "actual": self.actual,
            "remediation": self.remediation,
            "severity": self.severity,
        }


@dataclass(frozen=True)
class Compliance:
    """All deviations of one artifact of that kind (agent, workflow, step, skill)."""

    kind: str
    issues: tuple[Issue, ...] = ()

    @property
    def score(self) -> int:
        """0 to 100."""
        return max(0, 100 - sum(COST[issue.severity] for issue in self.issues))

    @property
    def status(self) -> str:
        """COMPLIANT or NON_COMPLIANT."""
        return "NON_COMPLIANT" if self.issues else "COMPLIANT"

    def result(self) -> escalation.BmbResult:
        """The numbers that the builder's thresholds judge."""
        severities = [issue.severity for issue in self.issues]
        return escalation.BmbResult(severities.count(BLOCKING), severities.count(MAJOR), float(self.score))

    def as_dict(self, limits: escalation.Thresholds | None = None) -> dict[str, Any]:
        """The shape that `interlock analyze artifact` shows; `escalation` is what those thresholds ask for."""
        result = self.result()
        return {
            "artifact_type": self.kind,
            "compliance_score": self.score,
            "status": self.status,
            "blocking_errors": result.blocking_errors,
            "major_issues": result.major_issues,
            "escalation": escalation.escalation(result, limits),
            "issues": [issue.as_dict() for issue in self.issues],
        }


def text_issue(field: str, value: object, *, severity: str = MAJOR) -> list[Issue]:
    """The issue of a field that must hold text and does not."""
    if isinstance(value, str) and value.strip():
        return []
    actual = "absent" if value is None else "empty" if value in ("", [], {}) else shown(value)
    name = field.rpartition(".")[2]
    return [Issue(field, "a text that is not empty", actual, f"Write {name} as one text.", severity)]


def shown(value: object) -> str:
    """A value as it stands in an issue."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def unknown_fields(field: str, value: object, known: Sequence[str]) -> list[Issue]:
    """An issue for each field that the standard does not have."""
    names = [str(name) for name in value if name not in known] if isinstance(value, dict) else []
    allowed = ", ".join(known)
    return [
        Issue(f"{field}.{name}", f"one of {allowed}", "an unknown field", f"Remove {name}, or correct its name.", MINOR)
        for name in names
    ]
