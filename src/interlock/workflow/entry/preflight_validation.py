"""Pre-flight Validation Subagent: what a workflow needs before it starts, and what of it is missing (BMAD-1.2, FR14).

Needed is what would stop it half-way: configuration that it looks up (`{config_source}:key`) or builds its paths from,
the files it is made of, servers and documents that it declares as required. Real workflows declare no required
documents: their `input_file_patterns` are optional, and what they match is only listed.

    requires:                       # an extension, in the workflow itself or in the overlay
      mcp: [forgetful]
      documents: ["{planning_artifacts}/prd.md"]
"""

from __future__ import annotations

import glob
import json
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.package.packages import FOLDER, Package
from interlock.workflow.package.variables import LOOK_UP, RUNTIME, Variables, is_set, looked_up
from interlock.workflow.package.workflow import Workflow

PASSED, FAILED, READY = "PASSED", "FAILED", "READY"
IN_PATH = re.compile(r"(?<![\w/{}])\{([a-z_]\w*)\}/")
DECLARED = re.compile(r"\bresolve:?\W*\n((?:\s*\n|[ \t]*[-*] .*\n?)+)")
# What the installers of all generations ask for and paths are built from.
CONFIG_NAMES = frozenset(
    {"output_folder", "planning_artifacts", "implementation_artifacts", "project_knowledge", "sprint_artifacts"}
    | {"bmb_creations_output_folder", "test_artifacts"}
)
OWN_FILES = ("instructions", "template", "validation", "checklist")
MATCHES = 50  # of one pattern


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    missing: tuple[str, ...] = ()
    validated_files: tuple[str, ...] = ()
    remediation: str = ""
    """What to do where something is missing."""

    @property
    def status(self) -> str:
        """PASSED, or FAILED where something is missing."""
        return FAILED if self.missing else PASSED

    def as_dict(self) -> Json:
        """The shape in which it is shown."""
        remediation = self.remediation if self.missing else None
        lists = {"missing": list(self.missing), "validated_files": list(self.validated_files)}
        return {"name": self.name, "status": self.status, **lists, "remediation": remediation}


@dataclass(frozen=True, slots=True)
class Preflight:
    """All checks of one workflow."""

    checks: tuple[Check, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Everything that is missing, in the order of the checks."""
        return tuple(dict.fromkeys(name for check in self.checks for name in check.missing))

    @property
    def ready(self) -> bool:
        """Whether the workflow may start."""
        return not self.missing

    def as_dict(self) -> Json:
        """The shape that `interlock analyze preflight` shows."""
        passed = sum(not check.missing for check in self.checks)
        return {
            "overall_status": READY if self.ready else FAILED,
            "status": PASSED if self.ready else FAILED,
            "missing": list(self.missing),
            "checks_passed_percent": 100 * passed // max(1, len(self.checks)),
            "checks": [check.as_dict() for check in self.checks],
            "remediation": " ".join(check.remediation for check in self.checks if check.missing) or None,
        }


def validate(package: Package, workflow: Workflow, servers: Collection[str] = ()) -> Preflight:
    """What `workflow` needs and has. `servers` are the names of the MCP servers that are available."""
    checks = [_configuration(package, workflow), _definition(package, workflow)]
    wanted = required(workflow, "mcp")
    if wanted:
        available = {name.lower() for name in servers}
        missing = tuple(name for name in wanted if name.lower() not in available)
        where = "the MCP servers of the agent (`.mcp.json` in the project)"
        hint = f"Add {', '.join(missing)} to {where}, and start it again."
        checks.append(Check("mcp", missing, (), hint))
    documents = required(workflow, "documents")
    patterns = workflow.settings.get("input_file_patterns")
    if documents or isinstance(patterns, Mapping):
        checks.append(_documents(package, workflow, documents, patterns if isinstance(patterns, Mapping) else {}))
    return Preflight(tuple(checks))


def project_servers(package: Package) -> tuple[str, ...]:
    """The MCP servers in the project's `.mcp.json`: agent programs read that file themselves."""
    try:
        known = json.loads(package.files.text(".mcp.json") or "{}")
    except (ValueError, RecursionError):
        return ()
    servers = known.get("mcpServers") if isinstance(known, dict) else None
    return tuple(servers) if isinstance(servers, dict) else ()


def required(workflow: Workflow, kind: str) -> list[str]:
    """What a workflow declares as required: `requires: {mcp: …}`, or in short `required_mcp: …`."""
    requires = workflow.settings.get("requires")
    nested = _names(requires.get(kind)) if isinstance(requires, Mapping) else []
    return list(dict.fromkeys([*nested, *_names(workflow.settings.get(f"required_{kind}"))]))


def required_config(workflow: Workflow) -> list[str]:
    """The configuration keys that a workflow cannot do without, in the order in which it names them.

    Looked-up keys are required; so is a name of the configuration that its settings or steps begin a path with, when no
    file of the workflow defines it. Other names in braces are for the agent to fill in while it runs.
    """
    needed = required(workflow, "config")
    needed += looked_up(dict(workflow.settings))
    # The names that a workflow's text says it takes from the configuration: a list after "resolve:".
    resolved = DECLARED.search(workflow.text)
    declared = {*CONFIG_NAMES, *(set(re.findall(r"`(\w+)`", resolved[1])) - RUNTIME if resolved else ())}
    defined = {*_defined(workflow.settings), *RUNTIME}
    paths = _path_names(workflow.settings)
    for step in workflow.steps:
        own = {*_defined(step.settings)}
        paths += [name for name in [*_path_names(step.settings), *IN_PATH.findall(step.text)] if name not in own]
    needed += [name for name in paths if name in declared and name not in defined]
    return list(dict.fromkeys(needed))


def _defined(values: Mapping[str, Any]) -> list[str]:
    """The names that settings give a value of their own; a look-up gives none."""
    nested = values.get("variables")
    both = {**(nested if isinstance(nested, Mapping) else {}), **values}
    return [name for name, value in both.items() if not LOOK_UP.match(str(value).strip())]


def _path_names(values: Mapping[str, Any]) -> list[str]:
    """The names with which values of settings begin a path."""
    found: list[str] = []
    for value in values.values():
        if isinstance(value, Mapping):
            found += _path_names(value)
        elif isinstance(value, str):
            found += IN_PATH.findall(value)
    return found


def _configuration(package: Package, workflow: Workflow) -> Check:
    config = package.config(workflow.module)
    needed = required_config(workflow)
    missing = [name for name in needed if not is_set(config.get(name))]
    path = f"{FOLDER}/{workflow.module}/config.yaml"
    fault = package.files.settings(path).fault
    if fault:
        return Check("configuration", (path, *missing), (), f"Fix {path}: line {fault.line}, {fault.message}.")
    files = (path,) if needed and not missing and package.files.exists(path) else ()
    return Check("configuration", tuple(missing), files, f"Set {', '.join(missing)} in {path}.")


def _definition(package: Package, workflow: Workflow) -> Check:
    """Whether the files are there that the workflow is made of."""
    missing: list[str] = []
    present: list[str] = []
    for key in OWN_FILES:
        value = workflow.settings.get(key)
        if not isinstance(value, str) or not value.strip() or "{{" in value:
            continue
        path = _relative(package, workflow.variables, value)
        if "{" in path or not posixpath.splitext(path)[1]:
            continue  # a name that only the run can fill in
        # A file that was named by a former directory lies beside the definition.
        beside = posixpath.join(posixpath.dirname(workflow.skill.path), posixpath.basename(path))
        found = next((one for one in (path, beside) if package.files.exists(one)), None)
        (present if found else missing).append(found or path)
    if not package.files.exists(workflow.skill.path):
        missing.insert(0, workflow.skill.path)
    for path, ways in workflow.follow.items():
        missing += [way.path for way in ways if not way.exists and way.via == "frontmatter"]
        present += [path] if path in workflow.entries else []
    hint = f"Install the package again: {', '.join(missing)} of this workflow cannot be found."
    return Check("definition", tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(present)), hint)


def _documents(package: Package, workflow: Workflow, wanted: Iterable[str], patterns: Mapping[str, Any]) -> Check:
    missing: list[str] = []
    present: list[str] = []
    for entry in patterns.values():
        if isinstance(entry, Mapping):
            must = entry.get("required") is True
            whole = [value for key, value in entry.items() if key in ("whole", "sharded", "sharded_single")]
            found = [match for value in whole for match in _matches(package, workflow.variables, str(value))]
            present += found
            if must and not found and whole:
                missing.append(_relative(package, workflow.variables, str(whole[0])))
    for pattern in wanted:
        found = _matches(package, workflow.variables, pattern)
        present += found
        missing += [] if found else [_relative(package, workflow.variables, pattern)]
    hint = f"Write {', '.join(missing)} first, with the workflow that makes it."
    return Check("documents", tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(present)), hint)


def _matches(package: Package, variables: Variables, pattern: str) -> list[str]:
    """The files that a pattern matches, from the project's root; each `||` alternative is tried, the first counts."""
    for alternative in variables.alternatives(pattern):
        whole = package.files.path(alternative.text)
        if not whole.startswith(package.files.root + os.sep):
            continue
        found = sorted(one for one in glob.iglob(whole, recursive="**" in whole) if os.path.isfile(one))[:MATCHES]
        if found:
            return [os.path.relpath(one, package.files.root).replace(os.sep, "/") for one in found]
    return []


def _relative(package: Package, variables: Variables, value: str) -> str:
    path = package.files.path(variables.alternatives(value)[0].text)
    return os.path.relpath(path, package.files.root).replace(os.sep, "/")


def _names(value: object) -> list[str]:
    """A setting that lists names: a list, or one name."""
    if isinstance(value, str):
        return [value]
    return [str(one) for one in value] if isinstance(value, list) else []
