"""The worktrees of a team: those that are of no use any more, and those that are kept for somebody to look at."""

from __future__ import annotations

import os

from interlock.core.unit_of_work import Workspace
from interlock.doctor.findings import Finding
from interlock.errors import InterlockError
from interlock.gitwork.isolation import look, trees
from interlock.model import text
from interlock.runner import workspace_allocation

KEPT = frozenset({"deadletter", "cancelled", "deleted"})
"""States whose worktrees stay: what was done there is nowhere else."""
CHANGES_SHOWN = 5


def examine_worktrees(workspace: Workspace, *, repair: bool) -> list[Finding]:
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
        finding = Finding("warning", "A worktree of no use any more, left behind by a process that is gone.", path)
        finding.repaired = repair and _removed(workspace, path)
        findings.append(finding)
    for task in tasks:
        known = task.worktree or {}
        path = str(known.get("path"))
        if (task.state in KEPT or known.get("stays")) and os.path.isdir(path):
            why = f": {known['stays']}" if known.get("stays") else ""
            what = f"The worktree of {task.id}, which is {task.state}, is kept (branch {known['branch']}){why}."
            findings.append(Finding("info", what, path))
    for event in elsewhere:
        said = event.payload
        what = (
            f"{text.named(said['changed'], 5)} changed at {event.at[:16]} while {', '.join(said['runs'])} was at work."
        )
        findings.append(Finding("info", f"{what} Who changed it is not known.", str(said["path"])))
    return findings


def _removed(workspace: Workspace, path: str) -> bool:
    try:
        return workspace_allocation.remove(workspace, trees(workspace, look(workspace)), path) is None
    except (InterlockError, OSError):
        return False
