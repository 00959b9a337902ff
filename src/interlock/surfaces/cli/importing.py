"""`interlock import`: the tasks of another program become the plan of a team."""

from __future__ import annotations

import os
import shlex

import click

from interlock.model.program import program
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb
from interlock.surfaces.cli.run import changes

KINDS = click.Choice(["claude", "backlog", "taskmaster", "beads", "bmad"])
SHOWN = 10


@verb("import", example="interlock import beads . --dry-run\ninterlock import claude ~/.claude/teams/release")
@click.argument("kind", type=KINDS)
@click.argument("path", type=click.Path())
@click.option("--agent", metavar="A", help="Who does them: claude, codex, …, or a program [default: one found].")
@click.option("--parallel", type=click.IntRange(1, 100), metavar="N", help="Tasks done at once [default: 2].")
@click.option("--workdir", metavar="DIR", type=click.Path(), help="Where the team works [default: the project].")
@click.option("--dry-run", is_flag=True, help="Show what would be created and changed; change nothing.")
def import_(
    call: Call, kind: str, path: str, agent: str | None, parallel: int | None, workdir: str | None, dry_run: bool
) -> None:
    """Take over the open tasks of another program at PATH, its file or the project, as the plan of a team.

    claude: a team in ~/.claude/teams; backlog: Backlog.md; taskmaster: tasks.json; beads: issues.jsonl; bmad:
    sprint-status.yaml. Their ids are kept in the tasks' metadata. Nothing is changed there, and nothing starts. Done
    again, only what has changed there is changed here.
    """
    form, argv = program(agent) if agent else (None, None)
    found = call.home.import_tasks(
        kind, path, team=call.asked.team, agent=form, command=argv or (), parallel=parallel, workdir=workdir,
        dry_run=dry_run,
    )  # fmt: skip
    out = [f"  · {words.clean(id)} left out: {words.clean(why)}" for id, why in found.left_out.items()]
    more = [f"  · and {len(out) - SHOWN} more left out"] if len(out) > SHOWN else []
    plan = shlex.quote(os.path.relpath(found.path) if found.path.startswith(os.getcwd() + os.sep) else found.path)
    last = "Nothing was changed." if dry_run else f"Next: interlock run {plan}"
    lines = [f"team {words.strong(found.staged.team)}", *changes(found.staged), *out[:SHOWN], *more, last]
    call.answer(found.as_dict(), lines)
