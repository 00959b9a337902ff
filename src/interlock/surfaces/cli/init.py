"""`interlock init`"""

from __future__ import annotations

import os

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import fields


@verb("init", example="interlock init && interlock run plan.yaml")
@click.argument("directory", type=click.Path(), default=".")
def init(call: Call, directory: str) -> None:
    """Find agents, git and the test command, and write interlock.toml and a plan that runs as it stands.

    Files that are there already are left alone, and nothing is written then. Nothing is started.
    """
    from interlock.plan.initial import initialise, inspect

    directory = os.path.abspath(directory)
    team_file, plan_file = initialise(directory)
    found = inspect(directory)
    document = {
        "team": found.name,
        "files": [team_file, plan_file],
        "agents": list(found.agents),
        "git": found.is_git,
        "language": found.language,
        "lint": found.lint_command,
        "test": found.test_command,
        "build": found.build_command,
        "setup": found.setup,
    }
    plan = os.path.relpath(plan_file)
    lines = [
        *fields(
            [
                ("agents", ", ".join(found.agents) or "none found: a first plan runs commands only"),
                ("git", "yes" if found.is_git else "no"),
                ("lint", words.clean(found.lint_command or "")),
                ("test", words.clean(found.test_command or "") or "none found that would run here"),
                ("build", words.clean(found.build_command or "")),
                ("setup", words.clean(found.setup or "")),
            ]
        ),
        "",
        f"wrote {words.strong(os.path.relpath(team_file))} and {words.strong(plan)} for the team {found.name}",
        f"Next: interlock run {plan if ' ' not in plan else repr(plan)}",
    ]
    call.answer(document, lines)
