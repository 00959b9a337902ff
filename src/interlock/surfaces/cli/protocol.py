"""`interlock protocol …` and `interlock session-end`: what agents say about their work."""

from __future__ import annotations

import sys
from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("send", example="interlock protocol send < report.json")
@click.argument("message", default="-")
def send(call: Call, message: str) -> int:
    """Act on one AOF/1 MESSAGE, read from stdin unless it is given.

    It is an envelope in JSON, with or without `AOF/1 ` in front. The answer is on stdout, also where the message was
    refused; the exit code is then 1.
    """
    from interlock.protocol.message import MESSAGE_BYTES

    if message == "-":
        # What is no UTF-8, or too much, is refused in the answer like every other fault.
        message = sys.stdin.buffer.read(MESSAGE_BYTES + 1).decode("utf-8", "surrogateescape")
    answer = call.team().protocol(message)
    call.answer(answer, _lines(answer))
    return 0 if answer["accepted"] else 1


@verb("schema", example="interlock protocol schema > aof.json")
def schema(call: Call) -> None:
    """Print the JSON Schema of AOF/1 messages, with those of the files of a run among its definitions."""
    import json

    from interlock.protocol.envelope import schema as published

    document = published()
    call.answer(document, json.dumps(document, indent=2))


@verb("session-end", example="interlock session-end --as researcher")
def session_end(call: Call) -> None:
    """Apply what my runs have put down as their result; as the lead or a human, what all runs have.

    For the hook that an agent program calls when it ends. A task without a result stays as it is.
    """
    ended = call.team().session_end()
    lines = [
        f"{words.strong(one['task_id'])}: {one['outcome']}, now {words.state(one['state'])}"
        + ("" if one["applied"] else " (nothing changed)")
        for one in ended
    ]
    call.answer({"results": ended}, lines or [words.faint("No run has put down a result.")])


def _lines(answer: dict[str, Any]) -> list[str]:
    what = " ".join(filter(None, (answer["type"], answer["task_id"]))) or "the message"
    if answer["accepted"]:
        return [f"accepted: {what}, now {words.state(answer['state'])}" + ("" if answer["applied"] else " (no change)")]
    faults = [f"  {error['path']}: {error['message']}".replace("  : ", "  ") for error in answer.get("errors", ())]
    return [f"refused: {what}: {answer['reason']}", *faults]
