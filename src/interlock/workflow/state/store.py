"""PORT within `workflow`: where the state documents are kept. The engine and the state's own verbs meet here.

The row is the truth, the file its mirror (decision 36). A save happens inside the transaction that asks, completes or
sends, so the state can never disagree with the task and its questions; the file is written after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.core.unit_of_work import UnitOfWork
from interlock.storage.ledger import Rows
from interlock.workflow.state.document import StepId, WorkflowState


class Store(Protocol):
    """The state documents of one team."""

    def load(self, rows: Rows, workflow_id: str) -> WorkflowState:
        """The newest state of that run.

        Raises:
            WorkflowNotFound: there is no such run.
            StateUnreadable: its document is damaged; the message offers to start anew and says what would be lost.
        """

    def save(self, act: UnitOfWork, state: WorkflowState) -> None:
        """Write the state as version `state.version + 1`, which it then has; a new run is inserted as version 1.

        Raises:
            StateConflict: the row has another version: somebody else has written since it was loaded.
        """

    def list(
        self,
        rows: Rows,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> Sequence[WorkflowState]:
        """The runs, the newest first, at most `limit`; a damaged document is left out."""

    def mirror(self, state: WorkflowState) -> Sequence[str]:
        """Write the state's file, atomically, after the commit; three tries with growing pauses.

        Answers warnings instead of raising: the row stands, and the next save writes the file again (BMAD-3.1.4).
        """


class Checkpoints(Protocol):
    """Snapshots of state and files (decision 35)."""

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        """Keep the state and the files as they are now, and append the checkpoint to `state.checkpoints`, at most 10.

        Called before a step begins and before a fix is tried; never raises: what could not be kept is
        `can_rollback: false` with its reason.
        """

    def restore(self, state: WorkflowState) -> Sequence[str]:
        """Bring the files back to the newest checkpoint of the step that was interrupted, so that it can begin again.

        Answers what could not be restored, because somebody else has changed it since.
        """
