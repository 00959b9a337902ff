"""What every part of a local team shares: its workspace and its caller."""

from __future__ import annotations

from contextlib import contextmanager

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import Forbidden, InvalidRequest, MemberNotFound
from interlock.model.names import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from interlock.agents.registry import WhyIdle
    from interlock.core.unit_of_work import UnitOfWork
    from interlock.memory.store import OpenMemory
    from interlock.model.task import Task
    from interlock.processes.ancestry import RunOrigin


PROCESSLESS = ("cli", "http", "mcp-http", "page")
"""Faces whose process is not the one that acts."""


class LocalBase:
    """One team, seen by one caller."""

    def __init__(
        self,
        workspace: Workspace,
        caller: Principal,
        open_memory: OpenMemory | None = None,
        why_idle: WhyIdle | None = None,
    ) -> None:
        self._workspace = workspace
        self._caller = caller
        self._open_memory = open_memory
        self._why_idle = why_idle

    def __repr__(self) -> str:
        return f"<Team {self.name} as {self._caller.name}>"

    @property
    def name(self) -> str:
        """The team's name."""
        return self._workspace.name

    @property
    def directory(self) -> str:
        """Where the team's files lie."""
        return self._workspace.directory

    def _as(self, by: str | None) -> Principal:
        caller = self._caller
        if by is None or by == caller.name:
            return caller
        if not isinstance(by, str):
            raise InvalidRequest("Name a member by its name or session key.", field="by")
        if caller.session is not None and self._workspace.origin(caller) is None:
            raise Forbidden(
                f"This session belongs to {caller.name} and cannot act as {by}. Leave INTERLOCK_SESSION and "
                "INTERLOCK_MEMBER unset to act as somebody else.",
                member=by,
            )
        if by == SYSTEM:
            raise MemberNotFound(f"No member {by!r} in this team; that name stands for Interlock itself.", member=by)
        return Principal(by, face=caller.face, process=caller.process, origin=caller.origin)

    def verify_now(self, task: Task, mark: str, by: str | None) -> Task:
        """Run the task's verify, if this call (`mark`) is the one that has to; see `LocalTasks`."""
        raise NotImplementedError

    def merge_now(self, task: Task) -> Task:
        """Merge the task's branch, if it waits for that and no runner is there to do it; see `LocalTasks`."""
        raise NotImplementedError

    @contextmanager
    def _act(self, by: str | None = None, *, acknowledge: bool = False) -> Iterator[UnitOfWork]:
        with self._workspace.act(self._as(by), acknowledge=acknowledge) as act:
            yield act


def calling(
    name: str, session: str | None, run: int | None, face: str, person: bool = False, origin: RunOrigin | None = None
) -> Principal:
    """The caller that a face names; a session with an id is noted with the process it lives in.

    Raises:
        MemberNotFound: the name stands for Interlock itself.
    """
    if not isinstance(name, str) or name == SYSTEM:
        raise MemberNotFound(f"No member {name!r} in this team; that name stands for Interlock itself.", member=name)
    process = None
    # A command ends at once, while the agent program that calls it lives on; a server lives on when the program on the
    # other side of the wire is gone. Their processes say nothing.
    if session is not None and face not in PROCESSLESS:
        from interlock.processes import ref

        process = ref.current().as_text()
    return Principal(name, session, run, face, process, person=person, origin=origin)


def whole_number(value: Any, field: str) -> Any:
    """`value`, if it is a whole number from 0 on, or null.

    Raises:
        InvalidRequest: it is not.
    """
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise InvalidRequest(f"{field} must be a whole number from 0 on, not {value!r}.", field=field)
    return value


def plain(metadata: Any) -> Any:
    """A mapping of any kind as a dictionary; anything else as it is, for the rules to refuse."""
    return dict(metadata) if hasattr(metadata, "keys") else metadata


def whole(act: UnitOfWork, task: Task) -> Task:
    """`task` as verbs answer it."""
    from interlock.mirror.task_view import show

    return show(act.rows, task)


def warned(act: UnitOfWork, task: Task) -> Task:
    """`task` with what the mirror still owes, once the transaction is over."""
    task.warnings = [*task.warnings, *act.warnings]
    return task
