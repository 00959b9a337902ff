"""`interlock task approve`, `reject`, `retry`, `cancel` and `delete`: deciding what becomes of a task."""

from __future__ import annotations

import click

from interlock.model.evidence import in_words
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.task_words import line
from interlock.surfaces.cli.text import TEXT


@verb("approve", example="interlock task approve 003")
@click.argument("task")
@click.option("--summary", type=TEXT, help="What the review found; - reads it from stdin.")
def approve(call: Call, task: str, summary: str | None) -> None:
    """A reviewer's yes: the task is done."""
    found = call.team().approve(task, summary=summary)
    said = (
        f"{words.state('done')}, {in_words(found.evidence)}"
        if found.state == "done"
        else "is approved, and waits for its merge"
    )
    if found.state == "review" and found.merging is None:
        said = "is approved, but could not be merged: `interlock question list` says why"
    call.answer(found.as_dict(), line(found, said))
    call.warn(found.warnings)


@verb("reject", example='interlock task reject 003 --reason "no test for empty input"')
@click.argument("task")
@click.option("--reason", type=TEXT, required=True, help="What is to change; - reads it from stdin.")
def reject(call: Call, task: str, reason: str) -> None:
    """A reviewer's no: back to the author, with the reason as findings."""
    found = call.team().reject(task, reason=reason)
    who = found.owner or found.reserved_for or "the queue"
    call.answer(found.as_dict(), line(found, f"goes back to {words.clean(who)} ({words.state(found.state)})"))
    call.warn(found.warnings)


@verb("retry", example="interlock task retry 003")
@click.argument("task")
def retry(call: Call, task: str) -> None:
    """Another chance for a task in deadletter; its failures no longer count."""
    found = call.team().retry(task)
    call.answer(found.as_dict(), line(found, f"is {words.state(found.state)} again"))
    call.warn(found.warnings)


@verb("cancel", example='interlock task cancel 003 --reason "no longer needed" --cascade')
@click.argument("task")
@click.option("--reason", type=TEXT, help="Why.")
@click.option("--cascade", is_flag=True, help="Also everything that waits for it.")
def cancel(call: Call, task: str, reason: str | None, cascade: bool) -> None:
    """Call a task off. With --json it prints the task; with --cascade `cancelled` lists all that were called off."""
    team = call.team()
    named = team.task(task)
    cancelled = team.cancel(task, reason=reason, cascade=cascade)
    found = next((one for one in cancelled if one.id == named.id), named)
    document = found.as_dict()
    if cascade:
        document["cancelled"] = [one.id for one in cancelled]
    call.answer(document, [line(one, words.state("cancelled")) for one in cancelled or [found]])
    call.warn(found.warnings)


@verb("delete", example="interlock task delete 003")
@click.argument("task")
def delete(call: Call, task: str) -> None:
    """Delete a task that is not finished. What waits for it says so until somebody removes the dependency."""
    found = call.team().delete(task)
    call.answer(found.as_dict(), line(found, "deleted"))
    call.warn(found.warnings)
    if found.blocks and not call.json:
        wait = "waits" if len(found.blocks) == 1 else "wait"
        click.secho(f"warning: {', '.join(found.blocks)} still {wait} for it", fg="yellow", err=True)
