"""Makes the checkpoints of a run, and brings an interrupted step back to its own: implements `store.Checkpoints`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from interlock.errors import InterlockError
from interlock.workflow.state import files
from interlock.workflow.state.checkpoints import MOST, Place, credit, kept, number_of, show
from interlock.workflow.state.document import StepId, WorkflowState
from interlock.workflow.state.rollback import restore_step
from interlock.workflow.state.snapshots import current


class CheckpointKeeper:
    """See `store.Checkpoints`. `branch`: the run's own; by default any branch of a task in a worktree of its own."""

    def __init__(self, branch: str | None = None) -> None:
        self._branch = branch

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        """See `store.Checkpoints.create`."""
        record = state.step(step)
        before = state.checkpoints[-1] if state.checkpoints else None
        checkpoint: dict[str, Any] = {
            "id": f"cp-{1 + max((number_of(one) for one in state.checkpoints), default=0)}",
            "step_id": step,
            "step_name": record.name if record else str(step),
            "timestamp": at,
            "reason": reason,
            "can_rollback": True,
            "why_not": None,
            "state_snapshot": kept(state),
            "files": {},
        }
        state.checkpoints = [*state.checkpoints, checkpoint]
        doomed, state.checkpoints = state.checkpoints[:-MOST], state.checkpoints[-MOST:]
        try:
            place = Place(state, self._branch)
            manifest = place.manifest_of(before)
            credit(state, before, manifest)
            show(state, manifest)
            checkpoint["files"] = place.keep(state, checkpoint, manifest)
            for one in doomed:
                place.forget(one, state.checkpoints)
        except (InterlockError, OSError, ValueError) as error:
            checkpoint["can_rollback"] = False
            checkpoint["why_not"] = f"its files could not be kept: {error}"
            try:
                show(state, None)
            except (InterlockError, OSError, ValueError):
                return  # The ledger has it all the same.

    def restore(self, state: WorkflowState) -> Sequence[str] | None:
        """See `store.Checkpoints.restore`."""
        return restore_step(state, state.updated_at or state.checkpoints[-1]["timestamp"] if state.checkpoints else "")

    def wrote(self, state: WorkflowState, paths: Iterable[str]) -> None:
        """Note that the run has just written (or deleted) these files, absolute or from the project's root: as they are
        now they are the run's. Paths outside the project are passed over."""
        for path in paths:
            try:
                name = files.relative(state.plan.project, path)
                found = current(state.plan.project, name)
            except (InterlockError, OSError, ValueError):
                continue
            state.written[name] = found[0] if found else ""
