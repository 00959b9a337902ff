"""MCP for one member: at most sixteen tools over the client port (contract, MCP).

    interlock mcp --team T --as M     speaks MCP over stdin and stdout until stdin closes

    tool.py         what a tool is, and how arguments are checked before anything runs
    team_tools.py   task_tools.py   mail_tools.py   workflow_tools.py    the tools, with the words agents see
    connection.py   one connection: its team, its member, its session, its news
    joined.py       that of a program that joined: its member is looked up
    handover.py     mail counts as delivered only once the answer that carries it was written
    stdio.py        the two streams; knows when an answer was written
    server.py       puts them together on the official SDK

Nothing of the SDK is imported before `serve`: it costs most of a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.surfaces.mcp.connection import Connection


def serve(home: str | None, team: str, member: str, session: str | None, joined: str | None = None) -> None:
    """Speak MCP over stdin and stdout for one member of a team, until stdin closes.

    The connection is a session of its own: `session`, else `INTERLOCK_SESSION`, else a new `mcp:<uuid>`, which ends
    with the connection. While it serves, and after, the process's stdout belongs to MCP alone: file descriptor 1 leads
    to stderr. A lead, or a human, may connect before the team exists and make it with `team_create`.

    Args:
        home: the directory of teams; `INTERLOCK_HOME` or `~/.interlock` by default.
        joined: the kind of program that started it and has joined the team: whoever it is there is served, and
            `member` is what a new one is to be called by.

    Raises:
        TeamNotFound, MemberNotFound: a team, or a member of it, that does not exist.
        InvalidTeamName, ConfigParseError, LedgerUnusable: see `client.Home`.
    """
    connection: Connection
    if joined is None:
        from interlock.surfaces.mcp import connection as connections

        connection = connections.Connection.open(home, team, member, session)
    else:
        from interlock.surfaces.mcp.joined import JoinedConnection

        connection = JoinedConnection.join(home, team, member, joined)
    try:
        import gc

        # The SDK makes a few hundred classes at import, none of which is garbage: looking for some costs 50 ms.
        gc.disable()
        from interlock.surfaces.mcp.server import run

        gc.freeze()
        gc.enable()
        run(connection)
    finally:
        connection.close()
