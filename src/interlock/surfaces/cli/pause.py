"""`interlock pause` and `interlock resume`"""

from __future__ import annotations

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.text import TEXT


@verb("pause", example='interlock pause\ninterlock pause --member bob --reason "it needs a key"')
@click.option("--member", metavar="M", help="Only this member.")
@click.option("--reason", type=TEXT, help="Why.")
def pause(call: Call, member: str | None, reason: str | None) -> None:
    """Let runners start nothing new, in the team or of one member. What runs is finished; runners stay and wait."""
    team = call.team()
    team.pause(member, reason=reason)
    call.answer({"team": team.name, "member": member, "status": "paused"}, f"{_what(team.name, member)} paused.")


@verb("resume", example="interlock resume --member bob")
@click.option("--member", metavar="M", help="Only this member, also one that was stopped.")
def resume(call: Call, member: str | None) -> None:
    """Go on after a pause. A member that was paused by itself, or stopped, has to be named."""
    team = call.team()
    team.resume(member)
    call.answer({"team": team.name, "member": member, "status": "active"}, f"{_what(team.name, member)} goes on.")


def _what(team: str, member: str | None) -> str:
    return words.strong(words.clean(member or team))
