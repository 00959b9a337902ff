"""`interlock protocol …` and `interlock session-end`: what agents say about their work."""

from __future__ import annotations

import json
import sys

import click

from interlock.app import speech
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("send", example="interlock protocol send < report.json")
@click.argument("message", default="-")
def send(call: Call, message: str) -> int:
    """Act on one AOF/1 MESSAGE, read from stdin unless it is given.

    It is an envelope in JSON, with or without `AOF/1 ` in front. The answer is on stdout, also where the message was
    refused; the exit code is then 1.
    """
    if message == "-":
        # What is not UTF-8, or too much, is refused in the answer like every other fault.
        message = sys.stdin.buffer.read(speech.MESSAGE_BYTES + 1).decode("utf-8", "surrogateescape")
    answer = call.team().protocol(message)
    what = " ".join(filter(None, (answer.type, answer.task_id))) or "the message"
    if answer.accepted:
        done = "" if answer.applied else " (no change)"
        lines = [f"accepted: {what}, now {words.state(answer.state or '')}{done}"]
    else:
        lines = [f"refused: {what}: {answer.reason}"]
        for fault in answer.errors:
            lines.append(f"  {fault.path}: {fault.message}".replace("  : ", "  "))
    call.answer(answer, lines)
    return 0 if answer.accepted else 1


@verb("schema", example="interlock protocol schema > aof.json")
def schema(call: Call) -> None:
    """Print the JSON Schema of AOF/1 messages, with those of the files of a run among its definitions."""
    document = speech.schema()
    click.echo(json.dumps(document, indent=2))


@verb("session-end", example="interlock session-end --as researcher")
def session_end(call: Call) -> None:
    """Apply the results that my runs have left; as the lead or a human, those of all runs.

    For the hook that an agent program calls when it ends. A task without a result stays as it is.
    """
    ended = call.team().session_end()
    lines = []
    for one in ended:
        done = "" if one.applied else " (nothing changed)"
        lines.append(f"{words.strong(one.task_id)}: {one.outcome}, now {words.state(one.state)}{done}")
    call.answer({"results": ended}, lines or [words.faint("No run has left a result.")])
