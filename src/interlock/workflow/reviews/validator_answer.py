"""What a validator is told, and what it found, as it says it (BMAD-6.1, 6.4.3).

It is asked for one JSON object at its end. An answer without it is read as the report that the step itself asks for:
counts, the items under FAILURES and WARNINGS, a verdict. What says nothing at all is no answer: the validator failed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.answers import AnswerModel, Text, called, objects, plain, tables_of
from interlock.workflow.engine import documents, evidence, prompts
from interlock.workflow.engine.context import Draft
from interlock.workflow.entry import verdicts
from interlock.workflow.menus import escalation
from interlock.workflow.package.compliance import BLOCKING, MAJOR, MINOR, Issue
from interlock.workflow.package.step import Step
from interlock.workflow.reviews.bmb_artifact import BmbArtifact, Validator
from interlock.workflow.reviews.reviewers import SAID

PASSED, ISSUES, FAILED = "passed", "issues", "failed"
MOST = 50  # findings of one validator
TEXT = 600  # characters of one field
SCANNED = 60_000  # characters, from its end, of an answer that are looked through

SEVERITY = {
    **SAID,
    **dict.fromkeys(("failure", "error"), BLOCKING),
    **dict.fromkeys(("high",), MAJOR),
    **dict.fromkeys(("warning", "note"), MINOR),
}
LISTS = {"findings": MAJOR, "issues": MAJOR, "failures": BLOCKING, "errors": BLOCKING, "warnings": MINOR}
KNOWN = frozenset({*LISTS, "status", "blocking_errors", "critical_issues", "major_issues", "minor_issues"})
SECTION = re.compile(r"^\W*(PASSING CHECKS|WARNINGS|FAILURES)\b", re.IGNORECASE)
ITEM = re.compile(r"^\s*(?:[-*•✗✘❌⚠✓✔✅]️?|\d+[.)])\s*(.+)$")
NOTHING = re.compile(r"^\W*(?:none|no (?:failures|warnings|issues)|n/?a)\b", re.IGNORECASE)
BAD = frozenset({"fail", "failed", "failure", "issues", "invalid", "rejected", "non compliant"})


def _shown(value: object) -> str:
    """A field's text; what is a list or a table is shown as JSON."""
    empty = value in (None, "", [], {})
    text = value if isinstance(value, str) else "" if empty else json.dumps(value, ensure_ascii=False, default=str)
    return text.strip()[:TEXT]


def _number(value: object) -> int:
    """A count; a list is counted."""
    value = len(value) if isinstance(value, list) else value
    counts = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1_000_000
    return int(value) if counts else 0  # type: ignore[call-overload]


Shown = Annotated[str, BeforeValidator(_shown)]
Count = Annotated[int, BeforeValidator(_number)]


class IssueSaid(AnswerModel):
    """An issue as a validator writes it. What it leaves out is said in general, so that every issue says where, what
    should be, what is, and what to do (BMAD-6.4.3)."""

    severity: Text = called("severity", "level", "priority")
    field: Shown = called("field", "location", "path", "component", "item")
    expected: Shown = called("expected", "expected_format", "rule")
    actual: Shown = called("actual", "actual_value", "problem", "message", "title", "description", "issue", "finding")
    remediation: Shown = called("remediation", "fix", "suggestion", "remediation_suggestion")

    def issue(self, name: str, severity: str) -> Issue:
        """It, with that severity where it names none."""
        return Issue(
            self.field or name,
            self.expected or f"what {name} asks for",
            self.actual or "something else",
            self.remediation or "Fix what it names.",
            SEVERITY.get(plain(self.severity), severity),
        )


class ResultSaid(AnswerModel):
    """What a validator says of the whole, beside its lists."""

    status: Annotated[str, BeforeValidator(lambda said: plain(str(said or "")))] = ""
    blocking_errors: Count = 0
    critical_issues: Count = 0
    major_issues: Count = 0
    summary: Shown = ""


class ValidatorResult(BaseModel):
    """One validator's result. `label` is 08a … 08f, `status` passed, issues or failed; `detail` says why it failed.
    The counts are what it says, and at least what it lists."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    label: str
    name: str
    status: str
    issues: tuple[Issue, ...] = Field(
        (), validation_alias=AliasChoices("issues", "findings"), serialization_alias="findings"
    )
    blocking_errors: int = 0
    major_issues: int = 0
    summary: str = ""
    detail: str | None = None

    @property
    def heard(self) -> bool:
        """Whether the validator did its work, whatever it found."""
        return self.status != FAILED

    def as_dict(self) -> Json:
        """The shape it is kept and shown in, however it was come by."""
        return self.model_dump(mode="json", by_alias=True)


def read(label: str, name: str, text: str) -> ValidatorResult:
    """The result in a validator's answer; a failed one where nothing can be read."""
    text = text[-SCANNED:]
    found = next((one for _, one in reversed(list(objects(text, KNOWN)))), None)
    if found is None:
        return _report(label, name, text)
    said = ResultSaid.model_validate(found)
    issues = []
    for key, severity in LISTS.items():
        listed = map(IssueSaid.model_validate, tables_of(found.get(key)))
        issues += [one.issue(name, severity) for one in listed if one.field or one.expected or one.actual]
    counts = max(said.blocking_errors, said.critical_issues), said.major_issues
    return _result(label, name, issues, counts, said.status if said.status in BAD else "", said.summary[:300])


def failed(label: str, name: str, detail: str) -> ValidatorResult:
    """The result of a validator that could not be heard."""
    return ValidatorResult(label=label, name=name, status=FAILED, issues=(), summary=detail[:300], detail=detail[:TEXT])


def combined(first: ValidatorResult, again: ValidatorResult) -> ValidatorResult:
    """What a validator that was asked twice has found in all: its second answer adds to the first."""
    if not (first.heard and again.heard):
        return first if first.heard else again
    counts = max(first.blocking_errors, again.blocking_errors), max(first.major_issues, again.major_issues)
    summary = first.summary if (first.status, again.status) == (ISSUES, PASSED) else again.summary
    return _result(again.label, again.name, list(dict.fromkeys((*first.issues, *again.issues))), counts, "", summary)


def counted(result: ValidatorResult) -> tuple[Issue, ...]:
    """Its issues, with one more for each that it counts and does not list."""
    unlisted = (
        _unlisted(result.label, severity, f"counts one more {severity} issue than it lists")
        for severity, number in ((BLOCKING, result.blocking_errors), (MAJOR, result.major_issues))
        for _ in range(min(number - sum(one.severity == severity for one in result.issues), MOST))
    )
    return (*result.issues, *unlisted)


def _report(label: str, name: str, text: str) -> ValidatorResult:
    """An answer in words: the counts it gives, the items of its sections, its verdict."""
    numbers, verdict = escalation.read(text), verdicts.read(text)
    issues: list[Issue] = []
    section, sections = "", 0
    for line in text.splitlines():
        if heading := SECTION.match(line):
            section, sections = heading[1].upper(), sections + 1
            continue
        if re.match(r"^\s*(?:#|\*\*)", line):
            section = ""
        item = ITEM.match(line)
        if item and section in ("FAILURES", "WARNINGS") and not NOTHING.match(item[1]):
            issues.append(IssueSaid(actual=item[1]).issue(name, BLOCKING if section == "FAILURES" else MINOR))
    if verdict is None and not (sections or numbers.blocking_errors or numbers.major_issues):
        return failed(label, name, "its answer cannot be read: it has neither a result nor a verdict")
    bad = verdict.word if verdict is not None and verdict.outcome == verdicts.FAILURE else ""
    return _result(label, name, issues, (numbers.blocking_errors, numbers.major_issues), bad)


def _result(
    label: str, name: str, issues: Sequence[Issue], counts: tuple[int, int], bad: str, summary: str = ""
) -> ValidatorResult:
    """A result; `counts` are the blocking errors and major issues that it states, `bad` its word for a failure."""
    issues = tuple(issues[:MOST])
    listed = [sum(one.severity == severity for one in issues) for severity in (BLOCKING, MAJOR, MINOR)]
    blocking, major = (max(stated, seen) for stated, seen in zip(counts, listed, strict=False))
    if bad and not (issues or blocking or major):
        issues, major = (_unlisted(label, MAJOR, f"says {bad}, and not why"),), 1
    status = ISSUES if issues or blocking or major else PASSED
    shown = f"{blocking} blocking, {major} major, {listed[2]} minor" if status == ISSUES else "nothing found"
    return ValidatorResult(
        label=label, name=name, status=status, issues=issues, blocking_errors=blocking, major_issues=major,
        summary=summary or shown,
    )  # fmt: skip


def _unlisted(label: str, severity: str, what: str) -> Issue:
    fix = "Look at the whole of what it checks, and fix what does not hold."
    return Issue(f"validator {label}", "a list of what is wrong", f"it {what}", fix, severity)


RULES = """\
You look at work that somebody else has made, and only report. You change no file, also where the instructions below
speak of fixing, appending or saving. You show no menu, ask nothing, load no other step, and start no other workflow:
where they tell you to, that is done by others. You judge only what these instructions are about."""

FORM = f"""\
## Your result

End with one JSON object, and nothing after it:

{{"status": "passed" or "issues", "findings": [{{"severity": "{BLOCKING}", "{MAJOR}" or "{MINOR}",
"field": "where it is", "expected": "what it should be", "actual": "what it is", "remediation": "what to do"}}],
"blocking_errors": NUMBER, "major_issues": NUMBER, "summary": "one line"}}

`{BLOCKING}` is what makes the work unusable or breaks a rule that must hold; `{MAJOR}` what should not be shipped;
`{MINOR}` everything else. List only what is really wrong; an empty list is a good result."""

ELSEWHERE = re.compile(r"^(?:nextStep|partyMode|advancedElicitation|workflowFile$|thisStepFile$)")
"""Settings that name what a validator has no business with."""
FILES = 30  # that are listed


@dataclass(frozen=True, slots=True)
class ValidatorPrompt:
    """What one validator is told: about the work, and what it is to do."""

    work: str
    task: str

    def text(self, context: ValidatorResult | None) -> str:
        """The whole prompt; what the others found is in it only where it is to be the `context`."""
        if context is None:
            return f"{self.work}\n\n{self.task}"
        found = [f"- {one.severity}: {one.field}: {one.actual}" for one in context.issues[:20]]
        listed = "\n".join(found) or "- nothing is wrong there"
        return (
            f"{self.work}\n\n"
            f"## What is known already\n\nThe validation of {context.name} ({context.label}) succeeded while others "
            f"failed: {context.summary}\n\n{listed}\n\nBuild on it where it helps; report only what yours is about."
            f"\n\n{self.task}"
        )


def prompt(run: Draft, validator: Validator, artifact: BmbArtifact, all_: Sequence[Validator]) -> ValidatorPrompt:
    """Return the prompt for one validator of `all_`."""
    step = _filled(run, validator.step, artifact)
    others = ", ".join(one.name for one in all_ if one.label != validator.label)
    parts = [f"# Validation {validator.label}: {validator.name}", RULES]
    if others:
        parts.append(f"Others look at the rest at the same time: {others}.")
    lines = [f"## The work\n\nThe {artifact.kind} `{artifact.name}`: {os.path.join(run.root, artifact.path)}"]
    lines += [f"- {path}" for path in artifact.files[1:FILES]]
    lines += [f"\nThe plan it was made by: {os.path.join(run.root, artifact.plan)}"] if artifact.plan else []
    parts.append("\n".join(lines))
    wanted = evidence.wanted(run.workflow, step, run.state.plan.values)
    text = prompts.step_prompt(run.workflow, run.state, step, wanted=wanted)
    return ValidatorPrompt("\n\n".join(parts), f"## Your instructions\n\n{text}\n\n{FORM}")


def _filled(run: Draft, step: Step, artifact: BmbArtifact) -> Step:
    """The step with the names of this artifact in the settings that its text refers to."""
    whole = os.path.join(run.root, artifact.path)
    given = {
        **dict.fromkeys(("agent-name", "agent_name", "workflow_name", "module_name"), artifact.name),
        **dict.fromkeys(("builtYaml", "agentFile", "targetWorkflowFile", "target_workflow_path"), whole),
        **({"agentPlan": os.path.join(run.root, artifact.plan)} if artifact.plan else {}),
    }
    folder = os.path.dirname(os.path.join(run.root, step.path))
    for name, value in step.settings.items():
        if isinstance(value, str) and value.startswith(("./", "../")):  # from the step, which the validator is not at
            given.setdefault(name, os.path.normpath(os.path.join(folder, value)))
    variables = documents.variables_of(run.workflow, step, {**run.state.plan.values, **given})
    settings = {
        name: given.get(name, variables.resolve(value).text if isinstance(value, str) else value)
        for name, value in step.settings.items()
        if not ELSEWHERE.match(name)
    }
    text = variables.resolve(step.text).text
    return Step(step.id, step.title, step.path, text, settings, step.fault, step.line)
