"""`interlock logs` and `interlock events`: what runs have printed, and the history of a team."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import IO

import click

from interlock.app.team import Team
from interlock.clock import seconds
from interlock.errors import RunNotFound, StorageError, TaskNotFound
from interlock.model.event import Event
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb

CHUNK = 65_536
LOOK_EVERY = 0.2
"""Seconds between two looks at a growing file: nobody could wake us."""
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
    path, run = team.output(task_id, number)
    about = {"task_id": task_id, "run": run}
    try:
        with open(path, "rb") as file:
            if follow:
                for line in _lines(team, task_id, run, file):
                    if call.json:
                        call.document({**about, "text": line.decode("utf-8", "replace")})
                        sys.stdout.flush()
                    else:
                        _raw(line)
            elif call.json:
                call.document({**about, "path": path, "text": file.read().decode("utf-8", "replace")})
            else:
                while chunk := file.read(CHUNK):
                    _raw(chunk)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.", path=path) from error


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


def _lines(team: Team, task_id: str, run: int, file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a growing file, until the run has ended and everything is read."""
    begun = b""
    ended = False
    while True:
        begun += file.readline()
        if begun.endswith(b"\n"):
            yield begun
            begun = b""
        elif ended:
            break
        else:
            # Once more after the end: what was written just before it.
            ended = all(one.ended_at is not None for one in team.runs(task_id) if one.number == run)
            if not ended:
                time.sleep(LOOK_EVERY)
    if begun:
        yield begun


def _raw(data: bytes) -> None:
    """Print output as it is into a pipe; on a terminal colours only, nothing else that steers it."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    coloured = os.environ.get("NO_COLOR") is None
    text = STEERING.sub(
        lambda found: found[0] if coloured and found[0].endswith("m") else "", data.decode("utf-8", "replace")
    )
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
