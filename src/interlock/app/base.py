"""What all services share: a home with its teams opened for work, and one team with its caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeVar

from interlock import app, model
from interlock.clock import Clock, iso
from interlock.core.unit_of_work import KEYED as KEYED
from interlock.core.unit_of_work import KeyedRequest as KeyedRequest
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import (
    Forbidden,
    InterlockError,
    InvalidRequest,
    InvalidTeamName,
    LedgerUnusable,
    MemberNotFound,
    StorageError,
    TeamNotFound,
)
from interlock.model.names import NAME_LIMIT, SYSTEM, check_team_name
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes import ancestry
from interlock.processes.ref import current
from interlock.settings import Settings
from interlock.storage.catalog import Catalog
from interlock.wakeup.notifier import Notifier

T = TypeVar("T")

LEFT_OUT: ContextVar[Mapping[tuple[str, str], str]] = ContextVar("left_out", default=MappingProxyType({}))
"""Why teams, each known by its home and name, were left out of what this call, and no other one, has asked for."""

PROCESSLESS = ("cli", "http", "mcp-http", "page")
"""Faces whose process is not the one that acts."""


class HomeBase:
    """A directory of teams, each opened once.

    Attributes:
        elsewhere: whether it is on another machine, whose directories are not ours.

    Args:
        executor_for: makes what carries out a member's tasks, or raises AgentError where its agent cannot be had.
        registry: opens the registry of agent programs; None where there are none.
        open_memory: opens the memory of a project; None where there is none.
        why_idle: why a member's agent is not available here.
        open_home: opens another home in the same way.
    """

    elsewhere = False

    def __init__(
        self,
        path: str,
        settings: Settings,
        clock: Clock,
        catalog: Catalog,
        notifier: Notifier,
        executor_for: Callable[[Member], app.running.Executor],
        *,
        registry: Callable[[], app.running.AgentRegistry] | None = None,
        open_memory: app.running.OpenMemory | None = None,
        why_idle: app.running.WhyIdle | None = None,
        open_home: Callable[..., Any] | None = None,
    ) -> None:
        self.path = path
        self._settings = settings
        self._clock = clock
        self._catalog = catalog
        self._notifier = notifier
        self._executor_for = executor_for
        self._registry = registry
        self._open_memory = open_memory
        self._why_idle = why_idle
        self._open_home = open_home
        self._workspaces: dict[str, Workspace] = {}
        self._teams = os.path.join(path, "teams")

    def __repr__(self) -> str:
        return f"<Home {self.path}>"

    def teams(self, *, within: str | None = None) -> list[str]:
        """Names of all teams, sorted; of `within` alone for a caller that may see no other."""
        names = self._catalog.names()
        for gone in self._workspaces.keys() - set(names):
            self._workspaces.pop(gone, None)
        return [name for name in names if within in (None, name)]

    def workspace(self, name: str) -> Workspace:
        """The team of that name, open for work; for Interlock's own processes.

        Raises:
            InvalidTeamName, TeamNotFound: there is none of that name.
            LedgerUnusable: it cannot be opened, or its directory holds the ledger of another team.
        """
        known = self._in_directory(name)
        if not known.named:
            with known.ledger.snapshot() as rows:
                self._check_name(known, rows.start.team)
        return known

    def readable(
        self, names: Iterable[str], ask: Callable[[str], T], *, every: bool = False
    ) -> Iterator[tuple[str, T]]:
        """Each of these teams with what `ask` answers of it, without those deleted meanwhile. One that cannot be read
        is left out and told of by `Home.warnings`: no team hides the others.

        Raises:
            LedgerUnusable, StorageError: with `every`, one cannot be read.
        """
        for name in names:
            try:
                found = ask(name)
            except TeamNotFound:
                continue
            except (InvalidTeamName, LedgerUnusable, StorageError) as error:
                if every or getattr(error, "away", False):  # What is away, is so for all of them, and may come back.
                    raise
                LEFT_OUT.set({**LEFT_OUT.get(), (self.path, name): f"Team {name!r} is left out. {error.message}"})
                continue
            yield name, found

    def _left_out(self, team: str | None = None) -> list[str]:
        """Why teams, or that one, were left out since this was asked last."""
        every = LEFT_OUT.get()
        told = {key: text for key, text in every.items() if key[0] == self.path and team in (None, key[1])}
        LEFT_OUT.set({key: text for key, text in every.items() if key not in told})
        return list(told.values())

    def _check_name(self, known: Workspace, own: str) -> None:
        """Refuse a ledger that calls itself otherwise than its directory."""
        if own != known.name:
            raise LedgerUnusable(
                f"{known.directory} holds the ledger of team {own!r}: it was copied or renamed. Nothing was changed. "
                f"Move it back, or make it a team of its own: `interlock doctor --repair --team {known.name}`.",
                team=known.name,
                ledger_of=own,
            )
        known.named = True

    def need_person(self, what: str) -> None:
        """Refuse `what` ("open the page", say) to processes of a run. Nearly every verb of a home asks this first.

        Raises:
            Forbidden: this process belongs to a run of this home; that is an event of the run's team.
        """
        found = ancestry.origin(self.path) or ancestry.hidden_run(self.path)
        if found is None and not ancestry.SUBREAPED:
            found = next((one for team in self.teams() if (one := self.workspace(team).adrift())), None)
        if found is not None:
            error = found.refusal(what)
            self.note_refusal(found, error)
            raise error

    @property
    def local_path(self) -> str:
        """The directory of this machine that keeps what is the user's own: a login, and which projects joined."""
        return self.path

    def seat_name(self, name: str | None, program: str) -> str:
        """The member that the first window of a program is to be, which has perhaps been given a `name`.

        Raises:
            InvalidRequest, Forbidden: the home is elsewhere, and the login here is none that a window can use.
        """
        return name or program

    def need_here(self, what: str) -> None:
        """Refuse `what` ("end the server", say) for a home on another machine. Raises LocalOnly."""

    def tokens(self) -> app.tokens.Tokens:
        """Who may come in over HTTP: tokens, links and cookies."""
        return app.tokens.Tokens(self.path, document=self._catalog.access)

    def origin_of(self, client: tuple[str, int], server: int) -> model.run.RunOrigin | None:
        """The run that the process belongs to which connected from `client` (address and port) to our port `server`;
        None where it is none's, or cannot be known."""
        return app.running.connected_run(self.path, client, server)

    def run_elsewhere(self, token: str) -> tuple[str, model.run.Run] | None:
        """The team, and the run of it on another machine, whose programs have that token; None where it is no such
        token, or the run has ended."""
        name = token.removeprefix(app.tokens.RUN_PREFIX).partition(".")[0]
        try:
            found = app.workers.run_of(self.workspace(name), token)
        except (InvalidTeamName, TeamNotFound):
            return None
        return None if found is None else (name, found)

    def note_refusal(self, origin: model.run.RunOrigin, error: Forbidden, face: str = "python") -> None:
        """Record, as an event of its team, that the run `origin` was refused something; `error` said so to it."""
        with suppress(InterlockError):  # Its team may be gone.
            self.workspace(str(origin.team)).note_refusal(origin, Principal(face=face), error)

    def _in_directory(self, name: str) -> Workspace:
        """The team in the directory of that name, whatever it calls itself."""
        check_team_name(name)
        directory = os.path.join(self._teams, name)
        known = self._workspaces.get(name)
        try:
            ledger = self._catalog.open(name)
        except TeamNotFound:
            self._workspaces.pop(name, None)
            raise self._not_found(name) from None
        if known is None or known.ledger is not ledger:
            known = Workspace(name, directory, self._catalog, self._notifier, self._settings, self._clock)
            known.finishing = _finish
            self._workspaces[name] = known
        return known

    def _not_found(self, name: str) -> TeamNotFound:
        from difflib import get_close_matches  # slow to load, and needed for a typing error only

        names = self.teams()
        near = get_close_matches(name, names, n=1)
        if near:
            hint = f"Did you mean {near[0]}?"
        elif names:
            hint = f"Teams here: {model.text.named(names, 10)}."
        else:
            hint = f"`interlock run PLAN` makes the team of a plan, `interlock team create {name}` an empty one."
        return TeamNotFound(f"Team {name!r} not found. {hint}", team=name)


class TeamBase:
    """One team, seen by one caller."""

    def __init__(
        self,
        workspace: Workspace,
        caller: Principal,
        open_memory: app.running.OpenMemory | None = None,
        why_idle: app.running.WhyIdle | None = None,
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
        """Where the team's files are."""
        return self._workspace.directory

    def _as(self, by: str | None) -> Principal:
        caller = self._caller
        if by is None or by == caller.name:
            return caller
        if not isinstance(by, str):
            raise InvalidRequest("Name a member by its name or session key.", field="by")
        if caller.session is not None and self._workspace.origin(caller) is None:
            raise session_of_another(caller.name, by)
        if by == SYSTEM:
            raise MemberNotFound(f"No member {by!r} in this team; that name stands for Interlock itself.", member=by)
        return Principal(by, face=caller.face, process=caller.process, origin=caller.origin)

    def _act(self, by: str | None = None, *, acknowledge: bool = False) -> AbstractContextManager[UnitOfWork]:
        return self._workspace.act(self._as(by), acknowledge=acknowledge)

    def _now(self) -> str:
        return iso(self._workspace.clock.now())

    def _settled(self, task: Task, mark: str, by: str | None) -> Task:
        """The task after its verify, where `mark` says that this call is the one to run it, and after its merge."""
        if task.verifying is not None and task.verifying["process"] == mark:
            task = app.running.verify_now(self._workspace, self._as(by), task, mark)
        return self._merged(task)

    def _merged(self, task: Task) -> Task:
        """The task after its branch was merged, where it waits for that and there is no runner to do it."""
        return task if task.merging is None else app.running.merge_now(self._workspace, task)


def session_of_another(owner: str, by: str) -> Forbidden:
    """Why a session of `owner` does not act as `by`."""
    return Forbidden(
        f"This session belongs to {owner} and cannot act as {by}. Leave INTERLOCK_SESSION and INTERLOCK_MEMBER unset "
        "to act as somebody else.",
        member=by,
    )


def calling(
    name: str,
    session: str | None,
    run: int | None,
    face: str,
    person: bool = False,
    origin: model.run.RunOrigin | None = None,
) -> Principal:
    """The caller that a face names; a session with an id is noted with the process it lives in.

    Raises:
        MemberNotFound: the name stands for Interlock itself.
    """
    if not isinstance(name, str) or name == SYSTEM:
        raise MemberNotFound(f"No member {name!r} in this team; that name stands for Interlock itself.", member=name)
    # A command ends at once, while the agent program that calls it lives on; a server lives on when the program on the
    # other side of the wire is gone. Their processes say nothing.
    process = current().as_text() if session is not None and face not in PROCESSLESS else None
    return Principal(name, session, run, face, process, person=person, origin=origin)


def whole_number(value: Any, field: str) -> Any:
    """`value`, if it is a whole number from 0 on, or None.

    Raises:
        InvalidRequest: it is not.
    """
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise InvalidRequest(f"{field} must be a whole number from 0 on, not {value!r}.", field=field)
    return value


def place_after(names: Sequence[Any], after: Any) -> int:
    """Where in a list of these names to go on after the one that was shown last; at its beginning without one.

    Raises:
        InvalidRequest: it is none of them.
    """
    if after is None:
        return 0
    if after not in names:
        raise unknown_place(after)
    return names.index(after) + 1


def unknown_place(after: Any) -> InvalidRequest:
    """Why a list cannot go on there."""
    return InvalidRequest(
        f"{str(after)[:80]!r} is not in this list, or not any more. `after` is what an earlier answer gave as `next`; "
        "without it the list begins again.",
        field="after",
    )


def free_name(base: str, taken: Collection[str]) -> str:
    """`base`, or where that is taken the first of `base-2`, `base-3`, … that is not."""
    names = (base, *(f"{base[: NAME_LIMIT - 4]}-{n}" for n in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def plain(metadata: Any) -> Any:
    """A mapping of any kind as a dictionary; anything else as it is, for the rules to refuse."""
    return dict(metadata) if hasattr(metadata, "keys") else metadata


def warned(act: UnitOfWork, task: Task) -> Task:
    """`task` with what the mirror still owes, once the transaction is over."""
    task.warnings = [*task.warnings, *act.warnings]
    return task


def _finish(workspace: Workspace, task: Task, directory: str) -> None:
    """Have the merged tree of a story say what has become of it; what does that is loaded for stories alone."""
    app.engine.settling.finish(workspace, task, directory)
