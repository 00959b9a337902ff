"""`interlock mcp`"""

from __future__ import annotations

import os

import click

from interlock.integrations.events import HOOKS
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.caller import choose_team
from interlock.surfaces.cli.command import verb


@verb("mcp", example="interlock mcp --team alpha-squad --as researcher")
@click.option("--joined", type=click.Choice(list(HOOKS)), help="Serve the window of this program that started it.")
@click.option("--name", metavar="M", help="With --joined: what a new window is called by [default: the program].")
def mcp(call: Call, joined: str | None, name: str | None) -> None:
    """MCP over stdio for one member: what an agent program starts to take part in a team.

    The lead may connect before the team exists, and create it through the connection. `interlock join` writes the
    line with --joined, which serves each window of a program as a member of its own.
    """
    from interlock.surfaces.mcp import serve

    who = call.who
    team = call.asked_team or choose_team(call.home)
    if joined is not None and not os.environ.get("INTERLOCK_SESSION"):
        serve(call.home.path, team, name or joined, None, joined)
    else:
        serve(call.home.path, team, who.name, who.session)
