"""`interlock logs`, `attach`, `task file` and `events`: what runs print and left, and the history of a team."""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import click

from interlock.app.team import Team
from interlock.clock import seconds
from interlock.errors import RunNotFound, TaskNotFound
from interlock.model.event import Event
from interlock.model.task import FINAL, Task
from interlock.model.views import FilePart
from interlock.surfaces.cli import task_text, words
from interlock.surfaces.cli.call import Call, verb

LOOK_EVERY = 0.2
"""Seconds between two looks at a growing file: nobody could wake us. While nothing comes, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 1.0
LONGEST_LINE = 1 << 20
"""Most characters of a line that are held until its end is there."""
TAIL = 4_000
"""Bytes of what a run has printed already that `attach` shows."""
PAYLOAD_CHARS = 200
STEERING = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Escape sequences: colours, and all that else steers a terminal."""


@verb("logs", reads=True, example="interlock logs researcher --follow")
@click.argument("what", metavar="TASK|MEMBER")
@click.option("--follow", is_flag=True, help="Continue until the run ends.")
@click.option("--run", "number", metavar="N", type=click.IntRange(min=1), help="Which run [default: the newest].")
def logs(call: Call, what: str, follow: bool, number: int | None) -> None:
    """The output of a task's run; for a member, of what it works on now or worked on last.

    With --json it is one document, with --follow one line of output per document.
    """
    team = call.team()
    task_id = _task_meant(team, what)
    first = team.output_part(task_id, number)
    about = {"task_id": task_id, "run": first.run}
    parts = _parts(first, lambda start: team.output_part(task_id, first.run, start=start), follow=follow)
    if not call.json:
        _print(parts)
    elif follow:
        for line in _lines(parts):
            call.document({**about, "text": line})
            sys.stdout.flush()
    else:
        path = None if call.home.elsewhere else team.output(task_id, first.run)[0]
        call.document({**about, "path": path, "text": "".join(_lines(parts))})


@verb("attach", reads=True, example="interlock attach 003")
@click.argument("what", metavar="TASK|MEMBER")
def attach(call: Call, what: str) -> int:
    """Follow a task while it is worked on, run after run, until nothing more is tried.

    What its agent prints is shown as it comes, and between runs why the task waits. It goes on without you: Ctrl-C only
    ends the look. The exit code is 0 where it is done. With --json each line of output, and each change of the task, is
    one document.
    """
    team = call.team()
    task_id, shown, silent, said = _task_meant(team, what), 0, 0, ""

    def look() -> Task:
        nonlocal said
        task = team.task(task_id)
        stands = f"{task.state} {(task.question or {}).get('id') or task.why or ''}"
        if stands != said and task.state != "in-progress":
            _stands(call, task, task.why or "", team.name)
        said = stands
        return task

    while True:
        task = look()
        if task.run and task.run > shown:
            if _show_run(call, team, task, look):
                shown = task.run
                continue
            if task.state == "in-progress" and silent != task.run:
                silent = task.run
                call.note(words.faint(f"-- run {silent} has printed nothing yet"))
            shown = shown if task.state == "in-progress" else task.run
        if task.state in FINAL or task.state == "deadletter":
            return 0 if task.state == "done" else 1
        time.sleep(LONGEST_PAUSE)


def _stands(call: Call, task: Task, why: str, team: str) -> None:
    """Say where a task stands; with a question the command that answers it."""
    document = {"task_id": task.id, "run": task.run, "state": task.state, "question": task.question, "why": why or None}
    lines = [words.faint(f"-- {task.state}{f': {words.clean(why)}' if why else ''}")]
    call.answer(document, [*lines, *(task_text.question(task.question, team) if task.question else ())])
    sys.stdout.flush()


def _show_run(call: Call, team: Team, task: Task, look: Callable[[], object]) -> bool:
    """What the task's run has printed last, and what it prints until it ends; whether there was anything. `look` tells
    what becomes of the task meanwhile."""
    run = task.run
    try:
        first = team.output_part(task.id, run)
        skipped = max(0, first.size - TAIL)
        first = team.output_part(task.id, run, start=skipped) if skipped else first
    except RunNotFound:
        return False
    call.note(words.faint(f"-- run {run}" + (f" by {words.clean(task.owner)}" if task.owner else "")))
    parts = _parts(first, lambda start: team.output_part(task.id, run, start=start), follow=True, idle=look)
    if not call.json:
        _print(parts)
        return True
    for line in _lines(parts):
        call.document({"task_id": task.id, "run": run, "text": line})
        sys.stdout.flush()
    return True


@verb("file", reads=True, example="interlock task file 003 build/report.html > report.html")
@click.argument("task")
@click.argument("path")
@click.option("--run", "number", metavar="N", type=click.IntRange(min=1), help="Of which run [default: the newest].")
def file(call: Call, task: str, path: str, number: int | None) -> None:
    """The content of a file that a run left outside git, as `interlock task show` names it.

    Of a link it is where the link leads. With --json the content is in base64.
    """
    team = call.team()
    first = team.artifact_part(task, path, number)
    parts = _parts(first, lambda start: team.artifact_part(task, path, first.run, start=start))
    if call.json:
        content = b"".join(part.data for part in parts)
        call.document({"task_id": team.task(task).id, "run": first.run, "path": path, "content": content})
    else:
        _print(parts)


def _task_meant(team: Team, what: str) -> str:
    """The id of the task that `what` names, or of the one that the member `what` works, or worked last, on."""
    try:
        return team.task(what).id
    except TaskNotFound:
        member = next((member for member in team.members() if member.name == what), None)
        if member is None:
            raise
    if member.current_task:
        return member.current_task
    mine = [task for task in team.tasks(owner=what) if task.claimed_at]
    if not mine:
        raise RunNotFound(
            f"{what} has not worked on anything yet. `interlock task list` shows who did what.", member=what
        )
    return max(mine, key=lambda task: str(task.claimed_at)).id


def _parts(
    part: FilePart, read: Callable[[int], FilePart], *, follow: bool = False, idle: Callable[[], object] | None = None
) -> Iterator[FilePart]:
    """The parts of a file from `part` on, each read when the one before was used; with `follow` until it has ended, and
    `idle` whenever nothing has come."""
    pause = LOOK_EVERY
    while True:
        if part.data:
            yield part
            pause = LOOK_EVERY
        end = part.start + len(part.data)
        if end >= part.size and (part.ended or not follow):
            return
        if not part.data:
            if not follow:
                return  # It has become shorter.
            if idle is not None:
                idle()
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        part = read(end)


def _lines(parts: Iterable[FilePart]) -> Iterator[str]:
    """The lines of text in these parts, a very long one in pieces."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    begun = ""
    for part in parts:
        *lines, begun = (begun + decoder.decode(part.data)).split("\n")
        yield from (f"{line}\n" for line in lines)
        if len(begun) > LONGEST_LINE:
            yield begun
            begun = ""
    begun += decoder.decode(b"", True)
    if begun:
        yield begun


def _print(parts: Iterable[FilePart]) -> None:
    """Print bytes as they are into a pipe; on a terminal text with its colours, and nothing else that steers it."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        for part in parts:
            sys.stdout.buffer.write(part.data)
            sys.stdout.buffer.flush()
        return
    coloured = os.environ.get("NO_COLOR") is None
    for line in _lines(parts):
        text = STEERING.sub(lambda found: found[0] if coloured and found[0].endswith("m") else "", line)
        sys.stdout.write("".join(c if c.isprintable() or c in "\n\t\r" or c == "\x1b" else "" for c in text))
        sys.stdout.flush()


@verb("events", reads=True, example="interlock events --follow --json | jq .type")
@click.option("--since", metavar="SEQ", type=click.IntRange(min=0), default=0, help="Only events after this number.")
@click.option("--follow", is_flag=True, help="Then continue with new ones, until interrupted.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many.")
def events(call: Call, since: int, follow: bool, limit: int | None) -> None:
    """The team's history in commit order, without gaps.

    With --json it is one document, and `next` says where to continue; with --follow it is one event a line.
    """
    team = call.team()
    if follow:
        for event in islice(team.follow(since), limit):
            call.answer(event.as_dict(), _event(event))
            sys.stdout.flush()
        return
    found, onward = team.events(since, limit=limit)
    document = {"events": [event.as_dict() for event in found], "next": onward} if call.json else None
    call.answer(document, (_event(event) for event in found) if found else f"No events after {since}.")


def _event(event: Event) -> str:
    at = f"{event.at[:10]} {words.clock(seconds(event.at))}"
    payload = " ".join(
        f"{name}={words.clean(value)}" for name, value in event.payload.items() if value not in (None, [])
    )
    shown = payload if len(payload) <= PAYLOAD_CHARS else payload[: PAYLOAD_CHARS - 1] + "…"
    return (
        f"{words.faint(str(event.seq).rjust(6))}  {words.faint(at)}  {words.clean(event.actor).ljust(12)}  "
        f"{words.strong(event.type.ljust(20))}  {(event.task_id or '').ljust(19)}  {shown}"
    ).rstrip()
