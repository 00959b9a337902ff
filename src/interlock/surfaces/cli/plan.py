"""`interlock plan`"""

from __future__ import annotations

import click

from interlock.errors import NotAvailable
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.later import instead


@verb("plan", example="interlock plan --schema > plan.schema.json")
@click.argument("goal", required=False)
@click.option("-o", "--output", metavar="PLAN.yaml", type=click.Path(), help="Where to write the plan.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans.")
def plan(call: Call, goal: str | None, output: str | None, schema: bool) -> None:
    """Have an installed agent propose a plan for GOAL (not yet), or show what may stand in one."""
    if schema:
        import json

        from interlock.plan.schema import json_schema

        call.say(json.dumps(json_schema(), indent=2))
        return
    if goal is None:
        raise click.UsageError('Say a "GOAL", or --schema.')
    raise NotAvailable(f"No agent proposes plans in this version yet. {instead('plan')}", verb="interlock plan")
