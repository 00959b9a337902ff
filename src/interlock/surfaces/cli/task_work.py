"""`interlock task claim`, `next`, `release`, `complete`, `block`, `unblock`, `heartbeat`: working on a task."""

from __future__ import annotations

import click

from interlock.model.evidence import in_words
from interlock.model.task import Task
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.task_words import checked, line
from interlock.surfaces.cli.text import TEXT


@verb("claim", example="interlock task claim 003 --as researcher")
@click.argument("task")
@click.option("--force", is_flag=True, help="Also with open blockers; a warning stays on the task.")
@click.option("--take-over", is_flag=True, help="Also when another session of mine holds it; that one is then stale.")
def claim(call: Call, task: str, force: bool, take_over: bool) -> None:
    """Take a task. Of several who try, exactly one gets it; repeated, it changes nothing."""
    _claimed(call, call.team().claim(task, force=force, take_over=take_over))


@verb("next", example="interlock task next --as researcher")
def next_(call: Call) -> None:
    """Take the most urgent, oldest ready task that I may have.

    With --json it prints the task, or null where there is none; the exit code is 0 either way.
    """
    task = call.team().next_task()
    if task is None:
        call.answer(None, "Nothing is ready for you. `interlock message wait` sleeps until there is news.")
    else:
        _claimed(call, task)


@verb("release", example='interlock task release 003 --reason "needs a Mac"')
@click.argument("task")
@click.option("--reason", type=TEXT, help="Why.")
def release(call: Call, task: str, reason: str | None) -> None:
    """Give a task back, for anybody, or its assignee, to take."""
    found = call.team().release(task, reason=reason)
    call.answer(found.as_dict(), line(found, "released"))
    call.warn(found.warnings)


@verb("complete", example='interlock task complete 003 --summary "parser done, 12 tests"')
@click.argument("task")
@click.option("--summary", type=TEXT, help="What was done; - reads it from stdin.")
def complete(call: Call, task: str, summary: str | None) -> int:
    """Report a task as finished. On one in review, by somebody else than its author: approve it.

    A task with a verify command is done only when that command succeeds. It is run here and now; when it fails, the
    task is yours again, its output is shown, and the exit code is 1.
    """
    return completed(call, call.team().complete(task, summary=summary))


@verb("block", example='interlock task block 003 --reason "the staging server is down"')
@click.argument("task")
@click.option("--reason", type=TEXT, required=True, help="What is in the way; - reads it from stdin.")
def block(call: Call, task: str, reason: str) -> None:
    """Stop a task for a reason that is not a dependency. It shows under "needs me" until it is unblocked."""
    found = call.team().block(task, reason=reason)
    call.answer(found.as_dict(), line(found, "is blocked"))
    call.warn(found.warnings)


@verb("unblock", example="interlock task unblock 003")
@click.argument("task")
def unblock(call: Call, task: str) -> None:
    """The reason is gone: its owner goes on; by anybody else the task goes back to the queue."""
    found = call.team().unblock(task)
    call.answer(found.as_dict(), line(found, f"is {words.state(found.state)} again"))
    call.warn(found.warnings)


@verb("heartbeat", example="interlock task heartbeat 003")
@click.argument("task")
def heartbeat(call: Call, task: str) -> None:
    """Show that work on a task goes on. From the first one on, a silent run counts as dead after `heartbeat_ttl`."""
    run = call.team().heartbeat(task)
    call.answer(run.as_dict(), f"{words.strong(run.id)} lives; the next heartbeat is due {words.ago(run.expires_at)}")


def completed(call: Call, task: Task) -> int:
    """Answer a task that was reported as finished; the exit code."""
    if call.json:
        call.document(task.as_dict())
        return 0 if task.state in ("done", "review") else 1
    if task.state == "done":
        call.say(line(task, f"{words.state('done')}, {in_words(task.evidence)}"))
    elif task.verifying is not None:
        call.say(line(task, "is being verified by another process"))
    elif task.merging is not None:
        call.say(line(task, "waits for its merge by the team's runner"))
    elif task.state == "review" and task.question is not None and task.question["kind"] == "merge":
        call.say(line(task, "could not be merged: `interlock question list` says why"))
    elif task.state == "review":
        reviewer = task.review if task.review not in (None, "none") else "a human"
        call.say(line(task, f"is in {words.state('review')} by {reviewer}"))
    if task.check:
        call.say(checked(task.check))
    call.warn(task.warnings)
    if task.state in ("done", "review"):
        return 0
    ends = (
        f"Interlock gave up on it: it is in deadletter. `interlock task retry {task.id}` gives it another chance."
        if task.state == "deadletter"
        else "the task is yours again."
    )
    click.echo(f"{click.style('error:', fg='red', bold=True)} {task.id}: verify failed; {ends}", err=True)
    return 1


def _claimed(call: Call, task: Task) -> None:
    call.answer(task.as_dict(), _brief(call, task))
    call.warn(task.warnings)


def _brief(call: Call, task: Task) -> list[str]:
    """What one needs to begin: the text, the findings of the last try, what will be checked."""
    lines = [line(task, f"is {words.clean(task.owner or '')}'s (run {task.run})")]
    if task.body:
        lines += ["", *words.block(task.body)]
    if task.findings:
        lines += ["", words.strong("Findings of the last try"), *words.block(task.findings)]
    if task.verify:
        lines += ["", f"  {words.faint('done when this succeeds:')} {words.clean(task.verify)}"]
    team = call.team()
    if not call.json and team.setting("isolation")[0] == "worktree" and call.home.managed(team.name) is None:
        lines += ["", f'  {words.faint("to work apart from others:")} cd "$(interlock task worktree {task.id})"']
    return lines
