"""The loops of a run, kept in `state.loops`: one for each step that is validated, and one for a workflow that edits.

A workflow that edits what is there (edit-module and its kin, the edit path of a builder) is one loop from its first
step to its last, whichever of its steps validates: an error that one step mends and the next brings back is the same
error (FR24).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from interlock.workflow.control import loop_back_handler
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.loop_back_handler import Error, Judgement, Loop
from interlock.workflow.state.document import StepId, step_key

if TYPE_CHECKING:
    from interlock.workflow.control.context import RunContext

EDIT = "edit"
NAMED = re.compile(r"^(?:bmad-)?edit-")
FOLDER = re.compile(r"^steps-e$")
FILE = re.compile(r"^(?:step-)?e-\d")


def edits(run: RunContext) -> bool:
    """Whether the step at hand belongs to the editing of something that is there."""
    if NAMED.match(run.workflow.skill.name):
        return True
    folder, name = posixpath.split(run.record.path)
    return bool(FOLDER.match(posixpath.basename(folder)) or FILE.match(name))


def key_of(run: RunContext) -> str:
    """The key of the loop that the step at hand is in."""
    return EDIT if run.examination is None and edits(run) else step_key(run.record.id)


def begun(run: RunContext) -> None:
    """A step begins: the loop of a workflow that edits is there from its first one, at iteration 0 (BMAD-5.9.1)."""
    if key_of(run) == EDIT:
        run.state.loops.setdefault(EDIT, Loop().as_dict())


def validated(run: RunContext, errors: Iterable[Error]) -> Judgement:
    """What a validation of the step at hand calls for; the iteration is logged, and people are warned in time."""
    key = key_of(run)
    before = Loop.of(run.state.loops.get(key))
    after, judgement = loop_back_handler.validated(before, errors)
    if after is before:
        return judgement
    run.state.loops[key] = after.as_dict()
    latest = after.errors_by_iteration[str(after.current_iteration)]
    if judgement.iterated:
        run.event(
            "workflow.iterated", step=run.record.id, of=key, iteration=after.current_iteration,
            max_iterations=after.max_iterations, errors=list(latest), same_error_count=after.same_error_count,
        )  # fmt: skip
    if judgement.warning is not None:
        left = "; ".join(latest[:3])
        run.warn(
            "iteration_limit",
            f"{run.record.name} of {run.state.skill}: {judgement.warning}. What is still wrong: {left}",
        )
    if judgement.error is not None:
        basis = {"loop": after.status(), **judgement.details}
        run.decide(Decision("loop", judgement.error, f"iteration {after.current_iteration} of {key}", basis=basis))
    return judgement


def went_back(run: RunContext, to: StepId) -> Judgement:
    """A step that edits leads back to one that was done: a round without an error of its own is one all the same,
    unless a human has just asked for it."""
    mine = (run.record.id, run.record.visit)
    if any((one["step"], one["visit"]) == mine and one.get("by") == "human" for one in run.state.asked):
        advised(run)
        return Judgement("edit")
    return validated(run, [f"step {run.record.id} leads back to step {to}"])


def advised(run: RunContext) -> None:
    """A human has said what to do about the step at hand."""
    key = key_of(run)
    if key in run.state.loops:
        run.state.loops[key] = loop_back_handler.advised(Loop.of(run.state.loops[key])).as_dict()
