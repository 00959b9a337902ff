"""A step is done: its record, and what comes next: a pause, a checkpoint, the next step or the end.

An examination may stand in the place of steps: it is held where the first of them would begin, and the way goes on
after the last. The maker is told what came of them, since it has not done them itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from interlock.clock import seconds
from interlock.model.workflow import GATE
from interlock.workflow.engine import confidence_signals, documents, evidence, prompts, recovery, steps
from interlock.workflow.engine.checkpoint_pace import DoneOperation, is_full, present, summary
from interlock.workflow.engine.closing_line import FINISHED, SKIPPED
from interlock.workflow.engine.context import Draft, Examination, StandIn, stands_in
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import NUDGE, Act, EndStep, Save, StepOver
from interlock.workflow.engine.examination import MANDATORY
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.package.step import Step
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import COMPLETING, DONE, FAILED, RUNNING, StepId, StepRecord

CLOCKS = 2.0  # seconds by which the clocks of files and of the ledger may differ
OVERSIGHT = frozenset({"required", "true", "always"})


def done(run: Draft, reading: Reading, outcome: str) -> None:
    """The step is done: which one follows, unless only the agent knows, and first the hooks of its end (BMAD-7.3.3)."""
    step = run.step
    found = steps.following(run.workflow, run.state, step, reading.next, reading.entered)
    if reading.kind != FINISHED and not found.certain and run.once("which_next"):
        run.send(NUDGE, prompts.which_next(step, found.ways))
        run.move(RUNNING)
        return
    run.effect(EndStep(reading.kind, StepOver(reading, outcome)))


def over(run: Draft, reading: Reading, outcome: str) -> None:
    """The record of the step that is done, and the decision about what follows it, in one save."""
    state, step, record = run.state, run.step, run.record
    found = steps.following(run.workflow, state, step, reading.next, reading.entered)
    complete(run, step, record, reading, outcome)
    if reading.kind == FINISHED:
        run.decide(Decision("next_step", "end", "the agent says that the workflow has ended", by="agent"))
        left = _gate(run, mandatory=True)
        go_on(run, steps.record_of(state, left.step).id if left and left.step else None, mandatory=True)
        return
    found = after(run, found)
    chosen = steps.record_of(state, found.step).id if found.step else "end"
    run.decide(Decision("next_step", str(chosen), found.why, basis={"after": record.path, "said": reading.next}))
    if chosen in state.completed_steps and recovery.edits(run) and _round_and_round(run, chosen):
        return
    _pause_or(run, step, record, found.step)


def after(run: Draft, found: steps.Following, skipped: str | None = None) -> steps.Following:
    """What follows a step that is done (or that a human skipped, for that reason), examinations in their places."""
    found = onward(run, found, skipped)
    return found if found.step is not None else _gate(run) or found


def _round_and_round(run: Draft, to: StepId) -> bool:
    """A workflow that edits goes back to an earlier step, and through those after it once more: as often as its loop
    allows; whether that is over."""
    judgement = recovery.went_back(run, to)
    if judgement.error is None:
        step_tracking.reopen(run.state, to)
        return False
    why = f"the workflow goes back to step {to} again and again"
    recovery.failed(run.state, recovery.VALIDATION, why)
    recovery.limited(run.state, judgement)
    run.move(FAILED)
    return True


def skipped(run: Draft, reason: str) -> None:
    """The step at hand is not done: what comes after it, the validations beside the workflow's own among it."""
    state, record = run.state, run.record
    step_tracking.skip(state, record.id, record.name, reason)
    run.event("workflow.step_completed", step=record.id, name=record.name, status=record.status, verdict=None)
    step = after(run, steps.following(run.workflow, state, run.step, None, None), reason).step
    go_on(run, steps.record_of(state, step).id if step else None)


def _gate(run: Draft, *, mandatory: bool = False) -> steps.Following | None:
    """The first validation beside the workflow's own that is left: what the domain demands, then the examinations.
    `mandatory`: only those that also a workflow gets that has ended early."""
    left = [one for one in run.gates if f"{steps.GATE}{one}" not in run.state.completed_steps]
    left = [one for one in left if one in MANDATORY] if mandatory else left
    if not left:
        return None
    examination = next((one for one in run.examinations if one.name == left[0]), None)
    if examination is None:
        return steps.Following(steps.gate(left[0]), f"the domain {run.state.plan.domain} demands it")
    why = str(run.called_for(examination))
    return steps.Following(steps.gate(examination.name, examination.title), why)


def complete(run: Draft, step: Step, record: StepRecord, reading: Reading, outcome: str) -> None:
    """Write down that the step is done; saved with whatever follows."""
    state = run.state
    before = record.before
    written = run.observe(
        "written", lambda: [one for one in record.files if one not in before or evidence.changed(run.root, before, one)]
    )
    seen = (one.subject for one in record.proofs if one.kind in evidence.WRITTEN and one.found == evidence.SEEN)
    record.files = list(dict.fromkeys([*written, *seen]))
    state.documents = list(dict.fromkeys([*state.documents, *_outputs(run, reading)]))
    if reading.kind == SKIPPED:
        step_tracking.skip(state, record.id, record.name, reading.closing.reason or "optional")
    else:
        output = step_tracking.input_hash(reading.closing.text)
        step_tracking.complete(state, record.id, run.now, output=output, files=record.files)
    confidence_signals.measure(run, record, outcome)
    record.summary = first_line(reading.closing.text)
    run.effect(Act.NOTE_PROGRESS)
    state.sent = None
    run.event("workflow.step_completed", step=record.id, name=record.name, status=record.status, verdict=record.verdict)


def _pause_or(run: Draft, step: Step, record: StepRecord, following: Step | None) -> None:
    """Oversight first, then the checkpoint of a full batch, then onward."""
    state, settings = run.state, run.settings
    onward_to = steps.record_of(state, following).id if following else None
    demanded = step.settings.get("oversight", run.workflow.settings.get("oversight"))
    if record.status != "skipped":
        # A step that a checkpoint had done again is one step still.
        state.batch = list(dict.fromkeys([*state.batch, record.name]))
    full = settings.batch is not None and is_full(state.batch, settings.tier, settings.batch)
    data = {"next": onward_to, "done": record.id}
    if str(demanded or "").strip().lower() in OVERSIGHT:
        title = f"{step.title} is done, and its author wants a human to confirm it."
        _ask_to_confirm(run, record, "oversight", title, data)
    elif full and following is not None and not str(following.id).startswith(GATE) and not _uninterrupted(run):
        basis = {"batch": list(state.batch), "tier": settings.tier, "size": settings.batch}
        run.decide(Decision("checkpoint", "checkpoint", summary(state.batch), basis=basis))
        _ask_to_confirm(run, record, "checkpoint", summary(state.batch), data)
    else:
        go_on(run, onward_to)


def _uninterrupted(run: Draft) -> bool:
    """Whether no checkpoint asks: under `--yolo`, and where there is a brief and nobody chose how careful to be."""
    plan = run.state.plan
    brief = bool(plan.brief or plan.arguments)
    return plan.yolo or (plan.tier_by_default and brief and not run.wishes.overridden(run))


def _ask_to_confirm(run: Draft, record: StepRecord, purpose: str, title: str, data: Mapping[str, Any]) -> None:
    """A checkpoint as a question, in the format that the confidence asks for; the whole log is its context."""
    state = run.state
    recent = [one for one in state.steps.values() if one.name in state.batch] or [record]
    operations = [DoneOperation(steps.called(one), one.summary) for one in recent]
    since = {one.id for one in recent}
    operations += [
        DoneOperation(f"{one['kind']}: {one['choice']}", str(one["why"]), True)
        for one in state.decisions
        if one["step"] in since and one["kind"] in ("menu", "question", "fix", "trigger")
    ]
    known = [one.confidence for one in recent if one.confidence is not None and confidence_signals.measured(one)]
    unmeasured = [one.name for one in recent if not confidence_signals.measured(one)]
    found = present(min(known) if known else None, title, operations, unmeasured)
    options = (*found.options, "stop")
    run.ask(
        purpose, "checkpoint", f"{found.text}\n\nGo on? ({' / '.join(options)}; or say what to change)", options,
        about=record, known_by=f"{title}\n{found.text}", context=found.details,
        data={**data, "details": found.details}, told={"format": found.format},
    )  # fmt: skip


def go_on(run: Draft, following: StepId | None, *, mandatory: bool = False) -> None:
    """To the step with that id, or to the end, before which the validations that are left come; `mandatory`: only
    those that nothing skips."""
    state = run.state
    if following is None and not mandatory and (left := _gate(run)) is not None and left.step is not None:
        following = steps.record_of(state, left.step).id
    if following is None:
        state.sent = state.waiting = None
        run.move(COMPLETING)
    else:
        if not state.batch or state.waiting is not None:
            state.batch = []
        state.current_step, state.waiting, state.sent = following, None, None
        run.move(RUNNING)
    run.effect(Save())


def _outputs(run: Draft, reading: Reading) -> list[str]:
    """The documents among those it names that the step at hand has changed. One that nothing was known of beforehand
    has, where it is as young as the step."""
    record, began = run.record, run.record.started_at
    named = [path for one in reading.closing.outputs if (path := documents.relative(run.root, one))]
    since = seconds(began) - CLOCKS if began is not None else None

    def touched(path: str) -> bool:
        fresh = path in named and path not in record.before and since is not None
        return fresh and os.stat(os.path.join(run.root, path)).st_mtime >= (since or 0)

    known = [*run.outputs, *named]
    return run.observe(
        "documents",
        lambda: [one for one in documents.existing(run.root, known) if one in record.files or touched(one)],
    )


def first_line(text: str) -> str:
    return next((line.strip(" #*")[:200] for line in text.splitlines() if line.strip(" #*")), "")


def onward(run: Draft, found: steps.Following, skipped: str | None = None) -> steps.Following:
    """What follows in truth, after the step at hand is done: past the steps that it stood for, and the examination that
    stands in for the one that would be next. `skipped`: a human does without the examination, for that reason."""
    examination = run.examination
    if examination is not None:
        last = _settle(run, examination, skipped)
        found = steps.following(run.workflow, run.state, last, None, None) if last is not None else found
    one = instead(run, found.step) if found.step is not None else None
    if one is None or found.step is None:
        return found
    replaced = _replaces(run, one, found.step)
    kept = run.state.examinations.setdefault(one.name, {"rounds": []})
    kept["replaces"] = list(replaced)
    why = f"{one.title} looks at all of it at once, instead of {len(replaced)} steps one after the other"
    return steps.Following(steps.gate(one.name, one.title), why)


def instead(run: Draft, step: Step) -> StandIn | None:
    """The examination that is held instead of that step; why one is not, though it could be, is logged."""
    for one in run.examinations:
        held = f"{steps.GATE}{one.name}" in run.state.completed_steps
        if held or not stands_in(one) or step.path not in _replaces(run, one, step):
            continue
        declined = run.observe(f"{one.name} declined", partial(one.declined, run))
        if declined is None:
            return one
        if run.once(f"declined/{one.name}"):
            run.decide(Decision("stand_in", "the steps as they are written", declined, basis={"of": one.name}))
    return None


def _replaces(run: Draft, one: StandIn, step: Step) -> tuple[str, ...]:
    return run.observe(f"{one.name} replaces", lambda: one.replaces(run, step))


def _settle(run: Draft, examination: Examination, skipped: str | None) -> Step | None:
    """Write down what became of the steps that were not done; the last of them, from which the way goes on."""
    kept = run.state.examinations.get(examination.name, {})
    replaced = [one for path in kept.get("replaces", ()) for one in run.workflow.steps if one.path == path]
    rounds = kept.get("rounds") or [{}]
    became: Mapping[str, Any] = rounds[-1].get("stands_for") or {}
    told = []
    for step in replaced:
        record = steps.record_of(run.state, step)
        found = became.get(step.path, {})
        summary = skipped or str(found.get("summary") or "")
        if record.status not in DONE:
            if skipped or found.get("status") != "completed":
                step_tracking.skip(run.state, record.id, record.name, summary or "another examination stood in for it")
            else:
                step_tracking.complete(run.state, record.id, run.now)
                record.summary, record.confidence, record.verdict = summary, found.get("confidence"), "PASS"
                record.evidence = ["validation_verdict"] if record.confidence is not None else []
        told.append(f"- step {record.id}, {record.name}: {record.status}; {summary}")
    if told:
        what = f"{examination.title} was held in the place of these steps, which you do not do:"
        run.state.recovery = {"guidance": "\n".join([what, "", *told])}
    return replaced[-1] if replaced else None
