"""The ledger in SQLite: one file per team, any number of processes, no server.

As attributes of this package, modules are loaded with their first use.
"""

from __future__ import annotations

VERSION = 6
"""The newest of our own migrations; a test holds it against the directory, so that opening need not list it."""


def __getattr__(name: str) -> object:
    if name == "questions":
        import interlock.storage.sqlite.questions
    elif name == "runs":
        import interlock.storage.sqlite.runs
    elif name == "workflows":
        import interlock.storage.sqlite.workflows
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.storage.sqlite, name)
