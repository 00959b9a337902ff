"""Whole pictures of a local team, for pages."""

from __future__ import annotations

from interlock.clients.local.base import LocalBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from interlock.model.event import Event
    from interlock.model.task import Task

MOST = 1000
"""The longest list that is answered at once."""


class LocalViews(LocalBase):
    """See `client_views.Views`."""

    def board(self, *, limit: int = 50) -> dict[str, Any]:
        from interlock.core.reports import now

        with self._workspace.look() as rows:
            return now.board(rows, _bounded(limit))

    def in_state(self, state: str, *, after: int = 0, limit: int = 100) -> list[Task]:
        from interlock.core.reports import now
        from interlock.mirror.task_view import complete

        with self._workspace.look() as rows:
            return complete(rows, now.in_state(rows, state, after, _bounded(limit)))

    def story(self, task: str, *, events: int = 200) -> dict[str, Any]:
        from interlock.core.reports import now
        from interlock.core.tasks.find import find

        with self._workspace.look() as rows:
            return now.story(rows, find(rows, task), _bounded(events))

    def artifacts(self, task: str) -> list[dict[str, Any]]:
        from interlock.core.tasks.find import find

        with self._workspace.look() as rows:
            found = rows.runs.artifacts(find(rows, task).id)
        return [one.as_dict(self._workspace.artifact_path(one.task_id, one.run, one.path)) for one in found]

    def latest(self, *, before: int | None = None, limit: int = 100, types: Sequence[str] = ()) -> list[Event]:
        with self._workspace.look() as rows:
            return rows.events.latest(before, _bounded(limit), types)

    def crew(self) -> list[dict[str, Any]]:
        from interlock.core.reports import now

        with self._workspace.look() as rows:
            return now.crew(rows, self._workspace.log_path)


def _bounded(limit: int) -> int:
    return max(1, min(limit, MOST))
