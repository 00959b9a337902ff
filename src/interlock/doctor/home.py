"""The home itself: what killed processes left half-made or half-removed, settings, permissions."""

from __future__ import annotations

import fcntl
import os
import shutil

from interlock.doctor.files import closed
from interlock.doctor.findings import Finding
from interlock.errors import ConfigParseError
from interlock.settings import read_file

UNFINISHED = (".creating-", ".deleting-")
"""Directories of teams that are being made or removed; who does it holds a lock on the directory."""


def examine(path: str, *, repair: bool) -> list[Finding]:
    """Examine a home; one that does not exist yet is sound."""
    teams = os.path.join(path, "teams")
    findings = _leftovers(teams, repair) + _lost(teams)
    for private in (path, teams, os.path.join(path, "token"), os.path.join(path, "settings.json")):
        found = closed(private, repair=repair)
        if found is not None:
            findings.append(found)
    try:
        read_file(os.path.join(path, "settings.json"))
    except ConfigParseError as error:
        findings.append(Finding("error", error.message, os.path.join(path, "settings.json")))
    return findings


def _leftovers(teams: str, repair: bool) -> list[Finding]:
    findings = []
    for name in _names(teams):
        if not name.startswith(UNFINISHED) or _in_use(os.path.join(teams, name)):
            continue
        making = "made" if name.startswith(UNFINISHED[0]) else "deleted"
        team = name.split("-", 1)[1].rsplit("-", 5)[0]
        finding = Finding("warning", f"Left by a process that was killed while team {team} was {making}.")
        finding.path = os.path.join(teams, name)
        if repair:
            shutil.rmtree(finding.path, ignore_errors=True)
            finding.repaired = not os.path.exists(finding.path)
        findings.append(finding)
    return findings


def _lost(teams: str) -> list[Finding]:
    """Directories of teams without a ledger: they are listed nowhere else."""
    findings = []
    for name in _names(teams):
        path = os.path.join(teams, name)
        if name.startswith(".") or not os.path.isdir(path) or os.path.exists(os.path.join(path, "ledger.db")):
            continue
        what = (
            f"{name} has no ledger and is no team. Put a backup into its place as ledger.db, or remove the directory."
        )
        findings.append(Finding("error", what, path))
    return findings


def _in_use(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
