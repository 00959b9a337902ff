"""One workflow as its author wrote it, whatever its format: settings, variables, steps, and which follows which.

The manifest names the file. Its kind decides how steps are found: `workflow.yaml` names its instructions, `workflow.md`
its first step file, `SKILL.md` may do either. Some directories hold a yaml and a md; then the manifest has chosen.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.package import next_steps, step, tagged_steps
from interlock.workflow.package.files import Fault
from interlock.workflow.package.next_steps import Next
from interlock.workflow.package.overlay import FILE, read_overlay
from interlock.workflow.package.packages import Package, Skill
from interlock.workflow.package.step import Step
from interlock.workflow.package.variables import Variables, usable_output

RENDERER = "_bmad/scripts/render_skill.py"
ENTRY = "workflow.md"
STEP_FOLDERS = 12
MOST_STEPS = 200


@dataclass(frozen=True)
class Workflow:
    """A workflow, read. `faults` are (path, fault) of every file of it whose settings could not be read, `warnings`
    what was replaced to make it usable; `renders` says that its sources are rendered before an agent reads them
    (`package.rendering`)."""

    skill: Skill
    kind: str
    module: str
    settings: Mapping[str, Any]
    text: str = field(repr=False)
    variables: Variables = field(repr=False, compare=False)
    steps: tuple[Step, ...] = ()
    entries: tuple[str, ...] = ()
    follow: Mapping[str, tuple[Next, ...]] = field(default_factory=dict, repr=False)
    faults: tuple[tuple[str, Fault], ...] = ()
    files: tuple[str, ...] = ()
    hash: str = ""
    renders: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def one_prompt(self) -> bool:
        """Whether it is a single prompt: whatever steps it has are the agent's own."""
        return not self.follow and len(self.steps) == 1 and self.steps[0].text == self.text

    @property
    def first(self) -> Step | None:
        """Where it starts."""
        if self.entries:
            return next((one for one in self.steps if one.path == self.entries[0]), None)
        return self.steps[0] if self.steps else None

    @cached_property
    def by_path(self) -> Mapping[str, Step]:
        """Its steps by their files; of several in one file the last."""
        return {one.path: one for one in self.steps}

    def after(self, current: Step) -> tuple[Next, ...]:
        """The steps that may follow; for steps of one file the next of them."""
        if current.path in self.follow:
            return self.follow[current.path]
        place = self.steps.index(current)
        return (Next(self.steps[place + 1].path, "order"),) if place + 1 < len(self.steps) else ()


def read(package: Package, skill: Skill) -> Workflow:
    """The definition of `skill`. Reads files, changes none."""
    files = package.files
    settings = files.settings(skill.path)
    extra = read_overlay(files, skill.module, skill.name)
    values = {**extra.workflow, **settings.values}
    module = values.get("module") if isinstance(values.get("module"), str) else None
    folder = posixpath.dirname(skill.path)
    variables = Variables(
        values,
        project_root=files.root,
        installed_path=posixpath.join(files.root, folder),
        config=package.config(module or skill.module),
        configs=lambda path: files.settings(path).values,
    )
    variables, warning = usable_output(variables)
    if warning:
        values["output_folder"] = variables.value("output_folder")
    kind = "yaml" if skill.path.endswith((".yaml", ".yml")) else "skill" if skill.path.endswith("SKILL.md") else "md"
    renders = kind == "skill" and RENDERER in settings.body
    workflow = Workflow(skill, kind, module or skill.module, values, settings.body, variables, renders=renders)
    workflow = _with_steps(workflow, package)
    steps = tuple(replace(one, settings={**extra.step(one.id), **one.settings}) for one in workflow.steps)
    faults = [(skill.path, settings.fault)] if settings.fault else []
    faults += [(FILE, extra.fault)] if extra.fault else []
    faults += [(one.path, one.fault) for one in steps if one.fault]
    used = tuple(dict.fromkeys((skill.path, *workflow.files, *(one.path for one in steps))))
    return replace(
        workflow, steps=steps, faults=tuple(faults), files=used, hash=_hash(package, used),
        warnings=(warning,) if warning else (),
    )  # fmt: skip


def _with_steps(workflow: Workflow, package: Package) -> Workflow:
    """With the steps of its step files, else of its instructions, else of its own text."""
    text, path = workflow.text, workflow.skill.path
    if workflow.renders:
        path = posixpath.join(posixpath.dirname(path), ENTRY)
        text = package.files.settings(path).body
    named = workflow.variables.value("instructions") if workflow.kind == "yaml" else None
    if named:
        path = _relative(package, named)
        text = package.files.text(path) or ""
    found = _step_files(package, posixpath.dirname(workflow.skill.path))
    uses_files = found and (workflow.kind != "yaml" or path.endswith("workflow.md"))
    if uses_files:
        return _with_files(replace(workflow, text=text, files=(path,)), package, text, path, found)
    steps = tagged_steps.steps_of(text, path)
    if not steps:
        steps = tagged_steps.sections_of(text, path, 1)
    if not steps:
        steps = [Step(1, workflow.skill.name, path, text, {}, None, 1)]
    return replace(workflow, text=text, steps=tuple(steps), files=(path,))


def _with_files(workflow: Workflow, package: Package, text: str, path: str, found: Sequence[str]) -> Workflow:
    files = package.files
    read: dict[str, Step] = {}
    follow: dict[str, tuple[Next, ...]] = {}
    start = Step(0, "start", path, text, workflow.settings)
    ways = next_steps.next_steps(start, workflow.variables, found, files.exists, start=True)
    waiting = list(dict.fromkeys([*found, *(way.path for way in ways if way.exists)]))
    while waiting and len(read) < MOST_STEPS:
        path_of = waiting.pop(0)
        one = read[path_of] = step.of_file(path_of, files.settings(path_of))
        own = workflow.variables.with_own({**workflow.settings, **one.settings})
        follow[path_of] = tuple(next_steps.next_steps(one, own, found, files.exists))
        # A copied example leads on into the files it was copied from; then those are its steps.
        waiting += [way.path for way in follow[path_of] if way.exists and way.path not in {*read, *waiting}]
    steps = sorted(read.values(), key=lambda one: (posixpath.dirname(one.path), one.order))
    entries = tuple(dict.fromkeys(_entry(one.path, list(follow)) for one in ways if one.path in follow)) or (
        steps[0].path,
    )
    return replace(workflow, steps=tuple(steps), follow=follow, entries=entries)


def _entry(path: str, found: Sequence[str]) -> str:
    """The first step of the folder of a step that the workflow's own text names: some name the second."""
    here = step.order_of(path)
    firsts = [
        one
        for one in found
        if posixpath.dirname(one) == posixpath.dirname(path) and here and step.order_of(one) == (here[0], 1, "")
    ]
    return firsts[0] if firsts else path


def _step_files(package: Package, folder: str) -> list[str]:
    """The step files of a workflow, from the project's root: in its own folder and in its folders of steps."""
    root = package.files.path(folder)
    if not os.path.isdir(root):
        return []
    places = ["", *[name for name in sorted(os.listdir(root)) if step.FOLDER.search(name)][:STEP_FOLDERS]]
    found = []
    for place in places:
        directory = os.path.join(root, place)
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            path = posixpath.join(folder, place, name)
            if re.match(r"^(?:step-|[ev]-\d)", name) and step.is_step_file(path):
                found.append(path)
    return found[:MOST_STEPS]


def _relative(package: Package, path: str) -> str:
    whole = package.files.path(path)
    return os.path.relpath(whole, package.files.root).replace(os.sep, "/")


def _hash(package: Package, paths: Sequence[str]) -> str:
    """SHA-256 over the files of a workflow: another value means that it has changed since (decision 36)."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path}\0{package.files.text(path) or ''}\0".encode())
    return digest.hexdigest()
