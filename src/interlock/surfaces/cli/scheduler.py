"""`interlock scheduler poll`"""

from __future__ import annotations

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("poll", example="interlock scheduler poll --dry-run")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
def poll(call: Call, dry_run: bool) -> None:
    """Take up, once, what nobody works on any more: runs whose process is gone, that fell silent, or whose time is up.

    A result that such a run has left behind is applied; a task without one goes back to the queue. Where a check was
    under way, it is run here. Several may poll at the same time.
    """
    found = call.team().poll(dry_run=dry_run)
    lines = [f"{words.strong(one['type'])}  {one['task_id'] or ''}  {one['reason']}" for one in found["actions"]]
    call.answer(found, lines or [words.faint("Nothing would be done." if dry_run else "There was nothing to do.")])
