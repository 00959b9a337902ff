"""The artifact that a workflow of the builder made: where it is, what belongs to it, and whether it keeps to the
standard (BMAD-6.4). Reads files below the project, and none beside it.

Agents put what they build in slightly different places (with a folder of its own and without), so it is looked for: the
files that the maker names or wrote, the latest first, then what lies in the builder's folder of creations.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from interlock.workflow.control import documents
from interlock.workflow.control.context import RunContext
from interlock.workflow.definition import frontmatter
from interlock.workflow.definition.package import FOLDER
from interlock.workflow.definition.step import is_step_file
from interlock.workflow.examinations.bmb_validators import AGENT, MODULE
from interlock.workflow.validators import artifact as artifacts
from interlock.workflow.validators.compliance import BLOCKING, Compliance, Issue, text_issue
from interlock.workflow.validators.references import leads_somewhere

CREATIONS = "bmb_creations_output_folder"
ENTRIES = 4000  # files of the folder of creations that are looked at
FILES = 60  # files of one artifact that are checked
WORKFLOWS = ("workflow.md", "workflow.yaml", "workflow.yml", "SKILL.md")


@dataclass(frozen=True)
class Artifact:
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


def find(run: RunContext, kind: str) -> Artifact | None:
    """The artifact of the run, null where there is none to be found."""
    lying = _lying(run)
    candidates = [*_named(run), *sorted(lying, key=lambda path: _changed_at(run.root, path), reverse=True)]
    main = next((path for path in dict.fromkeys(candidates) if _is_main(run.root, path, kind)), None)
    if main is None:
        return None
    folder = posixpath.dirname(main)
    name = (
        re.sub(r"\.agent\.ya?ml$|\.md$", "", posixpath.basename(main)) if kind == AGENT else posixpath.basename(folder)
    )
    plan = _plan(lying, name)
    if kind != AGENT:
        return Artifact(kind, main, (main, *_parts(run.root, folder, main))[:FILES], name, plan)
    own = folder if posixpath.basename(folder) == name else posixpath.join(folder, f"{name}-sidecar")
    beside = [path for path in _below(run.root, own) if path != main]
    return Artifact(kind, main, (main, *beside[: FILES - 1]), name, plan, _has_sidecar(run.root, main, name))


def check(root: str, artifact: Artifact) -> Compliance:
    """All deviations of the artifact from the standard, each field with the file it is in where there are several."""
    names = {posixpath.basename(path) for path in artifact.files}
    issues: list[Issue] = []
    checked = [path for path in artifact.files if path == artifact.path or _is_part(root, path, artifact.kind)]
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


def folder_of(run: RunContext) -> str:
    """Where the builder puts what it makes, from the project's root; "" where nothing says it."""
    value = run.state.plan.values.get(CREATIONS) or run.workflow.variables.value(CREATIONS) or ""
    return documents.relative(run.root, value) if value and "{" not in value else ""


def _named(run: RunContext) -> list[str]:
    """What the maker names at the end of its turn, wrote with its tools, or is known to have written; latest first."""
    said = run.reading.closing.outputs if run.reading is not None else ()
    records = sorted(run.state.steps.values(), key=lambda one: one.started_at or "", reverse=True)
    written = [path for record in records for path in reversed(record.files)]
    paths = [*said, *written, *reversed(run.state.documents), *reversed(list(run.state.written))]
    inside = (documents.relative(run.root, path) for path in paths)
    return [path for path in inside if path and os.path.isfile(os.path.join(run.root, path))]


def _lying(run: RunContext) -> list[str]:
    folder = folder_of(run)
    return _below(run.root, folder) if folder else []


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


def _is_part(root: str, path: str, kind: str) -> bool:
    """Whether a file is checked by itself: the steps of a workflow; the agents and workflows of a module."""
    name = posixpath.basename(path)
    if kind == AGENT:
        return False
    if kind == MODULE:
        return name in WORKFLOWS or is_step_file(path) or name.endswith((".agent.yaml", ".agent.yml"))
    return name in WORKFLOWS or is_step_file(path)


def _parts(root: str, folder: str, main: str) -> Iterable[str]:
    return (path for path in _below(root, folder) if path != main)


def _plan(lying: list[str], name: str) -> str:
    """The plan it was made by: of that name, else the only one."""
    plans = [path for path in lying if re.match(r"(?:agent|workflow|module|edit)-plan\b", posixpath.basename(path))]
    named = [path for path in plans if name in posixpath.basename(path)]
    return named[0] if named else plans[0] if len(plans) == 1 else ""


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
