"""Where a step is judged: by what it says about itself, and by what it has left (FR3, decision 45)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.workflow.engine import evidence, recovery
from interlock.workflow.engine.closing_line import SKIPPED
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import LearnFix
from interlock.workflow.engine.transitions import done, first_line
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.entry import custom_pattern, validation_type_detector, verdicts
from interlock.workflow.entry.custom_pattern import CustomPattern
from interlock.workflow.package.step import Step
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import FAILED, Proof


def validate(run: Draft) -> None:
    """VALIDATING: judge what the step says about itself; on to the next step, or to FAILED (FR3)."""
    reading = run.reading
    assert reading is not None
    step, record = run.step, run.record
    outcome, why = judge(run, reading, step)
    record.verdict = reading.closing.verdict or (outcome if outcome != "unknown" else None)
    if run.examination is None and run.party.beyond_thresholds(run, reading):
        return
    if outcome == verdicts.FAILURE and reading.kind != SKIPPED:
        issues = reading.closing.issues or _listed(reading.closing.text)
        recovery.failed(run.state, recovery.VALIDATION, why, issues, reading.closing.text)
        recovery.limited(run.state, recovery.loop_validated(run, issues or [reading.closing.text or why]))
        step_tracking.fail(run.state, record.id, run.now, why)
        run.decide(Decision("verdict", "failed", why, by="agent"))
        run.event("workflow.step_failed", step=record.id, reason=why, attempts=record.attempts)
        run.move(FAILED)
        return
    if unproven(run, reading):
        return
    recovery.loop_validated(run, [])
    settle_recovery(run)
    if run.party.doubted(run, reading, outcome):
        return
    done(run, reading, outcome)


def unproven(run: Draft, reading: Reading) -> bool:
    """Whether the step at hand has not left what it must (decision 45): it has failed then."""
    record = run.record
    if run.examination is None:
        record.proofs = proofs(run, reading)
    missing = evidence.missing(record.proofs)
    if not missing:
        return False
    why = "it is said to be completed, but what it must leave is missing"
    recovery.failed(run.state, recovery.EVIDENCE, why, missing, reading.closing.text)
    step_tracking.fail(run.state, record.id, run.now, f"{why}: {'; '.join(missing)}")
    run.event("workflow.evidence_missing", step=record.id, missing=missing, attempts=run.state.recovery["attempts"])
    run.move(FAILED)
    return True


def judge(run: Draft, reading: Reading, step: Step) -> tuple[str, str]:
    """(success, failure, partial or unknown, why) of a step, by what it says last.

    An author's own pattern counts most; then the closing line; then a verdict after a label. Words in running text are
    no verdict of the step.
    """
    closing = reading.closing
    settings = step.settings if "validation" in step.settings else run.workflow.settings
    pattern = custom_pattern.register(settings.get("validation"))
    if isinstance(pattern, CustomPattern):
        found = pattern.result(closing.text)
        if found != "unknown":
            return found, f"the workflow's own pattern says {found}"
    if closing.verdict:
        word = verdicts.read(f"Verdict: {closing.verdict.upper()}")
        outcome = word.outcome if word else "unknown"
        return outcome, f"the verdict is {closing.verdict}"
    if closing.issues:
        return verdicts.FAILURE, f"{len(closing.issues)} issues are open"
    said = verdicts.read(closing.text)
    if said is not None and said.labelled and _by_verdict(settings, step.text):
        return said.outcome, f"it says {said.word}"
    return "unknown", "nothing says how it went"


def _by_verdict(settings: Mapping[str, Any], text: str) -> bool:
    """Whether a step with these settings and that text succeeds by a verdict. It reads the whole text."""
    detected = validation_type_detector.detect(settings, text)
    return getattr(detected, "validation_type", None) == validation_type_detector.VERDICT


def settle_recovery(run: Draft) -> None:
    """A failure that is over: what helped is logged, and kept where it was more than trying again."""
    found = run.state.recovery
    tried, advice = found.get("tried") or [], found.get("advice")
    if not tried and not advice:
        return
    method = str(tried[-1]["strategy"]) if tried else "human_advice"
    attempts = max(1, int(found.get("attempts", len(tried))))
    run.record.recovery_method, run.record.attempts_count = method, attempts
    run.event("workflow.recovered", recovery_method=method, attempts_count=attempts, step=run.record.id)
    if found.get("kind") == recovery.VALIDATION:
        said = first_line(run.reading.closing.text) if run.reading else ""
        helped = f"{method.replace('_', ' ')}: {advice or said or 'each finding, where it stood'}"
        failure = recovery.signature(found)
        recovery.fixed(run.state, failure, helped, run.now)
        run.effect(LearnFix(failure, helped))
    run.state.timeout_error = None
    run.state.recovery = {}


def proofs(run: Draft, reading: Reading) -> list[Proof]:
    """What there is of everything that the step at hand must leave."""
    step, record = run.step, run.record
    return run.observe("proofs", lambda: evidence.look(run.root, run.wanted, step, record, reading))


def _listed(text: str) -> list[str]:
    """The findings of a report: its list items."""
    lines = [line.strip() for line in text.splitlines()]
    return [line[2:].strip() for line in lines if line.startswith(("- ", "* ")) and len(line) > 4][:50]
