"""`interlock logs`"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import click

from interlock.errors import RunNotFound, StorageError, TaskNotFound
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

if TYPE_CHECKING:
    from interlock.client import Team

CHUNK = 65_536
LOOK_EVERY = 0.2
"""Seconds between two looks at a file that grows: there is nobody who could wake us."""


@verb("logs", reads=True, example="interlock logs researcher --follow")
@click.argument("what", metavar="TASK|MEMBER")
@click.option("--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--run", "number", metavar="N", type=click.IntRange(min=1), help="Which run [default: the newest].")
def logs(call: Call, what: str, follow: bool, number: int | None) -> None:
    """The output of a task's run; for a member, of what it works on now or worked on last.

    With --json it is one document, with --follow one line of output per document.
    """
    team = call.team()
    task_id = task_meant(team, what)
    path, run = team.output(task_id, number)
    about = {"task_id": task_id, "run": run}
    try:
        with open(path, "rb") as file:
            if follow:
                for line in _lines(team, task_id, run, file):
                    _print(call, line, {**about, "text": _text(line)})
            elif call.json:
                call.document({**about, "path": path, "text": _text(file.read())})
            else:
                while chunk := file.read(CHUNK):
                    _raw(chunk)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.", path=path) from error


def task_meant(team: Team, what: str) -> str:
    """The id of the task that `what` names, or of the one that the member `what` works, or worked last, on.

    Raises:
        TaskNotFound: neither a task nor a member.
        RunNotFound: that member has not worked on anything.
    """
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
    """The lines of a file that grows, until the run has ended and everything is read."""
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
            ended = _ended(team, task_id, run)
            if not ended:
                time.sleep(LOOK_EVERY)
    if begun:
        yield begun


def _ended(team: Team, task_id: str, run: int) -> bool:
    return all(one.ended_at is not None for one in team.runs(task_id) if one.number == run)


def _print(call: Call, line: bytes, document: dict[str, object]) -> None:
    if call.json:
        call.document(document)
        sys.stdout.flush()
    else:
        _raw(line)


def _raw(data: bytes) -> None:
    """Output as it is into a pipe; on a terminal colours only, nothing else that steers it."""
    if sys.stdout.isatty():
        import re

        text = re.sub(
            r"\x1b\[[0-9;]*m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", _colours, _text(data)
        )
        sys.stdout.write("".join(c if c.isprintable() or c in "\n\t\r" or c == "\x1b" else "" for c in text))
        sys.stdout.flush()
    else:
        sys.stdout.flush()
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(_text(data))
        else:
            buffer.write(data)
            buffer.flush()


def _colours(found: object) -> str:
    text = str(found[0])  # type: ignore[index]
    return text if text.endswith("m") and os.environ.get("NO_COLOR") is None else ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
