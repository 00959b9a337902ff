"""`interlock workflow rollback`: a run goes back to a checkpoint, state and files, and that can be undone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

EVERYTHING = "*"


@verb("rollback", example="interlock workflow rollback --to 3 --dry-run\ninterlock workflow rollback --to 3")
@click.argument("run", required=False)
@click.option("--to", "step", metavar="STEP", help="The step to begin again, or a checkpoint's id.")
@click.option("--undo", is_flag=True, help="Take the last rollback back.")
@click.option("--dry-run", is_flag=True, help="List what would be done, and change nothing.")
@click.option("--include", "paths", multiple=True, metavar="PATH", help="Also this file, though others changed it.")
@click.option("--all", "everything", is_flag=True, help="Also every file that others changed; copies are kept.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
def rollback(
    call: Call,
    run: str | None,
    step: str | None,
    undo: bool,
    dry_run: bool,
    paths: tuple[str, ...],
    everything: bool,
    yes: bool,
) -> None:
    """Go back to before a step: the run's state, and the files it wrote since. Without --to: the checkpoints.

    What somebody else has changed since is listed and left alone. Everything that is replaced is kept below
    `.rollback-archive/` of the output folder. RUN is as for `workflow status`.
    """
    team = call.team()
    include = (*paths, EVERYTHING) if everything else paths
    if undo and step is None:
        _done(call, team.undo_rollback(run, include=include))
        return
    if step is None or undo:
        if undo:
            raise click.UsageError("Either --to or --undo, not both.")
        found = team.workflow_checkpoints(run)
        call.answer({"workflow_id": found["workflow_id"], "checkpoints": found["checkpoints"]}, found["text"])
        return
    if dry_run or (not yes and not call.json and sys.stdin.isatty()):
        found = team.preview_rollback(run, to=step, include=include)
        call.answer(
            {name: value for name, value in found.items() if name != "text"},
            [words.clean(line) for line in found["text"].splitlines()],
        )
        if dry_run or not click.confirm("Roll back?"):
            return
    _done(call, team.roll_back_workflow(run, to=step, include=include))


def _done(call: Call, found: Mapping[str, Any]) -> None:
    what = "The rollback was undone" if found["kind"] == "undo" else f"Back to before step {found['step']}"
    lines = [f"{words.strong(found['workflow_id'])}  {what}."]
    for title, listed in (
        ("restored", found["restored"]),
        ("removed", found["removed"]),
        ("left as it is", [f"{one['path']} ({one['why']})" for one in found["left"]]),
    ):
        lines += [f"  {title}: {words.clean(one)}" for one in listed]
    lines.append(words.faint(f"  copies of what was replaced: {words.clean(found['archive'])}"))
    call.answer(dict(found), lines)
    call.warn(found["warnings"])
