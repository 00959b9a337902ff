"""The workflow packages installed in a project: found, told apart, and listed by their own manifests.

Three generations differ in everything but the idea:

    1   workflow-manifest.csv; commands `.claude/commands/bmad/<module>/<type>/<name>.md`
    2   the same manifest beside bmad-help.csv; flat commands `.claude/commands/bmad-<module>-<name>.md`
    3   skill-manifest.csv; `.claude/skills/<id>/SKILL.md`; configuration in TOML too

A name says nothing about its directory, and twelve names exist in two modules: only the manifest decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from difflib import get_close_matches
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.workflow.package.files import Files

FOLDER = "_bmad"
MANIFESTS = {"workflows": "workflow-manifest.csv", "agents": "agent-manifest.csv", "tasks": "task-manifest.csv"}
TOOLS = "tool-manifest.csv"
SKILLS = "skill-manifest.csv"
SKILL_FOLDERS = (".claude/skills", ".agents/skills", ".github/skills")


@dataclass(frozen=True, slots=True)
class Invocation:
    """A workflow, agent, task or tool that was asked for. `module` is None where only the manifest knows it."""

    module: str | None
    type: str
    name: str
    text: str
    arguments: str = ""

    def as_dict(self) -> Json:
        """The shape that `interlock analyze skill` shows."""
        return {"detected": True, **fields_of(self, ("module", "type", "name", "arguments"))}


@dataclass(frozen=True)
class Skill:
    """One thing a package offers. `path` is that of its definition, from the project's root."""

    module: str
    type: str
    name: str
    path: str
    description: str = ""
    id: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by."""
        return (self.module, self.type, self.name)

    @property
    def invocation(self) -> str:
        """How it is asked for."""
        return f"/{self.id}" if self.id else f"/bmad:{self.module}:{self.type}:{self.name}"


@dataclass(frozen=True)
class Package:
    """What is installed in one project. `generation` is 1 to 3; `version` the installer's own, "" when not written."""

    root: str
    generation: int
    version: str
    modules: tuple[str, ...]
    skills: tuple[Skill, ...]
    files: Files = field(repr=False, compare=False, default_factory=lambda: Files("."))

    def of_type(self, type: str) -> tuple[Skill, ...]:
        """Everything of one type: workflows, agents, tasks or tools."""
        return tuple(skill for skill in self.skills if skill.type == type)

    def find(self, invocation: Invocation) -> Skill | None:
        """What an invocation means here; also one written as in another generation, or not in the manifest yet."""
        return self._listed(invocation) or self._unlisted(invocation)

    def _unlisted(self, invocation: Invocation) -> Skill | None:
        """A workflow that an author has put beside the installed ones: by its directory's name, or the one it gives."""
        if invocation.type != "workflows" or not invocation.module:
            return None
        folder = self.files.path(f"{FOLDER}/{invocation.module}/workflows")
        listed = {skill.path for skill in self.skills}  # known by the manifest's name only
        for directory, below, names in os.walk(folder):
            below.sort()
            for name in ("workflow.yaml", "workflow.yml", "workflow.md"):
                if name not in names:
                    continue
                path = os.path.relpath(os.path.join(directory, name), self.root).replace(os.sep, "/")
                if path in listed:
                    continue
                values = self.files.settings(path).values
                if invocation.name in (os.path.basename(directory), values.get("name")):
                    description = str(values.get("description") or "")
                    return Skill(invocation.module, "workflows", invocation.name, path, description)
        return None

    def _listed(self, invocation: Invocation) -> Skill | None:
        same = [skill for skill in self.skills if skill.type == invocation.type and skill.name == invocation.name]
        own = [skill for skill in same if skill.module == invocation.module]
        if own:
            return own[0]
        if invocation.module is None and same:
            # Flat commands leave the module out for core; anything else must be the only one of its name.
            core = [skill for skill in same if skill.module == "core"]
            return core[0] if core else same[0] if len(same) == 1 else None
        if invocation.module is None and not any(skill.id for skill in self.skills):
            # Nor do they say whether it is a workflow or a task.
            return next((one for one in self.skills if one.name == invocation.name and one.type != "agents"), None)
        written = {invocation.text.lstrip("/"), f"bmad-{invocation.name}", f"bmad-agent-{invocation.name}"}
        ids = [skill for skill in self.skills if skill.id and skill.id in written]
        return next((skill for skill in ids if invocation.module in (None, skill.module)), None)

    def nearest(self, name: str) -> tuple[str, ...]:
        """Invocations of what is called most like `name`."""
        names = get_close_matches(name, [skill.name for skill in self.skills], n=3)
        return tuple(skill.invocation for one in dict.fromkeys(names) for skill in self.skills if skill.name == one)

    def config(self, module: str) -> Mapping[str, Any]:
        """The configuration in force for a module: core's beneath its own, TOML layers above YAML."""
        merged: dict[str, Any] = {}
        for one in dict.fromkeys(("core", module)):
            merged |= self.files.settings(f"{FOLDER}/{one}/config.yaml").values
        for layer in ("config.toml", "config.user.toml", "custom/config.toml", "custom/config.user.toml"):
            tables = self.files.toml(f"{FOLDER}/{layer}")
            modules = tables.get("modules")
            for table in (tables.get("core"), modules.get(module) if isinstance(modules, Mapping) else None):
                merged |= table if isinstance(table, Mapping) else {}
        return merged


def find(directory: str) -> Package | None:
    """The package installed in `directory` or above it, or None."""
    here = os.path.abspath(directory)
    while not os.path.isdir(os.path.join(here, FOLDER)):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return load(here)


def load(root: str) -> Package:
    """The package installed in the project `root`."""
    files = Files(root)
    config = f"{FOLDER}/_config"
    manifest = files.settings(f"{config}/manifest.yaml").values
    installation = manifest.get("installation")
    version = str(installation.get("version", "")) if isinstance(installation, Mapping) else ""
    listed = manifest.get("modules")
    modules = tuple(_module_name(one) for one in listed) if isinstance(listed, list) else ()
    if files.exists(f"{config}/{SKILLS}"):
        return Package(files.root, 3, version, modules, tuple(_skills(files)), files)
    generation = 2 if files.exists(f"{config}/bmad-help.csv") else 1
    skills = [skill for type_, name in (*MANIFESTS.items(), ("tools", TOOLS)) for skill in _rows(files, type_, name)]
    return Package(files.root, generation, version, modules, tuple(skills), files)


def _module_name(one: object) -> str:
    """Older manifests list names, newer ones describe each module."""
    return str(one.get("name", "")) if isinstance(one, Mapping) else str(one)


def _rows(files: Files, type_: str, manifest: str) -> Iterator[Skill]:
    for row in files.rows(f"{FOLDER}/_config/{manifest}"):
        if row.get("name") and row.get("path"):
            description = row.get("description") or row.get("title") or ""
            yield Skill(row.get("module", ""), type_, row["name"], row["path"], description)


def _skills(files: Files) -> Iterator[Skill]:
    for row in files.rows(f"{FOLDER}/_config/{SKILLS}"):
        known = row.get("canonicalId", "")
        if not known:
            continue
        agent = known.startswith("bmad-agent-")
        name = known.removeprefix("bmad-agent-" if agent else "bmad-")
        # The manifest names where the skill came from; what is installed stands in the agent program's folder.
        places = [f"{folder}/{known}/SKILL.md" for folder in SKILL_FOLDERS]
        path = next((place for place in places if files.exists(place)), row.get("path", places[0]))
        type_ = "agents" if agent else "workflows"
        yield Skill(row.get("module", ""), type_, name, path, row.get("description", ""), known)
