"""Where a run works: in the team's directory, or in a worktree of the task's own.

A task keeps its worktree for all its runs, and for its verify; a reviewer gets a checkout of what is to be merged, so
that nothing it leaves behind is merged with it. `setup` and `copy` are applied to every fresh one, a changed `setup` to
those that are there as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import anyio.to_thread

from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.core.waiting import in_thread
from interlock.errors import AgentError, CannotStart, GitFailed, StaleRun, WorktreeRefused
from interlock.gitwork.delivery import listed_of
from interlock.gitwork.isolation import Isolation, isolation_of, look, trees
from interlock.gitwork.trees import BEFORE, DELIVERING, DIRECTORY, MERGING, REVIEWING, Trees, WorktreeCommit
from interlock.model.evidence import NOT_STARTED, ended
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.processes import ref
from interlock.runner import artifacts
from interlock.runner.permissions import ASK, READ_ONLY
from interlock.runner.verify import Evidence, renew_setup, set_up, setup_digest

SAID_CHARS = 4000
"""How much of what an author says of its work is in the message of a commit."""

Hear = Callable[[str], None]


def begin(workspace: Workspace, how: Isolation) -> None:
    """Have the directory of a team, or where it works in worktrees its integration branch, and nothing of dead ones,
    before anything starts.

    Raises:
        WorktreeRefused, GitFailed: that cannot be; the message says why.
    """
    if how.on:
        found = trees(workspace, how)
        found.begin()
        sweep(workspace, found)
    elif not os.path.isdir(how.workdir):
        raise WorktreeRefused(
            f"The working directory {how.workdir} of {workspace.name} does not exist here: make it, or let the machine "
            "that has it do the work.",
            path=how.workdir,
        )


async def place(workspace: Workspace, how: Isolation, task: Task, token: str | None, hear: Hear) -> str | None:
    """Have the worktree that this run of `task` works in; the directory, or None where the team's own is the place.

    Raises:
        WorktreeRefused, GitFailed: git does not allow it now.
        AgentError: its setup failed.
        StaleRun: the task has been taken away meanwhile.
    """
    known = task.worktree
    if known is None and (not how.on or task.state == "review"):
        return None
    found = await in_thread(partial(trees, workspace, how, token=token))
    if task.state == "review":
        sealed = await in_thread(partial(seal, workspace, task))
        worktree = known or {}
        commit = sealed.head if sealed is not None else str(worktree.get("head") or worktree["branch"])
        directory = await anyio.to_thread.run_sync(found.detached, found.path(task.id, REVIEWING), commit)
        await prepare(workspace, found, how, task, directory, token, hear)
        return directory
    if known is None or not await anyio.to_thread.run_sync(found.have, known):
        made = await in_thread(partial(found.make, task.id, known))
        await prepare(workspace, found, how, task, str(made["directory"]), token, hear)
        await in_thread(partial(artifacts.remember, workspace, task.id, str(made["path"])))
        made = {**(known or {}), **made, "setup": setup_digest(how)}
        known = await in_thread(partial(_write_down, workspace, task, made, True))
    elif (evidence := await renew_setup(workspace, task, token, hear)) is not None:
        _refuse(evidence)
    return await in_thread(partial(_bring_up_to_date, workspace, found, task, known))


async def prepare(
    workspace: Workspace, found: Trees, how: Isolation, task: Task, directory: str, token: str | None, hear: Hear
) -> None:
    """Copy what is to be copied into a fresh worktree, and run its setup.

    Raises:
        AgentError: the setup failed; the message ends in what it printed.
    """
    await anyio.to_thread.run_sync(found.copy, how.workdir, directory, how.copy)
    evidence = await set_up(workspace, how, task, directory, token, hear)
    if evidence is not None and not evidence.passed:
        _refuse(evidence)


def _refuse(setup: Evidence) -> NoReturn:
    end = ended(setup.as_dict())
    said = f"The setup of its worktree, `{setup.command}`, {end}"
    if end == NOT_STARTED:
        raise CannotStart(f"{said}:\n\n{setup.tail}", command=setup.command)
    raise AgentError(f"{said}\n\n{setup.tail}", command=setup.command)


def seal(workspace: Workspace, task: Task, found: Trees | None = None) -> WorktreeCommit | None:
    """Commit what the author of a task that is reported as done has left uncommitted, or take it back where the author
    may only read; None without a worktree."""
    if task.worktree is None:
        return None
    found = found or trees(workspace, look(workspace))
    if not found.have(task.worktree):
        return None
    if task.worktree.get("reads"):
        return WorktreeCommit(artifacts.set_aside(workspace, found, task))
    return found.seal(task.worktree, message_of(task), by_command=task.command is not None)


def put_away(workspace: Workspace, task: Task) -> Task | None:
    """A run of `task` has ended: what its author reported as done is committed, a reviewer's checkout removed, and the
    files that its work has changed so far are written down. Answers the task as it is then.

    Raises:
        WorktreeRefused, GitFailed: it could not be; nothing is lost.
    """
    with workspace.ledger.snapshot() as rows:
        current, how = rows.tasks.get(task.id), isolation_of(rows, workspace.settings(rows))
    if current is None or current.worktree is None:
        return current
    found, sealed = trees(workspace, how), None
    if task.state == "review":
        found.remove(found.path(task.id, REVIEWING))
    elif current.state == "review" or current.worktree.get("reads"):
        sealed = seal(workspace, current, found)
    found.head()  # What the run has done to the integration branch is known now, and whose commits those are.
    if task.state != "review":
        _list_changes(workspace, found, current, sealed)
    return current


def _list_changes(workspace: Workspace, found: Trees, task: Task, sealed: WorktreeCommit | None) -> None:
    """Write down which files a task has changed: until it is merged, nothing else tells."""
    known = task.worktree or {}
    try:
        made = listed_of(found, known, sealed.head if sealed is not None and not sealed.unmerged else None)
    except (GitFailed, WorktreeRefused, OSError):  # It is not known then.
        return
    if made == known.get("changes"):
        return
    with workspace.act(Principal(SYSTEM)) as act:
        current = act.rows.tasks.get(task.id)
        if current is None or current.run != task.run or current.state == "done" or current.worktree is None:
            return  # The merge says it, or whoever works on it now.
        act.rows.tasks.update(current, worktree={**current.worktree, "changes": made})
        act.topics.add("tasks")


def message_of(task: Task) -> str:
    """The message of our commits: what was to be done, what the author says of it, and which task it was."""
    said = (task.output or "").strip()[:SAID_CHARS].strip()
    body = f"\n\n{said}" if said else ""
    return f"{task.subject}{body}\n\nInterlock-Task: {task.id}\n"


def sweep(workspace: Workspace, found: Trees) -> list[str]:
    """Remove the worktrees and branches of tasks that are done, once what they hold is somewhere else, and the
    worktrees of merges and reviews that are no longer carried out; what was removed."""
    removed = []
    for path in leftovers(workspace):
        with suppress(GitFailed, OSError):  # It is found again, by the next start and by the doctor.
            if remove(workspace, found, path) is None:
                removed.append(path)
    with workspace.ledger.snapshot() as rows:
        over = [task.worktree or {} for task in rows.tasks.worktrees() if _is_over(task)]
    there = found.branches() if over else set()
    for known in over:
        if known["branch"] in there and known.get("head"):
            found.forget(str(known["branch"]), str(known["head"]))
    return removed


def remove(workspace: Workspace, found: Trees, path: str) -> str | None:
    """Remove one of `leftovers`; where it stays, the reason.

    Raises:
        GitFailed, OSError: that was not possible.
    """
    with workspace.ledger.snapshot() as rows:
        task = rows.tasks.get(os.path.basename(path))
    if task is not None and task.worktree is not None:
        return artifacts.dispose(workspace, found, task)
    found.remove(path)
    return None


def leftovers(workspace: Workspace) -> list[str]:
    """Directories of worktrees that are of no use any more: of tasks that are done, gone, or were never ready."""
    root = os.path.join(workspace.directory, DIRECTORY)
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    left = []
    with workspace.ledger.snapshot() as rows:
        busy = {run.task_id for run in rows.runs.open()}
        for name in names:
            pid = name.removeprefix(DELIVERING)
            if name.startswith(DELIVERING) and pid.isdecimal() and ref.identify(int(pid)) is not None:
                continue
            task_id = name.split("-", 1)[1] if name.startswith((MERGING, REVIEWING, BEFORE)) else name
            task = rows.tasks.get(task_id)
            at_work = task_id in busy or (task is not None and task.under_way)
            if task is None or (not at_work and (name != task_id or _is_over(task) or task.worktree is None)):
                left.append(os.path.join(root, name))
    return left


def _bring_up_to_date(workspace: Workspace, found: Trees, task: Task, known: dict[str, Any]) -> str:
    """Give a worktree what was merged meanwhile, where its task has begun nothing or came back from its merge, and note
    from where on its changes are nobody's, where this member may only read; its directory."""
    if known.get("reads"):  # Its last run was one of these, and its driver is gone.
        artifacts.set_aside(workspace, found, task)
    changes: dict[str, Any] = {}
    if known.get("update"):
        message = f"Work on {task.subject}\n\nInterlock-Task: {task.id}\n"
        sealed = found.seal(known, message, by_command=task.command is not None)
        if task.command is not None and not sealed.unmerged:  # A command resolves no conflict: it begins again.
            changes |= found.follow(known)
        else:
            found.update(known)
        changes["update"] = False
    elif found.untouched(known) and found.head() != known["base"]:
        changes |= found.follow(known)
    if changes:
        known = _write_down(workspace, task, {**known, **changes})
    with workspace.ledger.snapshot() as rows:
        member = rows.team.member(str(task.owner))
        own = member.permissions if member is not None and member.role == "member" else ASK
        reads_only = (own or workspace.settings(rows).get("permissions")) == READ_ONLY
    reads = {"commit": found.seal(known, message_of(task)).head, "run": task.run} if reads_only else None
    if known.get("reads") != reads:
        known = _write_down(workspace, task, {**known, "reads": reads})
    return str(known["directory"])


def _write_down(workspace: Workspace, task: Task, known: dict[str, Any], made: bool = False) -> dict[str, Any]:
    with workspace.act(Principal(SYSTEM)) as act:
        current = find(act.rows, task.id)
        if current.run != task.run:
            raise StaleRun(f"{task.id} has been taken up in a newer run meanwhile.", task_id=task.id)
        act.rows.tasks.update(current, worktree=known, **({"updated_at": act.at} if made else {}))
        if made:
            act.event("worktree.made", task.id, path=known["path"], branch=known["branch"], base=known["base"])
        act.topics.add("tasks")
    task.worktree = known
    return known


def _is_over(task: Task) -> bool:
    """Whether it is done, and its worktree was not to stay."""
    return task.state == "done" and not (task.worktree or {}).get("stays")
