"""What one validator found, as it says it (BMAD-6.1, 6.4.3).

It is asked for one JSON object at its end. Agents wrap it in fences, forget it, call things by other names: an answer
without it is read as the report that the step itself asks for (counts, and the items under FAILURES and WARNINGS).
What says nothing at all is no answer: the validator has failed.

What a validator is told: its step as its instructions, but to read and report only, and the form of its result.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.workflow.engine import prompts, steps
from interlock.workflow.engine.context import RunContext
from interlock.workflow.entry import verdicts
from interlock.workflow.menus import menu_participation_engine
from interlock.workflow.package.step import Step
from interlock.workflow.package.validators import BLOCKING, MAJOR, MINOR, Issue
from interlock.workflow.reviews.bmb_artifact import Artifact, Validator

PASSED, ISSUES, FAILED = "passed", "issues", "failed"
MOST = 50  # findings of one validator
TEXT = 600  # characters of one field
SCANNED = 60_000  # characters, from its end, of an answer that are looked through

SEVERITY = {
    **dict.fromkeys(("blocking", "blocker", "critical", "fatal", "failure", "error"), BLOCKING),
    **dict.fromkeys(("major", "high", "moderate", "medium"), MAJOR),
    **dict.fromkeys(("minor", "low", "warning", "info", "note", "suggestion"), MINOR),
}
LISTS = {"findings": None, "issues": None, "failures": BLOCKING, "errors": BLOCKING, "warnings": MINOR}
KNOWN = frozenset({*LISTS, "status", "blocking_errors", "critical_issues", "major_issues", "minor_issues"})
SECTION = re.compile(r"^\W*(PASSING CHECKS|WARNINGS|FAILURES)\b", re.IGNORECASE)
ITEM = re.compile(r"^\s*(?:[-*•✗✘❌⚠✓✔✅]️?|\d+[.)])\s*(.+)$")
NOTHING = re.compile(r"^\W*(?:none|no (?:failures|warnings|issues)|n/?a)\b", re.IGNORECASE)
MEND = "Fix what it names."
BAD = frozenset({"fail", "failed", "failure", "issues", "invalid", "rejected", "non_compliant"})


@dataclass(frozen=True)
class ValidatorResult:
    """One validator's result. `label` is 08a … 08f, `status` passed, issues or failed; `detail` says why it failed.
    The counts are what it says, and at least what it lists."""

    label: str
    name: str
    status: str
    issues: tuple[Issue, ...] = ()
    blocking_errors: int = 0
    major_issues: int = 0
    summary: str = ""
    detail: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def heard(self) -> bool:
        """Whether the validator did its work, whatever it found."""
        return self.status != FAILED

    def as_dict(self) -> dict[str, Any]:
        """The shape it is kept and shown in, however it was come by."""
        return {
            "label": self.label,
            "name": self.name,
            "status": self.status,
            "findings": [one.as_dict() for one in self.issues],
            "blocking_errors": self.blocking_errors,
            "major_issues": self.major_issues,
            "summary": self.summary,
            "detail": self.detail,
        }

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ValidatorResult:
        """The result that `as_dict` gave."""
        issues = _listed(given, str(given.get("name") or ""))
        counts = (_number(given, "blocking_errors"), _number(given, "major_issues"))
        label, name, status = (str(given.get(one) or "") for one in ("label", "name", "status"))
        detail = given.get("detail")
        summary = str(given.get("summary") or "")
        return cls(label, name, status, issues, *counts, summary, str(detail) if detail else None)


def read(label: str, name: str, text: str, seconds: float = 0.0) -> ValidatorResult:
    """The result in a validator's answer; a failed one where nothing can be read."""
    found = _last_object(text[-SCANNED:])
    if found is None:
        return replace(_report(label, name, text[-SCANNED:]), seconds=seconds)
    issues = _listed(found, name)
    blocking = max(_number(found, "blocking_errors", "critical_issues"), _count(issues, BLOCKING))
    major = max(_number(found, "major_issues"), _count(issues, MAJOR))
    stated = str(found.get("status") or "").strip().lower().replace(" ", "_")
    status = ISSUES if issues or blocking or major or stated in BAD else PASSED
    if status == ISSUES and not (issues or blocking or major):
        issues = (_unlisted(label, MAJOR, "says that the validation failed, and not why"),)
        major = 1
    summary = _short(found.get("summary"), 300) or _summary(blocking, major, issues)
    return ValidatorResult(label, name, status, issues, blocking, major, summary, seconds=seconds)


def failed(label: str, name: str, detail: str, seconds: float = 0.0) -> ValidatorResult:
    """The result of a validator that could not be heard."""
    return ValidatorResult(label, name, FAILED, summary=detail[:300], detail=detail[:TEXT], seconds=seconds)


def combined(first: ValidatorResult, again: ValidatorResult) -> ValidatorResult:
    """What a validator that was asked twice has found in all: its second answer adds to the first."""
    if not (first.heard and again.heard):
        return again if again.heard else first
    issues = tuple(dict.fromkeys((*first.issues, *again.issues)))
    blocking = max(first.blocking_errors, again.blocking_errors, _count(issues, BLOCKING))
    major = max(first.major_issues, again.major_issues, _count(issues, MAJOR))
    status = ISSUES if ISSUES in (first.status, again.status) else PASSED
    summary = again.summary if again.status == status else first.summary
    return replace(again, status=status, issues=issues, blocking_errors=blocking, major_issues=major, summary=summary)


def counted(result: ValidatorResult) -> tuple[Issue, ...]:
    """Its issues, with one more for each that it counts and does not list."""
    more = [
        (BLOCKING, result.blocking_errors - _count(result.issues, BLOCKING)),
        (MAJOR, result.major_issues - _count(result.issues, MAJOR)),
    ]
    unlisted = (
        _unlisted(result.label, severity, f"counts one more {severity} issue than it lists")
        for severity, number in more
        for _ in range(min(number, MOST))
    )
    return (*result.issues, *unlisted)


def _last_object(text: str) -> dict[str, Any] | None:
    """The last JSON object in the text that has the shape of an answer, or holds one."""
    decoder, place, found = json.JSONDecoder(), 0, None
    while (place := text.find("{", place)) >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        for one in (value, *(value.values() if isinstance(value, dict) else ())):
            if isinstance(one, dict) and KNOWN & set(one):
                found = one
                break
        place = end
    return found


def _listed(found: Mapping[str, Any], name: str) -> tuple[Issue, ...]:
    issues: list[Issue] = []
    for name, severity in LISTS.items():
        value = found.get(name)
        for one in value if isinstance(value, list) else ():
            issue = _issue(one, severity, name)
            if issue is not None:
                issues.append(issue)
    return tuple(issues[:MOST])


def _issue(value: object, severity: str | None, name: str) -> Issue | None:
    """One finding: an object, by whatever names its fields go, or a plain text. What it leaves out is said in general,
    so that every issue says where, what should be, what is, and what to do (BMAD-6.4.3)."""
    if isinstance(value, str) and value.strip():
        return _plain(value, severity or MAJOR, name)
    if not isinstance(value, Mapping):
        return None

    def text(*names: str) -> str:
        return next((_short(value[name], TEXT) for name in names if value.get(name) not in (None, "", [])), "")

    actual = text("actual", "actual_value", "problem", "message", "title", "description", "issue", "finding")
    stated = text("severity", "level", "priority").lower()
    field = text("field", "location", "path", "component", "item")
    expected = text("expected", "expected_format", "rule")
    if not (field or expected or actual):
        return None
    fix = text("remediation", "fix", "suggestion", "remediation_suggestion")
    known = SEVERITY.get(stated, severity or MAJOR)
    return Issue(field or name, expected or _asked(name), actual or "something else", fix or MEND, known)


def _plain(text: str, severity: str, name: str) -> Issue:
    return Issue(name, _asked(name), text.strip()[:TEXT], MEND, severity)


def _asked(name: str) -> str:
    return f"what {name} asks for"


def _report(label: str, name: str, text: str) -> ValidatorResult:
    """An answer in words: the counts it gives, the items of its sections, its verdict."""
    numbers = menu_participation_engine.read(text)
    listed: list[Issue] = []
    section, sections = "", 0
    for line in text.splitlines():
        heading = SECTION.match(line)
        if heading:
            section, sections = heading[1].upper(), sections + 1
            continue
        if re.match(r"^\s*(?:#|\*\*)", line):
            section = ""
        item = ITEM.match(line)
        if item and section in ("FAILURES", "WARNINGS") and not NOTHING.match(item[1]):
            severity = BLOCKING if section == "FAILURES" else MINOR
            listed.append(_plain(item[1], severity, name))
    issues = tuple(listed[:MOST])
    verdict = verdicts.read(text)
    blocking, major = max(numbers.blocking_errors, _count(issues, BLOCKING)), numbers.major_issues
    if verdict is None and not sections and not blocking and not major:
        return failed(label, name, "its answer cannot be read: it has neither a result nor a verdict")
    if verdict is not None and verdict.outcome == verdicts.FAILURE and not (blocking or major or issues):
        issues, major = (_unlisted(label, MAJOR, f"says {verdict.word}, and not why"),), 1
    status = ISSUES if issues or blocking or major else PASSED
    return ValidatorResult(label, name, status, issues, blocking, major, _summary(blocking, major, issues))


def _unlisted(label: str, severity: str, what: str) -> Issue:
    fix = "Look at the whole of what it checks, and fix what does not hold."
    return Issue(f"validator {label}", "a list of what is wrong", f"it {what}", fix, severity)


def _number(found: Mapping[str, Any], *names: str) -> int:
    """The largest count that it states; a list is counted."""
    best = 0
    for name in names:
        value = found.get(name)
        if isinstance(value, list):
            value = len(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1_000_000:
            best = max(best, int(value))
    return best


def _count(issues: tuple[Issue, ...], severity: str) -> int:
    return sum(one.severity == severity for one in issues)


def _summary(blocking: int, major: int, issues: tuple[Issue, ...]) -> str:
    minor = _count(issues, MINOR)
    if not (blocking or major or minor):
        return "nothing found"
    return f"{blocking} blocking, {major} major, {minor} minor"


def _short(value: object, limit: int) -> str:
    text = (
        value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    )
    return text.strip()[:limit]


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


def prompt(
    run: RunContext,
    validator: Validator,
    artifact: Artifact,
    all_: Sequence[Validator],
    context: ValidatorResult | None,
) -> str:
    """The whole prompt for one validator; what the others found is in it only where it is to be the `context`."""
    step = _filled(run, validator.step, artifact)
    others = ", ".join(one.name for one in all_ if one.label != validator.label)
    parts = [f"# Validation {validator.label}: {validator.name}", RULES]
    if others:
        parts.append(f"Others look at the rest at the same time: {others}.")
    parts.append(_work(run, artifact))
    if context is not None:
        found = [f"- {one.severity}: {one.field}: {one.actual}" for one in context.issues[:20]]
        listed = "\n".join(found) or "- nothing is wrong there"
        parts.append(
            f"## What is known already\n\nThe validation of {context.name} ({context.label}) succeeded while others "
            f"failed: {context.summary}\n\n{listed}\n\nBuild on it where it helps; report only what yours is about."
        )
    parts.append("## Your instructions\n\n" + prompts.step_prompt(run.workflow, run.state, step))
    parts.append(FORM)
    return "\n\n".join(parts)


def _work(run: RunContext, artifact: Artifact) -> str:
    lines = [f"## The work\n\nThe {artifact.kind} `{artifact.name}`: {os.path.join(run.root, artifact.path)}"]
    lines += [f"- {path}" for path in artifact.files[1:FILES]]
    if artifact.plan:
        lines.append(f"\nThe plan it was made by: {os.path.join(run.root, artifact.plan)}")
    return "\n".join(lines)


def _filled(run: RunContext, step: Step, artifact: Artifact) -> Step:
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
    variables = steps.variables_of(run.workflow, step, {**run.state.plan.values, **given})
    settings = {
        name: given.get(name, variables.resolve(value).text if isinstance(value, str) else value)
        for name, value in step.settings.items()
        if not ELSEWHERE.match(name)
    }
    text = variables.resolve(step.text).text
    return Step(step.id, step.title, step.path, text, settings, step.fault, step.line)
