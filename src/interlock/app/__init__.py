"""Application services: the one public API, which the command line, HTTP, MCP, the page and Python programs call.

`home.Home` is a directory of teams, `team.Team` one team as one caller sees it. Their verbs take and return values,
and raise `InterlockError`s, whose `code` is stable. Every verb of `Team` acts as the caller of `acting(...)`; `by=`
names another member for a single call, which a caller with a session of its own may not do. Tasks are named by id, by
a unique suffix (`003`), or by their key in a plan. Times are ISO 8601 in UTC, durations seconds.

The modules that load much come with the first verb that needs them, as attributes of this package: `app.engine`, the
workflow engine, `app.running`, the runner and git, `app.planning`, plans, `app.importing`, tasks of other programs,
`app.speech`, AOF/1, `app.server_lock`, the server of a home, `app.ledgers`, ledgers that move, `app.tokens`, who may
come in over HTTP, `app.receipts`, signed reports, `app.stopping`, which ends members at work, and `app.branches`, what
git says of merged work. So a claim does not
pay for the workflow engine, and types are known all the same.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "engine":
        import interlock.app.engine
    elif name == "running":
        import interlock.app.running
    elif name == "planning":
        import interlock.app.planning
    elif name == "importing":
        import interlock.app.importing
    elif name == "speech":
        import interlock.app.speech
    elif name == "server_lock":
        import interlock.app.server_lock
    elif name == "ledgers":
        import interlock.app.ledgers
    elif name == "tokens":
        import interlock.app.tokens
    elif name == "receipts":
        import interlock.app.receipts
    elif name == "stopping":
        import interlock.app.stopping
    elif name == "branches":
        import interlock.app.branches
    else:
        raise AttributeError(f"module 'interlock.app' has no attribute {name!r}")
    return getattr(interlock.app, name)
