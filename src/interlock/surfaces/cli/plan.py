"""`interlock plan`"""

from __future__ import annotations

import os
from typing import Any

import click

from interlock.errors import InterlockError, PlanError
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

AGENT = click.option(
    "--agent", metavar="A", help='Who proposes: claude, codex, …, or a JSON list ["PROGRAM", …] [default: one found].'
)


@verb("plan", example='interlock plan "Give every command a --json option" -o json.yaml')
@click.argument("goal", required=False, metavar='"GOAL" | check PLAN.yaml')
@click.argument("file", required=False, metavar="")
@click.option(
    "-o", "--output", metavar="PLAN.yaml", type=click.Path(), help="Where to write the plan [default: stdout]."
)
@AGENT
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans.")
def plan(
    call: Call, goal: str | None, file: str | None, output: str | None, agent: str | None, schema: bool
) -> int | None:
    """Have an installed agent propose a plan for GOAL, check a plan, or show with --schema what may stand in one.

    `interlock plan check PLAN.yaml` names every fault as FILE:LINE: message; exit code 0 where there is none, else 1.

    The agent looks at this directory and answers; what it proposes is checked, and shown. Nothing is started.
    """
    if schema:
        import json

        from interlock.plan.schema import json_schema

        call.say(json.dumps(json_schema(), indent=2))
        return None
    if goal == "check" and file is not None:
        return _check(call, file)
    if file is not None:
        raise click.UsageError(f'Put the goal in quotes: interlock plan "{goal} {file} …"')
    if goal is None:
        raise click.UsageError('Say a "GOAL", or --schema.')
    from interlock.surfaces.cli import goal as goals

    path = os.path.abspath(output or "plan.yaml")
    if output is not None:
        goals.refuse_existing(path)
    text = goals.propose(call, goal, agent, path)
    if output is not None:
        goals.write(path, text)
    if call.json:
        call.document({"goal": goal, "path": path if output else None, "plan": text})
    elif output is None:
        click.echo(text, nl=False)
    else:
        name = os.path.relpath(path)
        call.say(
            [
                *goals.shown(call, text, path),
                "",
                f"wrote {words.strong(name)}; nothing was started. Next: interlock run {name}",
            ]
        )
    return None


def _check(call: Call, file: str) -> int:
    """Name every fault of the plan; nothing is made or started."""
    faults: list[dict[str, Any]] = []
    notes: tuple[str, ...] = ()
    try:
        notes = call.home.check_plan(file)
    except PlanError as error:
        faults = list(error.details["errors"])
    except InterlockError as error:
        faults = [{"path": file, "line": None, "message": error.message}]
    lines = [f"{file}:{fault['line'] or 1}: {words.clean(fault['message'])}" for fault in faults]
    call.answer({"path": file, "errors": faults, "notes": list(notes)}, lines or [*notes, f"{file}: no faults"])
    return 1 if faults else 0
