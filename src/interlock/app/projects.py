"""The front door of a home: projects, which are teams with a working directory, and chat sessions with their tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from interlock import app, core, mirror, model
from interlock.app.base import whole_number
from interlock.app.team import Team
from interlock.app.teams import LEAD_KEY, TeamsOfHome
from interlock.core.unit_of_work import UnitOfWork
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
from interlock.model.names import check_team_name, check_text
from interlock.model.task import FINAL, FRONT_DOOR, TYPES, Task
from interlock.storage.files import locked_file
from interlock.storage.ledger import Rows

T = TypeVar("T")

PAGE_LIMIT = 1000
PROMPT_CHARS = 200
"""How much of a message stands in lists."""
BLOCKED = "safety_override_blocked"
PROJECTS = "projects"
"""The folder of a home where the work of projects lies that name no directory of their own."""

_READS = r"(what|why|who|when|where|which|how|is|are|does|do|did|can|could|should|show|list|explain|find|look|tell)\b"
_REPORTS = r"(report|summari[sz]e|summary|analy[sz]e|review|compare|document what|write up)\b"
_CHANGES = (
    r"(please\s+)?(add|fix|implement|change|create|write|refactor|remove|delete|update|rename|build|make|replace|move|"
    r"migrate|upgrade|bump|convert|extract|split|improve|optimi[sz]e|correct|repair|introduce|support|handle|release)\b"
)


class _Rehearsed(Exception):
    """Rolls back a transaction that only showed whether a message would be taken."""


class ProjectVerbs(TeamsOfHome):
    """What looks at all teams at once, and chat."""

    def projects(self, *, within: str | None = None) -> list[model.group.Project]:
        """All projects, by name; of `within` alone for a caller that may see no other."""
        found = self.readable(self.teams(within=within), lambda name: _as_project(self.team(name)))
        return [project for _, project in found]

    def create_project(self, id: str, workdir: str | None = None) -> model.group.Project:
        """Create a project, and its team.

        Raises:
            DirectoryNotFound: `workdir` does not exist.
            As `create_team`.
        """
        if workdir is not None:
            return _as_project(self.create_team(id, workdir=workdir))
        own = os.path.join(self.path, PROJECTS, check_team_name(id))
        team = self._founded(id, LEAD_KEY, None, own)
        try:
            os.makedirs(own, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{own} cannot be made: {error}.", path=own) from error
        return _as_project(team)

    def chat(
        self,
        project: str,
        content: str,
        *,
        session_id: str | None = None,
        task_type: str | None = None,
        by: str | None = None,
        face: str = "python",
    ) -> model.group.ChatResult:
        """Take in a chat message: exactly one task in the group of its chat session, in one transaction (INV-3, INV-4).

        A message that is a command to a workflow of that session is carried out, and its task is done with the answer.

        Raises:
            ProjectNotFound: there is no such project.
            SessionInOtherProject: the chat session belongs to another one.
            InvalidRequest: no content, or an unknown type.
            TaskLimit: too many tasks are open.
        """
        team = self._project(project)
        session = f"{project}-default" if session_id is None else session_id
        if by is not None:
            # Whoever comes in over HTTP to chat is a person, perhaps for the first time.
            team = team.acting(by, face=face, person=face in ("http", "page"))
        told = None
        if isinstance(content, str) and task_type in (None, core.tasks.transition.WORKFLOW):
            told = _command_of(team, session, content)
        if told is None:
            with self._owning_session(session, project), team._act(acknowledge=True) as act:
                task = _receive(act, project, content, session, task_type)
        else:
            with suppress(_Rehearsed), self._owning_session(session, project), team._act(acknowledge=True) as act:
                _receive(act, project, content, session, core.tasks.transition.WORKFLOW)
                raise _Rehearsed  # What would refuse the message refuses it before anything is carried out.
            said = _carry_out(team, session, *told)[: core.tasks.finish.SUMMARY_LIMIT]
            # One transaction: no worker can take the task, and a crash leaves none that waits for an answer.
            with self._owning_session(session, project), team._act(acknowledge=True) as act:
                task = core.tasks.claim.claim(
                    act, _receive(act, project, content, session, core.tasks.transition.WORKFLOW)
                )
                core.tasks.finish.complete(act, task, summary=said)
        return model.group.ChatResult(task.id, session, FRONT_DOOR[task.state])

    def task_groups(
        self, project: str | None = None, *, offset: int = 0, limit: int = 50
    ) -> tuple[list[model.group.Group], int]:
        """A page of chat sessions with their tasks counted, the most recently active first, and how many there are.

        Raises:
            ProjectNotFound: there is no such project.
            InvalidRequest: `offset` or `limit` is not a whole number from 0 on.
        """
        whole_number(offset, "offset")
        limit = min(whole_number(limit, "limit"), PAGE_LIMIT)
        start = 0 if project is None else offset

        def page(rows: Rows) -> tuple[int, list[model.group.Group]]:
            return rows.groups.count(), rows.groups.page(start, offset + limit - start)

        pages, total = [], 0
        for name, (count, some) in self._asking(project, page):
            total += count
            pages.append([replace(group, project_id=name) for group in some])
        found = sorted(chain.from_iterable(pages), key=lambda group: group.updated_at, reverse=True)
        return found[offset - start :][:limit], total

    def group_tasks(self, group: str, *, project: str | None = None) -> list[Task]:
        """The tasks of a chat session, oldest first. Raises GroupNotFound, AmbiguousId."""

        def tasks_in(rows: Rows) -> list[Task] | None:
            if rows.groups.get(group) is None:
                return None
            known = (rows.tasks.get(id) for id in rows.groups.tasks(group))
            return mirror.task_view.complete(rows, [task for task in known if task is not None])

        found = [(name, tasks) for name, tasks in self._asking(project, tasks_in) if tasks is not None]
        if not found:
            told = f"There is no task group {group!r}. A chat message begins one."
            raise GroupNotFound(" ".join([told, *self._left_out()]), group=group)
        if len(found) > 1:
            raise _ambiguous(group, [f"{name}/{group}" for name, _ in found])
        return found[0][1]

    def locate(self, task: str, *, project: str | None = None, every: bool = False) -> Team:
        """The team that has the task of that id, or whose id alone ends in that suffix.

        Raises:
            TaskNotFound: none has.
            AmbiguousId: several have, or one has several.
            LedgerUnusable, StorageError: with `every`, one that might have it cannot be read.
        """
        if project is not None:
            team = self._project(project)
            team.task(task)
            return team
        teams = self.teams()
        day = core.tasks.find.ID.fullmatch(task)
        # Ledgers that have rested since before that day have no such task, unless the clock was ahead when it was made.
        awake = [one for one in teams if day is None or self._catalog.changed_since(one, f"{day[1]}T00:00:00.000Z")]
        resting = [one for one in teams if one not in awake]
        found = self._holding(task, awake, every) or self._holding(task, resting, every)
        if not found:
            raise TaskNotFound(" ".join([f"No project has a task {task!r}.", *self._left_out()]), task_id=task)
        if len(found) > 1:
            raise _ambiguous(task, found)
        return self.team(found[0].partition("/")[0])

    def _holding(self, task: str, teams: list[str], every: bool) -> list[str]:
        """What that may mean in these teams, each as `team/id`."""

        def ids(rows: Rows) -> list[str]:
            try:
                return [core.tasks.find.find(rows, task).id]
            except TaskNotFound:
                return []
            except AmbiguousId as error:
                return list(error.details["candidates"])

        found = self.readable(teams, lambda name: self._asked(name, ids), every=every)
        return [f"{name}/{id}" for name, ids_of_one in found for id in ids_of_one]

    def _project(self, project: str) -> Team:
        try:
            return self.team(project)
        except (TeamNotFound, InvalidTeamName):
            raise ProjectNotFound(
                f"There is no project {project!r}. `interlock team create NAME --workdir DIR` makes one.",
                project=project,
            ) from None

    @contextmanager
    def _owning_session(self, session: str, project: str) -> Iterator[None]:
        """Let nobody else start a chat session meanwhile: it belongs to one project of all. One that has begun needs no
        look at the others."""

        def has(name: str) -> bool:
            return self._asked(name, lambda rows: rows.groups.get(session) is not None)

        if has(project):
            yield
            return
        path = os.path.join(self.path, ".chat.lock")
        with ExitStack() as held:
            try:
                held.enter_context(locked_file(path))
            except OSError as error:
                raise StorageError(f"{path} cannot be opened: {error}.", path=path) from error
            for name, has_it in self.readable([one for one in self.teams() if one != project], has, every=True):
                if has_it:
                    raise SessionInOtherProject(
                        f"The chat session {session!r} belongs to project {name!r}. Start another one here.",
                        session_id=session,
                        project=name,
                    )
            yield

    def _asking(self, project: str | None, ask: Callable[[Rows], T]) -> Iterator[tuple[str, T]]:
        """What that project answers, or each of all that can be read."""
        names = self.teams() if project is None else [self._project(project).name]
        return self.readable(names, lambda name: self._asked(name, ask), every=project is not None)

    def _asked(self, name: str, ask: Callable[[Rows], T]) -> T:
        """What a team answers at one moment, its files up to date."""
        with self.workspace(name).look() as rows:
            return ask(rows)


def _as_project(team: Team) -> model.group.Project:
    found = team.describe()
    return model.group.Project(team.name, found.team.workdir, found.team.created_at, found.task_counts)


def infer_type(content: str) -> str | None:
    """The type of task a message asks for; None where that cannot be told (decision 25)."""
    text = content.strip()
    if app.engine.is_invocation(text):
        return core.tasks.transition.WORKFLOW
    if re.match(_CHANGES, text, re.IGNORECASE):
        return "IMPLEMENTATION"
    if re.match(_REPORTS, text, re.IGNORECASE):
        return "REPORT"
    return "READ_INFO" if re.match(_READS, text, re.IGNORECASE) or text.endswith("?") else None


def _receive(act: UnitOfWork, project: str, content: str, session_id: str, task_type: str | None) -> Task:
    """Create the task of a chat message, and its group with the session's first."""
    model.group.check_chat_session(session_id)
    check_text(content, "content", limit=act.settings.get("body_chars"), required=True, setting="body_chars")
    if task_type is not None and task_type not in TYPES:
        raise InvalidRequest(f"task_type must be one of: {', '.join(TYPES)}.", field="task_type")
    if act.rows.groups.get(session_id) is None:
        act.rows.groups.insert(
            model.group.Group(session_id, act.at, act.at, first_prompt=_in_a_line(content, PROMPT_CHARS))
        )
    return core.tasks.create.create(
        act,
        _in_a_line(content, min(PROMPT_CHARS, act.settings.get("subject_chars"))),
        body=content,
        type=task_type or infer_type(content),
        review="none",
        group_id=session_id,
        project_id=project,
    )


def _in_a_line(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _command_of(team: Team, session: str, content: str) -> tuple[app.engine.ChatCommand, str | None, bool] | None:
    """The command to a workflow that a message is, the run it means, and whether it is confirmed; None where it is an
    ordinary message. A command means the newest workflow of its own chat session."""
    said = app.engine.command_in(content)
    if said is None:
        return None
    command, sure = said
    if command.kind == app.engine.INVALID:
        return command, None, sure
    with team._workspace.look() as rows:
        tasks = rows.groups.tasks(session) if rows.groups.get(session) is not None else []
        known = [
            task
            for id in tasks
            if (task := rows.tasks.get(id)) is not None and task.type == core.tasks.transition.WORKFLOW
        ]
    run = next((task.workflow for task in reversed(known) if task.workflow is not None), None)
    if command.kind == app.engine.ADJUST:
        at_work = run if run is not None and team.workflow_run(run)["state"] != "TERMINAL" else None
        return (command, at_work, sure) if at_work or _adjusts(team, command, known) else None
    if command.kind == app.engine.LEAVE and (run is None or not app.engine.under_way(team.workflow_run(run)["party"])):
        return None
    return None if run is None else (command, run, sure)


def _adjusts(team: Team, command: app.engine.ChatCommand, tasks: list[Task]) -> bool:
    """Whether a wish about care is meant for workflows: one is open in this chat, or it can mean nothing else where
    workflows are installed. "Be careful" to an agent that does something else is an ordinary message."""
    if any(task.state not in FINAL for task in tasks):
        return True
    try:
        return command.precise and bool(team.installed_workflows())
    except DirectoryNotFound:
        return False  # It works nowhere.


def _carry_out(team: Team, session: str, command: app.engine.ChatCommand, run: str | None, sure: bool) -> str:
    """What a command came to, in words."""
    try:
        return app.engine.carry_out(team, command, run=run, session=session, sure=sure)
    except InterlockError as error:
        return error.message if error.code != BLOCKED else f"{error.message} ({error.code})"


def _ambiguous(id: str, candidates: list[str]) -> AmbiguousId:
    """Why `id` is not enough; the candidates are `project/id` each."""
    projects = list(dict.fromkeys(one.partition("/")[0] for one in candidates))
    if len(projects) > 1:
        told = f"{id} is in several projects: {', '.join(projects)}. Name the project too."
    else:
        told = f"{id!r} fits {len(candidates)} tasks; type more of the id: {', '.join(candidates)}."
    return AmbiguousId(told, candidates=candidates)
