"""Everything about one team: its ledger and what keeps it from being used, its name, agents, worktrees and files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from shlex import quote

from interlock.agents.registry import WhyIdle
from interlock.core.reports.now import unable
from interlock.core.tasks.transition import end_run, move, waiting_state
from interlock.core.unit_of_work import Principal, Workspace
from interlock.doctor import DoctorFinding, DoctorReport
from interlock.doctor import home as home_level
from interlock.doctor.files import (
    BACKUPS,
    examine_leftovers,
    examine_mirror,
    examine_modes,
    examine_permissions,
    examine_room,
    examine_unknown_tasks,
)
from interlock.doctor.files import adopt as adopt_edits
from interlock.doctor.invariants import faults
from interlock.errors import (
    GitFailed,
    InterlockError,
    LedgerBusy,
    LedgerUnusable,
    StorageError,
    TeamNotFound,
    WorktreeRefused,
)
from interlock.gitwork.isolation import look, trees
from interlock.model import text
from interlock.model.names import SYSTEM
from interlock.model.status import cannot_work
from interlock.runner import workspace_allocation
from interlock.storage.catalog import Catalog

KEPT = frozenset({"deadletter", "cancelled", "deleted"})
"""States whose worktrees stay: what was done there is nowhere else."""
CHANGES_SHOWN = 5
Sockets = Callable[[str, bool], list[str]]
"""Answers, and where asked removes, what waiters of a team whose process is gone left behind."""


def examine(
    workspace: Workspace,
    *,
    repair: bool = False,
    adopt: bool = False,
    why_idle: WhyIdle | None = None,
) -> DoctorReport:
    """Examine one team.

    Args:
        repair: put right what can be put right without guessing.
        adopt: take edits of task files over into the ledger.
        why_idle: tells of agents that cannot be had here.
    """
    directory, catalog = workspace.directory, workspace.catalog
    findings = _examined(workspace.name, directory, catalog, lambda: workspace, repair, adopt, why_idle)
    for finding in findings:
        finding.team = workspace.name
    return DoctorReport.of(findings)


def examine_all(
    home: str,
    teams: Iterable[str],
    open_team: Callable[[str], Workspace],
    catalog: Catalog,
    sockets: Sockets,
    *,
    whole_home: bool,
    repair: bool = False,
    adopt: bool = False,
    why_idle: WhyIdle | None = None,
) -> DoctorReport:
    """Examine these teams of a home and, with `whole_home`, the home itself. A ledger that cannot be opened is a
    finding, no error.

    Raises:
        TeamNotFound: one of the teams does not exist.
    """
    teams = list(teams)
    findings = home_level.examine(home, teams, catalog, repair=repair) if whole_home else []
    for name in teams:
        directory = os.path.join(home, "teams", name)
        try:
            found = _examined(name, directory, catalog, lambda: open_team(name), repair, adopt, why_idle)  # noqa: B023
            what = "A process that waited here and is gone left its socket behind."
            found += [DoctorFinding("info", what, path, repair) for path in sockets(name, repair)]
        except TeamNotFound:
            if not whole_home:
                raise
            continue  # Deleted while we were looking.
        for finding in found:
            finding.team = name
        findings += found
    return DoctorReport.of(findings)


def _examined(
    team: str,
    directory: str,
    catalog: Catalog,
    open_team: Callable[[], Workspace],
    repair: bool,
    adopt: bool,
    why_idle: WhyIdle | None,
) -> list[DoctorFinding]:
    """Everything about a team. What keeps its ledger from being used is a finding, and then the only one."""
    findings = examine_modes(directory, catalog.files(team), repair=repair)
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
        damage = error.details.get("damaged")
        where = catalog.location(team)
        return findings + (
            _damaged(team, catalog, damage) if damage else [DoctorFinding("error", error.message, where)]
        )
    if adopt:
        workspace.mirror.rebuild()  # Keeps aside what is edited in its place.
        findings += adopt_edits(workspace)
    findings += examine_mirror(workspace, repair=repair)
    findings += examine_leftovers(directory, repair=repair)
    findings += examine_worktrees(workspace, repair=repair)
    findings += examine_branch(workspace, repair=repair)
    findings += examine_unknown_tasks(workspace)
    findings += _agents(workspace, why_idle)
    findings += examine_permissions(directory, repair=repair)
    findings += [DoctorFinding("info", "A backup of the ledger.", path) for path in catalog.backups(team)]
    return findings


class _Undone(Exception):
    """Rolls a trial back."""


def _written(workspace: Workspace) -> list[DoctorFinding]:
    """A ledger that can be read, but takes no change."""
    try:
        with workspace.ledger.transaction() as rows:
            team = rows.team.get()
            rows.team.update(team, updated_at=team.updated_at)
            raise _Undone
    except _Undone:
        return []
    except StorageError as error:
        return [DoctorFinding("error", error.message, workspace.ledger.location)]
    except LedgerBusy as error:
        return [DoctorFinding("warning", error.message, workspace.ledger.location)]


def _agents(workspace: Workspace, why_idle: WhyIdle | None) -> list[DoctorFinding]:
    """Agents that cannot be had here; somebody has to do something about them where there is work for the team."""
    with workspace.ledger.snapshot() as rows:
        level = "warning" if rows.team.get().open_tasks else "info"
        idle = {one.member: cannot_work(one) for one in unable(rows, why_idle)}
        found = unable(rows, partial(why_idle, wholly=True)) if why_idle is not None else []
        return [DoctorFinding(level, idle.get(one.member, f"{one.member}: {one.why}.")) for one in found]


def _ledger(workspace: Workspace, repair: bool) -> list[DoctorFinding]:
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
    return [DoctorFinding(fault.level, fault.what, path, fault.what in repaired) for fault in found]


def _damaged(team: str, catalog: Catalog, damage: str) -> list[DoctorFinding]:
    """A damaged ledger, and how to go on: nothing is restored without being asked for."""
    ledger, kept = catalog.location(team), catalog.backups(team)
    sound = [path for path in kept if not catalog.inspect(path)]
    if sound:
        commands, aside = catalog.restoring(team, sound[0])
        how = (
            f" To put the newest intact backup back, stop all that works with the team, then `{commands} && interlock "
            f"doctor --repair --team {quote(team)}`. What was done after the backup is then only in {aside}: keep it."
        )
    else:
        below = os.path.join(os.path.dirname(ledger), BACKUPS)
        how = f" There is no intact backup in {below}; keep the files and ask for help."
    found = [DoctorFinding("error", f"The ledger is damaged: {damage}.{how}", ledger)]
    return found + [
        DoctorFinding("info", "A backup of the ledger." if path in sound else "A backup that is itself damaged.", path)
        for path in kept
    ]


def examine_name(workspace: Workspace, *, repair: bool) -> list[DoctorFinding]:
    """Find a ledger of another name; with `repair` it becomes a team of its own."""
    with workspace.ledger.snapshot() as rows:
        team = rows.team.get()
        worktrees = rows.tasks.worktrees()
    if team.name == workspace.name:
        return []
    original = os.path.join(os.path.dirname(workspace.directory), team.name)
    finding = DoctorFinding("error", f"This is the ledger of team {team.name}, copied or renamed.", workspace.directory)
    if worktrees and not workspace.catalog.exists(team.name):
        finding.what += f" Its tasks have worktrees below {original}: move the directory back."
    elif repair:
        separate(workspace)
        finding.repaired = True
    return [finding]


def separate(workspace: Workspace) -> None:
    """Make what calls itself otherwise than its directory a team of its own, which does not touch what the original
    runs: open runs are given back, worktrees of the original are forgotten, its runner is not this one's."""
    with workspace.act(Principal(SYSTEM, face="doctor")) as act:
        team = act.rows.team.get()
        was, id = team.name, workspace.ledger.id or str(uuid.uuid4())
        act.rows.team.update(team, id=id, name=workspace.name, runner=None, landed=None, updated_at=act.at)
        for run in act.rows.runs.open():
            task = act.rows.tasks.get(run.task_id)
            if task is not None and task.run == run.number:
                end_run(act, task, "reclaimed", f"the run belongs to team {was}")
                if task.state == "in-progress":
                    move(act, task, waiting_state(task), reason=f"its run belongs to team {was}")
        for task in act.rows.tasks.worktrees():
            act.rows.tasks.update(task, worktree=None, merging=None, updated_at=act.at)
        act.event("team.updated", name=workspace.name, was=was)
        act.topics.add("tasks")


def examine_branch(workspace: Workspace, *, repair: bool) -> list[DoctorFinding]:
    """Whether the integration branch is where it was left, and has all that was merged into it and is nowhere else."""
    with workspace.ledger.snapshot() as rows:
        landed, merged = rows.team.get().landed, rows.tasks.undelivered()
    if landed is None and not merged:
        return []
    commits = {str((task.worktree or {})["merged"]): task.id for task in merged}
    try:
        found = trees(workspace, look(workspace))
        moved, where = found.is_moved(), found.repository.top
        findings = (
            [DoctorFinding("error", f"{found.integration} was moved (branch_moved): {moved}.", where)] if moved else []
        )
        if moved and repair:
            found.head()
            findings[0].repaired = True
        lost = found.lacking(list(commits)) & found.lacking(list(commits), inside="HEAD")
    except (GitFailed, WorktreeRefused) as error:
        said = f"Whether {workspace.name}'s merged work is where it should be is not known: {error.message}"
        return [DoctorFinding("error" if merged else "warning", said, workspace.directory)]
    if lost:
        tasks = text.named(sorted(commits[one] for one in lost), 5)
        if findings:
            findings[0].what += f" It lacks the work of {tasks}."
        else:
            what = f"The work of {tasks} was merged into {found.integration}, and is not on it."
            findings.append(DoctorFinding("error", what, where))
    return findings


def examine_worktrees(workspace: Workspace, *, repair: bool) -> list[DoctorFinding]:
    """Leftovers of tasks that are done, and of merges and reviews that died; with `repair` they are removed. Kept ones
    of failed tasks are listed."""
    left = workspace_allocation.leftovers(workspace)
    with workspace.ledger.snapshot() as rows:
        tasks = rows.tasks.worktrees()
        elsewhere = rows.events.latest(None, CHANGES_SHOWN, ["checkout.changed", "worktree.changed"])
    if not tasks and not left:
        return []
    findings = []
    for path in left:
        finding = DoctorFinding(
            "warning", "A worktree that is no longer needed, left behind by a process that is gone.", path
        )
        if repair:
            with suppress(InterlockError, OSError):
                checkout = trees(workspace, look(workspace))
                finding.repaired = workspace_allocation.remove(workspace, checkout, path) is None
        findings.append(finding)
    for task in tasks:
        known = task.worktree or {}
        path = str(known.get("path"))
        if (task.state in KEPT or known.get("stays")) and os.path.isdir(path):
            why = f": {known['stays']}" if known.get("stays") else ""
            what = f"The worktree of {task.id}, which is {task.state}, is kept (branch {known['branch']}){why}."
            findings.append(DoctorFinding("info", what, path))
    for event in elsewhere:
        said = event.payload
        what = (
            f"{text.named(said['changed'], 5)} changed at {event.at[:16]} while {', '.join(said['runs'])} was at work."
        )
        findings.append(DoctorFinding("info", f"{what} Who changed it is not known.", str(said["path"])))
    return findings
