"""`interlock analyze …`: what the workflow engine sees in texts, projects and the workflows that are installed.

The analysers are pure; here files are read and results printed, always as one JSON document.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from interlock.surfaces.cli.call import FOLDER, SOURCE, TEXT, Call, read_file, verb
from interlock.workflow.engine.confidence_calculator import Thresholds, calculate
from interlock.workflow.entry import (
    cross_reference_validator,
    preflight_validation,
    project_type,
    tier_suggester,
    validation_type_detector,
)
from interlock.workflow.entry.validation_type_detector import InvalidPattern
from interlock.workflow.entry.workflow_entry_wrapper import Invocation, Malformed, detect
from interlock.workflow.menus.menu_participation_engine import participate
from interlock.workflow.package import files as frontmatter
from interlock.workflow.package import packages, workflow
from interlock.workflow.package.files import Files
from interlock.workflow.package.packages import Package
from interlock.workflow.package.validators import check, leads_somewhere, places_of

LEVELS = (
    "_bmad/bmm/workflows/workflow-status/project-levels.yaml",
    "_bmad/bmgd/workflows/workflow-status/project-levels.yaml",
)


@verb("menu", example="interlock analyze menu output.txt --step step-02-discovery.md")
@click.argument("file", type=SOURCE, default="-")
@click.option("--step", type=SOURCE, metavar="FILE", help="The step being run: is it this step's own menu?")
def menu(call: Call, file: tuple[str, str], step: tuple[str, str] | None) -> None:
    """The menu that a text ends in: its options, its score out of 100 (a menu from 70), and the guards it met.

    With --step also `step_menu`, the options of the menu that equals one of the step's own (also in a code block), and
    `selection`, what would be answered.
    """
    found = participate(file[1], step[1] if step else "")
    shown: dict[str, Any] = found.detection.as_dict()
    if step:
        own = found.detection.step_menu
        shown["step_menu"] = [option.as_dict() for option in own.options] if own else None
        shown["selection"] = found.selection.as_dict() if found.selection else None
    call.document(shown)


@verb("cross-reference", example="interlock analyze cross-reference --prd prd.md --architecture architecture.md")
@click.option("--prd", type=SOURCE, metavar="FILE", help="The requirements.")
@click.option("--architecture", type=SOURCE, metavar="FILE", help="The architecture, with its decisions.")
@click.option("--stories", type=SOURCE, metavar="FILE", multiple=True, help="Epics or stories; may be repeated.")
def cross_reference(
    call: Call,
    prd: tuple[str, str] | None,
    architecture: tuple[str, str] | None,
    stories: tuple[tuple[str, str], ...],
) -> None:
    """What PRD, architecture and stories disagree about: requirements and decisions that nobody took up."""
    if (prd is not None) + (architecture is not None) + bool(stories) < 2:
        raise click.UsageError("Give at least two of --prd, --architecture and --stories.")
    told = "\n\n".join(text for _, text in stories) if stories else None
    found = cross_reference_validator.compare(prd and prd[1], architecture and architecture[1], told)
    call.document(found.as_dict())


@verb("project", example="interlock analyze project .")
@click.argument("directory", type=FOLDER, metavar="DIR")
def project(call: Call, directory: str) -> None:
    """Whether there is a project already (brownfield) or not yet (greenfield), and by what signs."""
    call.document(project_type.classify(project_type.survey(directory)).as_dict())


@verb("tier", example='interlock analyze tier "A simple dashboard with complex integrations"')
@click.argument("text", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", help="The project: its size adjusts the tier.")
def tier(call: Call, text: str, directory: str | None) -> None:
    """The tier (0 to 4) that a description asks for, with the words that say so."""
    if directory is None:
        return call.document(tier_suggester.suggest(text).as_dict())
    files = Files(directory)
    levels = next((files.settings(path).values for path in LEVELS if files.exists(path)), {})
    survey = project_type.survey(os.path.abspath(directory))
    return call.document(tier_suggester.suggest(text, survey, tier_suggester.from_levels(levels)).as_dict())


@verb(
    "confidence", example="""echo '{"signals": {"validation_verdict": 90}, "tier": 2}' | interlock analyze confidence"""
)
@click.argument("file", type=SOURCE, default="-")
def confidence(call: Call, file: tuple[str, str]) -> None:
    """The confidence that signals give, read as JSON: {"signals": {name: 0-100 or null}, "tier": 0-4}.

    Signals: validation_verdict, memory_match, reviewer_agreement, party_mode, model_selection. `thresholds` {"high",
    "medium"} may be given too.
    """
    try:
        given = json.loads(file[1])
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        # What cannot be read cannot be calculated: the fallback, like any other failure (FR19j).
        return call.document(calculate("not a JSON object with signals").as_dict())
    limits = given.get("thresholds")
    numbers = {
        name: float(value)
        for name, value in (limits.items() if isinstance(limits, dict) else ())
        if name in ("high", "medium") and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return call.document(calculate(given.get("signals"), given.get("tier"), Thresholds(**numbers)).as_dict())


@verb("skill", example="interlock analyze skill /bmad:bmm:workflows:dev-story")
@click.argument("text", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", help="A project: is it installed there?")
def skill(call: Call, text: str, directory: str | None) -> None:
    """The workflow that a message asks for; with --dir also its file, or `workflow_not_found`."""
    package = packages.find(directory) if directory else None
    found = detect(text, [one.key for one in package.skills] if package else ())
    if found is None:
        return call.document({"detected": False})
    if not isinstance(found, Invocation) or directory is None:
        return call.document(found.as_dict())
    known = package.find(found) if package else None
    if known is None:
        return call.document(_not_found(found.text, package, directory, found.name))
    shown = {"module": known.module, "type": known.type, "name": known.name, "path": known.path}
    return call.document({**found.as_dict(), **shown})


@verb("preflight", example="interlock analyze preflight /bmad:bmm:workflows:create-prd --dir .")
@click.argument("skill", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, default=".", metavar="DIR", help="The project [default: here].")
@click.option(
    "--mcp", "servers", multiple=True, metavar="NAME", help="An MCP server that is available; may be repeated."
)
def preflight(call: Call, skill: str, directory: str, servers: tuple[str, ...]) -> None:
    """What a workflow needs before it starts, and what of it is missing: configuration, files, servers, documents.

    Available are the MCP servers of the project's `.mcp.json` and those named by --mcp.
    """
    package = packages.find(directory)
    found = detect(skill, [one.key for one in package.skills] if package else ())
    if found is None and skill.strip() and ":" not in skill:  # The bare name of a workflow, or `module/name`.
        module, _, name = skill.strip().strip("/").rpartition("/")
        found = Invocation(module or None, "workflows", name, skill)
    if not isinstance(found, Invocation):
        return call.document((found or Malformed(skill, "is not an invocation")).as_dict())
    known = package.find(found) if package else None
    if package is None or known is None:
        return call.document(_not_found(skill, package, directory, found.name))
    definition = workflow.read(package, known)
    fault = next((fault for path, fault in definition.faults if path == known.path), None)
    if fault:
        return call.document({**fault.as_error(), "path": known.path})
    available = {*servers, *preflight_validation.project_servers(package)}
    return call.document(preflight_validation.validate(package, definition, available).as_dict())


def _not_found(text: str, package: Package | None, directory: str, name: str) -> dict[str, Any]:
    if package is None:
        nearest: list[str] = []
        message = f"No workflow package is installed in {os.path.abspath(directory)}: there is no _bmad directory."
    else:
        nearest = list(package.nearest(name))
        hint = f"Did you mean {nearest[0]}?" if nearest else "`--dir` names the project it is installed in."
        message = f"{text} is not installed here. {hint}"
    return {"detected": True, "error": "workflow_not_found", "message": message, "nearest": nearest}


@verb("validation", example="interlock analyze validation workflow.yaml --output result.txt")
@click.argument("file", type=SOURCE)
@click.option("--output", type=SOURCE, metavar="FILE", help="What the workflow printed: is it a success by this type?")
def validation(call: Call, file: tuple[str, str], output: tuple[str, str] | None) -> None:
    """By what a workflow says that it has succeeded: verdicts, error counts, a checklist, or patterns of its own."""
    path, text = file
    settings = frontmatter.read(text, os.path.basename(path))
    if settings.fault:
        return call.document(settings.fault.as_error())
    body = settings.body or (text if path.endswith((".yaml", ".yml")) else "")
    detected = validation_type_detector.detect(settings.values, body, _checklist(path, settings.values))
    if isinstance(detected, InvalidPattern):
        return call.document(detected.as_dict())
    if output:
        detected = replace(detected, result=validation_type_detector.judge(detected, output[1]))
    return call.document(detected.as_dict())


def _checklist(path: str, values: Mapping[str, Any]) -> str | None:
    """The text of the file that `validation:` names: where it says, else beside the workflow."""
    named = values.get("validation")
    if not isinstance(named, str) or not named.strip() or path == "-":
        return None
    beside = os.path.join(os.path.dirname(path), os.path.basename(named))
    found = next((place for place in (*places_of(path, named, values), beside) if os.path.isfile(place)), None)
    return read_file(found) if found else None


@verb("artifact", example="interlock analyze artifact my.agent.yaml")
@click.argument("file", type=SOURCE)
def artifact(call: Call, file: tuple[str, str]) -> None:
    """Whether an agent, workflow, step or skill keeps to the standard: a score out of 100 and every deviation."""
    path, text = file
    name = "workflow.md" if path == "-" else os.path.abspath(path).replace(os.sep, "/")

    def exists(reference: str) -> bool | None:
        return None if path == "-" else leads_somewhere(path, reference, text)

    call.document(check(name, text, exists).as_dict())
