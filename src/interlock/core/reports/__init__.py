"""What people want to know of a team, as data: `now`, over a `night`, what `needs` them, and in figures (`witness`).

As attributes of this package, they are loaded with their first use.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "needs":
        import interlock.core.reports.needs
    elif name == "night":
        import interlock.core.reports.night
    elif name == "now":
        import interlock.core.reports.now
    elif name == "witness":
        import interlock.core.reports.witness
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.core.reports, name)
