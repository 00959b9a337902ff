"""What the watcher sees, in the team's history: so that whoever follows its events hears of a project's progress."""

from __future__ import annotations

from interlock.core.unit_of_work import Principal, Workspace
from interlock.model.names import SYSTEM
from interlock.workflow.state.sprint_status_watcher import Cycling, StatusChange

MOST = 100  # changes in one event; a first look at a large file has more


class StatusEvents:
    """`on_change` and `on_cycling` of a watcher, each one event."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def changed(self, changes: list[StatusChange]) -> None:
        """Log what changed, one event for each file."""
        for path in dict.fromkeys(one.path for one in changes):
            here = [one.as_dict() for one in changes if one.path == path]
            with self._workspace.act(Principal(SYSTEM)) as act:
                act.event("workflow.status_changed", path=path, changes=here[:MOST], count=len(here))

    def cycling(self, found: Cycling) -> None:
        """Log a warning."""
        with self._workspace.act(Principal(SYSTEM)) as act:
            act.event(
                "workflow.status_cycling", path=found.path, key=found.key, statuses=list(found.statuses),
                count=found.count, debounce=found.debounce,
            )  # fmt: skip
