"""An examination in the place of steps: it is held where the first of them would begin, and the way goes on after the
last. The maker is told what came of them, since it has not done them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.workflow.engine import steps as stepping
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.examination import Examination, StandIn
from interlock.workflow.engine.steps import Following
from interlock.workflow.package.step import Step
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import DONE


def onward(run: RunContext, found: Following, skipped: str | None = None) -> Following:
    """What follows in truth, after the step at hand is done: past the steps that it stood for, and the examination that
    stands in for the one that would be next. `skipped`: a human does without the examination, for that reason."""
    examination = run.examination
    if examination is not None:
        last = _settle(run, examination, skipped)
        found = stepping.following(run.workflow, run.state, last, None, None) if last is not None else found
    one = instead(run, found.step) if found.step is not None else None
    if one is None or found.step is None:
        return found
    replaced = one.replaces(run, found.step)
    kept = run.state.examinations.setdefault(one.name, {"rounds": []})
    kept["replaces"] = list(replaced)
    why = f"{one.title} looks at all of it at once, instead of {len(replaced)} steps one after the other"
    return Following(stepping.gate(one.name, one.title), why)


def instead(run: RunContext, step: Step) -> StandIn | None:
    """The examination that is held instead of that step; why one is not, though it could be, is logged."""
    for one in run.examinations:
        held = f"{stepping.GATE}{one.name}" in run.state.completed_steps
        if not isinstance(one, StandIn) or held or step.path not in one.replaces(run, step):
            continue
        declined = one.declined(run)
        if declined is None:
            return one
        if run.once(f"declined/{one.name}"):
            run.decide(Decision("stand_in", "the steps as they are written", declined, basis={"of": one.name}))
    return None


def _settle(run: RunContext, examination: Examination, skipped: str | None) -> Step | None:
    """Write down what became of the steps that were not done; the last of them, from which the way goes on."""
    kept = run.state.examinations.get(examination.name, {})
    steps = [one for path in kept.get("replaces", ()) for one in run.workflow.steps if one.path == path]
    rounds = kept.get("rounds") or [{}]
    became: Mapping[str, Any] = rounds[-1].get("stands_for") or {}
    told = []
    for step in steps:
        record = stepping.record_of(run.state, step)
        found = became.get(step.path, {})
        summary = skipped or str(found.get("summary") or "")
        if record.status not in DONE:
            if skipped or found.get("status") != "completed":
                step_tracking.skip(run.state, record.id, record.name, summary or "another examination stood in for it")
            else:
                step_tracking.complete(run.state, record.id, run.desk.now())
                record.summary, record.confidence, record.verdict = summary, found.get("confidence"), "PASS"
                record.evidence = ["validation_verdict"] if record.confidence is not None else []
        told.append(f"- step {record.id}, {record.name}: {record.status}; {summary}")
    if told:
        what = f"{examination.title} was held in the place of these steps, which you do not do:"
        run.state.recovery = {"guidance": "\n".join([what, "", *told])}
    return steps[-1] if steps else None
