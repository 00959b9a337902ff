"""`interlock task worktree`, `diff` and `merge`: worktrees of tasks, what was changed there, how it becomes yours."""

from __future__ import annotations

import sys
from typing import Any

import click

from interlock.processes.output import plain
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("worktree", example='cd "$(interlock task worktree 003)"')
@click.argument("task")
def worktree(call: Call, task: str) -> None:
    """A git worktree of its own for a task that I have claimed, and where it lies.

    For teams with `isolation: worktree`. What lies there when I complete the task is committed, verified and merged.
    """
    found = call.team().worktree(task, hear=lambda line: click.echo(plain(line), err=True))
    known = found.worktree or {}
    if call.json:
        call.document(found.as_dict())
        return
    click.echo(f"{found.id}, on the branch {known['branch']}:", err=True)
    click.echo(known["directory"])


@verb("diff", reads=True, example="interlock diff 003 --stat")
@click.argument("task")
@click.option("--stat", is_flag=True, help="Only the files, and how much changed in each.")
def diff(call: Call, task: str, stat: bool) -> None:
    """What a task changed: while it is open, all that lies in its worktree; once it is merged, what the merge brought.

    For tasks of a team that works in worktrees (`isolation: worktree`). Without a terminal it is a patch for `git
    apply`.
    """
    found = call.team().diff(task, stat=stat)
    if call.json:
        call.document(found)
    elif sys.stdout.isatty():
        call.say(
            [_painted(plain(line)) for line in found["diff"].splitlines()] or f"{found['task_id']} changed nothing"
        )
    else:
        click.echo(found["diff"], nl=False)


@verb("merge", example="interlock merge --all --dry-run\ninterlock merge 003 --into main")
@click.argument("tasks", metavar="TASK", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that is on the team's integration branch.")
@click.option("--into", metavar="BRANCH", help="The branch; the one that is checked out unless given.")
@click.option("--dry-run", is_flag=True, help="Show what would be merged, and what is in the way; change nothing.")
def merge(call: Call, tasks: tuple[str, ...], everything: bool, into: str | None, dry_run: bool) -> int:
    """Merge finished work into a branch of yours. Nothing else ever touches your branches, index and files.

    A task brings along what it was built on. With conflicts, or where changes of yours that are not committed would be
    touched, nothing is changed.
    """
    if everything == bool(tasks):
        raise click.UsageError("Name the tasks to merge, or say --all.")
    found = call.team().merge(tasks, everything=everything, into=into, dry_run=dry_run)
    call.answer(found, list(_told(found, dry_run)))
    return 1 if dry_run and (found["conflicts"] or found["dirty"]) else 0


def _told(found: dict[str, Any], dry_run: bool) -> list[str]:
    into = words.strong(words.clean(found["into"]))
    if found["conflicts"]:
        return [f"It conflicts with {into} in {words.clean(', '.join(found['conflicts']))}; nothing would be merged."]
    if found["before"] == found["after"]:
        return [f"Nothing to merge: {into} has it all."]
    verb_ = "would get" if dry_run else "has got"
    lines = [
        f"{into} {verb_} {words.count(found['commits'], 'commit')} ({found['before'][:9]} → {found['after'][:9]}):"
    ]
    for task in found["tasks"]:
        key = f" [{words.clean(task['key'])}]" if task["key"] else ""
        lines.append(f"  {task['task_id']}{key} {words.clean(task['subject'])}")
    lines += words.block(found["stat"], "  ")
    if found["dirty"]:
        files = words.clean(", ".join(found["dirty"]))
        lines.append(f"In the way, since they are not committed: {files}. Commit or stash them first.")
    return lines


def _painted(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return click.style(line, bold=True)
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line
