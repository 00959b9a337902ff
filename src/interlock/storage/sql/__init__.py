"""What every ledger in an SQL database shares: its aggregates, in statements that SQLite and PostgreSQL both take.

As attributes of this package, modules are loaded with their first use.
"""

from __future__ import annotations

VERSION = 10
"""The newest of our own migrations; a test holds it against their directories, so that opening need not list them."""


def __getattr__(name: str) -> object:
    if name == "archive":
        import interlock.storage.sql.archive
    elif name == "messages":
        import interlock.storage.sql.messages
    elif name == "questions":
        import interlock.storage.sql.questions
    elif name == "runs":
        import interlock.storage.sql.runs
    elif name == "workflows":
        import interlock.storage.sql.workflows
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.storage.sql, name)
