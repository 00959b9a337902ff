"""Parallel BMB Validation: up to six validators look at what a builder's workflow made, at once (epic 6, FR45–FR47c).

Each is a subagent with a context of its own: its step file as its instructions, reading only, and our own form for its
result. The deterministic check of the standard is run beside them and merged in. Where the workflow has such steps
itself, one after the other and each with its menu, the validation stands in for them; elsewhere it comes at the end.
The builder's thresholds judge the merged result (BMAD-6.4.4): what is blocking or major goes back to the maker, all at
once, and a score below the threshold too; more than the thresholds allow calls Party Mode.

A validator *fails* when it died, took too long, or said nothing that can be read; one that finds issues has done its
work. What is done when some could not be heard is in the rule `panel.VALIDATION` (BMAD-6.3, FR47c). Every way ends
within bounded time: the barrier's wait, once or twice, and one time limit for each validator that is tried again by
itself. Nothing that was heard is lost, whatever happens to the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow import panel
from interlock.workflow.agents.assignment import VALIDATION, Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.barrier import BARRIER_TIMEOUT, Barriers, SynchronizationBarrier
from interlock.workflow.engine.context import Draft, Note
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.examination import (
    APPROVE,
    BLOCKED,
    CAPACITY,
    CHANGES,
    SKIPPED,
    STOPPED,
    Examined,
    Finding,
)
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.menus import escalation
from interlock.workflow.package.compliance import BLOCKING, Compliance, Issue
from interlock.workflow.package.step import Step
from interlock.workflow.panel import PROCEED, RETRY_ALL, WITH_CONTEXT
from interlock.workflow.reviews import bmb_artifact, validator_answer
from interlock.workflow.reviews.bmb_artifact import VALIDATING, BmbArtifact, Validator
from interlock.workflow.reviews.validator_answer import FAILED, ValidatorPrompt, ValidatorResult, prompt

PENDING, IN_PROGRESS, COMPLETED = "pending", "in_progress", "completed"

NAME, TITLE = "parallel_validation", "Parallel validation"
STANDARD = "standard"
SETTING = "parallel_validation"
NOT_SIDECAR = "the agent has no sidecar"


@dataclass(frozen=True, slots=True)
class Validated:
    """The results in the order of the validators, how those that failed at first were treated, and the barrier's errors
    (`sync_timeout`, `barrier_timeout`). `capacity` is the report of a validator whose provider has none left: nobody is
    tried again then, nor where the run is being stopped."""

    results: tuple[ValidatorResult, ...] = ()
    handling: str = PROCEED
    errors: tuple[str, ...] = ()
    capacity: Report | None = None
    stopped: bool = False

    @property
    def unheard(self) -> tuple[ValidatorResult, ...]:
        """Those that could not be heard to the end."""
        return tuple(one for one in self.results if not one.heard)


@dataclass(frozen=True, slots=True)
class ValidationRound:
    """One round: every validator that the artifact needs, and the standard. See `engine.context.Inquiry`.

    `prompts` are what each is told, by label; `digest` is that of the artifact. `known` is what an earlier process had
    heard of the same artifact.
    """

    artifact: BmbArtifact
    whole: Sequence[Validator]
    needed: Sequence[Validator]
    prompts: Mapping[str, ValidatorPrompt]
    round: int
    digest: str
    known: Mapping[str, Json]
    barriers: Barriers

    async def ask(self, runtime: Runtime, note: Note) -> Validated:
        """Ask the validators."""
        if runtime.dispatcher is None or not self.needed:
            return Validated()
        return await Validation(self, runtime.dispatcher, runtime.limits.sync_wait, note).validate()

    def judge(self, run: Draft, said: Validated) -> Examined:
        """See the port."""
        if said.stopped:
            return Examined(STOPPED, "the run is being stopped")
        if said.capacity is not None:
            why = f"the validators have no capacity: {said.capacity.detail or 'their provider says no more'}"
            return Examined(CAPACITY, why, details={"retry_at": said.capacity.retry_at})
        if self.artifact.digest(run.root) != self.digest:
            why = f"{self.artifact.path} was changed while it was being validated"
            run.decide(Decision("validation", "changed", why))
        return _judged(run, self.artifact, self.whole, said)


class Validation:
    """The validators of a round at work: all at once behind a barrier, and again where some were not heard.

    Which are complete, in progress and pending is noted and shown (BMAD-6.1.4). What was heard stays there, so a run
    that is killed asks only the others again, as long as the artifact is the same.
    """

    def __init__(self, given: ValidationRound, dispatcher: SubagentDispatcher, wait: float, note: Note) -> None:
        self.given = given
        self.dispatcher = dispatcher
        self.validators = given.needed
        self._wait = wait
        self._note = note
        self._reports: dict[str, Report] = {}
        self._errors: list[str] = []
        self._board: dict[str, Json] = {
            one.label: dict(given.known.get(one.label) or {"name": one.name, "status": PENDING}) for one in given.needed
        }
        found = {label: entry["result"] for label, entry in self._board.items() if "result" in entry}
        self._results = {label: ValidatorResult.model_validate(result) for label, result in found.items()}

    async def validate(self) -> Validated:
        """All of it."""
        if left := [one for one in self.validators if one.label not in self._results]:
            await self._at_once(left)
        heard = [one for one in self._results.values() if one.heard]
        unheard = [one for one in self.validators if not self._results[one.label].heard]
        way = panel.VALIDATION.way(len(heard), len(self.validators))
        if self._capacity() or self.dispatcher.stopped:
            way = PROCEED
        if way == RETRY_ALL:
            await self._at_once(self.validators)
        elif way != PROCEED:
            for one in unheard:
                self._board[one.label]["status"] = PENDING
            for one in unheard:
                if not self._capacity() and not self.dispatcher.stopped:
                    await self._at_once([one], heard[0] if way == WITH_CONTEXT else None)
        results = tuple(self._results[one.label] for one in self.validators)
        return Validated(results, way, tuple(self._errors), self._capacity(), self.dispatcher.stopped)

    def _capacity(self) -> Report | None:
        return panel.hindrance(one for one in self._reports.values() if one.status == "capacity")

    async def _at_once(self, validators: Sequence[Validator], context: ValidatorResult | None = None) -> None:
        """One attempt of all of these at the same time; one that is not there in time has failed."""
        for one in validators:
            self._board[one.label]["status"] = PENDING
        await self._keep()
        for one in validators:
            entry = self._board[one.label]
            entry["status"], entry["attempts"] = IN_PROGRESS, int(entry.get("attempts", 0)) + 1
        await self._keep()
        wait, alone = self._wait, len(validators) == 1

        async def heard(place: int, report: Report) -> None:
            self._reports[report.label] = report
            self._show(_read(validators[place], report))
            await self._keep()

        assignments = [
            Assignment(
                one.label, self.given.prompts[one.label].text(context), VALIDATION, time_limit=wait,
                data={"of": one.name},
            )
            for one in validators
        ]  # fmt: skip
        # One alone needs nobody's lock, whatever is the matter with it.
        barriers = SynchronizationBarrier if alone else self.given.barriers
        asked = await panel.ask(
            self.dispatcher, assignments, panel.VALIDATION, limit=wait, heard=heard, barriers=barriers
        )
        for place, one in enumerate(validators):
            report = asked.reports.get(place)
            lost = f"no answer within {wait:g} s" if alone else asked.error or BARRIER_TIMEOUT
            result = _read(one, report) if report else validator_answer.failed(one.label, one.name, lost)
            before = self._results.get(one.label)
            self._results[one.label] = validator_answer.combined(before, result) if before else result
            self._show(self._results[one.label])
        if asked.error is not None and not alone:
            self._errors.append(asked.error)
        await self._keep()

    async def _keep(self) -> None:
        board = {label: dict(entry) for label, entry in self._board.items()}
        await self._note(_shown, {"round": self.given.round, "digest": self.given.digest, "validators": board})

    def _show(self, result: ValidatorResult) -> None:
        """A validator has ended; what it found before stays where it could not be heard again."""
        entry = self._board[result.label]
        if result.heard:
            entry |= {"status": COMPLETED, "result": result.as_dict()}
        elif "result" in entry:
            entry["status"] = COMPLETED
        else:
            entry |= {"status": FAILED, "detail": result.detail}


def _read(validator: Validator, report: Report) -> ValidatorResult:
    if report.status == "completed":
        return validator_answer.read(validator.label, validator.name, report.text)
    detail = f"{report.status}: {report.detail}" if report.detail else report.status
    return validator_answer.failed(validator.label, validator.name, detail)


class ParallelBmbValidation:
    """See the module; an `Examination` that stands in for steps. `barriers` makes the barrier of one attempt."""

    name, title = NAME, TITLE

    def __init__(self, barriers: Barriers = SynchronizationBarrier) -> None:
        self._barriers = barriers

    def called_for(self, run: Draft) -> str | None:
        """Where the workflow makes or changes something of the builder's, and nobody has switched it off. Not where it
        only validates, or has done its validation steps itself."""
        kind = bmb_artifact.makes(run.workflow)
        if kind is None or _switched_off(run):
            return None
        begun = {one.path for one in run.state.steps.values() if one.visit}
        as_written = (one for one in run.workflow.steps if one.path in begun)
        if any(VALIDATING.search(path) for path in begun) or any(
            bmb_artifact.group_of(run.workflow, one) for one in as_written
        ):
            return None
        return f"what the builder makes is validated: {kind}"

    def replaces(self, run: Draft, step: Step) -> tuple[str, ...]:
        """The validation steps that are done by this instead, where `step` is one of them."""
        return tuple(one.step.path for one in bmb_artifact.group_of(run.workflow, step))

    def declined(self, run: Draft) -> str | None:
        """Why those steps are done as they are written after all."""
        if _switched_off(run):
            return f"{SETTING} is switched off for {run.workflow.skill.name}"
        if not run.staffed:
            return "no other agents can be had"
        if bmb_artifact.of_run(run) is None:
            return "what is to be validated was not found, so the validators could not be told"
        return None

    def begin(self, run: Draft, round: int) -> Examined | ValidationRound:
        """See the port."""
        artifact = bmb_artifact.of_run(run)
        if artifact is None:
            return _nothing_found(run, round)
        kept = run.state.examinations.get(NAME, {})
        replaced = kept.get("replaces") or ()
        first = next((one for one in run.workflow.steps if one.path in replaced), None)
        own = bmb_artifact.group_of(run.workflow, first) if first is not None else ()
        whole = own or bmb_artifact.validators(run.workflow, run.package)
        needed = tuple(one for one in whole if not one.of_sidecar or artifact.sidecar)
        told = {one.label: prompt(run, one, artifact, needed) for one in needed}
        digest, before = artifact.digest(run.root), kept.get("now") or {}
        same = (before.get("round"), before.get("digest")) == (round, digest)
        board = before.get("validators", {}) if same else {}
        known = {label: entry for label, entry in board.items() if entry["status"] == COMPLETED}
        return ValidationRound(artifact, whole, needed, told, round, digest, known, self._barriers)


def _shown(run: Draft, board: Json) -> None:
    run.state.examinations.setdefault(NAME, {"rounds": []})["now"] = board


def _judged(run: Draft, artifact: BmbArtifact, whole: Sequence[Validator], validated: Validated) -> Examined:
    """The verdict over what the validators and the standard say."""
    standard = bmb_artifact.check(run.root, artifact)
    sources = {STANDARD: standard.issues, **{one.label: validator_answer.counted(one) for one in validated.results}}
    findings = panel.merge({label: [_finding(one) for one in issues] for label, issues in sources.items()}, _same)
    merged = Compliance(artifact.kind, tuple(Issue(**one.data, severity=one.severity) for one in findings))
    limits = run.settings.bmb or escalation.Thresholds()
    result, score = merged.result(), float(merged.score)
    heard = len(validated.results) - len(validated.unheard)
    if validated.handling != PROCEED or validated.errors:
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
        **({"error": validated.errors[0]} if validated.errors else {}),
    }  # fmt: skip
    details.pop("issues")  # they are the findings
    serious = result.blocking_errors or result.major_issues or score < limits.compliance_score
    verdict = panel.VALIDATION.missed(heard, len(validated.results)) or (CHANGES if serious else APPROVE)
    if validated.unheard:
        who = ", ".join(f"{one.label} {one.name} ({one.detail})" for one in validated.unheard)
        errors = f"{', '.join(validated.errors)}; " if validated.errors else ""
        summary = f"{errors}these validators could not be heard, also when they were tried again: {who}"
    else:
        counts = f"{result.blocking_errors} blocking errors, {result.major_issues} major issues"
        summary = f"compliance score {merged.score}, {counts} in {artifact.path}"
    told = {"handling": validated.handling, "compliance_score": merged.score}
    return Examined(verdict, summary, findings, details, told, {"validation_verdict": score})


def _nothing_found(run: Draft, round: int) -> Examined:
    """The maker is asked once where its work lies, then a human; nobody is asked with `--yolo`."""
    folder = bmb_artifact.folder_of(run) or "the project"
    fix = 'Write it, or name its main file at the end of your turn: {"step": "completed", "outputs": ["PATH"]}'
    finding = Finding(BLOCKING, f"nothing that was made here is to be found in {folder}", folder, fix, (STANDARD,))
    verdict = CHANGES if round == 1 else SKIPPED if run.state.plan.yolo else BLOCKED
    return Examined(verdict, "there is nothing to validate", (finding,), {"artifact": None, "status": "NOT_FOUND"})


def _stands_for(whole: Sequence[Validator], results: Sequence[ValidatorResult], score: float) -> Json:
    """What becomes of each step that this stands in for: by its path."""
    by_label = {one.label: one for one in results}
    shown: Json = {}
    for one in whole:
        result = by_label.get(one.label)
        if result is None:
            shown[one.step.path] = {"status": "skipped", "summary": NOT_SIDECAR}
        else:
            said = f"{result.status}: {result.summary}" if result.summary else result.status
            shown[one.step.path] = {"status": "completed", "summary": said[:200], "confidence": score}
    return shown


def _finding(issue: Issue) -> Finding:
    return Finding(
        issue.severity, f"{issue.field}: expected {issue.expected}, it is {issue.actual}"[:400], "", issue.remediation,
        data={name: value for name, value in issue.as_dict().items() if name != "severity"},
    )  # fmt: skip


def _same(one: Finding, other: Finding) -> bool:
    """Two are the same by the field, and by what is wrong with it."""
    first, second = (
        (given["field"].strip().casefold().removeprefix("agent."),
         f"{given['expected']} {given['actual']}".casefold().split())
        for given in (one.data, other.data)
    )  # fmt: skip
    return first == second


def _switched_off(run: Draft) -> bool:
    return str(run.workflow.settings.get(SETTING, "")).strip().lower() in ("false", "no", "off")
