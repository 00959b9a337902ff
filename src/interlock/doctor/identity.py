"""A team directory that was copied or renamed: its ledger still calls itself by the old name."""

from __future__ import annotations

import os
import uuid

from interlock.core.tasks.transition import end_run, move, waiting_state
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.doctor.findings import Finding
from interlock.model.names import SYSTEM


def examine_name(workspace: Workspace, *, repair: bool) -> list[Finding]:
    """Find a ledger of another name; with `repair` it becomes a team of its own, which does not touch what the
    original runs: open runs are given back, worktrees of the original are forgotten, its runner is not this one's."""
    with workspace.ledger.snapshot() as rows:
        team = rows.team.get()
        worktrees = rows.tasks.worktrees()
    if team.name == workspace.name:
        return []
    original = os.path.join(os.path.dirname(workspace.directory), team.name)
    finding = Finding("error", f"This is the ledger of team {team.name}, copied or renamed.", workspace.directory)
    if worktrees and not os.path.exists(os.path.join(original, "ledger.db")):
        finding.what += f" Its tasks have worktrees below {original}: move the directory back."
    elif repair:
        with workspace.act(Principal(SYSTEM, face="doctor")) as act:
            _make_its_own(act, workspace.name)
        finding.repaired = True
    return [finding]


def _make_its_own(act: UnitOfWork, name: str) -> None:
    old = act.rows.team.get()
    before = old.name
    act.rows.team.update(old, id=str(uuid.uuid4()), name=name, runner=None, updated_at=act.at)
    for run in act.rows.runs.open():
        task = act.rows.tasks.get(run.task_id)
        if task is None or task.run != run.number:
            continue
        end_run(act, task, "reclaimed", f"the run belongs to team {before}")
        if task.state == "in-progress":
            move(act, task, waiting_state(task), reason=f"its run belongs to team {before}")
    for task in act.rows.tasks.worktrees():
        act.rows.tasks.update(task, worktree=None, merging=None, updated_at=act.at)
    act.event("team.updated", name=name, was=before)
    act.topics.add("tasks")
