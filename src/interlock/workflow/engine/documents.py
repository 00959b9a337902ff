"""The documents a workflow writes: where they are, and what their frontmatter says of the steps that are done.

Their names stand in `outputFile` of a step and `default_output_file` of a workflow. What holds a `{{name}}` is filled
in by the agent and known only once it has written it.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping

from interlock.workflow.package import files
from interlock.workflow.package.step import Step
from interlock.workflow.package.variables import Variables
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.checkpoint_list import without_list

LIMIT = 2_000_000
NAMES = ("outputFile", "default_output_file", "output_file", "wipFile")


def variables_of(workflow: Workflow, step: Step, extra: Mapping[str, str] | None = None) -> Variables:
    """The names that a step's text may use: given by the human, then the step's own, then the workflow's."""
    return workflow.variables.with_own({**workflow.settings, **step.settings, **(extra or {})})


def outputs(workflow: Workflow, step: Step, extra: Mapping[str, str] | None = None) -> list[str]:
    """The documents a step writes, relative to the project's root, as far as they are known beforehand."""
    variables = variables_of(workflow, step, extra)
    found = []
    for values in (step.settings, workflow.settings):
        for name in NAMES:
            if name in values and isinstance(values[name], str) and values[name]:
                resolved = variables.resolve(str(values[name]))
                if not resolved.missing and "{{" not in resolved.text:
                    found.append(relative(variables.project_root, resolved.text))
        if found:
            break
    return [path for path in dict.fromkeys(found) if path]


def relative(root: str, path: str) -> str:
    """`path` from the root; "" for one outside of it, which nothing of ours touches."""
    whole = os.path.normpath(os.path.join(root, path))
    inside = os.path.relpath(whole, root).replace(os.sep, "/")
    return "" if inside.startswith("..") or inside == "." else inside


def existing(root: str, paths: Iterable[str]) -> list[str]:
    """Those of the paths that are files."""
    return [path for path in paths if os.path.isfile(os.path.join(root, path))]


def steps_done(root: str, paths: Iterable[str]) -> list[str]:
    """What `stepsCompleted` of these documents lists, as text."""
    found: list[str] = []
    for path in paths:
        found += listed_in(read(root, path), path)
    return found


def listed_in(text: str, path: str) -> list[str]:
    """What `stepsCompleted` of a document's text lists, as text."""
    listed = files.read(without_list(text), posixpath.basename(path)).values.get("stepsCompleted")
    return [str(one) for one in listed] if isinstance(listed, list) else []


def is_done(step: Step, listed: Iterable[str]) -> bool:
    """Whether a document lists that step: by its number, its file's name, or the name it gives itself."""
    names = {str(step.id), posixpath.basename(step.path).removesuffix(".md"), str(step.settings.get("name") or "")}
    return any(one and one.removesuffix(".md") in names for one in listed)


def read(root: str, path: str) -> str:
    """The text of a document; "" where there is none."""
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def digest(root: str, paths: Iterable[str]) -> str:
    """SHA-256 over documents: another value means that something was written."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path}\0{read(root, path)}\0".encode("utf-8", "surrogatepass"))
    return found.hexdigest()
