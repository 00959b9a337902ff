"""What only the workflow engine refuses, beside the tree of `interlock.errors`, whose codes and shape these share.

Conflict
├── StateConflict                state_conflict
├── StateUnreadable              state_unreadable         (damaged: start again; the message says what is lost)
├── RollbackRefused              rollback_refused
├── WorkflowNotRendered          workflow_not_rendered    (no `uv`, or the package's renderer failed)
└── NotInAWorkflow               not_in_a_workflow        (a tool of a run, called by whom no run waits for)
Forbidden
└── SafetyOverrideBlocked        safety_override_blocked
"""

from __future__ import annotations

from interlock.errors import Conflict, Forbidden


class StateConflict(Conflict):
    """Somebody else has written the state of that workflow since it was read; nothing was written."""

    code = "state_conflict"


class StateUnreadable(Conflict):
    """The state of a workflow is damaged and cannot be resumed; `lost` says which steps were done."""

    code = "state_unreadable"


class RollbackRefused(Conflict):
    """A rollback that cannot be done as asked; nothing was changed, and `alternatives` says what would work."""

    code = "rollback_refused"


class WorkflowNotRendered(Conflict):
    """A skill that its package renders before it is followed could not be; `missing` names a program that it needs."""

    code = "workflow_not_rendered"


class NotInAWorkflow(Conflict):
    """No workflow waits for the end of a turn of whoever called a tool of its run."""

    code = "not_in_a_workflow"


class SafetyOverrideBlocked(Forbidden):
    """Somebody wants to switch off the final approval or the detection of stalls (`what`), which nobody can."""

    code = "safety_override_blocked"
