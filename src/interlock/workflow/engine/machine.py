"""The states of a workflow run and the moves between them, as the specification names them (BMAD-states, FR18).

    IDLE ─> INITIALIZING ─> RUNNING ─> VALIDATING ─> COMPLETING ─> TERMINAL
                               │  ▲        │              │
                               ▼  │        ▼              │
                        WAITING_USER ◄─ FAILED ─> RECOVERING ─> RUNNING

From every state there is a way to TERMINAL, and no way out of it but a human's explicit *resume* of a run that failed.
Whatever changes the state asks `move`; an edge that is not in the table is a defect of the engine, not of an agent.
"""

from __future__ import annotations

from interlock.workflow.state.document import (
    COMPLETED,
    COMPLETING,
    FAILED,
    IDLE,
    INITIALIZING,
    OUTCOMES,
    RECOVERING,
    RUNNING,
    TERMINAL,
    VALIDATING,
    WAITING_USER,
    WorkflowState,
)

MOVES: dict[str, frozenset[str]] = {
    IDLE: frozenset({INITIALIZING, TERMINAL}),
    INITIALIZING: frozenset({RUNNING, WAITING_USER, FAILED, TERMINAL}),
    RUNNING: frozenset({VALIDATING, WAITING_USER, FAILED, COMPLETING, TERMINAL}),
    VALIDATING: frozenset({RUNNING, WAITING_USER, FAILED, COMPLETING, TERMINAL}),
    WAITING_USER: frozenset({INITIALIZING, RUNNING, VALIDATING, RECOVERING, COMPLETING, FAILED, TERMINAL}),
    COMPLETING: frozenset({TERMINAL, FAILED, WAITING_USER}),
    FAILED: frozenset({RECOVERING, WAITING_USER, TERMINAL}),
    RECOVERING: frozenset({RUNNING, WAITING_USER, FAILED, TERMINAL}),
    TERMINAL: frozenset(),
}


class IllegalMove(RuntimeError):
    """The engine tried to take a run where its state may not go."""


def move(state: WorkflowState, to: str) -> None:
    """Take the run to that state; staying where it is is always allowed but from TERMINAL.

    Raises:
        IllegalMove: there is no such edge.
    """
    if to != state.state and to not in MOVES[state.state]:
        raise IllegalMove(f"{state.workflow_id}: {state.state} cannot become {to}")
    state.state = to


def end(state: WorkflowState, outcome: str, error: str | None = None) -> None:
    """Take the run to TERMINAL with that outcome (COMPLETED, FAILED or CANCELLED).

    Raises:
        IllegalMove: it has ended already, or there is no such outcome.
    """
    if outcome not in OUTCOMES or state.state == TERMINAL:
        raise IllegalMove(f"{state.workflow_id}: {state.state} cannot end as {outcome}")
    state.state, state.outcome = TERMINAL, outcome
    state.error = error if error is not None or outcome == FAILED else None
    state.waiting = state.sent = None


def reopen(state: WorkflowState) -> None:
    """Take up a run again that has failed, or that completed a story which then came back: everything done stays done.

    Raises:
        IllegalMove: it has done neither.
    """
    if state.outcome not in (FAILED, COMPLETED):
        raise IllegalMove(f"{state.workflow_id}: only a run that failed or completed can be taken up again")
    state.state, state.outcome, state.error, state.timeout_error = RECOVERING, None, None, None
    state.visits, state.recovery, state.error_details, state.loops = {}, {}, {}, {}
    state.hooks.pop("pinned", None)  # Hooks are taken as they are now: whoever takes it up has seen them.
