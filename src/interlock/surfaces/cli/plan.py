"""`interlock plan`"""

from __future__ import annotations

import os

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

AGENT = click.option(
    "--agent", metavar="A", help='Who proposes: claude, codex, …, or a JSON list ["PROGRAM", …] [default: one found].'
)


@verb("plan", example='interlock plan "Give every command a --json option" -o json.yaml')
@click.argument("goal", required=False)
@click.option(
    "-o", "--output", metavar="PLAN.yaml", type=click.Path(), help="Where to write the plan [default: stdout]."
)
@AGENT
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans.")
def plan(call: Call, goal: str | None, output: str | None, agent: str | None, schema: bool) -> None:
    """Have an installed agent propose a plan for GOAL, or show with --schema what may stand in one.

    The agent looks at this directory and answers; what it proposes is checked, and shown. Nothing is started.
    """
    if schema:
        import json

        from interlock.plan.schema import json_schema

        call.say(json.dumps(json_schema(), indent=2))
        return
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
