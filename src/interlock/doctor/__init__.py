"""Is everything as it should be? Looks at ledgers, files and leftovers; repairs only what takes no guess.

A repair writes files of the mirror again, counts counters anew (in one transaction, after a backup, with an event
`ledger.repaired`), removes what dead processes left, and fixes permissions. A ledger that is damaged is never
touched: the doctor says which backup is sound and how to put it back. It says so only where the damage is proven: a
ledger that cannot be opened because of its disk, its mode or its version holds everything that was done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from shlex import quote
from typing import Any

from interlock.agents.registry import WhyIdle
from interlock.core.reports.now import in_words, unable
from interlock.core.unit_of_work import Principal, Workspace
from interlock.doctor import home as home_level
from interlock.doctor.adopt import adopt as adopt_edits
from interlock.doctor.files import (
    BACKUPS,
    LEDGER,
    backups,
    examine_leftovers,
    examine_mirror,
    examine_modes,
    examine_permissions,
    examine_room,
    examine_unknown_tasks,
)
from interlock.doctor.findings import Finding, report
from interlock.doctor.identity import examine_name
from interlock.doctor.invariants import faults
from interlock.doctor.worktrees import examine_worktrees
from interlock.errors import InterlockError, LedgerBusy, LedgerUnusable, StorageError, TeamNotFound
from interlock.model.names import SYSTEM

__all__ = ["examine", "examine_all"]

Inspect = Callable[[str], list[str]]
"""Answers the faults of a ledger file that nobody uses; empty when it is sound."""
Sockets = Callable[[str, bool], list[str]]
"""Answers, and where asked removes, what waiters of a team whose process is gone left behind."""


def examine(
    workspace: Workspace,
    *,
    repair: bool = False,
    adopt: bool = False,
    inspect: Inspect | None = None,
    why_idle: WhyIdle | None = None,
) -> dict[str, Any]:
    """Examine one team: `{"healthy": bool, "findings": [{"level", "what", "path", "repaired", "team"}]}`.

    Args:
        repair: put right what can be put right without guessing.
        adopt: take edits of task files over into the ledger.
        why_idle: tells of agents that cannot be had here.
    """
    findings = _examined(workspace.directory, lambda: workspace, repair, adopt, inspect, why_idle)
    for finding in findings:
        finding.team = workspace.name
    return report(findings)


def examine_all(
    home: str,
    teams: Iterable[str],
    open_team: Callable[[str], Workspace],
    inspect: Inspect,
    sockets: Sockets,
    *,
    whole_home: bool,
    repair: bool = False,
    adopt: bool = False,
    why_idle: WhyIdle | None = None,
) -> dict[str, Any]:
    """Examine these teams of a home and, with `whole_home`, the home itself. A ledger that cannot be opened is a
    finding, no error.

    Raises:
        TeamNotFound: one of the teams does not exist.
    """
    teams = list(teams)
    findings = home_level.examine(home, teams, repair=repair) if whole_home else []
    for name in teams:
        directory = os.path.join(home, "teams", name)
        try:
            found = _examined(directory, lambda: open_team(name), repair, adopt, inspect, why_idle)  # noqa: B023
            what = "A process that waited here and is gone left its socket behind."
            found += [Finding("info", what, path, repair) for path in sockets(name, repair)]
        except TeamNotFound:
            if not whole_home:
                raise
            continue  # Deleted while we were looking.
        for finding in found:
            finding.team = name
        findings += found
    return report(findings)


def _examined(
    directory: str,
    open_team: Callable[[], Workspace],
    repair: bool,
    adopt: bool,
    inspect: Inspect | None,
    why_idle: WhyIdle | None,
) -> list[Finding]:
    """Everything about a team. What keeps its ledger from being used is a finding, and then the only one."""
    findings = examine_modes(directory, repair=repair)
    try:
        workspace = open_team()
        if broken := workspace.ledger.check():
            said = "; ".join(broken[:5]) + ("; …" if len(broken) > 5 else "")
            raise LedgerUnusable("The ledger is damaged.", damaged=said)
        findings += examine_name(workspace, repair=repair)
        findings += examine_room(directory) or _written(workspace)
        repair = repair and all(finding.repaired for finding in findings)
        findings += _ledger(workspace, repair)
    except TeamNotFound:
        raise
    except InterlockError as error:
        path = os.path.join(directory, LEDGER)
        damage = error.details.get("damaged")
        return findings + (_damaged(directory, damage, inspect) if damage else [Finding("error", error.message, path)])
    if adopt:
        workspace.rebuild_mirror()  # Keeps aside what is edited in its place.
        findings += adopt_edits(workspace)
    findings += examine_mirror(workspace, repair=repair)
    findings += examine_leftovers(directory, repair=repair)
    findings += examine_worktrees(workspace, repair=repair)
    findings += examine_unknown_tasks(workspace)
    findings += _agents(workspace, why_idle)
    findings += examine_permissions(directory, repair=repair)
    findings += [Finding("info", "A backup of the ledger.", path) for path in backups(directory)]
    return findings


class _Undone(Exception):
    """Rolls a trial back."""


def _written(workspace: Workspace) -> list[Finding]:
    """A ledger that can be read, but takes no change."""
    try:
        with workspace.ledger.transaction() as rows:
            team = rows.team.get()
            rows.team.update(team, updated_at=team.updated_at)
            raise _Undone
    except _Undone:
        return []
    except StorageError as error:
        return [Finding("error", error.message, workspace.ledger.location)]
    except LedgerBusy as error:
        return [Finding("warning", error.message, workspace.ledger.location)]


def _agents(workspace: Workspace, why_idle: WhyIdle | None) -> list[Finding]:
    """Agents that cannot be had here; somebody has to do something about them where there is work for the team."""
    with workspace.ledger.snapshot() as rows:
        level = "warning" if rows.team.get().open_tasks else "info"
        idle = {one["member"]: in_words(one) for one in unable(rows, why_idle)}
        found = unable(rows, partial(why_idle, wholly=True)) if why_idle is not None else []
        return [Finding(level, idle.get(one["member"], f"{one['member']}: {one['why']}.")) for one in found]


def _ledger(workspace: Workspace, repair: bool) -> list[Finding]:
    with workspace.ledger.snapshot() as rows:
        found = faults(rows)
    repaired: set[str] = set()
    if repair and any(fault.repair for fault in found):
        workspace.ledger.back_up("before-repair")
        with workspace.act(Principal(SYSTEM, face="doctor")) as act:
            # Found again inside the transaction: what is repaired is what is wrong now.
            for fault in faults(act.rows):
                if fault.repair is not None:
                    fault.repair(act)
                    repaired.add(fault.what)
            if repaired:
                act.event("ledger.repaired", what=sorted(repaired))
        with workspace.ledger.snapshot() as rows:
            repaired -= {fault.what for fault in faults(rows)}
    path = workspace.ledger.location
    return [Finding(fault.level, fault.what, path, fault.what in repaired) for fault in found]


def _damaged(directory: str, damage: str, inspect: Inspect | None) -> list[Finding]:
    """A damaged ledger, and how to go on: nothing is restored without being asked for."""
    ledger = os.path.join(directory, LEDGER)
    kept = backups(directory)
    sound = [path for path in kept if inspect is None or not inspect(path)]
    if sound:
        aside = next(path for path in map(f"{directory}/damaged-{{}}".format, count(1)) if not os.path.exists(path))
        # With its log, under names that match: what was committed last may lie in the log alone.
        commands = (
            f"mkdir -m 700 {quote(aside)} && mv {quote(ledger)}* {quote(aside)} && cp {quote(sound[0])} {quote(ledger)}"
            f" && interlock doctor --repair --team {quote(os.path.basename(directory))}"
        )
        how = (
            f" To put the newest {'sound ' if inspect else ''}backup back, stop all that works with the team, then "
            f"`{commands}`. What was done after the backup is then only in {aside}: keep it."
        )
    else:
        how = f" There is no sound backup in {os.path.join(directory, BACKUPS)}; keep the files and ask for help."
    found = [Finding("error", f"The ledger is damaged: {damage}.{how}", ledger)]
    return found + [
        Finding("info", "A backup of the ledger." if path in sound else "A backup that is itself damaged.", path)
        for path in kept
    ]
