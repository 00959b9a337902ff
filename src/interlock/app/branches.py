"""What git says of a team's integration branch, for reports: loaded where work was merged into it."""

from __future__ import annotations

from interlock.core.unit_of_work import Workspace
from interlock.errors import GitFailed, WorktreeRefused
from interlock.gitwork.isolation import look, trees
from interlock.model.report import IntegrationBranch


def compare(workspace: Workspace, branch: IntegrationBranch) -> None:
    """Write into `branch` what of the merged work is not there any more, what is in the user's branch by other ways
    than ours, and what is wrong; changes nothing else. Where git cannot be asked, that is what is wrong."""
    with workspace.look() as rows:
        merged = {task.id: str((task.worktree or {})["merged"]) for task in rows.tasks.undelivered()}
    if not merged:
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
        branch.trouble = f"moved by somebody else than Interlock: {moved}; the next run, merge or doctor puts it back"
