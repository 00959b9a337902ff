"""`interlock analyze …`: what the workflow engine sees; always one JSON document."""

from __future__ import annotations

import click

from interlock.app import analysis
from interlock.surfaces.cli.call import FOLDER, SOURCE, TEXT, Call, verb

Source = tuple[str, str]
"""(path, text)"""


@verb("menu", example="interlock analyze menu output.txt --step step-02-discovery.md")
@click.argument("file", type=SOURCE, default="-")
@click.option("--step", type=SOURCE, metavar="FILE", help="The step being run: is it this step's own menu?")
def menu(call: Call, file: Source, step: Source | None) -> None:
    """The menu that a text ends in: its options, its score out of 100 (a menu from 70), and the guards it met.

    With --step also `step_menu`, the options of the menu that equals one of the step's own (also in a code block), and
    `selection`, what would be answered.
    """
    call.document(analysis.menu(file[1], step and step[1]))


@verb("cross-reference", example="interlock analyze cross-reference --prd prd.md --architecture architecture.md")
@click.option("--prd", type=SOURCE, metavar="FILE", help="The requirements.")
@click.option("--architecture", type=SOURCE, metavar="FILE", help="The architecture, with its decisions.")
@click.option("--stories", type=SOURCE, metavar="FILE", multiple=True, help="Epics or stories; may be repeated.")
def cross_reference(call: Call, prd: Source | None, architecture: Source | None, stories: tuple[Source, ...]) -> None:
    """What PRD, architecture and stories disagree about: requirements and decisions that nobody took up."""
    if (prd is not None) + (architecture is not None) + bool(stories) < 2:
        raise click.UsageError("Give at least two of --prd, --architecture and --stories.")
    told = [text for _, text in stories]
    call.document(analysis.cross_reference(prd and prd[1], architecture and architecture[1], told))


@verb("project", example="interlock analyze project .")
@click.argument("directory", type=FOLDER, metavar="DIR")
def project(call: Call, directory: str) -> None:
    """Whether there is a project already (brownfield) or not yet (greenfield), and by what signs."""
    call.document(analysis.project(directory))


@verb("tier", example='interlock analyze tier "A simple dashboard with complex integrations"')
@click.argument("text", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", help="The project: its size adjusts the tier.")
def tier(call: Call, text: str, directory: str | None) -> None:
    """The tier (0 to 4) that a description asks for, with the words that say so."""
    call.document(analysis.tier(text, directory))


@verb(
    "confidence", example="""echo '{"signals": {"validation_verdict": 90}, "tier": 2}' | interlock analyze confidence"""
)
@click.argument("file", type=SOURCE, default="-")
def confidence(call: Call, file: Source) -> None:
    """The confidence that signals give, read as JSON: {"signals": {name: 0-100 or null}, "tier": 0-4}.

    Signals: validation_verdict, memory_match, reviewer_agreement, party_mode, model_selection. `thresholds` {"high",
    "medium"} may be given too.
    """
    call.document(analysis.confidence(file[1]))


@verb("skill", example="interlock analyze skill /bmad:bmm:workflows:dev-story")
@click.argument("text", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", help="A project: is it installed there?")
def skill(call: Call, text: str, directory: str | None) -> None:
    """The workflow that a message asks for; with --dir also its file, or `workflow_not_found`."""
    call.document(analysis.skill(text, directory))


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
    call.document(analysis.preflight(skill, directory, servers))


@verb("validation", example="interlock analyze validation workflow.yaml --output result.txt")
@click.argument("file", type=SOURCE)
@click.option("--output", type=SOURCE, metavar="FILE", help="What the workflow printed: is it a success by this type?")
def validation(call: Call, file: Source, output: Source | None) -> None:
    """By what a workflow says that it has succeeded: verdicts, error counts, a checklist, or patterns of its own."""
    call.document(analysis.validation(*file, output and output[1]))


@verb("artifact", example="interlock analyze artifact my.agent.yaml")
@click.argument("file", type=SOURCE)
def artifact(call: Call, file: Source) -> None:
    """Whether an agent, workflow, step or skill keeps to the standard: a score out of 100 and every deviation."""
    call.document(analysis.artifact(*file))
