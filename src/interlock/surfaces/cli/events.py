"""`interlock events`"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import islice

import click

from interlock.clock import seconds
from interlock.model.event import Event
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

PAYLOAD_CHARS = 200


@verb("events", reads=True, example="interlock events --follow --json | jq .type")
@click.option("--since", metavar="SEQ", type=click.IntRange(min=0), default=0, help="Only events after this number.")
@click.option("--follow", is_flag=True, help="Then go on with new ones, until interrupted.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many.")
def events(call: Call, since: int, follow: bool, limit: int | None) -> None:
    """The team's history in commit order, without gaps.

    With --json it is one document, and `next` says where to go on; with --follow it is one event a line.
    """
    team = call.team()
    if follow:
        _follow(call, islice(team.follow(since), limit))
        return
    found, onward = team.events(since, limit=limit)
    lines = [event_line(event) for event in found] or [f"No events after {since}."]
    call.answer({"events": [event.as_dict() for event in found], "next": onward} if call.json else None, lines)


def event_line(event: Event) -> str:
    """An event for people."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds(event.at)))
    payload = " ".join(
        f"{name}={words.clean(value)}" for name, value in event.payload.items() if value not in (None, [])
    )
    shown = payload if len(payload) <= PAYLOAD_CHARS else payload[: PAYLOAD_CHARS - 1] + "…"
    who = words.clean(event.actor).ljust(12)
    return (
        f"{words.faint(str(event.seq).rjust(6))}  {words.faint(at)}  {who}  {words.strong(event.type.ljust(20))}  "
        f"{(event.task_id or '').ljust(19)}  {shown}"
    ).rstrip()


def _follow(call: Call, found: Iterable[Event]) -> None:
    for event in found:
        if call.json:
            call.document(event.as_dict())
        else:
            call.say(event_line(event))
        sys.stdout.flush()
