"""Parallel BMB Validation: up to six validators look at what a builder's workflow made, at once (epic 6, FR45–FR47c).

Each is a subagent with a context of its own: its step file as its instructions, reading only, and our own form for its
result. The deterministic check of the standard is run beside them and merged in. Where the workflow has such steps
itself, one after the other and each with its menu, the validation stands in for them; elsewhere it comes at the end.
The builder's thresholds judge the merged result (BMAD-6.4.4): what is blocking or major goes back to the maker, all at
once, and a score below the threshold too; more than the thresholds allow calls Party Mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.workflow.agents.synchronization_barrier import SynchronizationBarrier
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.examination import (
    APPROVE,
    BLOCKED,
    CAPACITY,
    CHANGES,
    NOT_DONE,
    SKIPPED,
    STOPPED,
    Examined,
    Finding,
)
from interlock.workflow.definition.step import Step
from interlock.workflow.examinations import bmb_artifact, bmb_validators, partial_failure, validator_answer
from interlock.workflow.examinations.bmb_artifact import Artifact
from interlock.workflow.examinations.bmb_validators import VALIDATING, Validator
from interlock.workflow.examinations.validating import Barriers, Validated, Validation
from interlock.workflow.examinations.validator_answer import ValidatorResult
from interlock.workflow.examinations.validator_board import Board
from interlock.workflow.examinations.validator_prompt import prompt
from interlock.workflow.menu import bmb_thresholds
from interlock.workflow.validators.compliance import BLOCKING, MAJOR, MINOR, Compliance, Issue

NAME, TITLE = "parallel_validation", "Parallel validation"
STANDARD = "standard"
SETTING = "parallel_validation"
NOT_SIDECAR = "the agent has no sidecar"
RANK = {BLOCKING: 0, MAJOR: 1, MINOR: 2}


class ParallelBmbValidation:
    """See the module; an `Examination` that stands in for steps. `barriers` makes the barrier of one attempt."""

    name, title = NAME, TITLE

    def __init__(self, barriers: Barriers = SynchronizationBarrier) -> None:
        self._barriers = barriers

    def called_for(self, run: RunContext) -> str | None:
        """Where the workflow makes or changes something of the builder's, and nobody has switched it off. Not where it
        only validates, or has done its validation steps itself."""
        kind = bmb_validators.makes(run.workflow)
        if kind is None or _switched_off(run):
            return None
        begun = {one.path for one in run.state.steps.values() if one.visit}
        if any(VALIDATING.search(path) for path in begun) or _done_as_written(run, begun):
            return None
        return f"what the builder makes is validated: {kind}"

    def replaces(self, run: RunContext, step: Step) -> tuple[str, ...]:
        """The validation steps that are done by this instead, where `step` is one of them."""
        return tuple(one.step.path for one in bmb_validators.group_of(run.workflow, step))

    def declined(self, run: RunContext) -> str | None:
        """Why those steps are done as they are written after all."""
        if _switched_off(run):
            return f"{SETTING} is switched off for {run.workflow.skill.name}"
        if run.dispatcher is None:
            return "no other agents can be had"
        kind = bmb_validators.makes(run.workflow)
        if kind is None or bmb_artifact.find(run, kind) is None:
            return "what is to be validated was not found, so the validators could not be told"
        return None

    async def examine(self, run: RunContext, round: int) -> Examined:
        """One round: every validator that the artifact needs, and the standard."""
        kind = bmb_validators.makes(run.workflow)
        artifact = bmb_artifact.find(run, kind) if kind is not None else None
        if artifact is None:
            return _nothing_found(run, round)
        whole = _validators(run)
        needed = tuple(one for one in whole if not one.of_sidecar or artifact.sidecar)
        digest = artifact.digest(run.root)
        validated = Validated((), partial_failure.PROCEED)
        if run.dispatcher is not None and needed:
            board = Board(run, NAME, round, digest, needed)
            validation = Validation(
                needed, lambda one, context: prompt(run, one, artifact, needed, context), run.dispatcher, board,
                run.limits.sync_wait, self._barriers,
            )  # fmt: skip
            validated = await validation.run()
            if run.dispatcher.stopped:
                return Examined(STOPPED, "the run is being stopped")
            if validated.capacity is not None:
                why = f"the validators have no capacity: {validated.capacity.detail or 'their provider says no more'}"
                return Examined(CAPACITY, why, details={"retry_at": validated.capacity.retry_at})
        if artifact.digest(run.root) != digest:
            run.decide(Decision("validation", "changed", f"{artifact.path} was changed while it was being validated"))
        return _judged(run, artifact, whole, validated)


def _done_as_written(run: RunContext, begun: set[str]) -> bool:
    steps = (one for one in run.workflow.steps if one.path in begun)
    return any(bmb_validators.group_of(run.workflow, one) for one in steps)


def _judged(run: RunContext, artifact: Artifact, whole: Sequence[Validator], validated: Validated) -> Examined:
    """The verdict over what the validators and the standard say."""
    standard = bmb_artifact.check(run.root, artifact)
    merged = Compliance(artifact.kind, _merged(standard, validated.results))
    limits = run.settings.bmb or bmb_thresholds.Thresholds()
    result = merged.result()
    score = float(merged.score)
    found_by = _finders(standard, validated.results)
    findings = tuple(_finding(one, found_by[_known_by(one)]) for one in merged.issues)
    if validated.handling != partial_failure.PROCEED or validated.errors:
        heard = len(validated.results) - len(validated.unheard)
        why = "; ".join((*validated.errors, f"{heard} of {len(validated.results)} were heard in the end"))
        run.decide(Decision("validators", validated.handling, why))
    details = {
        **merged.as_dict(limits),
        "artifact": artifact.path,
        "standard": standard.as_dict(limits),
        "validators": [one.as_dict() for one in validated.results],
        "handling": validated.handling,
        "thresholds": {"blocking_errors": limits.blocking_errors, "major_issues": limits.major_issues,
                       "compliance_score": limits.compliance_score},
        "stands_for": _stands_for(whole, validated.results, score),
    }  # fmt: skip
    details.pop("issues")  # they are the findings
    if validated.errors:
        details["error"] = validated.errors[0]
    signals, told = {"validation_verdict": score}, {"handling": validated.handling, "compliance_score": merged.score}
    if validated.unheard:
        nobody = len(validated.unheard) == len(validated.results)
        return Examined(NOT_DONE if nobody else BLOCKED, _unheard(validated), findings, details, told, signals)
    serious = result.blocking_errors or result.major_issues or score < limits.compliance_score
    counts = f"{result.blocking_errors} blocking errors, {result.major_issues} major issues"
    summary = f"compliance score {merged.score}, {counts} in {artifact.path}"
    return Examined(CHANGES if serious else APPROVE, summary, findings, details, told, signals)


def _unheard(validated: Validated) -> str:
    who = ", ".join(f"{one.label} {one.name} ({one.detail})" for one in validated.unheard)
    errors = f"{', '.join(validated.errors)}; " if validated.errors else ""
    return f"{errors}these validators could not be heard, also when they were tried again: {who}"


def _nothing_found(run: RunContext, round: int) -> Examined:
    """The maker is asked once where its work lies, then a human; nobody is asked with `--yolo`."""
    folder = bmb_artifact.folder_of(run) or "the project"
    fix = 'Write it, or name its main file at the end of your turn: {"step": "completed", "outputs": ["PATH"]}'
    finding = Finding(BLOCKING, f"nothing that was made here is to be found in {folder}", folder, fix, (STANDARD,))
    verdict = CHANGES if round == 1 else SKIPPED if run.state.plan.yolo else BLOCKED
    return Examined(verdict, "there is nothing to validate", (finding,), {"artifact": None, "status": "NOT_FOUND"})


def _validators(run: RunContext) -> tuple[Validator, ...]:
    """Those whose steps this stands in for, else those of the workflow."""
    kept = run.state.examinations.get(NAME, {})
    replaced = kept.get("replaces") or ()
    first = next((one for one in run.workflow.steps if one.path in replaced), None)
    own = bmb_validators.group_of(run.workflow, first) if first is not None else ()
    return own or bmb_validators.validators(run.workflow, run.package)


def _stands_for(whole: Sequence[Validator], results: Sequence[ValidatorResult], score: float) -> dict[str, Any]:
    """What becomes of each step that this stands in for: by its path."""
    by_label = {one.label: one for one in results}
    shown: dict[str, Any] = {}
    for one in whole:
        result = by_label.get(one.label)
        if result is None:
            shown[one.step.path] = {"status": "skipped", "summary": NOT_SIDECAR}
        else:
            said = f"{result.status}: {result.summary}" if result.summary else result.status
            shown[one.step.path] = {"status": "completed", "summary": said[:200], "confidence": score}
    return shown


def _merged(standard: Compliance, results: Sequence[ValidatorResult]) -> tuple[Issue, ...]:
    """Every issue once, at its gravest, the gravest first and otherwise in the order of those who found them."""
    found: dict[tuple[str, str], Issue] = {}
    for one in (*standard.issues, *(issue for result in results for issue in validator_answer.counted(result))):
        known = found.get(_known_by(one))
        if known is None or RANK[one.severity] < RANK[known.severity]:
            found[_known_by(one)] = one
    return tuple(sorted(found.values(), key=lambda one: RANK[one.severity]))


def _finders(standard: Compliance, results: Sequence[ValidatorResult]) -> dict[tuple[str, str], tuple[str, ...]]:
    by: dict[tuple[str, str], list[str]] = {}
    sources = [(STANDARD, standard.issues), *((one.label, validator_answer.counted(one)) for one in results)]
    for label, issues in sources:
        for one in issues:
            names = by.setdefault(_known_by(one), [])
            names.extend([label] if label not in names else [])
    return {key: tuple(names) for key, names in by.items()}


def _known_by(issue: Issue) -> tuple[str, str]:
    """By what two issues are the same: the field, and what is wrong with it."""
    field = issue.field.strip().casefold().removeprefix("agent.")
    return field, " ".join(f"{issue.expected} {issue.actual}".casefold().split())


def _finding(issue: Issue, found_by: tuple[str, ...]) -> Finding:
    data = {name: value for name, value in issue.as_dict().items() if name != "severity"}
    title = f"{issue.field}: expected {issue.expected}, it is {issue.actual}"
    return Finding(issue.severity, title[:400], "", issue.remediation, found_by, data)


def _switched_off(run: RunContext) -> bool:
    return str(run.workflow.settings.get(SETTING, "")).strip().lower() in ("false", "no", "off")
