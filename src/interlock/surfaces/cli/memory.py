"""`interlock memory …`: what earlier work has learned, as a project sees it."""

from __future__ import annotations

import click

from interlock import app
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import DIRECTORY, Call, verb

LIMIT = click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="At most so many.")
PROJECT = click.option("--project", metavar="NAME", help="Another project, by its name.")
COLOURS = {"AVAILABLE": "green", "UNAVAILABLE": "yellow", "PERMANENTLY_UNAVAILABLE": "red"}


@verb("status", example="interlock memory status")
@DIRECTORY
def status(call: Call, directory: str) -> int:
    """Where memory is, whether it answers, and what waits for it. The exit code is 1 where it does not answer."""
    return _condition(call, call.home.memory_status(directory))


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
    return _condition(call, call.home.flush_memory(directory))


def _condition(call: Call, found: app.engine.MemoryStatus) -> int:
    """Answer how memory is; the exit code is 1 where it does not answer."""
    one, done = found.condition, found.handed_over
    state = click.style(one.status, fg=COLOURS[one.status])
    lines = [f"{done} {'memory was' if done == 1 else 'memories were'} handed over."] if done else []
    lines.append(f"{words.strong(one.kind)} memory of {words.clean(found.project)}: {state}  {one.where}")
    if one.since:
        lines.append(f"  out of reach since {words.ago(one.since)}")
    if one.problem:
        lines.append(f"  {words.clean(one.problem)}")
    if one.queued:
        lines.append(f"  {one.queued} waiting in {one.queue}")
    call.answer(found, lines)
    return 0 if one.status == "AVAILABLE" else 1


def _show(call: Call, found: app.engine.ProjectMemories) -> None:
    lines = []
    for one in found.found.memories:
        fit = f"  {one.relevance:g} %" if one.relevance else ""
        when = f"  {words.ago(one.created_at)}" if one.created_at else ""
        lines.append(f"{one.importance:>2}  {words.strong(words.clean(one.title))}{words.faint(fit + when)}")
        lines += [f"    {words.clean(line)}" for line in one.content.splitlines() if line.strip()]
    if found.found.source != "memory":
        lines.append(words.faint("Memory is out of reach; this is what is at hand. See `interlock memory status`."))
    call.answer(found, lines or f"Memory knows nothing of that in {words.clean(found.project)}.")
