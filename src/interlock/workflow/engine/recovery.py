"""What is tried when something fails, in which order, and when a human is asked (BMAD-2b.8, 2b.12, FR16, FR19d).

A *transient* failure (the agent died, was silent, its network broke) is retried three times with growing pauses. A
step without its *evidence* is told what is missing, then begins again. A failed *validation* is fixed: by what was
remembered, then by its findings, then by the template. Two equal results in a row are a stall; from the second attempt
on a stall calls Party Mode, once for the same result. What nothing has helped against is put to a human, with
everything that was tried and why it failed. The limits of the Loop-Back Handler stand above all of it: they ask a human
where the order below would try something else, and end what goes round for ever.

The loops of a run are kept in `state.loops`: one for each step that is validated, and one for a workflow that edits. A
workflow that edits what is there (edit-module and its kin, the edit path of a builder) is one loop from its first step
to its last, whichever of its steps validates: an error that one step fixes and the next brings back is the same error
(FR24).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.engine import loop_back_handler, prompts, stalls, steps
from interlock.workflow.engine.closing_line import LONG, Closing
from interlock.workflow.engine.context import STALL, Draft
from interlock.workflow.engine.decision_log import LEARNED_PREFERENCE, Decision
from interlock.workflow.engine.effects import FIX as PURPOSE
from interlock.workflow.engine.effects import NUDGE, Pause, PromptReady, Save
from interlock.workflow.engine.loop_back_handler import MAX_ITERATIONS, Error, Judgement, Loop, validated
from interlock.workflow.state.document import FAILED, RECOVERING, RUNNING, StepId, WorkflowState, step_key

TRANSIENT, VALIDATION, UNCLEAR, EVIDENCE = "transient", "validation", "unclear", "evidence"
TRANSIENT_TRIES = 3
FIRST_PAUSE = 1.0  # seconds; doubled each time
RETRY, FIX, PARTY, ASK, END = "retry", "fix", "party_mode", "ask", "end"
TELL, BEGIN_AGAIN = "tell_what_is_missing", "begin_again"
TRIED = 20


@dataclass(frozen=True)
class Remedy:
    """What to do next: `retry` after `pause` seconds, `fix` by `strategy`, call `party_mode`, `ask` a human, or `end`
    the run. `error` is the code of the limit that was reached."""

    action: str
    strategy: str = ""
    pause: float = 0.0
    why: str = ""
    error: str | None = None


def failed(state: WorkflowState, kind: str, reason: str, issues: Sequence[str] = (), output: str = "") -> None:
    """Note a failure of the current step in `state.recovery`."""
    known = state.recovery if state.recovery.get("kind") == kind else {}
    found = stalls.validation_hash(output or reason, issues)
    attempts = int(known.get("attempts", 0)) + 1
    state.recovery = {
        "kind": kind,
        "attempts": attempts,
        "reason": reason[:2000],
        "issues": [str(one)[:500] for one in issues][:50],
        "shrinking": 0 < len(issues) < len(known.get("issues", [])),
        "advice": known.get("advice"),
        "stalled": stalls.is_stalled(known.get("hash"), found) if kind == VALIDATION else False,
        "hash": found,
        "tried": list(known.get("tried", []))[-TRIED:],
        "failed_party": list(state.recovery.get("failed_party", [])),
        "party": known.get("party"),
    }
    if known.get("party") == "running":
        # Party Mode was called for the result before this one, and the step still fails.
        state.recovery["failed_party"] = sorted({*state.recovery["failed_party"], known.get("hash"), found})
        state.recovery["party"] = None
    for one in reversed(state.recovery["tried"]):
        if "failed" not in one:
            one["failed"] = reason[:500]
        break


def limited(state: WorkflowState, judgement: Judgement) -> None:
    """Note what the loop of the step says about the failure in `state.recovery`."""
    if judgement.error is not None:
        state.recovery |= {"error": judgement.error, "details": dict(judgement.details)}


def remedy(state: WorkflowState, *, fix_known: bool, template: bool, unwanted: Collection[str] = frozenset()) -> Remedy:
    """What the failure in `state.recovery` calls for; strategies that a person does not want here are left out."""
    found = state.recovery
    attempts, tried = int(found.get("attempts", 1)), [one["strategy"] for one in found.get("tried", [])]
    if found.get("kind") == TRANSIENT:
        if attempts <= TRANSIENT_TRIES:
            pause = FIRST_PAUSE * 2 ** (attempts - 1)
            return Remedy(RETRY, f"retry_{attempts}", pause, f"try {attempts} of {TRANSIENT_TRIES}, after {pause:g} s")
        return Remedy(ASK, why=f"{TRANSIENT_TRIES} tries did not help")
    if found.get("kind") == EVIDENCE:
        for number, action in enumerate((TELL, BEGIN_AGAIN), 1):
            if attempts <= number:
                return Remedy(
                    action, action, why=f"{found.get('reason')}, for the {'first' if number == 1 else 'second'} time"
                )
        return Remedy(ASK, why="it was told what is missing and began again, and it is still missing")
    if found.get("kind") == UNCLEAR:
        return Remedy(ASK, why="the agent does not say how the step stands")
    error = found.get("error")
    if error == MAX_ITERATIONS:
        return Remedy(END, why="it was fixed and validated again as often as may be", error=error)
    if found.get("stalled"):
        response = stalls.stall_response(attempts, found["hash"], frozenset(found.get("failed_party", ())))
        if response == "party_mode":
            return Remedy(PARTY, why=f"the same result {attempts} times in a row")
    if error is not None:
        return Remedy(ASK, why=f"{error.replace('_', ' ')}: more of the same would not help", error=error)
    usable = [one for one in stalls.FALLBACKS[:-1] if one not in tried and one not in unwanted]
    for strategy in usable:
        if (strategy == "memory_patterns" and not fix_known) or (strategy == "template_fixes" and not template):
            continue
        return Remedy(FIX, strategy, why=f"the next strategy not tried yet: {strategy.replace('_', ' ')}")
    if found.get("shrinking") and "heuristic_fixes" not in unwanted:
        return Remedy(FIX, "heuristic_fixes", why="it helped: fewer findings are left")
    return Remedy(ASK, why="every strategy was tried")


def signature(recovery: Mapping[str, Any]) -> str:
    """What a failure is known by: its reason and the issues that were found."""
    issues = "; ".join(str(one) for one in recovery.get("issues", []))
    return f"{recovery.get('reason', '')}{f': {issues}' if issues else ''}"[:1000]


def trying(state: WorkflowState, strategy: str) -> None:
    """Note that a strategy is being tried."""
    state.recovery.setdefault("tried", []).append({"strategy": strategy})


def report(state: WorkflowState) -> str:
    """What a human is told: what failed, what was tried, and why it did not help."""
    found = state.recovery
    lines = [str(found.get("reason") or "the step failed")]
    lines += [f"- {issue}" for issue in found.get("issues", [])[:10]]
    tried = [
        f"- {one['strategy'].replace('_', ' ')}: {one.get('failed', 'did not help')}" for one in found.get("tried", [])
    ]
    if tried:
        lines += ["", "Tried:", *tried]
    return "\n".join(lines)


def lost(run: Draft, why: str) -> None:
    """The agent's turn failed: it died, was silent, could not be spoken to."""
    failed(run.state, TRANSIENT, why)
    run.event("workflow.turn_failed", step=run.state.current_step, reason=why)
    run.move(FAILED)


def recover(run: Draft, known: str | None) -> None:
    """Carry out one remedy: try again, fix, call Party Mode, ask a human, or end. `known` is what memory says."""
    state, record = run.state, run.record
    run.move(RECOVERING)
    found = state.recovery
    reason = str(found.get("reason", ""))
    template = str(run.workflow.variables.value("template") or run.step.settings.get("template") or "")
    unwanted = run.wishes.unwanted_fixes(run)
    what = remedy(state, fix_known=known is not None, template=bool(template), unwanted=unwanted)
    pattern = run.wishes.fix(run, what.strategy) if what.action == FIX else None
    source = LEARNED_PREFERENCE if unwanted and what.action in (FIX, ASK) else None
    run.decide(
        Decision(
            "recovery", what.strategy or what.action, what.why, basis={"recovery": dict(found)}, source=source,
            pattern=pattern,
        )
    )  # fmt: skip
    if what.action == ASK:
        record.error = reason[:2000]
        text = f"{steps.called(record)}, of {state.skill}, cannot go on: {report(state)}"
        escalate(run, text, record.error, found.get("tried", []), what.error, found.get("details", {}))
    elif what.action == END:
        exhausted(run, str(what.error), found.get("details", {}))
    elif what.action == PARTY:
        run.party.call(run, STALL, what.why)
    elif what.action in (TELL, BEGIN_AGAIN):
        trying(state, what.strategy)
        record.status, record.error = "in_progress", None
        text = prompts.missing(run.step, found["issues"])
        if what.action == TELL:
            run.send(NUDGE, text)
        else:
            found["guidance"], state.sent = text, None
        run.move(RUNNING)
    elif what.action == RETRY:
        trying(state, what.strategy)
        # The turn that was lost may have done anything: the step goes on in its session, or begins again.
        run.interrupted = True
        run.move(RUNNING)
        run.effect(Save(), Pause(what.pause))
    else:
        hint = {"memory_patterns": known or "", "template_fixes": template}.get(what.strategy, "")
        findings = "\n".join([reason, *(f"- {one}" for one in found.get("issues", []))])
        text = prompts.fix(what.strategy, findings, hint)
        run.keep(f"before a fix of step {record.id}", PromptReady(PURPOSE, text, what.strategy))


OPTIONS = ("retry", "skip", "stop")
WHAT_NOW = "What should be done: retry, skip, stop, or something else (say it)?"


def escalate(
    run: Draft,
    text: str,
    reason: str,
    tried: Sequence[Mapping[str, Any]] = (),
    error: str | None = None,
    details: Mapping[str, Any] | None = None,
    answers: Sequence[str] = (),
) -> None:
    """Ask a human about the step at hand. `error` is the code of the limit that was reached, `details` what there is to
    say about it; `answers` are offered before the usual ones, and are advice in words like any other."""
    details = details or {}
    if error is not None:
        run.state.error, run.state.error_details = error, {"step": run.state.current_step, **details}
        pattern = f" ({details['pattern']})" if details.get("pattern") else ""
        attempts = f"\n\nSo far:\n{details['attempts']}" if details.get("attempts") else ""
        text = f"{text}\n\n{error}{pattern}{attempts}"
    run.event("workflow.escalated", step=run.record.id, reason=reason, tried=[dict(one) for one in tried], error=error)
    run.ask("escalation", "escalation", f"{text}\n\n{WHAT_NOW}", (*answers, *OPTIONS), about=run.record)


def exhausted(run: Draft, error: str, details: Mapping[str, Any]) -> None:
    """The run ends: its loop came to its limit (BMAD-5.10.1). The summary of the attempts is in `error_details`."""
    run.state.error_details = {"step": run.state.current_step, **details}
    run.end(FAILED, error, **details)


def triggered(run: Draft, what: str, why: str) -> None:
    """Record that something was called for, once for each visit of a step."""
    state, record = run.state, run.record
    state.triggers.append({"what": what, "step": record.id, "visit": record.visit, "why": why, "at": run.now})
    run.event("workflow.triggered", what=what, step=record.id, why=why, hash=state.recovery.get("hash"))


EDIT = "edit"
EDITS_BY_NAME = re.compile(r"^(?:bmad-)?edit-")
EDIT_FOLDER = re.compile(r"^steps-e$")
EDIT_FILE = re.compile(r"^(?:step-)?e-\d")


def edits(run: Draft) -> bool:
    """Whether the step at hand belongs to the editing of something that is there."""
    if EDITS_BY_NAME.match(run.workflow.skill.name):
        return True
    folder, name = posixpath.split(run.record.path)
    return bool(EDIT_FOLDER.match(posixpath.basename(folder)) or EDIT_FILE.match(name))


def key_of(run: Draft) -> str:
    """The key of the loop that the step at hand is in."""
    return EDIT if run.examination is None and edits(run) else step_key(run.record.id)


def begun(run: Draft) -> None:
    """A step begins: the loop of a workflow that edits is there from its first one, at iteration 0 (BMAD-5.9.1)."""
    if key_of(run) == EDIT:
        run.state.loops.setdefault(EDIT, Loop().as_dict())


def loop_validated(run: Draft, errors: Iterable[Error]) -> Judgement:
    """What a validation of the step at hand calls for; the iteration is logged, and people are warned in time."""
    key = key_of(run)
    before = Loop.of(run.state.loops.get(key))
    after, judgement = validated(before, errors)
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


def went_back(run: Draft, to: StepId) -> Judgement:
    """A step that edits leads back to one that was done: a round without an error of its own is one all the same,
    unless a human has just asked for it."""
    mine = (run.record.id, run.record.visit)
    if any((one["step"], one["visit"]) == mine and one.get("by") == "human" for one in run.state.asked):
        loop_advised(run)
        return Judgement("edit")
    return loop_validated(run, [f"step {run.record.id} leads back to step {to}"])


def loop_advised(run: Draft) -> None:
    """A human has said what to do about the step at hand."""
    key = key_of(run)
    if key in run.state.loops:
        run.state.loops[key] = loop_back_handler.advised(Loop.of(run.state.loops[key])).as_dict()


FIXED = "fixed"
KEPT = 60
OF_A_TURN = 8


def collect(state: WorkflowState, closing: Closing, at: str) -> None:
    """Note what the agent says is worth knowing later, each thing once, in the form that it was asked for
    (`workflow.memory.lesson`, FR33)."""
    for one in closing.learned:
        text, solution = (" ".join(str(one.get(name) or "").split())[:LONG] for name in ("text", "solution"))
        added = [known for known in state.learned if (known.get("at"), known.get("kind")) == (at, one["kind"])]
        if len(text) > 3 and len(added) < OF_A_TURN:
            said = {"kind": str(one["kind"])[:40], "text": text, "at": at, "importance": one.get("importance")}
            _add(state, said | ({"solution": solution} if solution else {}))


def fixed(state: WorkflowState, failure: str, solution: str, at: str) -> None:
    """Note a failure that is over, and what helped."""
    _add(state, {"kind": FIXED, "text": failure[:LONG], "solution": solution[:LONG], "at": at})


def _add(state: WorkflowState, entry: Json) -> None:
    known = {(one.get("kind"), str(one.get("text", "")).casefold()) for one in state.learned}
    if (entry["kind"], entry["text"].casefold()) not in known:
        state.learned = [*state.learned, {**entry, "step": state.current_step}][-KEPT:]
