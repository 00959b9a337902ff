"""`interlock mcp`"""

from __future__ import annotations

from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.caller import choose_team
from interlock.surfaces.cli.command import verb


@verb("mcp", example="interlock mcp --team alpha-squad --as researcher")
def mcp(call: Call) -> None:
    """MCP over stdio for one member: what an agent program starts to take part in a team.

    The lead may connect before the team exists, and create it through the connection.
    """
    from interlock.surfaces.mcp import serve

    who = call.who
    serve(call.home.path, call.asked_team or choose_team(call.home), who.name, who.session)
