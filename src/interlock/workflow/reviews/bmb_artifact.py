"""The artifact that a workflow of the builder made: where it is, whether it keeps to the standard (BMAD-6.4), and which
validators it has (BMAD-6.1). Reads files below the project, and none beside it.

Agents put what they build in slightly different places (with a folder of its own and without), so it is looked for: the
files that the maker names or wrote, the latest first, then what lies in the builder's folder of creations.

Validators are step files, told apart by their names alone. For an agent they are the lettered validation steps of the
builder's own workflow (`step-08a-plan-traceability.md` … `step-08f-sidecar-validation.md`); what their frontmatter
calls them is wrong in the first generation. A builder without those has others: `v-02a-…` in a folder `steps-v`, files
that `parallel-steps` names. A workflow is looked at by the validations of `workflow-compliance-check`, a module by the
checklist beside the workflow that made it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine import documents
from interlock.workflow.engine.context import Draft
from interlock.workflow.package import files as frontmatter
from interlock.workflow.package import next_steps
from interlock.workflow.package import validators as artifacts
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.compliance import BLOCKING, Compliance, Issue, text_issue
from interlock.workflow.package.packages import FOLDER, Package
from interlock.workflow.package.references import leads_somewhere
from interlock.workflow.package.step import FILE, Step, is_step_file
from interlock.workflow.package.workflow import Workflow

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

CREATIONS = "bmb_creations_output_folder"
ENTRIES = 4000  # files of the folder of creations that are looked at
FILES = 60  # files of one artifact that are checked
WORKFLOWS = ("workflow.md", "workflow.yaml", "workflow.yml", "SKILL.md")


@dataclass(frozen=True, slots=True)
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
    """What a workflow of the builder makes or changes: an agent, a workflow or a module; None where it makes none."""
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
            path, there = next_steps.locate(str(reference), step.path, workflow.variables, paths, package.files.exists)
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


@dataclass(frozen=True, slots=True)
class BmbArtifact:
    """What was made. Paths are from the project's root: `path` its main file, `files` all that belong to it, `plan` the
    plan it was made by ("" without one). `name` is that of its file. `sidecar`: it says that it has one."""

    kind: str
    path: str
    files: tuple[str, ...]
    name: str
    plan: str = ""
    sidecar: bool = False

    def digest(self, root: str) -> str:
        """Another value means that it was changed."""
        return documents.digest(root, [*self.files, *([self.plan] if self.plan else [])])


def of_run(run: Draft) -> BmbArtifact | None:
    """The artifact of the run, None where there is none to be found."""
    kind, folder = makes(run.workflow), folder_of(run)
    if kind is None:
        return None
    lying = _below(run.root, folder) if folder else []
    candidates = [*_named(run), *sorted(lying, key=lambda path: _changed_at(run.root, path), reverse=True)]
    main = next((path for path in dict.fromkeys(candidates) if _is_main(run.root, path, kind)), None)
    if main is None:
        return None
    folder = posixpath.dirname(main)
    name = (
        re.sub(r"\.agent\.ya?ml$|\.md$", "", posixpath.basename(main)) if kind == AGENT else posixpath.basename(folder)
    )
    plans = [path for path in lying if re.match(r"(?:agent|workflow|module|edit)-plan\b", posixpath.basename(path))]
    own_plans = [path for path in plans if name in posixpath.basename(path)]
    # The plan it was made by: of that name, else the only one.
    plan = own_plans[0] if own_plans else plans[0] if len(plans) == 1 else ""
    if kind != AGENT:
        parts = (path for path in _below(run.root, folder) if path != main)
        return BmbArtifact(kind, main, (main, *parts)[:FILES], name, plan)
    own = folder if posixpath.basename(folder) == name else posixpath.join(folder, f"{name}-sidecar")
    beside = [path for path in _below(run.root, own) if path != main]
    return BmbArtifact(kind, main, (main, *beside[: FILES - 1]), name, plan, _has_sidecar(run.root, main, name))


def check(root: str, artifact: BmbArtifact) -> Compliance:
    """All deviations of the artifact from the standard, each field with the file it is in where there are several."""
    names = {posixpath.basename(path) for path in artifact.files}
    issues: list[Issue] = []
    # Checked by itself are the steps of a workflow; the agents and workflows of a module.
    parts = {MODULE: (*WORKFLOWS, ".agent.yaml", ".agent.yml"), WORKFLOW: WORKFLOWS}.get(artifact.kind)
    checked = [
        path
        for path in artifact.files
        if path == artifact.path
        or (parts is not None and (is_step_file(path) or posixpath.basename(path).endswith(parts)))
    ]
    for path in checked:
        text = documents.read(root, path)
        whole = os.path.join(root, path)

        def exists(reference: str, text: str = text, whole: str = whole) -> bool | None:
            # It is not installed yet: what lies anywhere in it is there.
            return posixpath.basename(reference) in names or leads_somewhere(whole, reference, text)

        module = artifact.kind == MODULE and path == artifact.path
        found = _module(text) if module else artifacts.check(whole, text, exists)
        several = len(checked) > 1
        where = posixpath.relpath(path, posixpath.dirname(artifact.path))
        issues += [
            Issue(f"{where}: {one.field}", one.expected, one.actual, one.remediation, one.severity) if several else one
            for one in found.issues
        ]
    return Compliance(artifact.kind, tuple(issues))


def _module(text: str) -> Compliance:
    """The file that says what a module is."""
    settings = frontmatter.read(text, "module.yaml")
    if settings.fault is not None:
        fix = f"Correct line {settings.fault.line}."
        return Compliance(MODULE, (Issue("file", "valid YAML", settings.fault.message, fix, BLOCKING),))
    return Compliance(
        MODULE, tuple(one for name in ("code", "name") for one in text_issue(name, settings.values.get(name)))
    )


def folder_of(run: Draft) -> str:
    """Where the builder puts what it makes, from the project's root; "" where nothing says it."""
    value = run.state.plan.values.get(CREATIONS) or run.workflow.variables.value(CREATIONS) or ""
    return documents.relative(run.root, value) if value and "{" not in value else ""


def _named(run: Draft) -> list[str]:
    """What the maker names at the end of its turn, wrote with its tools, or is known to have written; latest first."""
    said = run.reading.closing.outputs if run.reading is not None else ()
    records = sorted(run.state.steps.values(), key=lambda one: one.started_at or "", reverse=True)
    written = [path for record in records for path in reversed(record.files)]
    paths = [*said, *written, *reversed(run.state.documents), *reversed(list(run.state.written))]
    inside = (documents.relative(run.root, path) for path in paths)
    return [path for path in inside if path and os.path.isfile(os.path.join(run.root, path))]


def _below(root: str, folder: str) -> list[str]:
    """The files below a folder, in a steady order; links are not followed."""
    found: list[str] = []
    for directory, below, names in os.walk(os.path.join(root, folder)):
        below[:] = sorted(one for one in below if not one.startswith("."))
        found += [documents.relative(root, os.path.join(directory, name)) for name in sorted(names)]
        if len(found) >= ENTRIES:
            break
    return [path for path in found[:ENTRIES] if path and not os.path.islink(os.path.join(root, path))]


def _is_main(root: str, path: str, kind: str) -> bool:
    name = posixpath.basename(path)
    if kind == AGENT:
        if name.endswith((".agent.yaml", ".agent.yml")):
            return True
        text = documents.read(root, path) if name.endswith(".md") and not path.startswith(f"{FOLDER}/") else ""
        return bool(re.search(r"<agent\b[^>]*\bid=", text))
    return name in ("module.yaml", "module.yml") if kind == MODULE else name in WORKFLOWS


def _has_sidecar(root: str, path: str, name: str) -> bool:
    """Whether an agent says that it has one, speaks of it, or has it lying beside it: samples do only one of these."""
    text = documents.read(root, path)
    agent = frontmatter.read(text, posixpath.basename(path)).values.get("agent")
    metadata = agent.get("metadata") if isinstance(agent, dict) else None
    declared = isinstance(metadata, dict) and metadata.get("hasSidecar") is True
    folder = os.path.join(root, posixpath.dirname(path))
    beside = any(os.path.isdir(os.path.join(folder, one)) for one in (f"{name}-sidecar", f"{name}/{name}-sidecar"))
    return declared or beside or f"{name}-sidecar/" in text


def _changed_at(root: str, path: str) -> float:
    try:
        return os.stat(os.path.join(root, path)).st_mtime
    except OSError:
        return 0.0
