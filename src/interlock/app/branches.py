"""What git says of a team's work, loaded where it is asked: of what was merged into the integration branch, and of the
files that finished commands ran on."""

from __future__ import annotations

from interlock.core.unit_of_work import Workspace
from interlock.errors import GitFailed, WorktreeRefused
from interlock.gitwork.isolation import look, trees
from interlock.gitwork.staging import tree_of
from interlock.model.report import IntegrationBranch
from interlock.model.task import Task


def compare(workspace: Workspace, branch: IntegrationBranch) -> None:
    """Write into `branch` what of the merged work is not there any more, what is in the user's branch by other ways
    than ours, and what is wrong; changes nothing else. Where git cannot be asked, that is what is wrong."""
    with workspace.look() as rows:
        landed = rows.team.get().landed
        merged = {task.id: str((task.worktree or {})["merged"]) for task in rows.tasks.undelivered()}
    if landed is None and not merged:
        return
    try:
        found = trees(workspace, look(workspace))
        moved, missing = found.is_moved(), found.lacking(list(merged.values()))
        outside = found.lacking(list(merged.values()), inside="HEAD")
    except (GitFailed, WorktreeRefused) as error:
        branch.trouble = f"git was not asked whether the work is there: {error.message}"
        return
    branch.missing = [task for task, commit in merged.items() if commit in missing and commit in outside]
    branch.delivered += sum(commit not in outside for commit in merged.values())
    if moved is not None:
        branch.trouble = (
            f"moved by somebody else than Interlock (branch_moved): {moved}; the next run, merge or doctor puts it back"
        )


def outdated(workspace: Workspace) -> list[str]:
    """The finished tasks with a command of their own (`run`) that ran on other files than there are now, by their keys,
    else their ids. What changed files itself is no check of them. Outside git nothing is known."""
    with workspace.look() as rows:
        ran = [task for task in rows.tasks.select(states=["done"]) if task.command is not None]
    how = look(workspace)
    checks = [task for task in ran if (task.worktree or {}).get("merged") is None]
    on = [(task, tree) for task in checks if (tree := _tree(task, how.on)) is not None]
    if not on:
        return []
    try:
        found = trees(workspace, how) if how.on else None
        landed = found.known()[0] if found is not None else None
        now = found.start(landed)["tree"] if found is not None and landed is not None else tree_of(how.workdir)
    except (GitFailed, WorktreeRefused):
        return []
    _, last = max(on, key=lambda one: one[0].completed_at or "")
    if now is None or (not how.on and last == now):  # Where all share a directory, each may have changed it.
        return []
    return [task.plan_key or task.id for task, tree in on if tree != now]


def _tree(task: Task, apart: bool) -> object:
    """The tree that the command ran on; in a shared directory the one that it left."""
    return (task.worktree or {}).get("tree") if apart else (task.evidence or [{}])[-1].get("tree")
