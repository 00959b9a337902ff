"""Whether what a file of a package names is there, as its own variables and its project's configuration resolve it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from interlock.workflow.package import files, packages
from interlock.workflow.package.variables import NAME, Variables


def leads_somewhere(path: str, reference: str, text: str) -> bool | None:
    """Whether `reference`, in the file at `path` with that text, leads to a file; None where the run decides that: a
    variable has no value, or it is an output."""
    if "{{" in reference or "*" in reference:
        return None
    values = files.read(text, os.path.basename(path)).values
    places = places_of(path, reference, values)
    if not places:
        return None
    beside = os.path.join(os.path.dirname(path), os.path.basename(reference))
    return any(os.path.isfile(place) for place in (*places, beside))


def places_of(path: str, reference: str, values: Mapping[str, Any]) -> list[str]:
    """Where it may lead; empty when a variable in it has no value or it is an output."""
    folder = os.path.dirname(os.path.abspath(path))
    package = packages.find(folder)
    root = package.root if package else folder
    module = os.path.relpath(folder, root).split(os.sep)[1:2] if package else []
    config = package.config(module[0]) if package and module else {}
    variables = Variables(values, project_root=root, installed_path=folder, config={})
    # A path that begins with a name of the configuration is one that the workflow writes.
    if "{" in variables.resolve(reference).text or (set(config) & set(NAME.findall(reference))):
        return []
    return [os.path.join(folder, resolved.text) for resolved in variables.alternatives(reference)]
