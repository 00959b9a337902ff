"""What a validator is told: its step as its instructions, but to read and report only, and the form of its result."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from interlock.workflow.control import documents, prompts
from interlock.workflow.control.context import RunContext
from interlock.workflow.definition.step import Step
from interlock.workflow.examinations.bmb_artifact import Artifact
from interlock.workflow.examinations.bmb_validators import Validator
from interlock.workflow.examinations.validator_answer import ValidatorResult
from interlock.workflow.validators.compliance import BLOCKING, MAJOR, MINOR

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
    variables = documents.variables_of(run.workflow, step, {**run.state.plan.values, **given})
    settings = {
        name: given.get(name, variables.resolve(value).text if isinstance(value, str) else value)
        for name, value in step.settings.items()
        if not ELSEWHERE.match(name)
    }
    text = variables.resolve(step.text).text
    return Step(step.id, step.title, step.path, text, settings, step.fault, step.line)
