"""What the workflow engine's pure analysers see in texts, projects and the workflows that are installed.

Each answers one JSON document, as the contract lists them; what cannot be understood is an `error` in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from interlock.errors import StorageError
from interlock.model.json import Json
from interlock.workflow.engine.confidence_calculator import ConfidenceThresholds, calculate
from interlock.workflow.entry import (
    cross_reference_validator,
    preflight_validation,
    project_type,
    tier_suggester,
    validation_type_detector,
)
from interlock.workflow.entry.custom_pattern import InvalidPattern
from interlock.workflow.entry.workflow_entry_wrapper import Malformed, detect, namesakes, several
from interlock.workflow.menus.menu_participation_engine import participate
from interlock.workflow.package import files, packages, references, validators, workflow
from interlock.workflow.package.packages import Invocation, Package

LEVELS = (
    "_bmad/bmm/workflows/workflow-status/project-levels.yaml",
    "_bmad/bmgd/workflows/workflow-status/project-levels.yaml",
)


def menu(text: str, step: str | None = None) -> Json:
    """The menu that a text ends in; with the text of a step also its own menu, and what would be answered."""
    found = participate(text, step or "")
    shown: Json = found.detection.as_dict()
    if step is not None:
        own = found.detection.step_menu
        shown["step_menu"] = [option.as_dict() for option in own.options] if own else None
        shown["selection"] = found.selection.as_dict() if found.selection else None
    return shown


def cross_reference(prd: str | None, architecture: str | None, stories: Sequence[str]) -> Json:
    """What PRD, architecture and stories disagree about."""
    told = "\n\n".join(stories) if stories else None
    return cross_reference_validator.compare(prd, architecture, told).as_dict()


def project(directory: str) -> Json:
    """Whether there is a project already (brownfield) or not yet (greenfield), and by what signs."""
    return project_type.classify(project_type.survey(directory)).as_dict()


def tier(text: str, directory: str | None = None) -> Json:
    """The tier (0 to 4) that a description asks for, adjusted by the size of the project."""
    if directory is None:
        return tier_suggester.suggest(text).as_dict()
    found = files.Files(directory)
    levels = next((found.settings(path).values for path in LEVELS if found.exists(path)), {})
    survey = project_type.survey(os.path.abspath(directory))
    return tier_suggester.suggest(text, survey, tier_suggester.from_levels(levels)).as_dict()


def confidence(text: str) -> Json:
    """The confidence that signals give: `text` is JSON, `{"signals": …, "tier": …, "thresholds": …}`."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        # What cannot be read cannot be calculated: the fallback, like any other failure (FR19j).
        return calculate("not a JSON object with signals").as_dict()
    limits = given.get("thresholds")
    numbers = {
        name: float(value)
        for name, value in (limits.items() if isinstance(limits, dict) else ())
        if name in ("high", "medium") and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return calculate(given.get("signals"), given.get("tier"), ConfidenceThresholds(**numbers)).as_dict()


def skill(text: str, directory: str | None = None) -> Json:
    """The workflow that a message asks for; with a project also its file there."""
    package = packages.find(directory) if directory else None
    found = _asked(text, package)
    if found is None:
        return {"detected": False}
    if not isinstance(found, Invocation) or directory is None:
        return found.as_dict()
    known = package.find(found) if package else None
    if known is None:
        return _not_found(found.text, package, directory, found.name)
    return {**found.as_dict(), "module": known.module, "type": known.type, "name": known.name, "path": known.path}


def preflight(text: str, directory: str, servers: Iterable[str] = ()) -> Json:
    """What a workflow needs before it starts, and what of it is missing. Available are the MCP servers of the
    project's `.mcp.json` and `servers`."""
    package = packages.find(directory)
    found = _asked(text, package)
    if found is None and text.strip() and ":" not in text:  # The bare name of a workflow, or `module/name`.
        module, _, name = text.strip().strip("/").rpartition("/")
        found = Invocation(module or None, "workflows", name, text)
    if not isinstance(found, Invocation):
        return (found or Malformed(text, "is not an invocation")).as_dict()
    known = package.find(found) if package else None
    if package is None or known is None:
        return _not_found(text, package, directory, found.name, namesakes(package, found) if package else [])
    definition = workflow.read(package, known)
    fault = next((fault for path, fault in definition.faults if path == known.path), None)
    if fault:
        return {**fault.as_error(), "path": known.path}
    available = {*servers, *preflight_validation.project_servers(package)}
    return preflight_validation.validate(package, definition, available).as_dict()


def validation(path: str, text: str, output: str | None = None) -> Json:
    """By what the workflow at `path` (`-`: nowhere) says that it has succeeded; with what it printed, whether it has.

    Raises:
        StorageError: its checklist cannot be read.
    """
    settings = files.read(text, os.path.basename(path))
    if settings.fault:
        return settings.fault.as_error()
    body = settings.body or (text if path.endswith((".yaml", ".yml")) else "")
    detected = validation_type_detector.detect(settings.values, body, _checklist(path, settings.values))
    if isinstance(detected, InvalidPattern):
        return detected.as_dict()
    if output is not None:
        detected = replace(detected, result=validation_type_detector.judge(detected, output))
    return detected.as_dict()


def artifact(path: str, text: str) -> Json:
    """Whether an agent, workflow, step or skill keeps to the standard: a score out of 100 and every deviation."""
    if path == "-":
        return validators.check("workflow.md", text).as_dict()
    name = os.path.abspath(path).replace(os.sep, "/")
    return validators.check(name, text, lambda reference: references.leads_somewhere(path, reference, text)).as_dict()


def _asked(text: str, package: Package | None) -> Invocation | Malformed | None:
    return detect(text, [one.key for one in package.skills] if package else ())


def _not_found(text: str, package: Package | None, directory: str, name: str, same: Sequence[str] = ()) -> Json:
    nearest = list(same) or ([] if package is None else list(package.nearest(name)))
    if package is None:
        message = f"No workflow package is installed in {os.path.abspath(directory)}: there is no _bmad directory."
    elif same:
        message = several(text, same)
    else:
        hint = f"Did you mean {nearest[0]}?" if nearest else "`--dir` names the project it is installed in."
        message = f"{text} is not installed here. {hint}"
    return {"detected": True, "error": "workflow_not_found", "message": message, "nearest": nearest}


def _checklist(path: str, values: Mapping[str, object]) -> str | None:
    """The text of the file that `validation:` names: where it says, else beside the workflow."""
    named = values.get("validation")
    if not isinstance(named, str) or not named.strip() or path == "-":
        return None
    beside = os.path.join(os.path.dirname(path), os.path.basename(named))
    places = (*references.places_of(path, named, values), beside)
    found = next((place for place in places if os.path.isfile(place)), None)
    if found is None:
        return None
    text = files.Files(os.path.dirname(found)).text(found)
    if text is None:
        raise StorageError(f"{found} cannot be read, or is far too large.", path=found)
    return text
