"""The front door of a home on this machine. A project is a team with a working directory."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from heapq import merge
from itertools import islice

from interlock.core.tasks import finish
from interlock.core.tasks.claim import claim
from interlock.core.tasks.finish import SUMMARY_LIMIT
from interlock.core.tasks.transition import WORKFLOW
from interlock.errors import (
    AmbiguousId,
    DirectoryNotFound,
    GroupNotFound,
    InterlockError,
    InvalidRequest,
    InvalidTeamName,
    ProjectNotFound,
    SessionInOtherProject,
    StorageError,
    TaskNotFound,
    TeamNotFound,
)
from interlock.frontdoor.chat import default_session, receive
from interlock.mirror.task_view import complete
from interlock.model.names import check_team_name
from interlock.model.task import FINAL, FRONT_DOOR
from interlock.storage.files import locked_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from interlock.clients.local.home import LocalHome
    from interlock.clients.local.team import LocalTeam
    from interlock.model.task import Task
    from interlock.workflow.runs.chat_commands import ChatCommand

PAGE_LIMIT = 1000
BLOCKED = "safety_override_blocked"
PROJECTS = "projects"
"""Where a project's work lies that names no directory of its own, in the home."""


class _Rehearsed(Exception):
    """Rolls back a transaction that only showed whether a message would be taken."""


class LocalFrontDoor:
    """The verbs of `client.Home` that look at all teams at once."""

    def __init__(self, home: LocalHome) -> None:
        self._home = home

    def projects(self) -> list[dict[str, Any]]:
        return [project for name in self._home.teams() if (project := self._project(name)) is not None]

    def create_project(self, id: str, workdir: str | None) -> dict[str, Any]:
        if workdir is not None and (not isinstance(workdir, str) or not os.path.isdir(os.path.expanduser(workdir))):
            raise DirectoryNotFound(
                f"The directory {workdir!r} does not exist: make it, or correct workdir.", field="workdir"
            )
        check_team_name(id)
        own = os.path.join(self._home.path, PROJECTS, id) if workdir is None else os.path.expanduser(workdir)
        self._home.create_team(id, workdir=own)
        if workdir is None:
            try:
                os.makedirs(own, mode=0o700, exist_ok=True)
            except OSError as error:
                raise StorageError(f"{own} cannot be made: {error}.", path=own) from error
        return self._project(id) or {}

    def chat(
        self, project: str, content: str, *, session_id: str | None, task_type: str | None, by: str | None, face: str
    ) -> dict[str, Any]:
        team = self._team(project)
        session = default_session(project) if session_id is None else session_id
        if by is not None:
            # Whoever comes in over HTTP to chat is a person, perhaps for the first time.
            team = team.acting(by, face=face, person=face in ("http", "page"))
        told = None
        if isinstance(content, str) and task_type in (None, WORKFLOW):
            told = self._told(team, session, content)
        if told is None:
            with self._deciding(session, project), team.acts() as act:
                task = receive(act, project, content, session, task_type)
        else:
            with suppress(_Rehearsed), self._deciding(session, project), team.acts() as act:
                receive(act, project, content, session, WORKFLOW)
                raise _Rehearsed  # What would refuse the message refuses it before anything is carried out.
            said = self._answered(team, session, *told)[:SUMMARY_LIMIT]
            # One transaction: no worker can take the task, and a crash leaves none that waits for an answer.
            with self._deciding(session, project), team.acts() as act:
                task = claim(act, receive(act, project, content, session, WORKFLOW))
                finish.complete(act, task, summary=said)
        return {
            "task_id": task.id,
            "task_group_id": session,
            "session_id": session,
            "status": FRONT_DOOR[task.state],
        }

    def _told(self, team: LocalTeam, session: str, content: str) -> tuple[ChatCommand, str | None, bool] | None:
        """The command to a workflow that a message is, the run it means, and whether it is confirmed; null where it is
        an ordinary message. A command means the newest workflow of its own chat session."""
        from interlock.workflow.party import leaving
        from interlock.workflow.runs.chat_commands import ADJUST, INVALID, LEAVE, RUN, chat_command, confirmed

        said, sure = confirmed(content)
        command = chat_command(said)
        if command is None or command.kind == RUN:
            return None
        if command.kind == INVALID:
            return command, None, sure
        with team.looks() as rows:
            tasks = set(rows.groups.tasks(session)) if rows.groups.get(session) is not None else set()
        run = next((one["workflow_id"] for one in team.workflow_runs() if one["task_id"] in tasks), None)
        if command.kind == ADJUST:
            at_work = run if run is not None and team.workflow_run(run)["state"] != "TERMINAL" else None
            return (command, at_work, sure) if self._adjusts(team, command, at_work, tasks) else None
        if command.kind == LEAVE and (run is None or not leaving.under_way(team.workflow_run(run)["party"])):
            return None
        return None if run is None else (command, run, sure)

    def _adjusts(self, team: LocalTeam, command: ChatCommand, run: str | None, tasks: set[str]) -> bool:
        """Whether a wish about care is meant for workflows: one is open in this chat, or it can mean nothing else where
        workflows are installed. "Be careful" to an agent that does something else is an ordinary message."""
        if run is not None:
            return True
        with team.looks() as rows:
            begun = [rows.tasks.get(id) for id in tasks]
        if any(one is not None and one.type == WORKFLOW and one.state not in FINAL for one in begun):
            return True
        try:
            return command.precise and bool(team.installed_workflows())
        except InterlockError:
            return False  # It works nowhere.

    def _answered(self, team: LocalTeam, session: str, command: ChatCommand, run: str | None, sure: bool) -> str:
        """What a command came to, in words."""
        from interlock.workflow.runs.chat_commands import ADJUST, carry_out, preview

        try:
            waits = None if sure or command.kind == ADJUST else preview(team, command, run=run)
            return waits or carry_out(team, command, run=run, session=session)
        except InterlockError as error:
            return error.message if error.code != BLOCKED else f"{error.message} ({error.code})"

    def task_groups(self, project: str | None, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
        for name, value in (("offset", offset), ("limit", limit)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InvalidRequest(f"{name} must be a whole number from 0.", field=name)
        limit = min(limit, PAGE_LIMIT)
        names = self._home.teams() if project is None else [self._team(project).name]
        alone = len(names) == 1
        pages, total = [], 0
        for name in names:
            with self._looking(name) as rows:
                if rows is None:
                    continue
                total += rows.groups.count()
                some = rows.groups.page(offset, limit) if alone else rows.groups.page(0, offset + limit)
            pages.append([group.as_dict(name) for group in some])
        found = merge(*pages, key=lambda group: group["updated_at"], reverse=True)
        return list(islice(found, 0 if alone else offset, limit if alone else offset + limit)), total

    def group_tasks(self, group: str, project: str | None) -> list[Task]:
        holders = []
        for name in self._home.teams() if project is None else [self._team(project).name]:
            with self._looking(name) as rows:
                if rows is not None and rows.groups.get(group) is not None:
                    holders.append((name, [rows.tasks.get(id) for id in rows.groups.tasks(group)], rows))
                    tasks = complete(rows, [task for task in holders[-1][1] if task is not None])
        if not holders:
            raise GroupNotFound(f"There is no task group {group!r}. A chat message begins one.", group=group)
        if len(holders) > 1:
            raise _ambiguous(group, [name for name, _, _ in holders])
        return tasks

    def locate(self, task: str, project: str | None) -> LocalTeam:
        if project is not None:
            team = self._team(project)
            team.task(task)
            return team
        holders = []
        for name in self._home.teams():
            with self._looking(name) as rows:
                if rows is not None and rows.tasks.get(task) is not None:
                    holders.append(name)
        if not holders:
            raise TaskNotFound(f"No project has a task {task!r}.", task_id=task)
        if len(holders) > 1:
            raise _ambiguous(task, holders)
        return self._home.team(holders[0])

    def _team(self, project: str) -> LocalTeam:
        try:
            team = self._home.team(project)
            team.describe()
        except (TeamNotFound, InvalidTeamName):
            raise ProjectNotFound(
                f"There is no project {project!r}. `interlock team create NAME --workdir DIR` makes one.",
                project=project,
            ) from None
        return team

    def _project(self, name: str) -> dict[str, Any] | None:
        try:
            found = self._home.team(name).describe()
        except TeamNotFound:
            return None  # deleted while we looked
        return {
            "id": name,
            "workdir": found["workdir"],
            "created_at": found["created_at"],
            "task_counts": found["task_counts"],
        }

    @contextmanager
    def _deciding(self, session: str, project: str) -> Iterator[None]:
        """Nobody else begins a chat session meanwhile: it belongs to one project of all. One that has begun goes on
        without a look at the others."""
        with self._looking(project) as rows:
            known = rows is not None and rows.groups.get(session) is not None
        if known:
            yield
            return
        path = os.path.join(self._home.path, ".chat.lock")
        with ExitStack() as held:
            try:
                held.enter_context(locked_file(path))
            except OSError as error:
                raise StorageError(f"{path} cannot be opened: {error}.", path=path) from error
            for name in self._home.teams():
                if name == project:
                    continue
                with self._looking(name) as rows:
                    if rows is not None and rows.groups.get(session) is not None:
                        raise SessionInOtherProject(
                            f"The chat session {session!r} belongs to project {name!r}. Begin another one here.",
                            session_id=session,
                            project=name,
                        )
            yield

    @contextmanager
    def _looking(self, name: str) -> Iterator[Any]:
        try:
            team = self._home.team(name)
        except TeamNotFound:
            yield None
            return
        with team.looks() as rows:
            yield rows


def _ambiguous(id: str, projects: list[str]) -> AmbiguousId:
    return AmbiguousId(
        f"{id} is in several projects: {', '.join(projects)}. Name the project too.",
        candidates=[f"{project}/{id}" for project in projects],
    )
