"""Merging one task's branch into the team's integration branch, and proving that the merged tree is good.

    the author's worktree ──committed──> a fresh checkout of the integration branch ──merge──> setup, verify ──> landed

It happens in a checkout of its own, and the integration branch moves only at the end, from exactly the commit that was
merged onto: git compares and sets it in one step, between a transaction that says so beforehand and the one that makes
the task done. So a death at any moment leaves a branch that is green, and a row that says how far we were; whoever
takes the merge over goes on from there. What a conflict or a red merge leads to stands in `tasks.merge`.

The merges of one team, as a crew sees to them: one at a time, beside everything else it does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Update
from interlock.core.tasks import merge as ledger
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import AgentError, GitFailed, InterlockError, LedgerBusy, WorktreeRefused
from interlock.gitwork.isolation import Isolation, look, trees
from interlock.gitwork.trees import MERGING, Trees
from interlock.model.evidence import NOT_STARTED, ended
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.text import named
from interlock.processes.output import plain
from interlock.processes.ref import token_of
from interlock.runner import artifacts, run_processes, verify, workspace_allocation
from interlock.runner.run_processes import verifier

TRIES = 5
"""How often a merge is begun again because somebody else moved the integration branch meanwhile."""

here: set[str] = set()
"""The merges that this very process carries out now, as `tasks.merging` names them."""

Hear = Callable[[Update], None]


class MergeFailure(Exception):
    """Why a branch was not merged: `conflict`, `red` or `failed`, as in `tasks.merge.failed`."""

    def __init__(
        self, outcome: str, reason: str, files: list[str] | None = None, evidence: dict[str, Any] | None = None
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.files = files or []
        self.evidence = evidence


async def take_up(workspace: Workspace, task: Task, alive: ledger.Alive, hear: Hear) -> bool:
    """Take the team's merge slot for `task`, and merge it; false where somebody else has the slot.

    Raises nothing for what git, the setup or the verify do; cancelled, it puts the task back into the queue.
    """
    mark = verifier()
    here.add(mark)
    try:
        if not await anyio.to_thread.run_sync(_begin, workspace, task, mark, alive):
            return False
        hear(Update("notice", f"merging {(task.worktree or {}).get('branch')}"))
        try:
            await _carry_out(workspace, task, mark, hear)
        except BaseException as error:
            with anyio.CancelScope(shield=True), suppress(InterlockError):
                reason = "was stopped" if not isinstance(error, Exception) else f"{type(error).__name__}: {error}"
                await anyio.to_thread.run_sync(_postpone, workspace, task, mark, reason)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_clean_up, workspace, task, mark, hear)
    finally:
        here.discard(mark)
    return True


def _begin(workspace: Workspace, task: Task, mark: str, alive: ledger.Alive) -> bool:
    with workspace.ledger.snapshot() as rows:
        grace = float(workspace.settings(rows).get("stop_grace"))
    if ledger.under_way(task):
        run_processes.end_programs(
            ledger.process_of(task), grace
        )  # Whoever merged it is gone; its git and its verify may not be.
    with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
        current = find(act.rows, task.id)
        return current.merging == task.merging and ledger.begin(act, current, mark, alive=alive)


async def _carry_out(workspace: Workspace, task: Task, mark: str, hear: Hear) -> None:
    how = await anyio.to_thread.run_sync(look, workspace)
    try:
        found = await anyio.to_thread.run_sync(partial(trees, workspace, how, token=token_of(mark)))
        proof = await anyio.to_thread.run_sync(_proved_before, found, task)
        for _ in range(TRIES):
            kept = None
            if proof is None:
                proof, kept = await _prove(workspace, found, how, task, mark, hear)
            if await anyio.to_thread.run_sync(_land, workspace, found, task, mark, proof, kept):
                return
            proof = None
        raise MergeFailure("failed", f"{found.integration} was moved by somebody else again and again.")
    except LedgerBusy:
        raise  # It waits again.
    except MergeFailure as error:
        await _not_merged(workspace, task, mark, error, hear)
    except InterlockError as error:
        await _not_merged(workspace, task, mark, MergeFailure("failed", error.message), hear)
    except Exception as error:  # boundary: tried again it would fail again, for ever
        why = MergeFailure("failed", f"An error in Interlock itself: {type(error).__name__}: {error}")
        await _not_merged(workspace, task, mark, why, hear)


async def _not_merged(workspace: Workspace, task: Task, mark: str, why: MergeFailure, hear: Hear) -> None:
    await anyio.to_thread.run_sync(_failed, workspace, task, mark, why)
    hear(Update("notice", f"not merged: {why.reason.partition(chr(10))[0]}"))


def _proved_before(found: Trees, task: Task) -> dict[str, Any] | None:
    """What a process proved that was gone before it could finish, if the integration branch still is as it left it."""
    proof = {name: (task.merging or {}).get(name) for name in ("commit", "onto", "head", "evidence")}
    commit, git = proof["commit"], found.repository.git
    if commit is None or git.commit_of(str(commit)) is None:
        return None
    head = found.head()
    return proof if head == proof["onto"] or git.contains(str(commit), head) else None


async def _prove(
    workspace: Workspace, found: Trees, how: Isolation, task: Task, mark: str, hear: Hear
) -> tuple[dict[str, Any], artifacts.KeptFiles]:
    """Merge the branch and run its verify on what comes out, also where there is nothing to merge (then `commit` is
    null): {commit, onto, head, evidence}, and what was kept beside it.

    Raises:
        Failure: a conflict, or it is red.
    """
    head, onto = await anyio.to_thread.run_sync(_heads, workspace, found, task)

    def merge() -> tuple[str, str | None]:
        path = found.path(task.id, MERGING)
        directory = found.detached(path, onto)
        if found.repository.git.contains(head, onto):
            return directory, None if head == (task.worktree or {}).get("base") else onto
        commit, files = found.merge(path, head, f"Merge {task.id}: {workspace_allocation.message_of(task)}")
        if commit is None:
            raise MergeFailure("conflict", _conflict(found, files), files)
        alike = [] if (task.worktree or {}).get("returned") else found.changed_alike(head, onto)
        if alike:
            raise MergeFailure("conflict", _alike(found, alike), alike)
        return directory, commit

    directory, commit = await anyio.to_thread.run_sync(merge)
    kept = await anyio.to_thread.run_sync(artifacts.keep, workspace, found, task, head)
    evidence = await _verify(workspace, found, how, task, mark, directory, hear, kept, alone=commit is None)
    proof = {"commit": commit, "onto": onto, "head": head, "evidence": evidence}

    def write_down() -> None:
        with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
            ledger.proved(act, find(act.rows, task.id), mark, **proof)

    await anyio.to_thread.run_sync(write_down)
    return proof, kept


async def _verify(
    workspace: Workspace, found: Trees, how: Isolation, task: Task, mark: str, directory: str, hear: Hear,
    kept: artifacts.KeptFiles, *, alone: bool,
) -> dict[str, Any] | None:  # fmt: skip
    """Run the task's check on the merged tree. `alone`: nothing was committed, so what is kept with the run is all of
    its result, and lies in that tree as well; else it does not, since whoever gets the branch does not get it."""
    if task.verify is None:
        return None

    def said(line: str) -> None:
        hear(Update("text", plain(line)))

    token = token_of(mark)
    try:
        await workspace_allocation.prepare(workspace, found, how, task, directory, token, said)
    except AgentError as error:
        raise MergeFailure("red", f"On the merged tree: {error.message}") from error
    if alone:
        await anyio.to_thread.run_sync(artifacts.lay_out, workspace, task, kept, found.path(task.id, MERGING))
    hear(Update("notice", f"checking the merged tree: {task.verify}"))
    evidence = await verify.run_in_checkout(workspace, how, task, task.verify, directory, token, "merge", said)
    if ended(evidence.as_dict()) == NOT_STARTED:
        raise MergeFailure("failed", f"Its check could not start on the merged tree: {evidence.tail}")
    if not evidence.passed:
        lacking = () if alone else kept.files
        raise MergeFailure(
            "red", _red(found, evidence.as_dict(), [one.path for one in lacking]), [], evidence.as_dict()
        )
    return {**evidence.as_dict(), "merged": True, "files": len(kept.files) if alone else 0}


def _heads(workspace: Workspace, found: Trees, task: Task) -> tuple[str, str]:
    """The last commit of the task's branch, and of the integration branch."""
    known = task.worktree or {}
    sealed = workspace_allocation.seal(workspace, task, found)
    if sealed is not None and sealed.unmerged:
        files = list(sealed.unmerged)
        raise MergeFailure("conflict", f"These files still hold conflict markers: {', '.join(files)}.", files)
    git = found.repository.git
    head = sealed.head if sealed else git.commit_of(f"refs/heads/{known['branch']}") or str(known.get("head") or "")
    if not head:
        raise MergeFailure("failed", f"The branch {known['branch']} and its worktree are gone.")
    return head, found.head()


def _land(
    workspace: Workspace, found: Trees, task: Task, mark: str, proof: dict[str, Any], kept: artifacts.KeptFiles | None
) -> bool:
    """Move the integration branch and make the task done; false where the branch was moved meanwhile, and it is all to
    be done again."""
    commit, onto = proof["commit"], str(proof["onto"])
    kept = kept or artifacts.keep(workspace, found, task, str(proof["head"]))
    with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
        if not ledger.landing(act, find(act.rows, task.id), mark):
            return True
    git = found.repository.git
    tree = None if commit is None else git("rev-parse", f"{commit}^{{tree}}").text
    if commit is not None and not git.contains(str(commit), found.head()) and not found.land(str(commit), onto):
        return False
    with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
        current = find(act.rows, task.id)
        if ledger.mine(current, mark):
            artifacts.write_down(act, current, kept)
            made = {**proof, "tree": tree, "files": [one.path for one in kept.files]}
            ledger.merged(act, current, mark, made, branch=found.integration)
    return True


def _failed(workspace: Workspace, task: Task, mark: str, why: MergeFailure) -> None:
    with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
        current = find(act.rows, task.id)
        ledger.failed(act, current, mark, why.outcome, why.reason, files=why.files, evidence=why.evidence)


def _postpone(workspace: Workspace, task: Task, mark: str, reason: str) -> None:
    with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
        ledger.postpone(act, find(act.rows, task.id), mark, reason)


def _clean_up(workspace: Workspace, task: Task, mark: str, hear: Hear) -> None:
    """Remove the checkout of the merge and, of a task that is done, its worktree and branch. What cannot be removed now
    is found by the next start of the team, and by the doctor."""
    with workspace.ledger.snapshot() as rows:
        current = rows.tasks.get(task.id)
    try:
        found = trees(workspace, look(workspace))
        found.remove(found.path(task.id, MERGING))
        if current is not None and current.state == "done" and current.worktree is not None:
            left = artifacts.dispose(workspace, found, current)
            if left is not None:
                hear(Update("notice", f"its worktree {current.worktree['path']} stays: {left}"))
                return
            found.forget(str(current.worktree["branch"]), str(current.worktree["head"]))
    except (GitFailed, WorktreeRefused, OSError) as error:
        hear(Update("notice", f"its worktree was not removed: {error}"))


def _conflict(found: Trees, files: list[str]) -> str:
    return (
        f"It conflicts with what others have done meanwhile, in: {', '.join(files)}.\n\n"
        f"{found.integration} is merged into your worktree now, and those files hold conflict markers (<<<<<<<, "
        "=======, >>>>>>>). Mend them so that both sides are kept, take the markers out, and finish as before: what "
        f"you leave is committed for you. (If there are no markers: `git merge {found.integration}`.)"
    )


def _alike(found: Trees, files: list[str]) -> str:
    return (
        f"Others have made the very same change meanwhile, in: {', '.join(files)}.\n\n"
        f"{found.integration} is merged into your worktree now. If your change was meant to come on top of theirs, as "
        "when both count something up, make it again; else leave it, and finish as before."
    )


def _red(found: Trees, evidence: dict[str, Any], lacking: list[str]) -> str:
    ignored = (
        f"These files of yours are in no commit, since git ignores them, so the merged tree does not have them: "
        f"{named(lacking)}. What belongs to the work, add with `git add --force`.\n\n"
        if lacking
        else ""
    )
    return (
        f"Merged with what others have done meanwhile, `{evidence['command']}` {ended(evidence)}.\n\n{ignored}"
        f"{found.integration} is merged into your worktree now, so that it shows there. It printed:\n\n"
        f"{evidence['tail'] or '(no output)'}"
    )


class MergeQueue:
    """Takes up the next merge when none is under way. `rouse` is called when one has ended."""

    def __init__(
        self,
        workspace: Workspace,
        next_task: Callable[[], Task | None],
        alive: ledger.Alive,
        hear: Callable[[str, str, Update], None],
        rouse: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._next_task = next_task
        self._alive = alive
        self._hear = hear
        self._rouse = rouse
        self._scope: anyio.CancelScope | None = None

    @property
    def busy(self) -> bool:
        """Whether a merge of ours is under way."""
        return self._scope is not None

    async def take_up(self, group: TaskGroup) -> None:
        """Begin the next merge, if there is one and none is under way."""
        if self._scope is not None:
            return
        task = await anyio.to_thread.run_sync(self._next_task)
        if task is not None:
            self._scope = anyio.CancelScope()
            group.start_soon(self._merge, task, self._scope)

    def cancel(self) -> None:
        """Put the merge that is under way back into the queue."""
        if self._scope is not None:
            self._scope.cancel()

    async def _merge(self, task: Task, scope: anyio.CancelScope) -> None:
        hear = partial(self._hear, task.owner or "", task.id)
        try:
            with scope:
                if not await take_up(self._workspace, task, self._alive, hear):
                    await anyio.sleep(0.5)  # Somebody else was faster; they wake us when they have finished.
        except Exception as error:  # boundary: one task's merge must not end the others' work; it waits again
            hear(Update("notice", f"its merge could not be carried out: {error}"))
            with scope:
                await anyio.sleep(5.0)
        finally:
            self._scope = None
            self._rouse()
