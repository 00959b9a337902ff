"""Separate working copies, as people and joined programs use them: a worktree for a task that was claimed by hand, the
diff of a task, merging work into a branch, merges by hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from interlock.core.tasks.claim import must_hold
from interlock.core.tasks.find import find
from interlock.core.tasks.transition import illegal
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import Forbidden, InterlockError, InvalidRequest, WorktreeRefused
from interlock.gitwork import delivery
from interlock.gitwork.isolation import look, trees
from interlock.gitwork.trees import DIRECTORY
from interlock.model.task import Task
from interlock.model.text import named
from interlock.processes import ancestry
from interlock.runner import merge_queue, registration, workspace_allocation
from interlock.runner.recovery_scan import LivenessProbe
from interlock.runner.scheduler import Scheduler
from interlock.storage.files import locked_directory


def worktree(workspace: Workspace, caller: Principal, reference: str, *, hear: Callable[[str], None]) -> None:
    """See `client.Team.worktree`."""
    how = look(workspace)
    if not how.on:
        raise WorktreeRefused(
            f"The team {workspace.name} works in one directory. From now on each task can have a worktree of its own "
            f"with `interlock config set --team {workspace.name} isolation worktree`.",
            setting="isolation",
        )
    with workspace.act(caller) as act:
        task = find(act.rows, reference)
        must_hold(act, task)
        if task.state != "in-progress":
            raise illegal(task, "is not being worked on")
    workspace_allocation.integrate(workspace, trees(workspace, how))
    notes = os.path.dirname(workspace.log_path(task.id, task.run))
    os.makedirs(notes, exist_ok=True)
    with locked_directory(notes):  # Two that ask at once get one and the same.
        with workspace.look() as rows:
            task = find(rows, task.id)
        anyio.run(workspace_allocation.place, workspace, task, None, hear)


def diff(workspace: Workspace, reference: str, *, stat: bool, color: bool) -> dict[str, Any]:
    """See `client.Team.diff`."""
    with workspace.look() as rows:
        task = find(rows, reference)
    if task.worktree is None:
        raise InvalidRequest(
            f"{task.id} has no worktree of its own, so what it changed cannot be told apart. Plans with `isolation: "
            "worktree` keep it apart.",
            task_id=task.id,
        )
    text = delivery.changes(trees(workspace, look(workspace)), task.worktree, stat=stat, color=color)
    return {
        "task_id": task.id,
        "branch": task.worktree["branch"],
        "base": task.worktree["base"],
        "merged": task.worktree.get("merged"),
        "diff": text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
    }


def merge(
    workspace: Workspace, caller: Principal, references: list[str], *, everything: bool, into: str | None, dry_run: bool
) -> dict[str, Any]:
    """See `client.Team.merge`."""
    with workspace.look() as rows:
        address = rows.team.address(caller.name)
        chosen = [find(rows, one) for one in references]
        known = [task for task in rows.tasks.worktrees() if task.state == "done"]
    # A person that comes in by a token has no place in the team before their first act.
    person = caller.name == "human" or (caller.person if address is None else address[2] == "person")
    origin = workspace.origin(caller)
    if not person or origin is not None:
        error = Forbidden("Only a person merges work into a branch of theirs, at a terminal outside of a run.")
        if origin is not None:
            workspace.note_refusal(origin, caller, error)
        raise error
    if everything == bool(chosen):
        raise InvalidRequest("Say what to merge: tasks, or --all of the team's work.", field="tasks")
    for task in chosen:
        if task.state != "done" or task.worktree is None:
            why = f"it is {task.state}" if task.worktree is not None else "it was not done in a worktree"
            raise WorktreeRefused(f"{task.id} has nothing to merge: {why}.", task_id=task.id, state=task.state)
    how = look(workspace)
    if not how.on and not known:
        raise WorktreeRefused(
            f"{workspace.name} does not work in worktrees, so there is nothing to merge: what its tasks changed is in "
            f"{how.workdir} already. Plans with `isolation: worktree` keep it apart.",
            workdir=how.workdir,
        )
    found = trees(workspace, how)
    git = found.repository.git
    if everything:
        wanted = [(f"Merge {found.integration}", found.head())]
    else:
        ordered = sorted(chosen, key=lambda one: one.completed_at or "")
        wanted = [(f"Merge {one.id}: {one.subject}", str((one.worktree or {})["head"])) for one in ordered]
    for _, commit in wanted:
        if git.commit_of(commit) is None:
            raise WorktreeRefused(f"The commit {commit[:12]} is gone from the repository.", commit=commit)
    plan = delivery.merge_into(found, wanted, into, dry_run=dry_run)
    brought = [] if plan.after is None else [task for task in known if _brings(git, plan, task)]
    done = not dry_run and plan.after not in (None, plan.before) and not plan.dirty
    if plan.conflicts and not dry_run:
        raise WorktreeRefused(
            f"{plan.into} and the team's work conflict in {named(plan.conflicts)}; nothing was changed. "
            f"Merge by hand: `git merge {found.integration if everything else wanted[-1][1][:12]}`.",
            conflicts=plan.conflicts,
        )
    if plan.dirty and not dry_run:
        raise WorktreeRefused(
            f"Changes of yours that are not committed would be touched: {named(plan.dirty)}. Commit or stash "
            "them first; nothing was changed.",
            dirty=plan.dirty,
        )
    if done:
        _noted(workspace, caller, plan, brought)
    return {
        "into": plan.into, "before": plan.before, "after": plan.after, "merged": done, "commits": plan.commits,
        "tasks": [{"task_id": one.id, "key": one.plan_key, "subject": one.subject} for one in brought],
        "conflicts": plan.conflicts, "dirty": plan.dirty, "stat": plan.stat,
    }  # fmt: skip


def merge_now(workspace: Workspace) -> bool:
    """Merge what waits where no runner is there to do it, and nobody waits for us inside a run; whether anything was
    tried."""
    with workspace.ledger.snapshot() as rows:
        driven = bool(registration.at_work(rows))
    if driven or ancestry.origin(workspace.home) is not None:
        return False
    eyes = LivenessProbe()
    scheduler = Scheduler(workspace, probe=eyes)
    seen: set[str] = set()
    while (one := scheduler.next_merge()) is not None and one.task is not None and one.task.id not in seen:
        seen.add(one.task.id)
        if not anyio.run(merge_queue.take_up, workspace, one.task, eyes.merges, lambda update: None):
            break
    return bool(seen)


def forgetting(workspace: Workspace) -> Callable[[], None]:
    """What makes git forget the worktrees of a team, once their directories are gone. The branches stay: what is on
    them is work."""
    how = look(workspace)
    if not how.on and not os.path.isdir(os.path.join(workspace.directory, DIRECTORY)):
        return lambda: None
    try:
        found = trees(workspace, how)
        paths = found.all()
    except InterlockError:
        return lambda: None  # It never had any, or its repository is gone.
    with workspace.ledger.snapshot() as rows:
        left = [task for task in rows.tasks.worktrees() if task.state != "done"]
    for task in left:  # Their branches stay, and hold all of it then.
        with suppress(InterlockError, OSError):
            workspace_allocation.seal(workspace, task, found)

    def forget() -> None:
        with suppress(InterlockError):
            for path in paths:
                found.remove(path)
            found.end()

    return forget


def _brings(git: Any, plan: delivery.Delivery, task: Task) -> bool:
    known = task.worktree or {}
    head = known.get("head")
    if not known.get("merged") or not head or git.commit_of(head) is None:
        return False
    return git.contains(head, plan.after) and not git.contains(head, plan.before)


def _noted(workspace: Workspace, caller: Principal, plan: delivery.Delivery, brought: list[Task]) -> None:
    with workspace.act(caller) as act:
        for task in brought:
            current = find(act.rows, task.id)
            act.rows.tasks.update(current, worktree={**(current.worktree or {}), "delivered": plan.into})
        act.event("work.merged", into=plan.into, commit=plan.after, tasks=[task.id for task in brought])
