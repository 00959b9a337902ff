"""Separate working copies: a worktree for a task that was claimed by hand, the diff of a task, merging into a branch of
the user's."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Sequence

from interlock import app, core, mirror, model
from interlock.app.base import TeamBase, whole_number
from interlock.core.tasks.find import find
from interlock.errors import Forbidden, InvalidRequest, WorktreeRefused
from interlock.model.names import HUMAN
from interlock.model.task import Task
from interlock.model.text import named
from interlock.storage.files import locked_directory

DIFF_BYTES = 8 * 1024**2
"""Most bytes of a diff in one answer."""
MOST_OF_A_CHARACTER = 4
"""Bytes of UTF-8."""


class WorktreeVerbs(TeamBase):
    """What people and joined programs do with the worktrees of a team's tasks."""

    def worktree(
        self, task: str, *, on_update: Callable[[app.running.Update], None] = lambda update: None, by: str | None = None
    ) -> Task:
        """Give a task that the caller works on a git worktree of its own; `worktree["directory"]` is where to work.

        In a team with `isolation: worktree`. A task that has one keeps it, and it is brought up to date where the task
        came back from its merge.

        Args:
            on_update: hears what takes long, and what it prints.

        Raises:
            Forbidden, StaleRun, TaskAlreadyClaimed, InvalidTransition: the caller does not work on it.
            WorktreeRefused, GitFailed: git does not allow it, or the team does not work in worktrees.
            AgentError: its setup failed.
        """
        workspace, git = self._workspace, app.running
        how = git.look(workspace)
        if not how.on:
            raise WorktreeRefused(
                f"The team {workspace.name} works in one directory. To give each task a worktree of its own: "
                f"`interlock config set --team {workspace.name} isolation worktree`.",
                setting="isolation",
            )
        with self._act(by) as act:
            found = find(act.rows, task)
            core.tasks.claim.must_hold(act, found)
            if found.state != "in-progress":
                raise core.tasks.transition.illegal(found, "is not being worked on")
        git.trees(workspace, how).begin()
        notes = os.path.dirname(workspace.log_path(found.id, found.run))
        os.makedirs(notes, exist_ok=True)
        with locked_directory(notes):  # Two that ask at once get one and the same.
            with workspace.look() as rows:
                found = find(rows, found.id)
            git.run_async(git.place, workspace, how, found, None, lambda line: on_update(git.Update("notice", line)))
        with workspace.look() as rows:
            return mirror.task_view.show(rows, find(rows, task))

    def diff(
        self, task: str, *, stat: bool = False, binary: bool = False, start: int = 0, most: int | None = None
    ) -> model.views.TaskDiff:
        """What a task with a worktree of its own has changed; with `stat` only the files.

        Args:
            binary: whole binary files, so that `git apply` takes them; else they are only named.
            start: the byte to begin with; `next` of what was answered before.
            most: how many bytes at most, of whole lines where one fits; 8 MiB, and never more.

        Raises:
            WorktreeRefused: it has no worktree, or git does not answer.
            GitFailed: git failed.
            InvalidRequest: `start` or `most` is no such number.
        """
        whole_number(start, "start")
        whole_number(most, "most")
        with self._workspace.look() as rows:
            found = find(rows, task)
        if found.worktree is None and not found.run:
            raise WorktreeRefused(f"{found.id} has not begun, so it has changed nothing yet.", task_id=found.id)
        if found.worktree is None:
            raise WorktreeRefused(
                f"{found.id} has no worktree of its own, so what it changed cannot be told apart. Plans with "
                "`isolation: worktree` keep it apart.",
                task_id=found.id,
            )
        git = app.running
        trees = git.trees(self._workspace, git.look(self._workspace))
        known, bound = found.worktree, min(most or DIFF_BYTES, DIFF_BYTES)
        data, size = git.changes(trees, known, stat=stat, binary=binary, start=start, most=bound)
        cut = start + len(data) < size
        data = data[: data.rfind(b"\n") + 1] or data if cut else data
        text, used = codecs.utf_8_decode(data, "replace", not cut or len(data) < MOST_OF_A_CHARACTER)
        raw = data[:used] if text.encode() != data[:used] else None
        following = start + used if cut else None
        return model.views.TaskDiff(
            found.id, known["branch"], known["base"], known.get("merged"), text, raw, size, following
        )

    def merge(
        self,
        tasks: Sequence[str] = (),
        *,
        everything: bool = False,
        into: str | None = None,
        dry_run: bool = False,
        by: str | None = None,
    ) -> model.views.MergeResult:
        """Merge the work of these tasks, or all that is on the integration branch, into the branch that is checked out
        in the team's directory, or into another one of the user's; with `dry_run` only say what would be done, and
        what is in the way.

        Raises:
            Forbidden: the caller is no person, or runs inside a run.
            WorktreeRefused: conflicts, changes of the user's in the way, or nothing there; nothing was changed.
        """
        workspace, git = self._workspace, app.running
        with workspace.look() as rows:
            chosen = [find(rows, one) for one in tasks]
            known = [task for task in rows.tasks.worktrees() if task.state == "done"]
        self._need_person_to_merge(by)
        if everything == bool(chosen):
            raise InvalidRequest("Say what to merge: tasks, or --all of the team's work.", field="tasks")
        how = git.look(workspace)
        if not how.on and not known:
            raise WorktreeRefused(
                f"{workspace.name} does not work in worktrees, so there is nothing to merge: what its tasks changed is "
                f"in {how.workdir} already. Plans with `isolation: worktree` keep it apart.",
                workdir=how.workdir,
            )
        trees = git.trees(workspace, how)
        moved = trees.is_moved()
        if everything:
            wanted = [(f"Merge {trees.integration}", trees.head())]
        else:
            wanted = [_work_of(trees, one) for one in sorted(chosen, key=lambda one: one.completed_at or "")]
        plan = git.merge_into(trees, wanted, into, dry_run=dry_run)
        if moved:
            plan.warnings.append(
                f"{trees.integration} was moved by somebody else than Interlock (branch_moved): {moved}. "
                + (
                    "It is put back; commits that came with that move are kept, and wait for your decision: `interlock "
                    "status`."
                    if everything
                    else "The next run, `interlock merge --all` or `interlock doctor --repair` puts it back."
                )
            )
        if not dry_run:
            _refuse_in_the_way(plan, f"git merge {trees.integration if everything else wanted[-1][1][:12]}")
        brought = [] if plan.after is None else [task for task in known if _brings(trees, plan, task)]
        done = not dry_run and plan.after not in (None, plan.before) and not plan.dirty
        if done:
            with self._act(by) as act:
                for one in brought:
                    task = find(act.rows, one.id)
                    act.rows.tasks.update(task, worktree={**(task.worktree or {}), "delivered": plan.into})
                act.event("work.merged", into=plan.into, commit=plan.after, tasks=[one.id for one in brought])
        plan.merged, plan.tasks = done, [model.views.MergedTask(one.id, one.plan_key, one.subject) for one in brought]
        return plan

    def _need_person_to_merge(self, by: str | None) -> None:
        caller = self._as(by)
        with self._workspace.ledger.snapshot() as rows:
            address = rows.team.address(caller.name)
        # A person that comes in by a token has no place in the team before their first act.
        person = caller.name == HUMAN or (caller.person if address is None else address[2] == "person")
        origin = self._workspace.origin(caller)
        if not person or origin is not None:
            error = Forbidden("Only a person merges work into a branch of theirs, at a terminal outside of a run.")
            if origin is not None:
                self._workspace.note_refusal(origin, caller, error)
            raise error


def _work_of(trees: app.running.Trees, task: Task) -> tuple[str, str]:
    """What the merge of a task is called, and the commit that has its work.

    Raises:
        WorktreeRefused: it has none.
    """
    if task.state != "done" or task.worktree is None:
        why = f"it is {task.state}" if task.worktree is not None else "it was not done in a worktree"
        raise WorktreeRefused(f"{task.id} has nothing to merge: {why}.", task_id=task.id, state=task.state)
    commit = str(task.worktree["head"])
    if trees.repository.git.commit_of(commit) is None:
        raise WorktreeRefused(f"The commit {commit[:12]} is gone from the repository.", commit=commit)
    return f"Merge {task.id}: {task.subject}", commit


def _refuse_in_the_way(plan: model.views.MergeResult, by_hand: str) -> None:
    told = "".join(f" {one}" for one in plan.warnings)
    if plan.conflicts:
        raise WorktreeRefused(
            f"{plan.into} and the team's work conflict in {named(plan.conflicts)}; nothing was changed. "
            f"Merge by hand: `{by_hand}`.{told}",
            conflicts=plan.conflicts,
            warnings=plan.warnings,
        )
    if plan.dirty:
        raise WorktreeRefused(
            f"Changes of yours that are not committed would be touched: {named(plan.dirty)}. Commit or stash "
            f"them first; nothing was changed.{told}",
            dirty=plan.dirty,
            warnings=plan.warnings,
        )


def _brings(trees: app.running.Trees, plan: model.views.MergeResult, task: Task) -> bool:
    """Whether this merge brought the work of `task` into the branch."""
    git, known = trees.repository.git, task.worktree or {}
    head = known.get("head")
    if not known.get("merged") or not head or plan.after is None or git.commit_of(head) is None:
        return False
    return git.contains(head, plan.after) and not git.contains(head, plan.before)
