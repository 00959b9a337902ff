"""`interlock task worktree`, `diff` and `merge`: worktrees of tasks, what was changed there, how it becomes yours."""

from __future__ import annotations

import sys

import click

from interlock.model.text import plain
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("worktree", example='cd "$(interlock task worktree 003)"')
@click.argument("task")
def worktree(call: Call, task: str) -> None:
    """A git worktree of its own for a task that I have claimed, and where it lies.

    For teams with `isolation: worktree`. What lies there when I complete the task is committed, verified and merged.
    """
    found = call.team().worktree(task, hear=lambda line: click.echo(plain(line), err=True))
    known = found.worktree or {}
    if not call.json:
        click.echo(f"{found.id}, on the branch {known['branch']}:", err=True)
    call.answer(found.as_dict(), known["directory"])


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
        lines = [_painted(plain(line)) for line in found["diff"].splitlines()]
        call.say(lines or f"{found['task_id']} changed nothing")
    else:
        click.echo(found["diff"], nl=False)


def _painted(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return words.strong(line)
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line


@verb("merge", example="interlock merge --all --dry-run\ninterlock merge 003 --into main")
@click.argument("task", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that is on the team's integration branch.")
@click.option("--into", metavar="BRANCH", help="The branch; the one that is checked out unless given.")
@click.option("--dry-run", is_flag=True, help="Show what would be merged, and what is in the way; change nothing.")
def merge(call: Call, task: tuple[str, ...], everything: bool, into: str | None, dry_run: bool) -> int:
    """Merge finished work into a branch of yours. Nothing else ever touches your branches, index and files.

    A task brings along what it was built on. With conflicts, or if changes of yours that are not committed would be
    touched, nothing is changed.
    """
    if everything == bool(task):
        raise click.UsageError("Name the tasks to merge, or say --all.")
    found = call.team().merge(task, everything=everything, into=into, dry_run=dry_run)
    branch = words.strong(words.clean(found["into"]))
    if found["conflicts"]:
        files = words.clean(", ".join(found["conflicts"]))
        lines = [f"It conflicts with {branch} in {files}; nothing would be merged."]
    elif found["before"] == found["after"]:
        lines = [f"Nothing to merge: {branch} is up to date."]
    else:
        commits = f"{words.count(found['commits'], 'commit')} into {branch}"
        lines = [f"{'would merge' if dry_run else 'merged'} {commits} ({found['before'][:9]} → {found['after'][:9]}):"]
        for one in found["tasks"]:
            key = f" [{words.clean(one['key'])}]" if one["key"] else ""
            lines.append(f"  {one['task_id']}{key} {words.clean(one['subject'])}")
        lines += words.block(found["stat"], "  ")
        if found["dirty"]:
            files = words.clean(", ".join(found["dirty"]))
            lines.append(f"In the way, since they are not committed: {files}. Commit or stash them first.")
    call.answer(found, lines)
    return 1 if dry_run and (found["conflicts"] or found["dirty"]) else 0
