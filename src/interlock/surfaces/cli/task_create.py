"""`interlock task create`"""

from __future__ import annotations

import click

from interlock.model.task import PRIORITIES, TYPES
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.task_words import line
from interlock.surfaces.cli.text import TEXT


@verb("create", example='interlock task create "Test the parser" --blocked-by 001 --verify "pytest -q"')
@click.argument("subject", type=TEXT)
@click.argument("more", nargs=-1, metavar="")
@click.option("--body", type=TEXT, default="", help="What is to be done; - reads it from stdin.")
@click.option("--type", "kind", metavar="T", help=f"One of {', '.join(TYPES)}.")
@click.option("--priority", type=click.Choice(PRIORITIES), default="normal", show_default=True)
@click.option("--assignee", metavar="M", help="The only member that may claim it.")
@click.option("--blocked-by", metavar="ID …", multiple=True, help="Tasks it waits for.")
@click.option("--review", metavar="none|human|M", help="Who must approve before it is done.")
@click.option("--verify", metavar="CMD", help="The command that must succeed before it is done.")
@click.option("--run", "command", metavar="CMD", help="The command that a shell member runs to do it.")
@click.option("--parent", metavar="ID", help="The task it is a part of.")
def create(
    call: Call,
    subject: str,
    more: tuple[str, ...],
    body: str,
    kind: str | None,
    priority: str,
    assignee: str | None,
    blocked_by: tuple[str, ...],
    review: str | None,
    verify: str | None,
    command: str | None,
    parent: str | None,
) -> None:
    """Create a task. It is ready when nothing blocks it."""
    if more and not blocked_by:
        raise click.UsageError(f"The subject is one argument; put it into quotes: '{' '.join([subject, *more])}'")
    # `--blocked-by 001 002`: what follows the subject beyond the first id.
    blockers = [one for given in (*blocked_by, *more) for one in given.split(",") if one]
    task = call.team().create_task(
        subject, body=body, type=kind, priority=priority, assignee=assignee, blocked_by=blockers, review=review,
        verify=verify, run=command, parent_id=parent,
    )  # fmt: skip
    waits = f" (waits for {', '.join(task.blocked_by)})" if task.blocked_by else ""
    call.answer(task.as_dict(), line(task, "created") + waits)
    call.warn(task.warnings)
