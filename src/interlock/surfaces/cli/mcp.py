"""`interlock mcp`"""

from __future__ import annotations

from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("mcp", example="interlock mcp --team alpha-squad --as researcher")
def mcp(call: Call) -> None:
    """MCP over stdio for one member: what an agent program starts to take part in a team."""
    from interlock.surfaces.mcp import serve

    who = call.who
    team = call.team()
    serve(call.home.path, team.name, who.name, who.session)
