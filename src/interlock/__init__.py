"""Interlock lets a team of coding agents share one workspace safely, and drives them through real multi-step work.

import interlock

home = interlock.connect()
team = home.create_team("alpha-squad", lead="agent:main:main")
team.spawn("researcher")
first = team.create_task("Write the parser")
team.claim(first.id, by="researcher")
team.complete(first.id, by="researcher")
"""

from __future__ import annotations

from interlock.version import __version__

__all__ = ["InterlockError", "__version__", "connect", "work"]


def __getattr__(name: str):  # type: ignore[no-untyped-def]  # to say Any would load typing
    # Lazily: a hook that only asks for mail must not pay for the whole package.
    if name in ("connect", "work"):
        from interlock import wiring

        return getattr(wiring, name)
    if name == "InterlockError":
        from interlock.errors import InterlockError

        return InterlockError
    raise AttributeError(f"module 'interlock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
