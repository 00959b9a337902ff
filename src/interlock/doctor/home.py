"""The home itself: what killed processes left half-made or half-removed, settings, permissions."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection

from interlock.doctor import DoctorFinding
from interlock.doctor.files import BACKUPS, closed
from interlock.errors import ConfigParseError
from interlock.mirror.position import LOCK, POSITION
from interlock.model.names import LOGIN_FILE
from interlock.runner.notifications import FILE as NOTICES
from interlock.runner.notifications import failures
from interlock.settings import read_file
from interlock.storage.catalog import CREATING, DELETING, Catalog

CHECKING = ".checking-"
"""Homes that agent programs are being tried in; who does it holds a lock on the directory."""

TRACES = (POSITION, LOCK, BACKUPS)
"""What only Interlock leaves in the directory of a team."""


def examine(path: str, known: Collection[str], catalog: Catalog, *, repair: bool) -> list[DoctorFinding]:
    """Examine a home, whose teams are `known`; one that does not exist yet is sound."""
    teams = os.path.join(path, "teams")
    lost, foreign = _others(teams, known, catalog)
    findings = _leftovers(teams, catalog, repair) + lost + foreign
    # Where another program keeps its own, who else may look there is that program's business.
    shared = [] if foreign else [path, teams]
    for private in (*shared, *(os.path.join(path, name) for name in ("token", LOGIN_FILE, "settings.json"))):
        found = closed(private, repair=repair)
        if found is not None:
            findings.append(found)
    try:
        read_file(os.path.join(path, "settings.json"))
    except ConfigParseError as error:
        findings.append(DoctorFinding("error", error.message, os.path.join(path, "settings.json")))
    findings += [DoctorFinding("warning", what, os.path.join(path, NOTICES)) for what in failures(path)]
    return findings


def _leftovers(teams: str, catalog: Catalog, repair: bool) -> list[DoctorFinding]:
    findings = [DoctorFinding("warning", "Left by a process that was killed while it tried an agent.", left)
                for left in abandoned(os.path.dirname(teams), (CHECKING,))]  # fmt: skip
    for left in abandoned(teams, (CREATING, DELETING)):
        name = os.path.basename(left)
        making = "made" if name.startswith(CREATING) else "deleted"
        team = name.split("-", 1)[1].rsplit("-", 5)[0]
        findings.append(
            DoctorFinding("warning", f"Left by a process that was killed while team {team} was {making}.", left)
        )
    for finding in findings if repair else []:
        shutil.rmtree(str(finding.path), ignore_errors=True)
    for left in catalog.leftovers():
        if not _in_use(left):
            what = f"Left by a process that was killed while team {os.path.basename(left)} was deleted."
            findings.append(DoctorFinding("warning", what, left))
    if repair:
        catalog.leftovers(remove=True)
    for finding in findings if repair else []:
        finding.repaired = not os.path.exists(str(finding.path))
    return findings


def abandoned(directory: str, beginnings: tuple[str, ...]) -> list[str]:
    """The directories in `directory` whose names begin so, and that nobody works in any more."""
    found = [os.path.join(directory, name) for name in _names(directory) if name.startswith(beginnings)]
    return [path for path in found if not _in_use(path)]


def _others(teams: str, known: Collection[str], catalog: Catalog) -> tuple[list[DoctorFinding], list[DoctorFinding]]:
    """Directories of teams that lost their ledger, which are listed nowhere else; and those of other programs."""
    lost, foreign, left = [], [], catalog.leftovers()
    for name in _names(teams):
        path = os.path.join(teams, name)
        if name in known or name.startswith(".") or not os.path.isdir(path) or path in left:
            continue
        if any(os.path.exists(os.path.join(path, trace)) for trace in TRACES):
            place = catalog.location(name)
            if catalog.files(name):
                place = os.path.basename(place)
                what = f"has no ledger and is no team. Put a backup into its place as {place}, or remove the directory."
                if any("-moved-" in kept for kept in _names(os.path.join(path, BACKUPS))):
                    what = "was moved to a server. Repeat the `interlock ledger move` that ended early."
                lost.append(DoctorFinding("error", f"{name} {what}", path))
            else:
                what = (
                    f"There is no {place}: it was deleted on another machine, or the setting ledger names another "
                    "place than before. Its directory here may hold work; remove it when nobody needs that."
                )
                lost.append(DoctorFinding("warning", what, path))
        else:
            foreign.append(DoctorFinding("info", f"{name} is not a team of Interlock and is left alone.", path))
    return lost, foreign


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
