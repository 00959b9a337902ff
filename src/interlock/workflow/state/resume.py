"""Going on after an interruption: which run there is, from where it goes on, and whether it still can (BMAD-3.2, FR27).

Pure: decides from states and the workflow as it is now; the controller does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.model.workflow import place_of
from interlock.workflow.state.document import SCHEMA_VERSION, TERMINAL, StepId, WorkflowState, step_key

RESUME, FRESH = "resume", "start fresh"


@dataclass(frozen=True)
class Offer:
    """What is offered about a run that was interrupted.

    `from_step` is the step it would go on with, `number` of `whole` its place. `advice` is `resume` or `start fresh`;
    `problem` says why it should not be resumed. `options` are the answers, the advised one first.
    """

    workflow_id: str
    skill: str
    from_step: StepId | None
    from_name: str | None
    number: int
    whole: int
    completed: tuple[StepId, ...]
    advice: str
    problem: str | None
    text: str

    @property
    def options(self) -> tuple[str, str]:
        """The answers, the advised one first."""
        return (RESUME, FRESH) if self.advice == RESUME else (FRESH, RESUME)

    @property
    def indicator(self) -> str:
        """What the progress shows once it goes on (BMAD-3.2.5)."""
        return f"▶ Resumed at step {self.number}/{self.whole}" if self.whole else "▶ Resumed before its first step"

    def as_dict(self) -> Json:
        """The shape every face shows."""
        names = ("workflow_id", "skill", "from_step", "from_name", "number", "whole", "advice", "problem", "text")
        return fields_of(self, names) | {"completed_steps": list(self.completed), "options": list(self.options)}


def interrupted(states: Sequence[WorkflowState], skill: str) -> WorkflowState | None:
    """The newest run of that workflow that has not ended; `states` are newest first, as `Store.list` gives them."""
    return next((state for state in states if state.skill == skill and state.state != TERMINAL), None)


def offer(state: WorkflowState, workflow_hash: str | None = None) -> Offer:
    """What to offer about an interrupted run; `workflow_hash` is that of the workflow as it is now, where known."""
    step = next_step(state)
    record = state.step(step) if step is not None else None
    name = record.name if record else None
    done = len(state.completed_steps)
    whole = max(done + state.remaining_count, done + (step is not None and state.remaining_count == 0))
    number = min(done + 1, whole) if whole else 1
    problem = None
    if state.schema_version > SCHEMA_VERSION:
        problem = (
            f"Its state was written by a newer version of Interlock (schema {state.schema_version}, this one knows "
            f"{SCHEMA_VERSION})."
        )
    elif workflow_hash is not None and state.workflow_hash and workflow_hash != state.workflow_hash:
        problem = "The workflow has been changed since (version mismatch): its steps may no longer be the same."
    called = place_of(step, name)
    at = called + (f" ({name})" if name and name != called else "")
    text = f"{state.skill} was interrupted with {done} of {whole} steps done."
    if problem:
        text += f" {problem} Starting fresh is advised; what it wrote stays where it is."
    else:
        text += f" Resume from {at}?"
    return Offer(
        state.workflow_id, state.skill, step, name, number, whole, tuple(state.completed_steps),
        FRESH if problem else RESUME, problem, text,
    )  # fmt: skip


def next_step(state: WorkflowState) -> StepId | None:
    """The step to go on with: the one it was at, unless that is done; then the first expected one that is not."""
    done = {step_key(one) for one in state.completed_steps}
    if state.current_step is not None and step_key(state.current_step) not in done:
        return state.current_step
    return next((one for one in state.plan_of_steps if step_key(one) not in done), None)
