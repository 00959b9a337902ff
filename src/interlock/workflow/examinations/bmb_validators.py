"""Which validators an artifact of the builder module has (BMAD-6.1): step files, told apart by their names alone.

For an agent they are the lettered validation steps of the builder's own workflow (`step-08a-plan-traceability.md` …
`step-08f-sidecar-validation.md`); what their frontmatter calls them is wrong in the first generation. A builder without
those has others: `v-02a-…` in a folder `steps-v`, files that `parallel-steps` names. A workflow is looked at by the
validations of `workflow-compliance-check`, a module by the checklist beside the workflow that made it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.workflow.definition import frontmatter, next_step
from interlock.workflow.definition import workflow as workflows
from interlock.workflow.definition.package import Package
from interlock.workflow.definition.step import FILE, Step
from interlock.workflow.definition.workflow import Workflow

AGENT, WORKFLOW, MODULE = "agent", "workflow", "module"
MOST = 6  # validators of one artifact

BUILDER = "bmb"
MAKES = re.compile(r"(?:^|-)(?:create|edit|build|builder)(?:-|$)")
VALIDATES = re.compile(r"(?:^|-)(?:validate|validation|traceability)(?:-|$)")
CHECKS = re.compile(r"-(?:validation|analysis)$")
NOT_ONE = re.compile(r"(?:^|-)(?:summary|goal|report)(?:-|$)")
SIDECAR = re.compile(r"(?:^|-)sidecar(?:-|$)")
VALIDATING = re.compile(r"(?:^|/)steps-v(?:/|$)")
CHECKLISTS = ("validation.md", "checklist.md")
COMPLIANCE = "workflow-compliance-check"


@dataclass(frozen=True)
class Validator:
    """One validator: its label (08a), what it looks at ("plan traceability"), and the step that instructs it."""

    label: str
    name: str
    step: Step

    @property
    def of_sidecar(self) -> bool:
        """Whether it looks at what only an agent with a sidecar has."""
        return bool(SIDECAR.search(self.name.replace(" ", "-")))


def makes(workflow: Workflow) -> str | None:
    """What a workflow of the builder makes or changes: an agent, a workflow or a module; null where it makes none."""
    name = workflow.skill.name.lower()
    if workflow.module != BUILDER or not (name == AGENT or MAKES.search(name)):
        return None
    return next((kind for kind in (AGENT, MODULE) if kind in name), WORKFLOW)


def groups(workflow: Workflow) -> list[tuple[Validator, ...]]:
    """The lettered validation steps of a workflow, those with the same number in the same folder together."""
    found: dict[tuple[str, str, int], list[Step]] = {}
    for step in workflow.steps:
        name = FILE.match(posixpath.basename(step.path))
        slug = name["slug"] if name and name["slug"] else ""
        if name and name["letter"] and VALIDATES.search(slug) and not NOT_ONE.search(slug):
            key = (posixpath.dirname(step.path), name["path"] or "", int(name["number"]))
            found.setdefault(key, []).append(step)
    lettered = [sorted(steps, key=lambda one: one.order) for _, steps in sorted(found.items()) if len(steps) > 1]
    return [tuple(_validator(one) for one in steps[:MOST]) for steps in lettered]


def group_of(workflow: Workflow, step: Step) -> tuple[Validator, ...]:
    """The finished work's validation steps, where `step` is one of them: the last such group of its folder. An earlier
    one looks at what is going to be changed, and a workflow that only validates does so as it was written."""
    if makes(workflow) is None or VALIDATING.search(posixpath.dirname(step.path)):
        return ()
    folder = posixpath.dirname(step.path)
    here = [group for group in groups(workflow) if posixpath.dirname(group[0].step.path) == folder]
    return here[-1] if here and any(one.step.path == step.path for one in here[-1]) else ()


def validators(workflow: Workflow, package: Package) -> tuple[Validator, ...]:
    """Those of what the workflow makes, in their order; none where the package has none."""
    kind = makes(workflow)
    if kind == AGENT:
        found = groups(workflow)
        made = [group for group in found if not VALIDATING.search(posixpath.dirname(group[0].step.path))]
        ways = [made, found, [one for one in [tuple(_parallel(workflow, package))] if one]]
        return next((way[0] for way in ways if way), ())
    if kind == WORKFLOW:
        return _compliance(package)
    return _checklist(workflow, package) if kind == MODULE else ()


def _parallel(workflow: Workflow, package: Package) -> Iterator[Validator]:
    """The files that a step says are to be done at the same time."""
    paths = [one.path for one in workflow.steps]
    for step in workflow.steps:
        named = step.settings.get("parallel-steps", step.settings.get("parallel_steps"))
        for reference in named[:MOST] if isinstance(named, list) else ():
            path, there = next_step.locate(str(reference), step.path, workflow.variables, paths, package.files.exists)
            known = next((one for one in workflow.steps if one.path == path), None)
            if there:
                yield _validator(known or _file(package, path))


def _compliance(package: Package) -> tuple[Validator, ...]:
    skill = next((one for one in package.of_type("workflows") if one.name.endswith(COMPLIANCE)), None)
    steps: Sequence[Step] = workflows.read(package, skill).steps if skill is not None else ()
    checks = [one for one in steps if CHECKS.search(posixpath.basename(one.path).removesuffix(".md"))]
    return tuple(_validator(one) for one in sorted(checks, key=lambda one: one.order)[:MOST])


def _checklist(workflow: Workflow, package: Package) -> tuple[Validator, ...]:
    folder = posixpath.dirname(workflow.skill.path)
    paths = [posixpath.join(folder, name) for name in CHECKLISTS]
    return tuple(
        Validator("checklist", "checklist", _file(package, path)) for path in paths if package.files.exists(path)
    )[:1]


def _file(package: Package, path: str) -> Step:
    text = frontmatter.read(package.files.text(path) or "", posixpath.basename(path))
    return Step(posixpath.basename(path).removesuffix(".md"), posixpath.basename(path), path, text.body, text.values)


def _validator(step: Step) -> Validator:
    stem = posixpath.basename(step.path).removesuffix(".md")
    name = FILE.match(posixpath.basename(step.path))
    if name is None or not name["slug"]:
        return Validator(stem, stem.replace("-", " "), step)
    label = f"{name['path'] or ''}{int(name['number']):02d}{name['letter'] or ''}"
    words = re.sub(r"^validate-|-validation$", "", name["slug"])
    return Validator(label, words.replace("-", " "), step)
