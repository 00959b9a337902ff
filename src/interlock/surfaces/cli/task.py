"""`interlock task …`, `diff` and `merge`: tasks, their worktrees, and how what was changed there becomes yours."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from interlock import model
from interlock.errors import InvalidRequest
from interlock.model.json import Json
from interlock.model.task import Task, task_fields
from interlock.model.text import plain
from interlock.surfaces.cli import task_text, words
from interlock.surfaces.cli.call import EXIT_CODE, NOTHING, TEXT, Call, verb

F = TypeVar("F", bound=Callable[..., Any])

EMPTY = 'No tasks yet. Create one: interlock task create "SUBJECT"'
TASK = click.argument("task")
REASON = click.option("--reason", type=TEXT, help="Why.")


def task_options(*, edit: bool) -> Callable[[F], F]:
    """Add an option for each field of `TaskSpec`, or of an edit of a task."""

    def decorated(function: F) -> F:
        for name, field in reversed(task_fields().items()):
            if edit and field.fixed:
                continue
            kind: Any = field.kind if field.kind in (int, float) else str
            words = field.words
            if name == "body":
                kind, words = TEXT, f"{words[:-1]}; - reads it from stdin."
            elif field.choices and not field.optional:
                kind = click.Choice(field.choices)
            elif field.choices and field.kind is str:
                words = f"One of {', '.join(field.choices)}."
            if edit and field.optional and field.kind not in (int, float):
                words = f'{words[:-1]}; "" for none.'
            function = click.option(
                f"--{name.removesuffix('_id').replace('_', '-')}", field.column if edit else name, type=kind,
                help=words, metavar=field.value, multiple=field.kind == list[str],
                default=None if edit else field.default or None, show_default=not edit,
            )(function)  # fmt: skip
        return function

    return decorated


def task_values(given: Mapping[str, Any]) -> Json:
    """The options that were given, as the verbs take them: lists taken apart, JSON read, and none for an empty text."""
    found = {name: value for name, value in given.items() if value not in (None, ())}
    for name, field in task_fields().items():
        name = field.column if field.column in found else name
        if name not in found:
            continue
        value = found[name]
        if field.kind == list[str]:
            found[name] = [one for text in value for one in text.split(",") if one]
        elif value == "" and field.optional:
            found[name] = None
        elif field.kind not in (str, int, float):
            try:
                found[name] = json.loads(value)
            except ValueError as error:
                raise InvalidRequest(f"{name} is not JSON: {error}.", field=name) from None
            except RecursionError:
                raise InvalidRequest(f"{name} is nested too deep.", field=name) from None
            if not isinstance(found[name], dict):
                raise InvalidRequest(f"{name} must be a JSON object.", field=name)
    return found


@verb("create", example='interlock task create "Test the parser" --blocked-by 001 --verify "pytest -q"')
@click.argument("subject", type=TEXT)
@click.argument("more", nargs=-1, metavar="")
@task_options(edit=False)
def create(call: Call, subject: str, more: tuple[str, ...], **given: Any) -> None:
    """Create a task. It is ready when nothing blocks it."""
    fields = task_values(given)
    if more and "blocked_by" not in fields:
        raise click.UsageError(f"The subject is one argument; quote it: '{' '.join([subject, *more])}'")
    if more:  # `--blocked-by 001 002`: what follows the subject beyond the first id.
        fields["blocked_by"] += [one for text in more for one in text.split(",") if one]
    task = call.team().create_task(subject, **fields)
    waits = f" (waits for {', '.join(task.blocked_by)})" if task.blocked_by else ""
    call.answer(task.as_dict(), f"{words.strong(task.id)} created: {words.clean(task.subject)}{waits}")
    call.warn(task.warnings)


@verb("list", reads=True, example="interlock task list --status pending")
@click.option("--status", metavar="S", help="Only tasks of this status or state, such as pending, in_progress, review.")
@click.option("--owner", metavar="M", help="Only tasks that this member holds.")
@click.option("--ready", is_flag=True, help="Only what may be claimed now, in the order of the queue.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many.")
def list_(call: Call, status: str | None, owner: str | None, ready: bool, limit: int | None) -> None:
    """The tasks, all or those asked for. Deleted ones are shown with --status deleted only."""
    found = call.team().tasks(status=status, owner=owner, ready=ready, limit=limit)
    if call.json:
        call.document({"tasks": [task.as_dict() for task in found]})
    elif found:
        call.say(task_text.listed(found))
    elif ready:
        call.say("Nothing is ready to be claimed. `interlock status` says what is under way and what waits for you.")
    else:
        call.say("No such tasks. `interlock task list` shows all." if status or owner else EMPTY)


@verb("show", reads=True, example="interlock task show 003")
@TASK
def show(call: Call, task: str) -> None:
    """One task, whole: its state, text, evidence, runs and Work Log."""
    team = call.team()
    found = team.task(task)
    files = team.artifacts(found.id)
    if call.json:
        call.document({**found.as_dict(), "files": files, "why": found.why})
    else:
        elsewhere = call.home.path if call.home.elsewhere else None
        call.say(task_text.whole(found, team.runs(found.id), team.work_log(found.id), files, team.name, elsewhere))
        call.warn(found.warnings)


@verb("graph", reads=True, example="interlock task graph --format mermaid > tasks.mmd")
@click.option("--format", "form", type=click.Choice(["text", "mermaid"]), default="text", show_default=True)
def graph(call: Call, form: str) -> None:
    """What waits for what, blockers first."""
    tasks, edges = call.team().graph()
    if call.json:
        arrows = [{"blocker": blocker, "blocked": blocked} for blocker, blocked in edges]
        call.document({"tasks": [task.as_dict() for task in tasks], "edges": arrows})
    elif form == "mermaid":
        click.echo("\n".join(task_text.mermaid(tasks, edges)))
    else:
        call.say(task_text.tree(tasks, edges) if tasks else EMPTY)


@verb("claim", example="interlock task claim 003 --as researcher")
@TASK
@click.option("--force", is_flag=True, help="Also with open blockers; a warning stays on the task.")
@click.option("--take-over", is_flag=True, help="Also when another session of mine holds it; that one is then stale.")
def claim(call: Call, task: str, force: bool, take_over: bool) -> None:
    """Take a task. Of several who try, exactly one gets it; repeated, it changes nothing."""
    _claimed(call, call.team().claim(task, force=force, take_over=take_over))


@verb(
    "next",
    example="interlock task next --as researcher\nwhile interlock task next --as ada --exit-code; do ./work; done",
)
@EXIT_CODE
def next_(call: Call, exit_code: bool) -> int:
    """Take the most urgent, oldest ready task that I may have.

    With --json it prints the task, or null if there is none; the exit code is 0 either way, or with
    --exit-code 3 for none.
    """
    task = call.team().next_task()
    if task is None:
        call.answer(None, "Nothing is ready for you. `interlock message wait` sleeps until there is news.")
        return NOTHING if exit_code else 0
    _claimed(call, task)
    return 0


def _claimed(call: Call, task: Task) -> None:
    """Answer a task with what one needs to start: its text, the findings of the last try, what will be checked."""
    lines = [
        f"{words.strong(task.id)} is {words.clean(task.owner or '')}'s (run {task.run}): {words.clean(task.subject)}"
    ]
    if task.body:
        lines += ["", *words.block(task.body)]
    if task.findings:
        lines += ["", words.strong("Findings of the last try"), *words.block(task.findings)]
    if task.verify:
        lines += ["", f"  {words.faint('done when this succeeds:')} {words.clean(task.verify)}"]
    if call.glance.run is None and call.glance.isolation == "worktree":
        lines += ["", f'  {words.faint("to work apart from others:")} cd "$(interlock task worktree {task.id})"']
    call.answer(task.as_dict(), lines)
    call.warn(task.warnings)


@verb("release", example='interlock task release 003 --reason "needs a Mac"')
@TASK
@REASON
def release(call: Call, task: str, reason: str | None) -> None:
    """Give a task back, for anybody, or its assignee, to take."""
    call.task(call.team().release(task, reason=reason), "released")


@verb("complete", example='interlock task complete 003 --summary "parser done, 12 tests"')
@TASK
@click.option("--summary", type=TEXT, help="What was done; - reads it from stdin.")
def complete(call: Call, task: str, summary: str | None) -> int:
    """Report a task as finished. On one in review, by someone other than its author: approve it.

    A task with a verify command is done only when that command succeeds. It is run here and now; when it fails, the
    task is yours again, its output is shown, and the exit code is 1.
    """
    return _completed(call, call.team().complete(task, summary=summary))


def _completed(call: Call, task: Task) -> int:
    """Answer a task that was reported as finished; return the exit code."""
    failed = task.state not in ("done", "review")
    if call.json:
        call.document(task.as_dict())
        return int(failed)
    happened = None
    if task.state == "done":
        happened = f"{words.state('done')}, {model.evidence.in_words(task.evidence)}"
    elif task.verifying is not None:
        happened = "is being verified by another process"
    elif task.merging is not None:
        happened = "waits for its merge by the team's runner"
    elif task.state == "review" and task.question is not None and task.question["kind"] == "merge":
        happened = "could not be merged: `interlock question list` says why"
    elif task.state == "review":
        happened = f"is in {words.state('review')} by {task.review if task.review not in (None, 'none') else 'a human'}"
    if happened:
        call.say(f"{words.strong(task.id)} {happened}: {words.clean(task.subject)}")
    if task.check:
        call.say(task_text.checked(task.check))
    call.warn(task.warnings)
    if failed:
        ends = "the task is yours again."
        if task.state == "deadletter":
            ends = f"Interlock gave up on it: it is in deadletter. `interlock task retry {task.id}` tries again."
        click.echo(f"{click.style('error:', fg='red', bold=True)} {task.id}: verify failed; {ends}", err=True)
    return int(failed)


@verb("block", example='interlock task block 003 --reason "the staging server is down"')
@TASK
@click.option("--reason", type=TEXT, required=True, help="What is in the way; - reads it from stdin.")
def block(call: Call, task: str, reason: str) -> None:
    """Stop a task for a reason that is not a dependency. It shows under "Needs you" until it is unblocked."""
    call.task(call.team().block(task, reason=reason), "is blocked")


@verb("unblock", example="interlock task unblock 003")
@TASK
def unblock(call: Call, task: str) -> None:
    """Clear what blocks a task: its owner continues; if anybody else unblocks it, the task returns to the queue."""
    found = call.team().unblock(task)
    call.task(found, f"is {words.state(found.state)} again")


@verb("heartbeat", example="interlock task heartbeat 003")
@TASK
def heartbeat(call: Call, task: str) -> None:
    """Show that you still work on a task. After the first one, a silent run counts as dead after `heartbeat_ttl`."""
    run = call.team().heartbeat(task)
    call.answer(
        run.as_dict(), f"{words.strong(run.id)} is alive; the next heartbeat is due {words.ago(run.expires_at)}"
    )


@verb("update", example='interlock task update 003 --log "half of the cases pass"')
@TASK
@click.option("--status", metavar="S", help="Go forward: in_progress claims it, completed completes it.")
@click.option("--log", type=TEXT, help="Add a line to its Work Log; - reads it from stdin.")
@click.option("--subject", type=TEXT)
@task_options(edit=True)
def update(call: Call, task: str, **given: Any) -> int:
    """Edit a task, log a line, or take it forward.

    A status only goes forward: pending, in_progress, completed. For the rest there are the verbs release, retry,
    cancel, block and delete.
    """
    fields = task_values(given)
    found = call.team().update(task, **fields)
    if fields.get("status") in ("completed", "done"):
        return _completed(call, found)
    call.task(found, "updated")
    return 0


@verb("depend", example="interlock task depend 003 --on 001")
@TASK
@click.option("--on", metavar="ID", required=True, help="What it waits for.")
@click.option("--remove", is_flag=True, help="It no longer waits for that.")
def depend(call: Call, task: str, on: str, remove: bool) -> None:
    """Add a dependency, or remove one with --remove. A cycle is refused."""
    found = call.team().depend(task, on=on, remove=remove)
    call.task(found, f"waits for {', '.join(found.blocked_by)}" if found.blocked_by else "waits for nothing")


@verb("assign", example="interlock task assign 003 --to researcher")
@TASK
@click.option("--to", metavar="M", help="The only member that may claim it.")
@click.option("--free", is_flag=True, help="Anybody may claim it again.")
def assign(call: Call, task: str, to: str | None, free: bool) -> None:
    """Reserve a task for a member, or free it. Whoever holds it loses it."""
    if (to is None) != free:
        raise click.UsageError("Say --to MEMBER, or --free.")
    call.task(call.team().assign(task, to=to), f"is for {to} to take" if to else "is for anybody to take")


@verb("approve", example="interlock task approve 003")
@TASK
@click.option("--summary", type=TEXT, help="What the review found; - reads it from stdin.")
def approve(call: Call, task: str, summary: str | None) -> None:
    """Approve work under review: the task is done."""
    found = call.team().approve(task, summary=summary)
    said = "is approved, and waits for its merge"
    if found.state == "done":
        said = f"{words.state('done')}, {model.evidence.in_words(found.evidence)}"
    elif found.state == "review" and found.merging is None:
        said = "is approved, but could not be merged: `interlock question list` says why"
    call.task(found, said)


@verb("reject", example='interlock task reject 003 --reason "no test for empty input"')
@TASK
@click.option("--reason", type=TEXT, required=True, help="What is to change; - reads it from stdin.")
def reject(call: Call, task: str, reason: str) -> None:
    """Send work under review back to its author, with the reason as findings."""
    found = call.team().reject(task, reason=reason)
    who = words.clean(found.owner or found.reserved_for or "the queue")
    call.task(found, f"goes back to {who} ({words.state(found.state)})")


@verb("retry", example="interlock task retry 003")
@TASK
@click.option("--alike", is_flag=True, help="Also every task that failed for the same reason.")
def retry(call: Call, task: str, alike: bool) -> None:
    """Another chance for a task in deadletter; its failures no longer count."""
    team = call.team()
    found, *others = team.retry_alike(task) if alike else [team.retry(task)]
    more = f", with {len(others)} more" if others else ""
    call.task(found, f"is {words.state(found.state)} again{more}")


@verb("cancel", example='interlock task cancel 003 --reason "no longer needed" --cascade')
@TASK
@REASON
@click.option("--cascade", is_flag=True, help="Also everything that waits for it.")
def cancel(call: Call, task: str, reason: str | None, cascade: bool) -> None:
    """Cancel a task. With --json it prints the task; with --cascade `cancelled` lists all that were cancelled."""
    team = call.team()
    named = team.task(task)
    cancelled = team.cancel(task, reason=reason, cascade=cascade)
    found = next((one for one in cancelled if one.id == named.id), named)
    document = {**found.as_dict(), **({"cancelled": [one.id for one in cancelled]} if cascade else {})}
    gone = words.state("cancelled")
    call.answer(
        document, [f"{words.strong(one.id)} {gone}: {words.clean(one.subject)}" for one in cancelled or [found]]
    )
    call.warn(found.warnings)


@verb("delete", example="interlock task delete 003")
@TASK
def delete(call: Call, task: str) -> None:
    """Delete a task that is not finished. What waits for it says so until somebody removes the dependency."""
    found = call.team().delete(task)
    call.task(found, "deleted")
    if found.blocks:
        call.warn([f"{', '.join(found.blocks)} still {'waits' if len(found.blocks) == 1 else 'wait'} for it"])


@verb("worktree", example='cd "$(interlock task worktree 003)"')
@click.argument("task")
def worktree(call: Call, task: str) -> None:
    """A git worktree of its own for a task that I have claimed, and where it lies.

    For teams with `isolation: worktree`. What lies there when I complete the task is committed, verified and merged.
    """
    found = call.team().worktree(task, on_update=lambda update: click.echo(plain(update.text), err=True))
    known = found.worktree or {}
    if not call.json:
        click.echo(f"{found.id}, on the branch {known['branch']}:", err=True)
    call.answer(found.as_dict(), known["directory"])


@verb("diff", reads=True, example="interlock diff 003 --stat")
@click.argument("task")
@click.option("--stat", is_flag=True, help="Only the files, and how much changed in each.")
@click.option("--binary", is_flag=True, help="Binary files whole, so that `git apply` takes them.")
def diff(call: Call, task: str, stat: bool, binary: bool) -> None:
    """What a task changed: while it is open, all that lies in its worktree; once it is merged, what the merge brought.

    For tasks of a team that works in worktrees (`isolation: worktree`). Without a terminal it is a patch for `git
    apply`, byte by byte.
    """
    parts = task_text.diff_of(call.team(), task, stat=stat, binary=binary)
    if call.json:
        first, *rest = found = list(parts)
        raw = b"".join(one.content for one in found) if any(one.raw for one in found) else None
        call.document(replace(first, diff="".join([first.diff, *(one.diff for one in rest)]), raw=raw, next=None))
    elif sys.stdout.isatty():
        for line in task_text.changed(parts):
            call.say([line])
    else:
        named = False
        for one in parts:
            click.echo(one.content, nl=False)
            named = named or task_text.ONLY_NAMED.search(one.diff) is not None
        if named:
            call.warn(["binary files are only named in it; --binary has them whole"])


@verb("merge", example="interlock merge --all --dry-run\ninterlock merge 003 --into main")
@click.argument("task", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that is on the team's integration branch.")
@click.option("--into", metavar="BRANCH", help="The branch; the one that is checked out unless given.")
@click.option("--dry-run", is_flag=True, help="Show what would be merged, and what is in the way; change nothing.")
def merge(call: Call, task: tuple[str, ...], everything: bool, into: str | None, dry_run: bool) -> int:
    """Merge finished work into a branch of yours. No other command touches your branches, index or files.

    A task brings along what it was built on. With conflicts, or if changes of yours that are not committed would be
    touched, nothing is changed.
    """
    if everything == bool(task):
        raise click.UsageError("Name the tasks to merge, or say --all.")
    found = call.team().merge(task, everything=everything, into=into, dry_run=dry_run)
    branch = words.strong(words.clean(found.into))
    if found.conflicts:
        files = words.clean(", ".join(found.conflicts))
        lines = [f"It conflicts with {branch} in {files}; nothing would be merged."]
    elif found.before == found.after:
        lines = [f"Nothing to merge: {branch} is up to date."]
    else:
        commits = f"{words.count(found.commits, 'commit')} into {branch}"
        lines = [f"{'would merge' if dry_run else 'merged'} {commits} ({found.before[:9]} → {str(found.after)[:9]}):"]
        for one in found.tasks:
            key = f" [{words.clean(one.key)}]" if one.key else ""
            lines.append(f"  {one.task_id}{key} {words.clean(one.subject)}")
        lines += words.block(found.stat, "  ")
        if found.dirty:
            files = words.clean(", ".join(found.dirty))
            lines.append(f"In the way, since they are not committed: {files}. Commit or stash them first.")
    call.answer(found, lines)
    call.warn(found.warnings)
    return 1 if dry_run and (found.conflicts or found.dirty) else 0
