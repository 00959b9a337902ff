"""`interlock uninstall`: what is kept on this machine, told and removed."""

from __future__ import annotations

import shlex
import sys

import click

from interlock.app import uninstalling
from interlock.errors import InvalidRequest
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("uninstall", example="interlock uninstall\ninterlock uninstall --yes")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def uninstall(call: Call, yes: bool) -> int:
    """Remove what Interlock keeps on this machine: all teams with their history, settings, tokens, hooks.

    Your files stay, plan.yaml and interlock.toml in your projects among them. So do the branches with the teams' work:
    they are listed. The program itself is removed by what installed it.
    """
    home = call.home_of_this_machine()
    found = uninstalling.leftovers(home)
    shown = [f"This removes {words.clean(path)}" for path in found.paths]
    shown += [f"  with {words.count(len(found.teams), 'team')}: {', '.join(found.teams)}"] if found.teams else []
    shown += [f"and the hooks in {words.clean(path)}" for path in found.joined]
    if not yes:
        if call.json or not sys.stdin.isatty():
            raise InvalidRequest("\n".join(["Nobody can be asked here. Add --yes.", *shown]), field="yes")
        if not click.confirm("\n".join([*shown, "Remove all of it?"]), err=True):
            click.echo("Nothing was removed.", err=True)
            return 1
    uninstalling.remove_everything(home, found)
    lines = [f"removed {words.clean(path)}" for path in found.paths] or ["There was nothing to remove."]
    for repository, branches in found.branches.items():
        lines += [f"Work is on branches of {words.clean(repository)}. Delete those you do not need:",
                  *(f"  git -C {shlex.quote(repository)} branch -D {name}" for name in branches)]  # fmt: skip
    lines += [f"left as it is, work may be in it: {words.clean(path)}" for path in found.workplaces]
    lines += [f"left as it is, not ours: {words.clean(path)}" for path in found.others]
    call.answer(found, [*lines, "The program: pipx uninstall interlock-agents (or uv tool uninstall, pip uninstall)"])
    return 0
