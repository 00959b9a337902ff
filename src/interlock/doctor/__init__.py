"""Is everything as it should be? Looks at ledgers, files and leftovers; repairs only what takes no guess.

A repair rewrites files of the mirror, recounts counters (in one transaction, after a backup, with an event
`ledger.repaired`), removes what dead processes left, and fixes permissions. A damaged ledger is never touched: the
doctor says which backup is sound and how to put it back. It says so only if the damage is proven: a ledger that cannot
be opened because of its disk, its mode or its version holds everything that was done.

    team.py        one team, and all teams of a home
    invariants.py  what must hold between the rows of a ledger
    files.py       the files beside a ledger: mirror, leftovers, permissions, backups, edits by hand
    home.py        the home itself
"""

from __future__ import annotations

from interlock.lazy_dataclass import dataclass

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


@dataclass(slots=True, frozen=True)
class DoctorReport:
    """What an examination found, the worst first. Healthy: no error or warning remains."""

    healthy: bool
    findings: list[DoctorFinding]

    @classmethod
    def of(cls, findings: list[DoctorFinding]) -> DoctorReport:
        """Return the report of these findings."""
        healthy = all(one.repaired or one.level == "info" for one in findings)
        return cls(healthy, sorted(findings, key=lambda one: LEVELS.index(one.level)))
