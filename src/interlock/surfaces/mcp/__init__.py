"""MCP for one member over stdin and stdout: at most sixteen tools (contract, MCP).

    tool.py                        what a tool is; pydantic checks its arguments before anything runs
    task_tools.py team_tools.py    the tools, with the words agents see
    durable_tasks.py               a call that lasts is a task which the client polls
    resources.py                   what a client's user can attach or start: resources and prompts over the verbs
    connection.py                  one connection: its team, its member, its session, its news
    delivery_receipt.py            mail counts as delivered only once the answer that carries it was written
    channel.py                     hints of mail for Claude Code, and its permission prompts as questions
    stdio.py                       the two streams; knows when an answer was written
    server.py                      all of it on the official SDK

MCP over HTTP is `surfaces/http/mcp_endpoint.py`, on the same server.
"""

from __future__ import annotations

import gc

from interlock.app.home import Home
from interlock.surfaces.mcp.connection import Connection, JoinedConnection


def serve_no_tools() -> None:
    """Speak MCP over stdin and stdout and offer nothing: a plugin is started in every project, also in others'."""
    from interlock.surfaces.mcp.server import run_without_tools

    run_without_tools()


def serve(home: Home, team: str, member: str, session: str | None, joined: str | None = None) -> None:
    """Speak MCP over stdin and stdout for one member of a team, until stdin closes.

    The connection is a session of its own: `session`, else `INTERLOCK_SESSION`, else a new `mcp:<uuid>`, which ends
    with the connection. While it serves, and after, the process's stdout belongs to MCP alone: file descriptor 1 leads
    to stderr. A lead, or a human, may connect before the team exists and create it with `team_create`.

    Args:
        home: closed in the end.
        joined: the kind of program that started this server after it joined the team: its member is looked up, and
            `member` is only the name for a new one.

    Raises:
        TeamNotFound, MemberNotFound: a team, or a member of it, that does not exist.
        InvalidTeamName, LedgerUnusable: the team cannot be opened.
    """
    if joined is None:
        connection = Connection.open(home, team, member, session)
    else:
        connection = JoinedConnection.join(home, team, member, joined)
    try:
        # The SDK costs most of a start, so it is imported only once the connection stands. It makes a few hundred
        # classes, none of which is garbage: looking for some costs 50 ms.
        gc.disable()
        from interlock.surfaces.mcp.server import run

        gc.freeze()
        gc.enable()
        run(connection)
    finally:
        connection.close()
