"""What an examination found, in the shape every face shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEVELS = ("error", "warning", "info")


@dataclass(slots=True)
class DoctorFinding:
    """One sentence about what is wrong, or worth knowing. An `error` breaks a promise of the ledger or its files, a
    `warning` will need somebody, `info` needs nobody."""

    level: str
    what: str
    path: str | None = None
    repaired: bool = False
    team: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The shape of `interlock doctor --json`."""
        return {
            "level": self.level,
            "what": self.what,
            "path": self.path,
            "repaired": self.repaired,
            "team": self.team,
        }


def report(findings: list[DoctorFinding]) -> dict[str, Any]:
    """`{"healthy": bool, "findings": […]}`, the worst first. Healthy: no error or warning stands."""
    ordered = sorted(findings, key=lambda finding: LEVELS.index(finding.level))
    return {
        "healthy": all(finding.repaired or finding.level == "info" for finding in findings),
        "findings": [finding.as_dict() for finding in ordered],
    }
