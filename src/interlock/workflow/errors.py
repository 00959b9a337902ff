"""What the workflow engine refuses, beside the tree of `interlock.errors`, whose codes and shape these share.

NotFound
├── WorkflowNotFound             workflow_not_found
├── QueueEntryNotFound           queue_entry_not_found
└── CheckpointNotFound           checkpoint_not_found
Conflict
├── StateConflict                state_conflict
├── StateUnreadable              state_unreadable         (damaged: start anew; the message says what is lost)
└── RollbackRefused              rollback_refused
"""

from __future__ import annotations

from interlock.errors import Conflict, NotFound


class WorkflowNotFound(NotFound):
    """No run of a workflow with that id, or no workflow of that name."""

    code = "workflow_not_found"


class QueueEntryNotFound(NotFound):
    """That task does not wait in the queue of workflows."""

    code = "queue_entry_not_found"


class CheckpointNotFound(NotFound):
    """The run has no such checkpoint; `nearest` names the one that comes closest, where there is one."""

    code = "checkpoint_not_found"


class StateConflict(Conflict):
    """Somebody else has written the state of that workflow since it was read; nothing was written."""

    code = "state_conflict"


class StateUnreadable(Conflict):
    """The state of a workflow is damaged and cannot be resumed; `lost` says which steps were done."""

    code = "state_unreadable"


class RollbackRefused(Conflict):
    """A rollback that cannot be done as asked; nothing was changed, and `alternatives` says what would work."""

    code = "rollback_refused"
