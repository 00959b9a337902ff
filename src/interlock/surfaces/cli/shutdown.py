"""`interlock shutdown …`"""

from __future__ import annotations

from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.text import TEXT


@verb("request", example='interlock shutdown request researcher --reason "work is done"')
@click.argument("member", required=False)
@click.option("--reason", type=TEXT, help="Why.")
def request(call: Call, member: str | None, reason: str | None) -> None:
    """Ask MEMBER to stop; without one, announce my own shutdown to the lead and to whoever waits for my tasks."""
    made = call.team().request_shutdown(member, reason=reason)
    call.answer(made, _line(made))


@verb("approve", example="interlock shutdown approve --as researcher")
@click.argument("request", required=False)
@click.option("--reason", type=TEXT, help="A word on it.")
def approve(call: Call, request: str | None, reason: str | None) -> None:
    """Agree to a shutdown: to REQUEST, or to the only open one that asks me."""
    answered = call.team().answer_shutdown(request, approve=True, reason=reason)
    call.answer(answered, _line(answered))


@verb("reject", example='interlock shutdown reject --reason "tests are still running" --as researcher')
@click.argument("request", required=False)
@click.option("--reason", type=TEXT, required=True, help="Why not; - reads it from stdin.")
def reject(call: Call, request: str | None, reason: str) -> None:
    """Refuse a shutdown: REQUEST, or the only open one that asks me."""
    answered = call.team().answer_shutdown(request, approve=False, reason=reason)
    call.answer(answered, _line(answered))


def _line(found: dict[str, Any]) -> str:
    silent = [name for name in found["asked"] if name not in found["answers"]]
    state = f"waits for {', '.join(silent)}" if found["state"] == "open" and silent else found["state"]
    return f"{words.strong(found['id'])}: shutdown of {words.strong(found['subject'])} {state}"
