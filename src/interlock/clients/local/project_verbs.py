"""The front-door verbs of a home, which load what they need when they are called: hooks open a home at every turn."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlock.clients.local.frontdoor import LocalFrontDoor
    from interlock.clients.local.team import LocalTeam
    from interlock.model.task import Task


class LocalProjects:
    """A part of `LocalHome`."""

    @property
    def _front_door(self) -> LocalFrontDoor:
        from interlock.clients.local.frontdoor import LocalFrontDoor

        return LocalFrontDoor(self)  # type: ignore[arg-type]

    def projects(self) -> list[dict[str, Any]]:
        return self._front_door.projects()

    def create_project(self, id: str, workdir: str | None = None) -> dict[str, Any]:
        return self._front_door.create_project(id, workdir)

    def chat(
        self,
        project: str,
        content: str,
        *,
        session_id: str | None = None,
        task_type: str | None = None,
        by: str | None = None,
        face: str = "python",
    ) -> dict[str, Any]:
        return self._front_door.chat(project, content, session_id=session_id, task_type=task_type, by=by, face=face)

    def task_groups(
        self, project: str | None = None, *, offset: int = 0, limit: int = 50
    ) -> tuple[list[dict[str, Any]], int]:
        return self._front_door.task_groups(project, offset, limit)

    def group_tasks(self, group: str, *, project: str | None = None) -> list[Task]:
        return self._front_door.group_tasks(group, project)

    def locate(self, task: str, *, project: str | None = None) -> LocalTeam:
        return self._front_door.locate(task, project)
