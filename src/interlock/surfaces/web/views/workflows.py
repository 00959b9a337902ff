"""Runs of workflows, with their steps and decisions."""

from __future__ import annotations

from typing import Any

from interlock.surfaces.web.visit import Visit


def runs(visit: Visit) -> dict[str, Any]:
    """The project's workflow runs, the newest first."""
    listed = getattr(visit.team, "workflows", None)
    return {"runs": listed() if callable(listed) else []}
