"""`interlock task update`, `depend` and `assign`: changing a task."""

from __future__ import annotations

from typing import Any

import click

from interlock.errors import InvalidRequest
from interlock.model.task import PRIORITIES, TYPES
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.task_words import line
from interlock.surfaces.cli.text import TEXT


@verb("update", example='interlock task update 003 --log "half of the cases pass"')
@click.argument("task")
@click.option("--status", metavar="S", help="Go forward: in_progress claims it, completed completes it.")
@click.option("--log", type=TEXT, help="Add a line to its Work Log; - reads it from stdin.")
@click.option("--subject", type=TEXT)
@click.option("--body", type=TEXT, help="- reads it from stdin.")
@click.option("--type", metavar="T", help=f"One of {', '.join(TYPES)}.")
@click.option("--priority", type=click.Choice(PRIORITIES))
@click.option("--review", metavar="none|human|M", help="Who must approve before it is done.")
@click.option("--verify", metavar="CMD", help='The command that must succeed before it is done; "" for none.')
@click.option("--run", "command", metavar="CMD", help='The command that a shell member runs to do it; "" for none.')
@click.option("--env", metavar="NAME,…", help='Variables that its programs may see; "" for none.')
@click.option("--timeout", type=float, metavar="SECONDS", help="How long one run may take.")
@click.option("--retries", type=int, metavar="N", help="How often it may fail.")
@click.option("--metadata", metavar="JSON", help="A JSON object that replaces its metadata.")
def update(call: Call, task: str, **given: Any) -> int:
    """Edit a task, log a line, or take it forward.

    A status goes forward only: pending, in_progress, completed. For the rest there are the verbs release, retry,
    cancel, block and delete.
    """
    fields = {name: value for name, value in given.items() if value is not None}
    for name in ("verify", "command", "type"):
        if fields.get(name) == "":
            fields[name] = None
    if "env" in fields:
        fields["env"] = [name for name in fields["env"].split(",") if name]
    if "metadata" in fields:
        fields["metadata"] = _object(fields["metadata"])
    found = call.team().update(task, **fields)
    if fields.get("status") in ("completed", "done"):
        from interlock.surfaces.cli.task_work import completed

        return completed(call, found)
    call.answer(found.as_dict(), line(found, "updated"))
    call.warn(found.warnings)
    return 0


@verb("depend", example="interlock task depend 003 --on 001")
@click.argument("task")
@click.option("--on", metavar="ID", required=True, help="What it waits for.")
@click.option("--remove", is_flag=True, help="It no longer waits for that.")
def depend(call: Call, task: str, on: str, remove: bool) -> None:
    """Make a task wait for another, or no longer. A circle is refused."""
    found = call.team().depend(task, on=on, remove=remove)
    waits = f"waits for {', '.join(found.blocked_by)}" if found.blocked_by else "waits for nothing"
    call.answer(found.as_dict(), line(found, waits))
    call.warn(found.warnings)


@verb("assign", example="interlock task assign 003 --to researcher")
@click.argument("task")
@click.option("--to", metavar="M", help="The only member that may claim it.")
@click.option("--free", is_flag=True, help="Anybody may claim it again.")
def assign(call: Call, task: str, to: str | None, free: bool) -> None:
    """Reserve a task for a member, or free it. Whoever holds it loses it."""
    if (to is None) != free:
        raise click.UsageError("Say --to MEMBER, or --free.")
    found = call.team().assign(task, to=to)
    call.answer(found.as_dict(), line(found, f"is for {to} to take" if to else "is for anybody to take"))
    call.warn(found.warnings)


def _object(text: str) -> dict[str, Any]:
    import json

    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"metadata is not JSON: {error}.", field="metadata") from None
    if not isinstance(value, dict):
        raise InvalidRequest("metadata must be a JSON object.", field="metadata")
    return value
