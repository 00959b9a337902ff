"""`interlock analyze …` on texts and directories: menus, documents, projects, tiers, confidence.

The analysers are pure; here files are read and results printed, always as one JSON document.
"""

from __future__ import annotations

import json
import os
from typing import Any

import click

from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.source import FOLDER, SOURCE
from interlock.surfaces.cli.text import TEXT

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
    from interlock.workflow.menus.menu_participation_engine import participate

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
    from interlock.workflow.entry.cross_reference_validator import compare

    if (prd is not None) + (architecture is not None) + bool(stories) < 2:
        raise click.UsageError("Give at least two of --prd, --architecture and --stories.")
    told = "\n\n".join(text for _, text in stories) if stories else None
    call.document(compare(prd and prd[1], architecture and architecture[1], told).as_dict())


@verb("project", example="interlock analyze project .")
@click.argument("directory", type=FOLDER, metavar="DIR")
def project(call: Call, directory: str) -> None:
    """Whether there is a project already (brownfield) or not yet (greenfield), and by what signs."""
    from interlock.workflow.entry.project_type import classify, survey

    call.document(classify(survey(directory)).as_dict())


@verb("tier", example='interlock analyze tier "A simple dashboard with complex integrations"')
@click.argument("text", type=TEXT)
@click.option("--dir", "directory", type=FOLDER, metavar="DIR", help="The project: its size adjusts the tier.")
def tier(call: Call, text: str, directory: str | None) -> None:
    """The tier (0 to 4) that a description asks for, with the words that say so."""
    from interlock.workflow.entry import project_type, tier_suggester
    from interlock.workflow.package.files import Files

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
    from interlock.workflow.engine.confidence_calculator import Thresholds, calculate

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
