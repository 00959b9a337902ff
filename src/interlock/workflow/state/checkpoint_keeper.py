"""Makes the checkpoints of a run, and brings an interrupted step back to its own: for `engine.ports.Checkpoints`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from interlock.errors import InterlockError, InvalidRequest, StorageError
from interlock.workflow.errors import RollbackRefused
from interlock.workflow.state import files
from interlock.workflow.state.archive import credited, journal_of, kept_first
from interlock.workflow.state.checkpoints import KEPT, MOST, SNAPSHOT, credit, manifest_of, number_of, show
from interlock.workflow.state.document import (
    CheckpointRow,
    StepId,
    WorkflowState,
)
from interlock.workflow.state.rollback_plan import preview
from interlock.workflow.state.snapshots import Manifest, Snapshots, sha_of


def restore_step(state: WorkflowState, at: str) -> list[str] | None:
    """Bring the files of a step that was interrupted back to its newest checkpoint, so that it can begin again; null
    where nothing was kept, else what could not be restored.

    Nobody knows any more who wrote last: the run's documents and the files that the step has named count as the run's.
    All that is replaced is kept in the archive.
    """
    checkpoint = next((one for one in reversed(state.checkpoints) if one["step_id"] == state.current_step), None)
    if checkpoint is None or not checkpoint["can_rollback"]:
        return None
    record = state.step(checkpoint["step_id"])
    named = [*state.documents, *(record.files if record else ())]
    try:
        planned = preview(state, checkpoint, include=named)
        journal = journal_of(state, checkpoint, planned, "restore", at)
        archive = kept_first(state, journal)
        late = archive.carry_out(journal) if journal.items else []
    except (RollbackRefused, ValueError, StorageError, OSError, InvalidRequest):
        return None
    credited(state, journal)
    return [*(one.path for one in planned.asked), *late]


class CheckpointKeeper:
    """See `engine.ports.Checkpoints`. `in_documents`: documents of a finished run keep their list of checkpoints."""

    def __init__(self, *, in_documents: bool = True) -> None:
        self._in_documents = in_documents
        self._taken: tuple[str, Manifest] | None = None
        """The commit that was made last, and what it holds."""

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        """See `engine.ports.Checkpoints.create`."""
        record, now = state.step(step), state.as_json(KEPT)
        before = state.checkpoints[-1] if state.checkpoints else None
        checkpoint: CheckpointRow = {
            "id": f"cp-{1 + (number_of(before['id']) if before else 0)}",
            "step_id": step,
            "step_name": record.name if record else str(step),
            "timestamp": at,
            "reason": reason,
            "can_rollback": True,
            "why_not": None,
            "state_snapshot": {"completed_steps": list(state.completed_steps)},
            "files": {},
        }
        kept_so_far, last = state.checkpoints, state.rollbacks[-1:]
        if before is not None and last and (before["id"], before["reason"]) == (last[0]["checkpoint"], reason):
            kept_so_far = kept_so_far[:-1]  # The run went back to it: the step has one checkpoint, not two.
        state.checkpoints = [*kept_so_far, checkpoint]
        doomed, state.checkpoints = state.checkpoints[:-MOST], state.checkpoints[-MOST:]
        try:
            snapshots = Snapshots(state.plan.project, state.plan.output_folder, state.workflow_id)
            known = self._taken is not None and before is not None and before["files"].get("commit") == self._taken[0]
            manifest = self._taken[1] if known and self._taken else manifest_of(snapshots, before)
            credit(state, before, manifest)
            show(state, manifest)
            commit, taken = snapshots.take(f"{state.skill}: {reason}", {*state.documents, *state.written}, now)
            self._taken = commit, taken
            left_out = list(taken.left_out[:20])
            checkpoint["files"] = {"kind": SNAPSHOT, "commit": commit, "whole": taken.whole, "left_out": left_out}
            if doomed and not state.rollbacks and number_of(checkpoint["id"]) % MOST == 0:
                kept_by = [one["files"] for one in state.checkpoints]
                snapshots.forget_all_but(one["commit"] for one in kept_by if one.get("kind") == SNAPSHOT)
        except (InterlockError, OSError, ValueError) as error:
            checkpoint["can_rollback"] = False
            checkpoint["why_not"] = f"its files could not be kept: {error}"
            try:
                show(state, None)
            except (InterlockError, OSError, ValueError):
                return  # The ledger has it all the same.

    def finished(self, state: WorkflowState) -> None:
        """See `engine.ports.Checkpoints.finished`."""
        try:
            show(state, None, listed=self._in_documents)
        except (InterlockError, OSError, ValueError):
            return  # A document that cannot be written keeps what it lists.

    def restore(self, state: WorkflowState) -> Sequence[str] | None:
        """See `engine.ports.Checkpoints.restore`."""
        return restore_step(state, state.updated_at or state.checkpoints[-1]["timestamp"] if state.checkpoints else "")

    def wrote(self, state: WorkflowState, paths: Iterable[str]) -> None:
        """Note that the run has just written (or deleted) these files, absolute or from the project's root: as they are
        now they are the run's. Paths outside the project are passed over."""
        for path in paths:
            try:
                name = files.relative(state.plan.project, path)
                state.written[name] = sha_of(state.plan.project, name) or ""
            except (InterlockError, OSError, ValueError):
                continue
