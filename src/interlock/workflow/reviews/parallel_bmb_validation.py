"""Parallel BMB Validation: up to six validators look at what a builder's workflow made, at once (epic 6, FR45–FR47c).

Each is a subagent with a context of its own: its step file as its instructions, reading only, and our own form for its
result. The deterministic check of the standard is run beside them and merged in. Where the workflow has such steps
itself, one after the other and each with its menu, the validation stands in for them; elsewhere it comes at the end.
The builder's thresholds judge the merged result (BMAD-6.4.4): what is blocking or major goes back to the maker, all at
once, and a score below the threshold too; more than the thresholds allow calls Party Mode.

What is done when some of several validators could not be heard (BMAD-6.3, FR47c).

A validator *fails* when it died, took too long, or said nothing that can be read; one that finds issues has done its
work. For six the rows are those of the specification. For fewer the same shares hold: all heard, at least two thirds,
more than one, one, none. One alone is always the context of the others' second try, however few they are.

Which validators are complete, in progress and pending, as it is kept with the run and shown (BMAD-6.1.4).

What was heard stays there, so a run that is killed asks only the others again, as long as the artifact is the same.

One validation by several validators: at once behind a barrier, and again where some were not heard (BMAD-6.1–6.3).

Every way ends within bounded time: the barrier's wait, once or twice, and one time limit for each validator that is
tried again by itself. Nothing that was heard is lost, whatever happens to the others; the results come in the order of
the validators, in one shape, whichever way they were come by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.workflow import panel
from interlock.workflow.agents.assignment import VALIDATION, Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.examination import (
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
from interlock.workflow.menus import menu_participation_engine
from interlock.workflow.package.step import Step
from interlock.workflow.package.validators import BLOCKING, MAJOR, MINOR, Compliance, Issue
from interlock.workflow.panel import BARRIER_TIMEOUT, Barriers, SynchronizationBarrier
from interlock.workflow.reviews import bmb_artifact, validator_answer
from interlock.workflow.reviews import bmb_artifact as bmb_validators
from interlock.workflow.reviews.bmb_artifact import VALIDATING, Artifact, Validator
from interlock.workflow.reviews.validator_answer import FAILED, ValidatorResult, prompt

PROCEED = "proceed"
RETRY_FAILED = "retry_failed_sequentially"
RETRY_ALL = "retry_all"
WITH_CONTEXT = "retry_failed_with_context"
SEQUENTIAL = "sequential_fallback"
ENOUGH = 4 / 6


def handling(heard: int, of: int) -> str:
    """What follows when `heard` of so many validators were heard."""
    if heard >= of:
        return PROCEED
    if heard == 0:
        return SEQUENTIAL
    if heard == 1:
        return WITH_CONTEXT
    return RETRY_FAILED if heard / of >= ENOUGH else RETRY_ALL


PENDING, IN_PROGRESS, COMPLETED = "pending", "in_progress", "completed"


class Board:
    """The part `now` of the examination `name` in `run.state.examinations`: of that round, for that artifact."""

    def __init__(self, run: RunContext, name: str, round: int, digest: str, validators: Sequence[Validator]) -> None:
        self._run = run
        kept = run.state.examinations.setdefault(name, {"rounds": []})
        before = kept.get("now") or {}
        same = (before.get("round"), before.get("digest")) == (round, digest)
        known = before.get("validators", {}) if same else {}
        self.now: dict[str, Any] = {"round": round, "digest": digest, "validators": {}}
        for one in validators:
            found = known.get(one.label, {})
            entry = found if found.get("status") == COMPLETED else {"name": one.name, "status": PENDING}
            self.now["validators"][one.label] = entry
        kept["now"] = self.now

    def kept(self) -> list[ValidatorResult]:
        """What was heard of this round before it was interrupted."""
        entries = self.now["validators"].values()
        return [ValidatorResult.of(one["result"]) for one in entries if one["status"] == COMPLETED]

    def awaits(self, labels: Sequence[str]) -> None:
        """These are to be asked (again), and are not yet."""
        for label in labels:
            self.now["validators"][label]["status"] = PENDING

    def began(self, label: str) -> None:
        """A validator is at work."""
        entry = self.now["validators"][label]
        entry["status"], entry["attempts"] = IN_PROGRESS, int(entry.get("attempts", 0)) + 1

    def ended(self, result: ValidatorResult) -> None:
        """It is over with it; what it found before stays where it could not be heard again."""
        entry = self.now["validators"][result.label]
        if result.heard:
            entry |= {"status": COMPLETED, "result": result.as_dict()}
        elif "result" in entry:
            entry["status"] = COMPLETED
        else:
            entry |= {"status": FAILED, "detail": result.detail}

    async def save(self) -> None:
        """Write it down."""
        await self._run.save_soon()


Prompts = Callable[[Validator, ValidatorResult | None], str]


@dataclass(frozen=True)
class Validated:
    """The results in the order of the validators, how those that failed at first were treated, and the barrier's errors
    (`sync_timeout`, `barrier_timeout`). `capacity` is the report of a validator whose provider has none left: nobody is
    tried again then."""

    results: tuple[ValidatorResult, ...]
    handling: str
    errors: tuple[str, ...] = ()
    capacity: Report | None = None

    @property
    def unheard(self) -> tuple[ValidatorResult, ...]:
        """Those that could not be heard to the end."""
        return tuple(one for one in self.results if not one.heard)


@dataclass
class Validation:
    """See the module. `prompt` is what a validator is told, with another's result as its context where there is one;
    `wait` the limit of the barrier and of each single validator, in seconds."""

    validators: Sequence[Validator]
    prompt: Prompts
    dispatcher: SubagentDispatcher
    board: Board
    wait: float
    barriers: Barriers = SynchronizationBarrier
    reports: dict[str, Report] = field(default_factory=dict)
    _errors: list[str] = field(default_factory=list)

    async def run(self) -> Validated:
        """All of it. `board` knows what was heard before an interruption: that is not asked for again."""
        heard = {one.label: one for one in self.board.kept() if one.heard}
        left = [one for one in self.validators if one.label not in heard]
        results = {**heard, **(await self._at_once(left) if left else {})}
        way = handling(sum(one.heard for one in results.values()), len(self.validators))
        if self._capacity() or self.dispatcher.stopped:
            way = PROCEED
        if way == RETRY_ALL:
            again = await self._at_once(self.validators)
            results = {label: validator_answer.combined(results[label], new) for label, new in again.items()}
            for result in results.values():
                self.board.ended(result)
        elif way != PROCEED:
            context = None
            if way == WITH_CONTEXT:
                context = next(one for one in results.values() if one.heard)
            self.board.awaits([one.label for one in results.values() if not one.heard])
            for one in self.validators:
                if not results[one.label].heard and not self._capacity() and not self.dispatcher.stopped:
                    results |= await self._at_once([one], context)
        ordered = tuple(results[one.label] for one in self.validators)
        return Validated(ordered, way, tuple(self._errors), self._capacity())

    def _capacity(self) -> Report | None:
        """The latest report that says so, of each the last one."""
        said = [one for one in self.reports.values() if one.status == "capacity"]
        return max(said, key=lambda one: one.retry_at or 0.0, default=None)

    async def _at_once(
        self, validators: Sequence[Validator], context: ValidatorResult | None = None
    ) -> dict[str, ValidatorResult]:
        """One attempt of all of these at the same time; one that is not there in time has failed."""
        self.board.awaits([one.label for one in validators])
        await self.board.save()
        for one in validators:
            self.board.began(one.label)
        await self.board.save()

        async def heard(place: int, report: Report) -> None:
            self.board.ended(self._read(validators[place], report))
            await self.board.save()

        assignments = [
            Assignment(
                one.label, self.prompt(one, context), VALIDATION, time_limit=self.wait, data={"of": one.name}
            )
            for one in validators
        ]  # fmt: skip
        # One alone needs nobody's lock, whatever is the matter with it.
        barriers = self.barriers if len(validators) > 1 else SynchronizationBarrier
        asked = await panel.ask(self.dispatcher, assignments, limit=self.wait, heard=heard, barriers=barriers)
        results = {}
        for place, one in enumerate(validators):
            report = asked.reports.get(place)
            lost = asked.error or BARRIER_TIMEOUT if len(validators) > 1 else f"no answer within {self.wait:g} s"
            found = self._read(one, report) if report else validator_answer.failed(one.label, one.name, lost)
            self.board.ended(found)
            results[one.label] = found
        if asked.error is not None and len(validators) > 1:
            self._errors.append(asked.error)
        await self.board.save()
        return results

    def _read(self, validator: Validator, report: Report) -> ValidatorResult:
        self.reports[validator.label] = report
        if report.status != "completed":
            detail = f"{report.status}: {report.detail}" if report.detail else report.status
            return validator_answer.failed(validator.label, validator.name, detail, report.seconds)
        return validator_answer.read(validator.label, validator.name, report.text, report.seconds)


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
        validated = Validated((), PROCEED)
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
    limits = run.settings.bmb or menu_participation_engine.Thresholds()
    result = merged.result()
    score = float(merged.score)
    found_by = _finders(standard, validated.results)
    findings = tuple(_finding(one, found_by[_known_by(one)]) for one in merged.issues)
    if validated.handling != PROCEED or validated.errors:
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
