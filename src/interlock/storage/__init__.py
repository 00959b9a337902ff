"""Where the truth is kept: ports for ledgers and the catalog of them, their implementations, and files."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name != "history":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import interlock.storage.history

    return interlock.storage.history
