"""Merging one task's branch into the team's integration branch, and proving that the merged tree is good.

    the author's worktree ──committed──> a fresh checkout of the integration branch ──merge──> setup, verify ──> landed

It happens in a checkout of its own, and the integration branch moves only at the end, from exactly the commit that was
merged onto: git compares and sets it in one step, between a transaction that says so beforehand and the one that makes
the task done. No transaction is open while git runs, so the team's other writers never wait for it. A death at any
moment leaves a branch that is green, and a row that says how far we were, from where another process continues. What a
conflict or a red merge leads to is in `tasks.merge`.
"""

from __future__ import annotations

import os
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
from interlock.core.tasks.transition import WORKFLOW
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import (
    AgentError,
    CommitUnknown,
    GitFailed,
    InterlockError,
    LedgerBusy,
    WorktreeRefused,
    is_short,
    passes,
)
from interlock.gitwork import changes
from interlock.gitwork.inventory import take
from interlock.gitwork.isolation import isolation_of, look, trees
from interlock.gitwork.trees import MERGING
from interlock.model.evidence import NOT_STARTED, ended
from interlock.model.json import Json
from interlock.model.names import SYSTEM
from interlock.model.task import Task
from interlock.model.text import named, plain
from interlock.processes.ref import token_of
from interlock.runner import artifacts, check_files, run_processes, verify, workspace_allocation
from interlock.runner.context import RunnerContext, setting
from interlock.runner.run_processes import verifier

TRIES = 5
"""How often a merge starts over because the integration branch was moved meanwhile."""
SHORT_PAUSE = 30.0
"""Seconds before the next merge where this machine is short of what the last one needed."""

here: set[str] = set()
"""The merges that this very process carries out now, as `tasks.merging` names them."""

CHANGED_NAMED = 20
"""How many files of its check are named in the evidence."""

CONFLICT = "It conflicts with what others have done meanwhile, in: {files}."
ALIKE = "Others have made the very same change meanwhile, in: {files}."
RESOLVE = """\
What they have done is merged into your worktree now, and those files hold conflict markers (<<<<<<<, =======, >>>>>>>).
Resolve them so that both sides are kept, take the markers out, and finish as before: what you leave is committed for
you. (If there are no markers: `git merge {onto}`.)"""
TWICE = """\
What they have done is merged into your worktree now. If your change was meant to come on top of theirs, as when both
count something up, make it again; else leave it, and finish as before."""
SHOWS = "What others have done is merged into your worktree now, so that it shows there."
AGAIN = "Its command is run again, on what others have done meanwhile. What it had made before is the commit {head}."

DOUBTFUL = "It is verified only by tests it changed: with the earlier {files}, `{command}` {ended}."

Hear = Callable[[Update], None]


class MergeFailure(Exception):
    """Why a branch was not merged: `conflict`, `red`, `doubtful` or `failed`, and what is `todo` about it, as in
    `tasks.merge.failed`."""

    def __init__(
        self,
        outcome: str,
        reason: str,
        files: list[str] | None = None,
        evidence: dict[str, Any] | None = None,
        todo: str = "",
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = changes.shown(reason)
        self.todo = todo
        self.files = [changes.shown(name) for name in files or ()]
        self.evidence = evidence


async def take_up(workspace: Workspace, task: Task, alive: ledger.Alive, hear: Hear) -> bool:
    """Take the team's merge slot for `task`, and merge it; False where another process has the slot.

    Raises nothing for what git, the setup or the verify do; cancelled, it puts the task back into the queue.
    """
    merge = BranchMerge(workspace, task, verifier(), hear)
    here.add(merge.mark)
    try:
        if not await anyio.to_thread.run_sync(merge.begin, alive):
            return False
        hear(Update("notice", f"merging {(task.worktree or {}).get('branch')}"))
        try:
            await merge.carry_out()
        except BaseException as error:
            with anyio.CancelScope(shield=True), suppress(InterlockError):
                reason = "stopped" if not isinstance(error, Exception) else f"{type(error).__name__}: {error}"
                await anyio.to_thread.run_sync(merge.postpone, reason)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(merge.clean_up)
    finally:
        here.discard(merge.mark)
    return True


class BranchMerge:
    """The merge of one task's branch, carried out as `mark`."""

    def __init__(self, workspace: Workspace, task: Task, mark: str, hear: Hear) -> None:
        self.mark = mark
        self._workspace = workspace
        self._task = task
        self._worktree = task.worktree or {}
        self._parted: str | None = None
        self._hear = hear

    def begin(self, alive: ledger.Alive) -> bool:
        """Take the slot; False where another process has it, or the task waits for no merge any more."""
        if ledger.under_way(self._task):
            # The process that merged it is gone; its git and its verify may not be.
            grace = float(setting(self._workspace, "stop_grace"))
            run_processes.end_programs(ledger.process_of(self._task), grace)
        with self._workspace.act(Principal(SYSTEM)) as act:
            current = find(act.rows, self._task.id)
            return current.merging == self._task.merging and ledger.begin(act, current, self.mark, alive=alive)

    async def carry_out(self) -> None:
        """Merge, prove and land it, or write down why not."""
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    if await self._try():
                        return
                except GitFailed as error:  # A git that was killed, or slow once, says nothing about the work.
                    if attempt == TRIES or is_short(error):
                        raise
                    self._hear(Update("notice", f"merging again: {error.message}"))
            raise MergeFailure("failed", f"{self._found.integration} was moved by others again and again.")
        except (LedgerBusy, CommitUnknown):
            raise  # It waits again.
        except MergeFailure as error:
            await self._not_merged(error)
        except InterlockError as error:
            if passes(error):
                raise  # It waits again.
            await self._not_merged(MergeFailure("failed", error.message))
        except Exception as error:  # boundary: tried again it would fail again, for ever
            if is_short(error):
                raise
            await self._not_merged(
                MergeFailure("failed", f"An error in Interlock itself: {type(error).__name__}: {error}")
            )

    async def _try(self) -> bool:
        """Merge, prove and land it once; False where others have moved the integration branch meanwhile."""
        self._how = await anyio.to_thread.run_sync(look, self._workspace)
        open_trees = partial(trees, self._workspace, self._how, token=token_of(self.mark))
        self._found = await anyio.to_thread.run_sync(open_trees)
        proof, kept = await anyio.to_thread.run_sync(self._proved_before), None
        if proof is None:
            proof, kept = await self._prove()
        return await anyio.to_thread.run_sync(self._land, proof, kept)

    async def _not_merged(self, why: MergeFailure) -> None:
        def write_down() -> None:
            with self._workspace.act(Principal(SYSTEM)) as act:
                current = find(act.rows, self._task.id)
                ledger.failed(
                    act, current, self.mark, why.outcome, why.reason,
                    todo=why.todo, files=why.files, evidence=why.evidence, parted=self._parted,
                )  # fmt: skip

        await anyio.to_thread.run_sync(write_down)
        self._hear(Update("notice", f"not merged: {why.reason.partition(chr(10))[0]}"))

    def postpone(self, reason: str) -> None:
        """Put the task back into the queue."""
        with self._workspace.act(Principal(SYSTEM)) as act:
            ledger.postpone(act, find(act.rows, self._task.id), self.mark, reason)

    def _proved_before(self) -> dict[str, Any] | None:
        """What a process that is gone had proved, if the integration branch still is as it left it."""
        proof = {
            name: (self._task.merging or {}).get(name) for name in ("commit", "onto", "head", "changes", "evidence")
        }
        commit, git = proof["commit"], self._found.repository.git
        if commit is None or git.commit_of(str(commit)) is None:
            return None
        head = self._found.head()
        return proof if head == proof["onto"] or git.contains(str(commit), head) else None

    async def _prove(self) -> tuple[dict[str, Any], artifacts.KeptFiles]:
        """Merge the branch and run its verify on what comes out, also where there is nothing to merge (then `commit` is
        None): {commit, onto, head, changes, evidence}, and what was kept beside it.

        Raises:
            MergeFailure: a conflict, or it is red or doubtful.
        """
        found, task = self._found, self._task

        def merge() -> tuple[str, str, str, str | None]:
            head, onto = self._heads()
            path = found.path(task.id, MERGING)
            directory = found.detached(path, onto)
            parted = found.parted(head, onto)
            self._parted = None if parted in (head, onto) else parted
            if parted == head:  # All of it is there.
                return head, onto, directory, None if head == self._worktree.get("base") else onto
            commit, files = found.merge(path, head, f"Merge {task.id}: {workspace_allocation.message_of(task)}")
            if commit is None:
                reason = CONFLICT.format(files=", ".join(files))
                raise MergeFailure("conflict", reason, files, todo=self._todo(RESOLVE, head, onto))
            alike = [] if self._worktree.get("returned") else found.changed_alike(head, onto, parted)
            if alike:
                reason = ALIKE.format(files=", ".join(alike))
                raise MergeFailure("conflict", reason, alike, todo=self._todo(TWICE, head, onto))
            if task.type == WORKFLOW and self._workspace.finishing is not None:
                self._workspace.finishing(self._workspace, task, directory)
                commit = found.amended(path) or commit
            return head, onto, directory, commit

        head, onto, directory, commit = await anyio.to_thread.run_sync(merge)
        kept = await anyio.to_thread.run_sync(artifacts.keep, self._workspace, found, task, head)
        changed, own = await anyio.to_thread.run_sync(self._changes, onto, commit)
        evidence = await self._verify(directory, kept, head, own, alone=commit is None)
        if evidence is not None and own.own:
            evidence["earlier"], ended, tail = await self._earlier(directory, str(commit), own)
            await anyio.to_thread.run_sync(self._must_be_sure, evidence, ended, tail)
        proof = {"commit": commit, "onto": onto, "head": head, "changes": changed, "evidence": evidence}

        def write_down() -> None:
            with self._workspace.act(Principal(SYSTEM)) as act:
                ledger.proved(act, find(act.rows, task.id), self.mark, **proof)

        await anyio.to_thread.run_sync(write_down)
        return proof, kept

    def _todo(self, agent: str, head: str, onto: str = "") -> str:
        """What to do about a merge that came to nothing; a command cannot be told, and begins again. It does not name
        the integration branch, which is nobody's to work on."""
        return (agent if self._task.command is None else AGAIN).format(head=head, onto=onto[:12])

    def _changes(self, onto: str, commit: str | None) -> tuple[Json | None, check_files.CheckFiles]:
        """What the merged tree changes, as it is kept with the task, and what of that its check reads as its own."""
        if commit is None:
            return None, check_files.CheckFiles()
        git = self._found.repository.git
        made = changes.between(git, onto, commit)
        own = check_files.CheckFiles()
        if self._task.verify is not None:
            own = check_files.of(self._task.verify, made, self._how.check_files, self._found.repository.prefix)
        return changes.listed(git, made, own.paths), own

    def _heads(self) -> tuple[str, str]:
        """The last commit of the task's branch, and of the integration branch."""
        sealed = workspace_allocation.seal(self._workspace, self._task, self._found)
        if sealed is not None and sealed.unmerged:
            files = list(sealed.unmerged)
            raise MergeFailure("conflict", f"These files still hold conflict markers: {', '.join(files)}.", files)
        branch, git = self._worktree["branch"], self._found.repository.git
        head = sealed.head if sealed else git.commit_of(f"refs/heads/{branch}") or str(self._worktree.get("head") or "")
        if not head:
            raise MergeFailure("failed", f"The branch {branch} and its worktree are gone.")
        return head, self._found.head()

    async def _verify(
        self, directory: str, kept: artifacts.KeptFiles, head: str, own: check_files.CheckFiles, *, alone: bool
    ) -> dict[str, Any] | None:
        """Run the task's check on `head` as merged, which changes what is its `own`. `alone`: nothing was committed, so
        what is kept with the run is all of its result, and lies in that tree as well; else it does not: it does not
        come with the branch either."""
        task, found = self._task, self._found
        if task.verify is None:
            return None
        token, path = token_of(self.mark), found.path(task.id, MERGING)
        try:
            await workspace_allocation.prepare(self._workspace, found, self._how, task, directory, token, self._said)
        except AgentError as error:
            reason = f"On the merged tree: {error.message}"
            raise MergeFailure("red", reason, todo=self._todo(SHOWS, head)) from error
        if alone:
            await anyio.to_thread.run_sync(artifacts.lay_out, self._workspace, task, kept, path)
        if own.own:
            self._prepared = await anyio.to_thread.run_sync(take, path)
        self._hear(Update("notice", f"checking the merged tree: {task.verify}"))
        evidence = await self._check(directory, "merge")
        result = evidence.as_dict()
        if ended(result) == NOT_STARTED:
            raise MergeFailure("failed", f"Its check could not start on the merged tree: {evidence.tail}")
        if not evidence.passed:
            lacking = [] if alone else [one.path for one in kept.files]
            raise MergeFailure("red", _red(result, lacking), [], result, self._todo(SHOWS, head))
        counted = len(kept.files) if alone else 0
        return {**result, "merged": True, "files": counted, "changed_check": own.paths[:CHANGED_NAMED]}

    async def _earlier(self, directory: str, commit: str, own: check_files.CheckFiles) -> tuple[bool, str, str]:
        """Run the check once more, with its `own` files as the integration branch has them and without new tests;
        whether it passed, how it ended, and what it printed. What its first run has left there is removed before. A
        submodule is not exchanged, so nothing earlier speaks for work that changes one of its own."""

        def place() -> None:
            git = self._found.repository.git.at(self._found.path(self._task.id, MERGING))
            for left in take(git.directory).files.keys() - self._prepared.files.keys():
                with suppress(OSError):
                    os.unlink(os.path.join(git.directory, left))
            changes.exchange(git, commit, (*own.own, *own.beside))

        await anyio.to_thread.run_sync(place)
        self._hear(Update("notice", f"checking it with the earlier {named(own.paths, 3)}"))
        found = await self._check(directory, "merge-earlier")
        return found.passed and not any(one.submodule for one in own.own), ended(found.as_dict()), found.tail

    def _must_be_sure(self, evidence: dict[str, Any], how: str, tail: str) -> None:
        """Refuse what is verified only by tests that the task changed, where the plan is strict and no person has
        approved these."""
        files = evidence["changed_check"]
        with self._workspace.ledger.snapshot() as rows:
            strict = bool(self._workspace.settings(rows).get("strict"))
            sure = evidence["earlier"] or not strict or ledger.vouched_for(rows, find(rows, self._task.id), files)
        if not sure:
            reason = DOUBTFUL.format(files=named(files, 3), command=self._task.verify, ended=how)
            raise MergeFailure("doubtful", f"{reason}\n\n{tail}", files, evidence)

    async def _check(self, directory: str, kind: str) -> verify.Evidence:
        task, token = self._task, token_of(self.mark)
        return await verify.run_in_checkout(
            self._workspace, self._how, task, str(task.verify), directory=directory, token=token, kind=kind,
            hear=self._said,
        )  # fmt: skip

    def _said(self, line: str) -> None:
        self._hear(Update("text", plain(line)))

    def _land(self, proof: dict[str, Any], kept: artifacts.KeptFiles | None) -> bool:
        """Move the integration branch and make the task done; False where the branch was moved meanwhile, and it is all
        to be done again."""
        workspace, found, task = self._workspace, self._found, self._task
        commit, onto = proof["commit"], str(proof["onto"])
        kept = kept or artifacts.keep(workspace, found, task, str(proof["head"]))
        with workspace.act(Principal(SYSTEM)) as act:
            if not ledger.landing(act, find(act.rows, task.id), self.mark):
                return True
        # No transaction is open here: git may take its time.
        git = found.repository.git
        tree = None if commit is None else git("rev-parse", f"{commit}^{{tree}}").text
        if commit is not None and not git.contains(str(commit), found.head()) and not found.land(str(commit), onto):
            return False
        with workspace.act(Principal(SYSTEM)) as act:
            current = find(act.rows, task.id)
            if ledger.mine(current, self.mark):
                artifacts.write_down(act, current, kept)
                made = {**proof, "tree": tree, "files": [one.path for one in kept.files]}
                ledger.merged(act, current, self.mark, made, branch=found.integration)
        return True

    def clean_up(self) -> None:
        """Remove the checkout of the merge and, of a task that is done, its worktree and branch. What cannot be removed
        now is found by the next start of the team, and by the doctor."""
        with self._workspace.ledger.snapshot() as rows:
            current, how = rows.tasks.get(self._task.id), isolation_of(rows, self._workspace.settings(rows))
        try:
            found = trees(self._workspace, how)
            found.remove(found.path(self._task.id, MERGING))
            if current is not None and current.state == "done" and current.worktree is not None:
                left = artifacts.dispose(self._workspace, found, current)
                if left is not None:
                    self._hear(Update("notice", f"its worktree {current.worktree['path']} stays: {left}"))
                    return
                found.forget(str(current.worktree["branch"]), str(current.worktree["head"]))
        except (GitFailed, WorktreeRefused, OSError) as error:
            self._hear(Update("notice", f"its worktree was not removed: {error}"))


def _red(evidence: dict[str, Any], lacking: list[str]) -> str:
    files = [path for path in lacking if "/.git/" not in path]
    why, first = "git ignores them", ""
    if len(files) < len(lacking):
        why, first = "git ignores them or a directory of theirs has a `.git` of its own", "; remove that `.git` first"
    ignored = (
        f"These files of yours are in no commit, since {why}, so the merged tree does not have them: "
        f"{named(files)}. What belongs to the work, add with `git add --force`{first}.\n\n"
        if lacking
        else ""
    )
    return (
        f"Merged with what others have done meanwhile, `{evidence['command']}` {ended(evidence)}.\n\n{ignored}"
        f"It printed:\n\n{evidence['tail'] or '(no output)'}"
    )


class MergeQueue:
    """The merges of one team, one at a time, beside everything else its runner does."""

    def __init__(self, context: RunnerContext, alive: ledger.Alive) -> None:
        self._context = context
        self._alive = alive
        self._scope: anyio.CancelScope | None = None

    @property
    def busy(self) -> bool:
        """Whether a merge of ours is under way."""
        return self._scope is not None

    def begin(self, group: TaskGroup, task: Task | None) -> None:
        """Begin the merge of `task`, if none is under way."""
        if self._scope is None and task is not None:
            self._scope = anyio.CancelScope()
            group.start_soon(self._merge, task, self._scope)

    def cancel(self) -> None:
        """Put the merge that is under way back into the queue."""
        if self._scope is not None:
            self._scope.cancel()

    async def _merge(self, task: Task, scope: anyio.CancelScope) -> None:
        hear = partial(self._context.publish, task.owner or "", task.id)
        try:
            with scope:
                if not await take_up(self._context.workspace, task, self._alive, hear):
                    await anyio.sleep(0.5)  # Another process was faster; it wakes us when it has finished.
        except Exception as error:  # boundary: one task's merge must not end the others' work; it waits again
            hear(Update("notice", f"it could not be merged: {error}"))
            with scope:
                await anyio.sleep(SHORT_PAUSE if is_short(error) else 5.0)
        finally:
            self._scope = None
            self._context.wake()
