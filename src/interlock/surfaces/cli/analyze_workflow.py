"""`interlock analyze …` on workflows and the packages they come from: skill, preflight, validation, artifact."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.source import FOLDER, SOURCE
from interlock.surfaces.cli.text import TEXT

if TYPE_CHECKING:
    from interlock.workflow.entry.workflow_entry_wrapper import Invocation
    from interlock.workflow.package.packages import Package


@verb("skill", example="interlock analyze skill /bmad:bmm:workflows:dev-story")
@click.argument("text", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", help="A project: is it installed there?")
def skill(call: Call, text: str, directory: str | None) -> None:
    """The workflow that a message asks for; with --dir also its file, or `workflow_not_found`."""
    from interlock.workflow.entry.workflow_entry_wrapper import Invocation, detect
    from interlock.workflow.package import packages

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
    from interlock.workflow.entry.preflight_validation import project_servers, validate
    from interlock.workflow.package import packages, workflow

    package = packages.find(directory)
    found = _asked_for(skill, package)
    if isinstance(found, dict):
        return call.document(found)
    known = package.find(found) if package else None
    if package is None or known is None:
        return call.document(_not_found(skill, package, directory, found.name))
    definition = workflow.read(package, known)
    fault = next((fault for path, fault in definition.faults if path == known.path), None)
    if fault:
        return call.document({**fault.as_error(), "path": known.path})
    return call.document(validate(package, definition, {*servers, *project_servers(package)}).as_dict())


@verb("validation", example="interlock analyze validation workflow.yaml --output result.txt")
@click.argument("file", type=SOURCE)
@click.option("--output", type=SOURCE, metavar="FILE", help="What the workflow printed: is it a success by this type?")
def validation(call: Call, file: tuple[str, str], output: tuple[str, str] | None) -> None:
    """By what a workflow says that it has succeeded: verdicts, error counts, a checklist, or patterns of its own."""
    from dataclasses import replace

    from interlock.workflow.entry.validation_type_detector import InvalidPattern, detect, judge
    from interlock.workflow.package import files

    path, text = file
    settings = files.read(text, os.path.basename(path))
    if settings.fault:
        return call.document(settings.fault.as_error())
    body = settings.body or (text if path.endswith((".yaml", ".yml")) else "")
    detected = detect(settings.values, body, _checklist(path, settings.values))
    if isinstance(detected, InvalidPattern):
        return call.document(detected.as_dict())
    if output:
        detected = replace(detected, result=judge(detected, output[1]))
    return call.document(detected.as_dict())


@verb("artifact", example="interlock analyze artifact my.agent.yaml")
@click.argument("file", type=SOURCE)
def artifact(call: Call, file: tuple[str, str]) -> None:
    """Whether an agent, workflow, step or skill keeps to the standard: a score out of 100 and every deviation."""
    from interlock.workflow.package.validators import check, leads_somewhere

    path, text = file
    name = "workflow.md" if path == "-" else os.path.abspath(path).replace(os.sep, "/")

    def exists(reference: str) -> bool | None:
        return None if path == "-" else leads_somewhere(path, reference, text)

    call.document(check(name, text, exists).as_dict())


def _asked_for(text: str, package: Package | None) -> Invocation | dict[str, Any]:
    """The invocation in `text`, which may also be the bare name or `module/name` of a workflow; else an error."""
    from interlock.workflow.entry.workflow_entry_wrapper import Invocation, Malformed, detect

    found = detect(text, [one.key for one in package.skills] if package else ())
    if isinstance(found, Invocation):
        return found
    if found is None and text.strip() and ":" not in text:
        module, _, name = text.strip().strip("/").rpartition("/")
        return Invocation(module or None, "workflows", name, text)
    return (found or Malformed(text, "is not an invocation")).as_dict()


def _not_found(text: str, package: Package | None, directory: str, name: str) -> dict[str, Any]:
    """The error of a workflow that is not installed."""
    if package is None:
        message = f"No workflow package is installed in {os.path.abspath(directory)}: there is no _bmad directory."
        return {"detected": True, "error": "workflow_not_found", "message": message, "nearest": []}
    nearest = package.nearest(name)
    hint = f"Did you mean {nearest[0]}?" if nearest else "`--dir` names the project it is installed in."
    message = f"{text} is not installed here. {hint}"
    return {"detected": True, "error": "workflow_not_found", "message": message, "nearest": list(nearest)}


def _checklist(path: str, values: Any) -> str | None:
    """The text of the file that `validation:` names: where it says, else beside the workflow."""
    from interlock.surfaces.cli.source import read_file
    from interlock.workflow.package.validators import places_of

    named = values.get("validation")
    if not isinstance(named, str) or not named.strip() or path == "-":
        return None
    beside = os.path.join(os.path.dirname(path), os.path.basename(named))
    places = [*places_of(path, named, values), beside]
    found = next((place for place in places if os.path.isfile(place)), None)
    return read_file(found) if found else None
