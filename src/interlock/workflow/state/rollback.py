"""Going back to a checkpoint, state and files, and taking that back (BMAD-3.7, FR61, decision 35).

What is about to be replaced is copied first (`archive`); then the state is written, with the rollback noted as pending;
then the files are put in place; then it is noted as done. Whatever kills it in between, `finish` does the rest, and it
may be called at any time. When the files cannot be put in place, everything is taken back and the state is as before.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from interlock.clock import iso
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InvalidRequest, StorageError
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.workflow.errors import RollbackRefused
from interlock.workflow.state import files
from interlock.workflow.state.archive import Archive, Journal, credited, journal_of, kept_first
from interlock.workflow.state.checkpoints import number_of, restored
from interlock.workflow.state.document import (
    RUNNING,
    WAITING_USER,
    CheckpointRow,
    RollbackNote,
    WorkflowState,
)
from interlock.workflow.state.rollback_plan import CHANGED, EVERYTHING, preview
from interlock.workflow.state.rolled_back_task import settle
from interlock.workflow.state.snapshots import sha_of
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

MEANWHILE = "changed by somebody meanwhile"


PENDING, DONE = "pending", "done"


@dataclass
class Outcome:
    """What was done. `left` are files that stay as they are, with the reason; `archive` is the directory, from the
    project's root, that holds what was replaced."""

    state: WorkflowState
    kind: str
    step: Any
    restored: list[str]
    removed: list[str]
    left: list[Json]
    archive: str
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> Json:
        """The shape every face shows."""
        names = ("kind", "step", "restored", "removed", "left", "archive", "warnings")
        return {"workflow_id": self.state.workflow_id, **fields_of(self, names)}


class Rollback:
    """Rollbacks of the runs of one team."""

    def __init__(self, workspace: Workspace, caller: Principal, store: WorkflowStateManager) -> None:
        self._workspace = workspace
        self._caller = caller
        self._store = store

    def to(self, state: WorkflowState, checkpoint: CheckpointRow, *, include: Collection[str] = ()) -> Outcome:
        """Roll back. `include`: files that were asked about and agreed to, `*` for all; the others stay.

        Raises:
            RollbackRefused: it cannot be done, or could not and was taken back; nothing has changed.
            StateConflict: somebody else has written the state; nothing has changed.
        """
        self.finish(state)
        planned = preview(state, checkpoint, include=include)
        at = iso(self._workspace.clock.now())
        journal = journal_of(state, checkpoint, planned, "rollback", at)
        left = [{"path": one.path, "why": one.why, "possible": one.possible} for one in planned.asked]
        return self._do(state, restored(state, checkpoint), journal, left)

    def undo(self, state: WorkflowState, *, include: Collection[str] = ()) -> Outcome:
        """Take the last rollback back: state and files as they were before it.

        Raises:
            RollbackRefused: there is none, its archive is damaged, or the run has gone on since and `include` does not
                agree to lose that.
            StateConflict: somebody else has written the state; nothing has changed.
        """
        self.finish(state)
        last = next((one for one in reversed(state.rollbacks) if not one.get("undone")), None)
        if last is None or last["kind"] != "rollback":
            raise RollbackRefused(f"{state.workflow_id} has no rollback that could be undone.", alternatives=[])
        since = [one for one in state.checkpoints if number_of(one["id"]) > number_of(last["checkpoint"])]
        if since and EVERYTHING not in include:
            raise RollbackRefused(
                f"{state.workflow_id} has gone on since its rollback to step {last['step']}; undoing that would lose "
                "the steps since then. Roll back to a step of now, or agree with `*`.",
                alternatives=[],
            )
        archive = Archive(state, last["archive"])
        try:
            done = archive.read()
            journal = archive.reverse(done, iso(self._workspace.clock.now()))
            archive.check(journal)
            before = WorkflowState.from_dict(done.document)
        except (ValueError, TypeError, KeyError) as error:
            raise RollbackRefused(f"The rollback cannot be undone: {error}. Nothing was changed.") from error
        journal.document = state.as_dict()
        left: list[Json] = []
        for item in list(journal.items):
            now = sha_of(state.plan.project, item.path)
            if now == item.have:
                continue
            if EVERYTHING in include or item.path in include:
                item.have = now
            else:
                journal.items.remove(item)
                left.append({"path": item.path, "why": CHANGED, "possible": True})
        before.version, before.created_at = state.version, state.created_at
        if before.state == WAITING_USER:
            before.state, before.waiting = RUNNING, None  # What it asked was withdrawn; it asks again.
        before.rollbacks = [{**one, "undone": one is last or bool(one.get("undone"))} for one in state.rollbacks]
        return self._do(state, before, journal, left)

    def finish(self, state: WorkflowState) -> list[str]:
        """Finish what a crash left of the last rollback; answers the files that somebody has changed meanwhile."""
        last = state.rollbacks[-1] if state.rollbacks else None
        if last is None or last["files"] != PENDING:
            return []
        archive = Archive(state, last["archive"])
        try:
            journal = archive.read()
            left = archive.carry_out(journal)
        except (ValueError, StorageError, OSError, InvalidRequest) as error:
            raise RollbackRefused(
                f"The last rollback of {state.workflow_id} was interrupted and cannot be finished: {error}. Its copies "
                f"are in {archive.path}.",
                reason=str(error),
            ) from error
        state.rollbacks = [*state.rollbacks[:-1], {**last, "files": DONE}]
        credited(state, journal)
        self._save(state, None)
        return left

    def _do(
        self,
        state: WorkflowState,
        after: WorkflowState,
        journal: Journal,
        left: list[Json],
    ) -> Outcome:
        archive = kept_first(state, journal)
        noted: RollbackNote = {
            "at": journal.at, "archive": archive.name, "step": journal.step, "kind": journal.kind,
            "checkpoint": journal.checkpoint, "files": PENDING, "undone": journal.kind == "undo",
        }  # fmt: skip
        after.rollbacks = [*after.rollbacks, noted]
        after.version = state.version
        paths = [item.path for item in journal.items]
        try:
            said = {"step": journal.step, "checkpoint": journal.checkpoint, "files": paths[:200]}
            self._save(after, said, noted, state)
        except BaseException:
            shutil.rmtree(archive.path, ignore_errors=True)
            raise
        try:
            late = archive.carry_out(journal)
        except (ValueError, StorageError, OSError, InvalidRequest) as error:
            raise self._taken_back(archive, journal, after, error) from error
        after.rollbacks = [*after.rollbacks[:-1], {**noted, "files": DONE}]
        credited(after, journal)
        self._save(after, None)
        warnings = list(self._store.mirror(after))
        left += [{"path": path, "why": MEANWHILE, "possible": True} for path in late]
        return Outcome(
            after, journal.kind, journal.step,
            [item.path for item in journal.items if item.want is not None and item.path not in late],
            [item.path for item in journal.items if item.want is None and item.path not in late],
            left, files.relative(state.plan.project, archive.path), warnings,
        )  # fmt: skip

    def _taken_back(
        self, archive: Archive, journal: Journal, after: WorkflowState, error: Exception
    ) -> RollbackRefused:
        """The files could not be put in place: everything is as it was before, if the machine lets us."""
        said = f"The rollback failed: {error}. "
        try:
            reverse = archive.reverse(journal, journal.at)
            back = Archive(after, f"{archive.name}-taken-back")
            back.carry_out(reverse)
            before = WorkflowState.from_dict(journal.document)
            before.version = after.version
            self._save(before, None)
            self._store.mirror(before)
            shutil.rmtree(back.path, ignore_errors=True)
            said += "State and files are as they were before."
        except (ValueError, StorageError, OSError, InvalidRequest) as second:
            said += f"Some files could not be put back either ({second}); their copies are in {archive.path}."
        return RollbackRefused(said, reason=str(error))

    def _save(
        self,
        state: WorkflowState,
        event: Mapping[str, Any] | None,
        noted: RollbackNote | None = None,
        before: WorkflowState | None = None,
    ) -> None:
        with self._workspace.act(self._caller) as act:
            if before is not None:
                settle(act, before, state)
            self._store.save(act, state)
            if event is not None and noted is not None:
                act.event(
                    "workflow.rolled_back", state.task_id, workflow_id=state.workflow_id, archive=noted["archive"],
                    undo=noted["kind"] == "undo", **event,
                )  # fmt: skip
