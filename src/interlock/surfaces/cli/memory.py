"""`interlock memory …`: what earlier work has learned, as a project sees it."""

from __future__ import annotations

from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import DIRECTORY, Call, verb

LIMIT = click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="At most so many.")
PROJECT = click.option("--project", metavar="NAME", help="Another project, by its name.")
COLOURS = {"AVAILABLE": "green", "UNAVAILABLE": "yellow", "PERMANENTLY_UNAVAILABLE": "red"}


@verb("status", example="interlock memory status")
@DIRECTORY
def status(call: Call, directory: str) -> int:
    """Where memory is, whether it answers, and what waits for it. The exit code is 1 where it does not answer."""
    found = call.home.memory_status(directory)
    call.answer(found, _condition(found))
    return 0 if found["status"] == "AVAILABLE" else 1


@verb("search", example='interlock memory search "which database"')
@click.argument("query")
@DIRECTORY
@PROJECT
@LIMIT
def search(call: Call, query: str, directory: str, project: str | None, limit: int) -> None:
    """What memory knows about something, the most relevant first."""
    _show(call, call.home.memories(query, directory=directory, project=project, limit=limit))


@verb("list", example="interlock memory list")
@DIRECTORY
@PROJECT
@LIMIT
def list_(call: Call, directory: str, project: str | None, limit: int) -> None:
    """What memory knows of a project, the newest first."""
    _show(call, call.home.memories(directory=directory, project=project, limit=limit))


@verb("flush", example="interlock memory flush")
@DIRECTORY
def flush(call: Call, directory: str) -> int:
    """Ask memory again, also after it was given up, and hand over what waits for it."""
    found = call.home.flush_memory(directory)
    done = found["handed_over"]
    handed = [f"{done} {'memory was' if done == 1 else 'memories were'} handed over."] if done else []
    call.answer(found, [*handed, *_condition(found)])
    return 0 if found["status"] == "AVAILABLE" else 1


def _condition(found: dict[str, Any]) -> list[str]:
    state = click.style(found["status"], fg=COLOURS[found["status"]])
    lines = [f"{words.strong(found['kind'])} memory of {words.clean(found['project'])}: {state}  {found['where']}"]
    if found["since"]:
        lines.append(f"  out of reach since {words.ago(found['since'])}")
    if found["problem"]:
        lines.append(f"  {words.clean(found['problem'])}")
    if found["queued"]:
        lines.append(f"  {found['queued']} waiting in {found['queue']}")
    return lines


def _show(call: Call, found: dict[str, Any]) -> None:
    lines = []
    for one in found["memories"]:
        fit = f"  {one['relevance']:g} %" if one["relevance"] else ""
        when = f"  {words.ago(one['created_at'])}" if one["created_at"] else ""
        lines.append(f"{one['importance']:>2}  {words.strong(words.clean(one['title']))}{words.faint(fit + when)}")
        lines += [f"    {words.clean(line)}" for line in one["content"].splitlines() if line.strip()]
    if found["source"] != "memory":
        lines.append(words.faint("Memory is out of reach; this is what is at hand. See `interlock memory status`."))
    call.answer(found, lines or f"Memory knows nothing of that in {words.clean(found['project'])}.")
