"""The files that show a ledger: written after each commit, from its current rows. It only reads the ledger.

As attributes of this package, modules are loaded with their first use: a look that owes no file writes none.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "claude_view":
        import interlock.mirror.claude_view
    elif name == "rebuild":
        import interlock.mirror.rebuild
    elif name == "render":
        import interlock.mirror.render
    elif name == "task_view":
        import interlock.mirror.task_view
    elif name == "writer":
        import interlock.mirror.writer
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.mirror, name)
